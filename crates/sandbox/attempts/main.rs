//! The program the tests run inside the jail. Each attempt has a name and reports what the kernel answered.
//!
//! SECURITY: outside a jail an attempt does to the host what its name says. So `control` runs attempts only in namespaces of its own, and
//! refuses to begin when it shares the mount or UTS namespace of process 1.

mod answer;
mod control;
mod drive;
mod files;
mod kernel;
mod network;
mod overrun;
mod processes;
mod sys;
mod worker;

use answer::Attempt;

/// What an attempt knows: where it may write, and what it must not reach.
struct Place {
    stage: String,
    /// A folder it may write to and that nobody reads.
    scratch: String,
    victim: String,
    /// A folder it can see and must not change.
    visible: String,
    /// The server's pid in the host's pid namespace.
    server: i32,
}

fn main() {
    sandbox::worker::serve_if_asked(worker::serve);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let code = match args[..] {
        ["drive"] => drive::main(),
        ["attempt", name, victim, server, ..] => run(
            name,
            &Place {
                stage: "/stage".into(),
                scratch: "/tmp".into(),
                victim: victim.into(),
                visible: "/usr/lib".into(),
                server: server.parse().unwrap_or(0),
            },
        ),
        ["control", name] => control::main(name),
        _ => 64,
    };
    std::process::exit(code);
}

fn find(name: &str) -> Option<Attempt> {
    [files::ALL, processes::ALL, kernel::ALL, network::ALL, overrun::ALL]
        .concat()
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, attempt)| attempt)
}

fn run(name: &str, place: &Place) -> i32 {
    match find(name) {
        Some(attempt) => {
            attempt(place);
            0
        }
        None => {
            say(&format!("unknown={name}"));
            65
        }
    }
}

fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{text}");
}
