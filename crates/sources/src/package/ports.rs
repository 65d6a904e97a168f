//! What the packages of a server work with.

use super::kept::Kept;
use super::run::Runner;
use crate::egress::Network;
use crate::workspace::Places;
use crate::workspace::workers::Workers;
use countersign_core::checks::Commands;
use std::sync::Arc;

/// All packages share it.
pub(super) struct PackagePorts {
    pub(super) places: Arc<Places>,
    pub(super) runner: Runner,
    pub(super) commands: Arc<dyn Commands>,
    pub(super) workers: Workers,
    pub(super) may_run_code: bool,
    pub(super) network: Arc<Network>,
    pub(super) kept: Kept,
}
