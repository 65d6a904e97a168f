//! Tests completions in a real bash, with the script that the command line generates.

use crate::countersign::{Server, User};
use std::path::Path;

#[test]
fn a_shell_is_offered_commands_flags_and_what_the_server_knows() {
    let server = Server::start();
    let owner = server.owner();
    assert!(offered(&owner, "countersign re").contains(&"receipt".to_owned()));
    assert!(offered(&owner, "countersign action invoke --idem").contains(&"--idempotency-key".to_owned()));
    let actions = offered(&owner, "countersign action invoke files.");
    assert!(["files.read_text", "files.write_text"].iter().all(|action| actions.contains(&(*action).to_owned())), "{actions:?}");

    let waits = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait", "--json"]).exits(6).json();
    let id = waits["invocation"]["id"].as_str().unwrap().to_owned();
    assert_eq!(offered(&owner, "countersign approve inv_"), [id.as_str()]);
    assert_eq!(offered(&owner, &format!("countersign show {id}")), [id.as_str()]);
    owner.run(&["deny", &id]).ok();
    assert!(offered(&owner, "countersign approve inv_").is_empty(), "it waits no more");
    assert_eq!(offered(&owner, "countersign invocation show inv_"), [id]);

    // The `--url` on the completed line decides which server is asked.
    let kept = |name: &str| std::fs::read_to_string(server.data().join(name)).unwrap().trim().to_owned();
    let elsewhere = User::new(owner.folder(), &crate::fake::nobody(), Some(&kept("owner.token")));
    assert!(offered(&elsewhere, "countersign action guide fi").is_empty());
    let line = format!("countersign --url {} action guide fi", kept("server.url"));
    assert_eq!(offered(&elsewhere, &line), ["files"]);
}

#[test]
fn files_are_offered_for_a_batch_and_only_what_can_be_taken_back_for_taking_back() {
    let server = Server::start();
    let owner = server.owner();
    std::fs::write(owner.folder().join("spring-changes.json"), "[]").unwrap();
    assert_eq!(offered(&owner, "countersign batch run spring"), ["spring-changes.json"]);

    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let made = |more: &[&str]| {
        let call = ["action", "invoke", "files.write_text", "path=a", "text=b", "--json"];
        let done = owner.run(&[&call[..], more].concat()).ok().json();
        done["invocation"]["id"].as_str().unwrap().to_owned()
    };
    let undone = made(&[]);
    owner.run(&["invocation", "revert", &undone, "--yes"]).ok();
    made(&["--dry-run"]);
    owner.run(&["action", "invoke", "files.list"]).ok();
    assert!(offered(&owner, "countersign invocation revert inv_").is_empty(), "a read, a rehearsal, what is undone and what undid it");
    let stands = made(&[]);
    assert_eq!(offered(&owner, "countersign invocation revert inv_"), [stands]);
}

#[test]
fn whoever_may_see_nothing_is_offered_nothing_of_it() {
    let server = Server::start();
    let nobody = server.owner().with_token("cs_user_nobodys");
    assert!(offered(&nobody, "countersign action invoke files.").is_empty());
    assert_eq!(offered(&nobody, "countersign completions ba"), ["bash"]);
}

#[test]
fn every_shell_has_a_script_and_others_are_named_as_unknown() {
    let server = User::new(&std::env::temp_dir(), &crate::fake::nobody(), None);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = server.run(&["completions", shell]).ok().stdout;
        assert!(script.contains("countersign") && script.contains("COUNTERSIGN_COMPLETE"), "{shell}: {script}");
    }
    server.run(&["completions", "abacus"]).exits(2);
}

/// The completions that bash offers for the last word of a line.
fn offered(user: &User, line: &str) -> Vec<String> {
    let script = user.folder().join("completions.bash");
    std::fs::write(&script, user.run(&["completions", "bash"]).ok().stdout).unwrap();
    let words: Vec<_> = line.split(' ').collect();
    let last = words[words.len() - 1];
    let before = words.len().checked_sub(2).map_or("", |at| words[at]);
    let ask = format!(
        "source \"$0\"; COMP_WORDS=({line}); COMP_CWORD={}; COMP_TYPE=9; _clap_complete_countersign countersign '{last}' '{before}'; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1
    );
    let here = Path::new(env!("CARGO_BIN_EXE_countersign")).parent().unwrap();
    let path = std::env::join_paths([here.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    let mut bash = crate::crash::new_command("bash");
    bash.args(["--norc", "--noprofile", "-c", &ask]).arg(&script);
    for (name, value) in user.command(&[]).get_envs() {
        bash.envs(value.map(|value| (name, value)));
    }
    let output = bash.current_dir(user.folder()).env("PATH", path.unwrap()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().filter(|word| !word.is_empty()).map(|word| word.trim_end().to_owned()).collect()
}
