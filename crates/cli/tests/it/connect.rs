//! `countersign connect`: the entry that a client gets, in its own file beside everything else, and the session behind it.

use crate::countersign::{Ran, User};
use crate::mcp_upstream::{Asked, Reply, Upstream};
use serde_json::{Value, json};
use std::path::Path;

const TOKEN: &str = "cs_agent_made";

/// A server that makes one session and speaks MCP.
fn upstream() -> Upstream {
    upstream_that(|| {})
}

/// The same; while the session is made, something else happens.
fn upstream_that(meanwhile: impl Fn() + Send + Sync + 'static) -> Upstream {
    let upstream = Upstream::start();
    upstream.answers(move |asked| {
        if asked.head.starts_with("POST /api/v1/sessions ") {
            meanwhile();
        }
        session_of(asked)
    });
    upstream
}

/// The answer of the API where a session is made or ended.
fn session_of(asked: &Asked) -> Option<Reply> {
    let session = |ended: Value| {
        json!({ "id": "ses_1", "space_id": "spc_1", "created_by": "user:owner", "owner_id": null, "title": "x", "attendance": "interactive",
            "automation_id": null, "sources": null, "created_at": "2026-11-15T08:00:00Z", "ended_at": ended })
    };
    let answered = if asked.head.starts_with("POST /api/v1/sessions ") {
        json!({ "id": "ses_1", "token": TOKEN, "session": session(Value::Null) })
    } else if asked.head.starts_with("POST /api/v1/sessions/ses_1/end ") {
        session(json!("2026-11-15T09:00:00Z"))
    } else {
        return None;
    };
    Some(Reply::open("application/json", answered.to_string()))
}

/// The binary is run: what it writes starts itself.
fn user(folder: &Path, upstream: &Upstream) -> User {
    User::new(folder, upstream.origin(), Some("cs_user_owner")).with_binary()
}

fn sent(upstream: &Upstream, path: &str) -> Vec<Value> {
    upstream.seen().into_iter().filter(|asked| asked.head.starts_with(path)).map(|asked| asked.body).collect()
}

#[track_caller]
fn leaks_no_token(ran: &Ran) {
    assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN), "{ran:#?}");
}

#[test]
fn an_entry_is_written_tried_and_taken_away_with_everything_else_as_it_was() {
    let codex = "# mine\nmodel = \"o\"\n\n[mcp_servers.docs]\ncommand = \"docs\" # stays\n";
    let vscode = "{\n  // mine\n  \"inputs\": [],\n  \"servers\": {\n    \"docs\": { \"type\": \"stdio\", \"command\": \"docs\" }, // stays\n  },\n}\n";
    let claude = "{\"mcpServers\":{\"docs\":{\"command\":\"docs\"}}}";
    let opencode = "{\n  \"$schema\": \"https://opencode.ai/config.json\", // mine\n  \"mcp\": { \"docs\": { \"type\": \"local\", \"command\": [\"docs\"] } }\n}\n";
    for (client, file, before) in [
        ("codex", ".codex/config.toml", codex),
        ("vscode", ".vscode/mcp.json", vscode),
        ("claude-code", ".mcp.json", claude),
        ("cursor", ".cursor/mcp.json", claude),
        ("gemini", ".gemini/settings.json", claude),
        ("opencode", "opencode.json", opencode),
    ] {
        let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
        let (user, path) = (user(folder.path(), &upstream), folder.path().join(file));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, before).unwrap();

        let ran = user.run(&["connect", client, "--write", "--space", "main", "--source", "files"]).ok();
        leaks_no_token(&ran);
        assert!(ran.stderr.contains("kit 1 answers in MCP 2025-11-25 with 2 tools"), "{client}: {ran:#?}");
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written.contains("--context") && written.contains("docs"), "{written}");
        assert!(!written.contains(TOKEN), "a program that is started has the token in its context: {written}");
        let backup = folder.path().join(format!("{file}.countersign-backup"));
        assert_eq!(std::fs::read_to_string(&backup).unwrap(), before);
        let request = sent(&upstream, "POST /api/v1/sessions ").pop().unwrap();
        assert_eq!((&request["title"], &request["space"], &request["sources"]), (&json!(client), &json!("main"), &json!(["files"])));
        let asked = upstream.seen();
        assert!(asked.iter().filter(|asked| asked.head.contains("/mcp ")).all(|asked| asked.head.contains(TOKEN)), "{asked:#?}");

        // A second entry is not written over the first.
        user.run(&["connect", client, "--write"]).exits(7);
        assert_eq!(sent(&upstream, "POST /api/v1/sessions ").len(), 1);

        user.run(&["connect", client, "--undo"]).ok();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before, "{client}");
        assert_eq!(sent(&upstream, "POST /api/v1/sessions/ses_1/end ").len(), 1);
        let contexts = std::fs::read_to_string(folder.path().join("config/contexts.toml")).unwrap();
        assert!(!contexts.contains(TOKEN), "{contexts}");
        user.run(&["connect", client, "--undo"]).exits(3);
    }
}

