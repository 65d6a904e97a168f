//! The jail alone, for the tests and the benchmark of this crate.

fn main() {
    sandbox::main_if_asked();
    // Not asked: there is nothing else this program does.
    std::process::exit(64);
}
