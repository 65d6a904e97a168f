//! How far an action reaches, judged by its effects and its tier. This decides which rules apply to it.

use countersign_core::action::{Class, Effect};
use countersign_core::{Action, Tier};

/// Whether the params leave or could leave: the action makes network calls, or its tier is R3 or higher.
pub(super) fn may_leave(action: &Action) -> bool {
    has(action, Effect::NetworkCall) || action.tier >= Tier::R3
}

/// Whether the params leave: the action makes network calls, or its tier is R3 or higher and no effect says where it acts. What a package
/// merely declares says nothing about that: a package reaches files as its permissions say, and nobody's device.
pub(super) fn leaves(action: &Action) -> bool {
    let notifies = has(action, Effect::DeviceNotification) && action.package_sha256.is_none();
    let acts_here = has(action, Effect::FilesystemRead) || has(action, Effect::FilesystemWrite) || notifies;
    has(action, Effect::NetworkCall) || (action.tier >= Tier::R3 && !acts_here)
}

/// Whether people see the params, in a program that may fetch images and show links.
pub(super) fn is_shown(action: &Action) -> bool {
    has(action, Effect::DeviceNotification) || has(action, Effect::UserVisible)
}

/// Whether the action touches files, or could.
pub(super) fn touches_files(action: &Action) -> bool {
    has(action, Effect::FilesystemRead) || has(action, Effect::FilesystemWrite) || action.tier >= Tier::R3
}

/// Whether the action changes nothing and sends nothing.
pub(super) fn only_reads_here(action: &Action) -> bool {
    let acts = has(action, Effect::NetworkCall) || has(action, Effect::FilesystemWrite) || is_shown(action);
    action.tier.class() == Class::Read && !acts
}

fn has(action: &Action, effect: Effect) -> bool {
    action.effects.contains(&effect)
}
