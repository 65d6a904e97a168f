//! Tests that no line is wider than the terminal, except commands, which people copy.

use crate::answers::asked;
use crate::automations::applied_as;
use crate::countersign::{Server, User};

#[track_caller]
fn fits(user: &User, columns: u16, arguments: &[&str]) -> String {
    let plain = if arguments[0] == "doctor" {
        anstream::adapter::strip_str(&user.at_terminal_of(columns, arguments, &[]).screen).to_string()
    } else {
        user.on_screen(columns, arguments, "").stdout
    };
    let wide: Vec<_> = plain
        .lines()
        // Only the text after the last carriage return is visible.
        .map(|line| line.rsplit('\r').next().unwrap_or_default())
        .filter(|line| line.chars().count() > usize::from(columns) && !line.contains("countersign "))
        .collect();
    assert!(wide.is_empty(), "{arguments:?} at {columns}: {wide:#?}");
    plain
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    let server = Server::start();
    let owner = server.owner();
    let id = asked(&owner, "a");
    let automation = applied_as(&server, &owner, "Tidy");
    for mode in ["allow", "require_approval"] {
        owner.run(&["mode", "set", "files.write_text", mode, "--automation", &automation]).ok();
    }
    for columns in [60, 80, 100] {
        for arguments in [
            &["doctor", "--verbose"][..],
            &["doctor"],
            &["inbox"],
            &["explain", &id],
            &["show", &id],
            &["key", "rotate", "--no-input"],
            &["invocation", "list"],
            &["mode", "list"],
            &["mode", "versions"],
            // The first time, it notes a sentence that is longer than a line.
            &["mode", "set", "files.read_text", "allow"],
            &["mode", "unset", "files.read_text"],
            &["receipt", "list"],
            &["session", "list"],
            &["space", "list"],
            &["token", "list"],
            &["user", "list"],
        ] {
            fits(&owner, columns, arguments);
        }
        fits(&owner.without_token(), columns, &["status"]);
    }
    let next = fits(&owner, 60, &["show", &id]);
    assert!(next.contains(&format!("next: countersign approve {id}\n  or: countersign deny {id} --reason …")), "{next}");
    // On a wide terminal every column is shown.
    assert!(fits(&owner, 100, &["inbox"]).contains("WHAT") && !fits(&owner, 60, &["inbox"]).contains("WHAT"));
    // Where there is not, what is asked for and what a token is called stand under their rows.
    assert!(fits(&owner, 60, &["inbox"]).contains("\n    what          path: a"));
    assert!(fits(&owner, 60, &["token", "list"]).contains("\n    name  "));
    let digest = owner.run(&["explain", &id, "--json=invocation.digests.params"]).ok().json();
    assert!(fits(&owner, 80, &["explain", &id]).contains(digest["invocation.digests.params"].as_str().unwrap()));
}