#[test]
fn settings_that_had_no_servers_are_as_they_were_after_undo() {
    for (client, file, before) in [
        ("gemini", ".gemini/settings.json", "{\"ui\": {\"theme\": \"x\"}}"),
        ("opencode", "opencode.jsonc", "{\n  \"model\": \"m\" // mine\n}\n"),
        ("claude-code", ".mcp.json", "{}"),
        ("codex", ".codex/config.toml", "model = \"o\""),
    ] {
        let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
        let (user, path) = (user(folder.path(), &upstream), folder.path().join(file));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, before).unwrap();
        user.run(&["connect", client, "--write", "--name", "my laptop"]).ok();
        assert!(std::fs::read_to_string(&path).unwrap().contains("countersign"), "{client}");
        assert_eq!(sent(&upstream, "POST /api/v1/sessions ").pop().unwrap()["title"], "my laptop");
        user.run(&["connect", client, "--undo"]).ok();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before, "{client}");
    }
}

#[test]
fn a_client_that_writes_to_its_settings_keeps_that_and_no_section_of_ours() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
    let (user, path) = (user(folder.path(), &upstream), folder.path().join("opencode.json"));
    std::fs::write(&path, "{\n  \"model\": \"m\" // mine\n}\n").unwrap();
    user.run(&["connect", "opencode", "--write"]).ok();
    // It does so when it is started.
    let written = std::fs::read_to_string(&path).unwrap().replacen('{', "{\n  \"$schema\": \"x\",", 1);
    std::fs::write(&path, written).unwrap();
    user.run(&["connect", "opencode", "--undo"]).ok();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\n  \"$schema\": \"x\",\n  \"model\": \"m\" // mine\n}\n");
}

#[test]
fn settings_of_an_unknown_form_are_refused_before_anything_is_made() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
    let (user, before) = (user(folder.path(), &upstream), "{\"context_servers\":{}}");
    std::fs::write(folder.path().join("theirs.json"), before).unwrap();
    let ran = user.run(&["connect", "generic", "--write", "--file", "theirs.json"]).exits(8);
    assert!(ran.stderr.contains("has no `mcpServers`, so its form is not known") && ran.stderr.contains("context_servers"), "{ran:#?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("theirs.json")).unwrap(), before);
    assert!(sent(&upstream, "POST /api/v1/sessions ").is_empty());
}

#[test]
fn a_large_catalogue_is_told_by_its_actions() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
    upstream.answers(|asked| {
        let found = vec![json!({ "action": "files.read_text" }); 20];
        match asked.method() {
            "tools/list" => {
                let names = ["search_actions", "describe_action", "invoke_action", "get_invocation"];
                let tools = names.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
                Some(Reply::result(asked, &json!({ "tools": tools })))
            }
            "tools/call" => {
                let told = json!({ "content": [], "structuredContent": { "actions": found, "more": 120 } });
                Some(Reply::result(asked, &told))
            }
            _ => session_of(asked),
        }
    });
    let ran = user(folder.path(), &upstream).run(&["connect", "claude-code"]).ok();
    assert!(ran.stderr.contains("answers in MCP 2025-11-25 with 3 meta tools for 140 actions"), "{ran:#?}");
}

