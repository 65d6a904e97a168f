//! How far an action reaches, by its effects and its tier: which rules ask about it follows from that.

use countersign_core::action::{Class, Effect};
use countersign_core::{Action, Tier};

/// Its params leave, or might: it calls out, or its risk says that it could.
pub(super) fn may_leave(action: &Action) -> bool {
    has(action, Effect::NetworkCall) || action.tier >= Tier::R3
}

/// It calls out, or is of high risk and does not say where it stays.
pub(super) fn leaves(action: &Action) -> bool {
    has(action, Effect::NetworkCall) || (action.tier >= Tier::R3 && action.effects.is_empty())
}

/// People see its params, in something that may fetch images and show links.
pub(super) fn is_shown(action: &Action) -> bool {
    has(action, Effect::DeviceNotification)
}

/// It touches files, or might.
pub(super) fn touches_files(action: &Action) -> bool {
    has(action, Effect::FilesystemRead) || has(action, Effect::FilesystemWrite) || action.tier >= Tier::R3
}

/// It changes nothing and nothing leaves.
pub(super) fn only_reads_here(action: &Action) -> bool {
    action.tier.class() == Class::Read && !has(action, Effect::NetworkCall) && !has(action, Effect::FilesystemWrite)
}

fn has(action: &Action, effect: Effect) -> bool {
    action.effects.contains(&effect)
}
