//! Workers: copies of this very binary that compute for strangers, one request at a time, and are killed when a request costs too much.
//!
//! A worker has no files, no network and little memory, and it stays for many requests, so asking it costs microseconds. What it computes is
//! given by whoever starts the binary (`serve_if_asked`). It is not a jail: it runs our own code on data of strangers, never their code.

mod confine;
mod pool;

pub use confine::serve_if_asked;
pub use pool::{Limits, Lost, Workers};

/// The name under which a process is started to become a worker.
const NAME: &str = "countersign-worker";
/// The first argument of a worker whose limits are set.
const LIMITED: &str = "limited";
/// The line that a worker writes when it is confined.
const READY: &str = "ready\n";
