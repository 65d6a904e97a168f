//! Ends or resumes the calls that a crash, a restart or an expired deadline left unfinished.

mod reconcile;
mod recover;
mod unverified;
