//! What the tests run inside the jail: one attempt a name, each reporting what the kernel answered.
//!
//! SECURITY: outside a jail an attempt does to the host what its name says. `control` therefore runs one only in namespaces of its own,
//! and refuses to begin when it shares the mount or uts namespace of process 1.

mod drive;
mod sys;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let code = match args[..] {
        ["drive"] => drive::main(),
        ["attempt", "hello"] => {
            use std::io::Write;
            let _ = writeln!(
                std::io::stdout(),
                "hello from {:?} {:?}",
                std::env::current_dir(),
                std::fs::read_dir("/").map(|d| d.flatten().map(|e| e.path()).collect::<Vec<_>>())
            );
            let _ = writeln!(std::io::stderr(), "log line\x1b[31m");
            let _ = std::fs::create_dir("/stage/d");
            let _ = std::fs::write("/stage/d/out.txt", "hi");
            7
        }
        _ => 64,
    };
    std::process::exit(code);
}

fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{text}");
}
