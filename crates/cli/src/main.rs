//! The binary `countersign`.

use countersign_cli::World;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // This comes first, before any thread is started: the process may have been started to confine a program in the sandbox, or to render
    // templates.
    server::become_helper_if_asked();
    server::init_process();
    countersign_cli::answer_shell_if_asked();
    ExitCode::from(countersign_cli::run(std::env::args_os(), World::of_process()))
}
