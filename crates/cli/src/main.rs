//! The binary `countersign`.

use countersign_cli::World;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else, a thread above all: this process may be one that confines another.
    server::become_jail_if_asked();
    server::init_process();
    countersign_cli::answer_shell_if_asked();
    ExitCode::from(countersign_cli::run(std::env::args_os(), World::of_process()))
}
