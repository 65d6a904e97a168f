//! How far an action reaches, judged by its effects and its tier. This decides which rules apply to it.

use countersign_core::action::{Class, Effect};
use countersign_core::{Action, Tier};

/// Whether the params leave or could leave: the action makes network calls, or its tier is R3 or higher.
pub(super) fn may_leave(action: &Action) -> bool {
    has(action, Effect::NetworkCall) || action.tier >= Tier::R3
}

/// Whether the params leave: the action makes network calls, or its tier is R3 or higher and it declares no effects.
pub(super) fn leaves(action: &Action) -> bool {
    has(action, Effect::NetworkCall) || (action.tier >= Tier::R3 && action.effects.is_empty())
}

/// Whether people see the params, in a program that may fetch images and show links.
pub(super) fn is_shown(action: &Action) -> bool {
    has(action, Effect::DeviceNotification)
}

/// Whether the action touches files, or could.
pub(super) fn touches_files(action: &Action) -> bool {
    has(action, Effect::FilesystemRead) || has(action, Effect::FilesystemWrite) || action.tier >= Tier::R3
}

/// Whether the action changes nothing and sends nothing.
pub(super) fn only_reads_here(action: &Action) -> bool {
    action.tier.class() == Class::Read && !has(action, Effect::NetworkCall) && !has(action, Effect::FilesystemWrite)
}

fn has(action: &Action, effect: Effect) -> bool {
    action.effects.contains(&effect)
}
