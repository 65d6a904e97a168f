//! The server that the same binary has in it. Commands only start it: what they need of it is named here and filled in by the binary, so that
//! neither waits for the other to be built.

use countersign_core::Future;
use host::{Config, Error, Started};

/// Is told once that the server accepts requests.
pub type OnStart<'a> = Box<dyn FnOnce(&Started) + Send + 'a>;
/// Is called right before that; what it returns resolves when the server shall stop.
pub type OnStop = Box<dyn FnOnce() -> Future<'static, ()> + Send>;
/// Is told the address of a worker's health.
pub type OnWork<'a> = Box<dyn FnOnce(&str) + Send + 'a>;

/// What the command line needs of the server.
pub trait Serving: Sync {
    fn serve<'a>(&'a self, config: Config, started: OnStart<'a>, stop: OnStop) -> Future<'a, Result<(), Error>>;

    fn work<'a>(&'a self, config: Config, started: OnWork<'a>) -> Future<'a, Result<(), Error>>;

    fn openapi_json(&self) -> String;
}

/// Stops the server when the process is asked to.
pub(crate) fn with_the_process() -> OnStop {
    Box::new(|| {
        // The signal handlers are installed by this call and not when the future is first polled.
        let asked = host::asked_to_stop();
        Box::pin(asked)
    })
}
