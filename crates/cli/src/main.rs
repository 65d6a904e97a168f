//! The binary `countersign`: `args` says what can be typed, `commands` does it, `output` is all that reaches the terminal.

mod args;
mod client;
mod commands;
mod context;
mod exit;
mod output;
mod style;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else, a thread above all: this process may be one that confines another.
    server::become_jail_if_asked();
    server::init_process();
    commands::completions::answer_shell_if_asked();
    ExitCode::from(commands::main(std::env::args_os()).code())
}