#[test]
fn a_file_that_was_made_for_the_entry_goes_with_it() {
    for (client, file) in [("claude-code", ".mcp.json"), ("codex", ".codex/config.toml"), ("vscode", ".vscode/mcp.json")] {
        let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
        let (user, path) = (user(folder.path(), &upstream), folder.path().join(file));
        let backup = folder.path().join(format!("{file}.countersign-backup"));
        user.run(&["connect", client, "--write"]).ok();
        assert!(path.exists() && !backup.exists(), "{client}");
        user.run(&["connect", client, "--undo"]).ok();
        assert!(!path.exists() && !backup.exists(), "{client}");
        user.run(&["connect", client, "--undo"]).exits(3);

        // What somebody put into it since stays, and so does the file.
        user.run(&["connect", client, "--write"]).ok();
        let written = std::fs::read_to_string(&path).unwrap();
        let theirs = if client == "codex" { format!("model = \"o\"\n\n{written}") } else { written.replacen('{', "{\n  \"a\": 1,", 1) };
        std::fs::write(&path, theirs).unwrap();
        user.run(&["connect", client, "--undo"]).ok();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("countersign") && backup.exists(), "{client}");
    }
}

#[test]
fn what_the_client_writes_meanwhile_stays_and_every_copy_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".cursor/mcp.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "{\"mcpServers\":{}}").unwrap();
    std::fs::write(folder.path().join(".cursor/mcp.json.countersign-backup"), "an older copy").unwrap();
    let (theirs, file) = ("{\"mcpServers\":{\"docs\":{\"command\":\"docs\"}}}", path.clone());
    let upstream = upstream_that(move || std::fs::write(&file, theirs).unwrap());
    let user = user(folder.path(), &upstream);
    let ran = user.run(&["connect", "cursor", "--write"]).ok();
    assert!(ran.stderr.contains("Cursor that is open has to reload"), "{ran:#?}");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(written["mcpServers"]["docs"].is_object() && written["mcpServers"]["countersign"].is_object(), "{written:#}");
    let kept = |end: &str| std::fs::read_to_string(folder.path().join(format!(".cursor/mcp.json.countersign-backup{end}"))).unwrap();
    assert_eq!((kept("").as_str(), kept(".2").as_str()), ("an older copy", theirs));
    user.run(&["connect", "cursor", "--undo"]).ok();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
    assert!(kept("") == "an older copy" && kept(".3").contains("countersign"));
}

#[test]
fn what_cannot_be_finished_leaves_no_session_and_no_token() {
    // Another program writes such an entry meanwhile; or the contexts cannot be written.
    let entry = |folder: &Path| std::fs::write(folder.join(".mcp.json"), "{\"mcpServers\":{\"countersign\":{\"command\":\"x\"}}}").unwrap();
    let contexts = |folder: &Path| std::fs::create_dir_all(folder.join("config/contexts.toml")).unwrap();
    for (meanwhile, code) in [(entry as fn(&Path), 7), (contexts as fn(&Path), 1)] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        let upstream = upstream_that(move || meanwhile(&at));
        let ran = user(folder.path(), &upstream).run(&["connect", "claude-code", "--write"]).exits(code);
        leaks_no_token(&ran);
        assert_eq!(sent(&upstream, "POST /api/v1/sessions/ses_1/end ").len(), 1, "{ran:#?}");
        let written = std::fs::read_to_string(folder.path().join(".mcp.json")).unwrap_or_default();
        let kept = std::fs::read_to_string(folder.path().join("config/contexts.toml")).unwrap_or_default();
        assert!(!written.contains("--context") && !kept.contains(TOKEN), "{written} {kept}");
    }
}

#[test]
fn over_http_the_client_has_the_token_and_the_entry_is_found_by_it() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
    let user = user(folder.path(), &upstream);
    let ran = user.run(&["connect", "vscode", "--http", "--write", "--json"]).ok();
    let told = ran.json();
    assert_eq!((&told["is_written"], &told["seen"]["tools"]), (&json!(true), &json!(2)), "{told:#}");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(folder.path().join(".vscode/mcp.json")).unwrap()).unwrap();
    let entry = &written["servers"]["countersign"];
    assert_eq!((&entry["type"], &entry["url"]), (&json!("http"), &json!(upstream.url)));
    assert_eq!(entry["headers"]["Authorization"], format!("Bearer {TOKEN}"));
    user.run(&["connect", "vscode", "--undo"]).ok();
    assert_eq!(sent(&upstream, "POST /api/v1/sessions/ses_1/end ").len(), 1);
}

