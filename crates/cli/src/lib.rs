//! The binary `countersign`: the command line, with the server that it starts.

pub use commands::{Stream, World, answer_shell_if_asked};

use commands::{OnStart, OnStop, OnWork, Serving};
use countersign_core::Future;
use host::{Config, Error};
use std::ffi::OsString;

struct Server;

impl Serving for Server {
    fn serve<'a>(&'a self, config: Config, started: OnStart<'a>, stop: OnStop) -> Future<'a, Result<(), Error>> {
        Box::pin(server::serve_until(config, started, stop))
    }

    fn work<'a>(&'a self, config: Config, started: OnWork<'a>) -> Future<'a, Result<(), Error>> {
        Box::pin(server::work(config, started))
    }

    fn openapi_json(&self) -> String {
        server::openapi_json()
    }
}

/// Runs one command line with these variables and streams, and returns its exit code.
pub fn run(arguments: impl Iterator<Item = OsString>, world: World) -> u8 {
    commands::run(arguments, world, &Server)
}
