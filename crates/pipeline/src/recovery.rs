//! What a crash, a restart or the clock leaves behind, brought to an honest end.

mod reconcile;
mod recover;
mod unverified;