#[test]
fn what_is_printed_is_whole_and_changes_no_file_of_the_client() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
    let user = user(folder.path(), &upstream);
    let ran = user.run(&["connect", "claude-code"]).ok();
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let entry = &printed["mcpServers"]["countersign"];
    assert_eq!((&entry["args"], &entry["timeout"]), (&json!(["mcp", "--context", "claude-code"]), &json!(600_000)));
    assert!(ran.stderr.contains("claude mcp add-json countersign"), "{ran:#?}");
    leaks_no_token(&ran);
    assert!(!folder.path().join(".mcp.json").exists());
    // The token of each entry has a context of its own.
    let ran = user.run(&["connect", "codex"]).ok();
    assert!(ran.stdout.contains("[mcp_servers.countersign]") && ran.stdout.contains("tool_timeout_sec = 600"), "{ran:#?}");
    assert_eq!(user.run(&["connect", "claude-code"]).ok().stdout.matches("claude-code-2").count(), 1);
    // With a token in it, it is never shown as words of a command.
    let http = user.run(&["connect", "claude-code", "--http"]).ok();
    assert!(http.stdout.contains(TOKEN) && !http.stderr.contains(TOKEN) && !http.stderr.contains("add-json"), "{http:#?}");
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone_and_nothing_is_made() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
    let user = user(folder.path(), &upstream);
    for text in ["{ \"mcpServers\": ", "[]", "{ \"mcpServers\": 7 }"] {
        std::fs::write(folder.path().join(".mcp.json"), text).unwrap();
        user.run(&["connect", "claude-code", "--write"]).exits(8);
        assert_eq!(std::fs::read_to_string(folder.path().join(".mcp.json")).unwrap(), text);
    }
    user.run(&["connect", "generic", "--write"]).exits(2);
    assert!(upstream.seen().is_empty(), "{:#?}", upstream.seen());
    // An entry that somebody else wrote is not taken away.
    let theirs = "{\"mcpServers\":{\"countersign\":{\"command\":\"x\"}}}";
    std::fs::write(folder.path().join(".mcp.json"), theirs).unwrap();
    user.run(&["connect", "claude-code", "--undo"]).exits(7);
    assert_eq!(std::fs::read_to_string(folder.path().join(".mcp.json")).unwrap(), theirs);
}

#[test]
fn an_entry_that_does_not_work_is_told_with_the_reason() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
    let user = user(folder.path(), &upstream);
    let origin = upstream.origin().to_owned();
    upstream.answers(move |asked| {
        let session = json!({ "id": "ses_1", "space_id": "s", "created_by": "user:o", "owner_id": null, "title": "x", "attendance": "interactive",
            "automation_id": null, "created_at": "2026-11-15T08:00:00Z", "ended_at": null });
        let made = json!({ "id": "ses_1", "token": TOKEN, "session": session });
        let is_made = asked.head.starts_with("POST /api/v1/sessions ");
        Some(Reply::open("application/json", if is_made { made.to_string() } else { format!("{{\"not\": \"{origin}\"}}") }))
    });
    let ran = user.run(&["connect", "cursor", "--write"]).exits(1);
    assert!(ran.stderr.contains("the entry was made, and does not work"), "{ran:#?}");
    assert!(ran.stderr.contains("countersign connect cursor --undo"), "{ran:#?}");
}

#[test]
fn a_rehearsal_shows_the_session_and_makes_nothing() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), upstream());
    let ran = user(folder.path(), &upstream).run(&["connect", "cursor", "--write", "--dry-run"]).ok();
    assert!(ran.stdout.contains("POST /api/v1/sessions"), "{ran:#?}");
    assert!(upstream.seen().is_empty() && !folder.path().join(".cursor").exists());
}
