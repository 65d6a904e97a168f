//! The jail alone, for the tests and the benchmark of this crate.

fn main() {
    sandbox::main_if_asked();
    // This process was not started as a jail, and the program does nothing else.
    std::process::exit(64);
}
