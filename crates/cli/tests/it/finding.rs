//! Tests where the command line looks for a server and a token, and what it says if it finds neither.

use crate::countersign::{Server, User};
use serde_json::{Value, json};

/// A user with no settings. An empty variable counts as absent.
fn newcomer(server: &Server) -> User {
    server.owner().without_token().with_variable("COUNTERSIGN_URL", "")
}

#[test]
fn a_login_finds_the_server_as_every_other_command_does() {
    let server = Server::start();
    let token = server.owner_token.clone().unwrap();
    let data = server.data().display().to_string();
    let somebody = newcomer(&server).with_variable("COUNTERSIGN_DATA", &data);
    assert_eq!(somebody.run(&["whoami", "--json=name"]).ok().json()["name"], "owner");
    let logged_in = somebody.run_with_stdin(&["login", "--token-stdin"], &token).ok();
    assert!(logged_in.stdout.contains(&server.url), "{logged_in:?}");
    let kept = "✓ logged in as `owner` (owner); the token is kept as the context `default`";
    assert!(logged_in.stderr.contains(kept), "{}", logged_in.stderr);

    // From then on every command uses the context, in any folder, and another login renews it.
    let elsewhere = tempfile::tempdir().unwrap();
    let away = newcomer(&server)
        .standing_in(elsewhere.path())
        .with_variable("COUNTERSIGN_CONFIG_HOME", &somebody.folder().join("config").display().to_string());
    away.run(&["whoami"]).ok();
    away.run_with_stdin(&["login", "--token-stdin"], &token).ok();
    assert_eq!(away.run(&["context", "list", "-o", "name"]).ok().stdout, "default\n");
}

#[test]
fn a_token_that_a_login_refuses_is_answered_with_where_there_is_one() {
    let server = Server::start();
    let refused = server.owner().without_token().run_with_stdin(&["login", "--token-stdin"], "nonsense").exits(4);
    assert!(!refused.stderr.contains("hint: countersign login"), "{}", refused.stderr);
    for told in ["owner.token of the server's data folder", "`countersign token create`"] {
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
}

#[test]
fn a_token_that_is_missing_or_refused_is_told_by_where_it_was_looked_for() {
    let server = Server::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = server.owner().without_token().standing_in(elsewhere.path());
    let refused = stranger.run(&["inbox"]).exits(4).stderr;
    assert!(!refused.contains("authorization"), "{refused}");
    for told in [
        "no data folder `./countersign-data` in the folder you are in",
        "run it in the folder the server was started in",
        "COUNTERSIGN_DATA",
        "COUNTERSIGN_URL and COUNTERSIGN_TOKEN",
        "`countersign login`",
    ] {
        assert!(refused.contains(told), "`{told}` is missing in {refused}");
    }
    let looked = stranger.run(&["doctor"]).exits(1).stdout;
    assert!(looked.contains("run it in the folder the server was started in"), "{looked}");
    let refused = stranger.with_token("wrong").run(&["inbox"]).exits(4).stderr;
    assert!(refused.contains("cause: the token in COUNTERSIGN_TOKEN was sent"), "{refused}");

    let token = server.owner_token.clone().unwrap();
    stranger.run_with_stdin(&["login", "--token-stdin", "--context", "work"], &token).ok();
    let own = server.owner();
    let listed = own.run(&["token", "list", "--json"]).ok().json();
    let own_token = listed["items"].as_array().unwrap().iter().find(|token| token["kind"] == "user").unwrap()["id"].clone();
    let other = own.run(&["token", "create", "other", "--json"]).ok().json();
    own.with_token(other["token"].as_str().unwrap()).run(&["token", "revoke", own_token.as_str().unwrap(), "--yes"]).ok();
    let refused = stranger.run(&["inbox"]).exits(4).stderr;
    assert!(refused.contains("hint: countersign login --context work"), "{refused}");
}

#[test]
fn an_address_that_nobody_said_is_told_as_a_guess() {
    let elsewhere = tempfile::tempdir().unwrap();
    let data = elsewhere.path().join("data");
    std::fs::create_dir(&data).unwrap();
    // If the data folder names the server's address, no address is guessed.
    std::fs::write(data.join("server.url"), crate::fake::nobody()).unwrap();
    let stranger = User::new(elsewhere.path(), "", None).with_variable("COUNTERSIGN_DATA", &data.display().to_string());
    let unreachable = stranger.run(&["status"]).exits(9).stderr;
    assert!(
        unreachable.contains("hint: the server of this data folder is not running") && !unreachable.contains("default address"),
        "{unreachable}"
    );
}

#[test]
fn a_server_says_how_to_reach_it_also_where_nobody_watches() {
    // The line is written after those that the test waited for.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let told_by = |server: &Server, word: &str| loop {
        let logged = server.logged();
        match logged.lines().find(|line| line.contains(word)) {
            Some(line) => break line.to_owned(),
            None => assert!(std::time::Instant::now() < deadline, "{logged}"),
        }
    };
    let server = Server::start_with(&[("COUNTERSIGN_LOG_FORMAT", "text"), ("COUNTERSIGN_LOG_LEVEL", "error")]);
    let token = server.data().join("owner.token").canonicalize().unwrap();
    let export = format!("export COUNTERSIGN_URL={} COUNTERSIGN_TOKEN=$(cat {})", server.url, token.display());
    let told = told_by(&server, "COUNTERSIGN_URL=");
    assert!(told.ends_with(&export), "{told}");
    // Colours are for a terminal, not for a file.
    let server = Server::start_with(&[("COUNTERSIGN_LOG_FORMAT", "text"), ("COUNTERSIGN_LOG_LEVEL", "info")]);
    let told = told_by(&server, " INFO ");
    assert!(!told.contains('\u{1b}'), "{told:?}");
    // A JSON log is read by programs, so the folder is in the log line itself.
    let server = Server::start_with(&[("COUNTERSIGN_LOG_FORMAT", "json"), ("COUNTERSIGN_LOG_LEVEL", "info")]);
    let serving: Value = serde_json::from_str(&told_by(&server, "\"serving\"")).unwrap();
    assert_eq!((&serving["url"], &serving["data"]), (&json!(server.url), &json!(server.data().canonicalize().unwrap())), "{serving}");
}
