//! Tests `source`: what is typed is what is sent, what a server offers is told with its tiers and modes, and nothing is reviewed that was not
//! shown. The server is a fake one, so that an MCP server can be in every state.

use crate::countersign::User;
use crate::fake::{Asked, Fake};
use api::{Code, Problem};
use serde_json::{Value, json};

const URL: &str = "https://api.example.com/mcp";
const AT: &str = "2026-11-15T00:00:00.000000Z";
const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn action(name: &str, tier: &str, because: &str, mode: &str, drift: &str) -> Value {
    json!({ "id": format!("github.{name}"), "title": name, "tier": tier, "because": because, "mode": mode, "drift": drift })
}

/// A source with three actions and a tool that is none. One action changed since its review, and one appeared.
fn github() -> Value {
    json!({
        "id": "github", "title": "GitHub", "kind": "http", "url": URL, "command": null, "env": [],
        "connection": { "id": "con_1", "name": "github-token" }, "default_tier": null, "trust_hints": true, "tiers": { "merge": "R4" },
        "spaces": ["spc_1"], "list_timeout_ms": 15_000, "call_timeout_ms": 30_000, "version": 2, "paused": false,
        "added_by": "user:usr_1", "added_at": AT, "changed_by": "user:usr_2", "changed_at": AT, "removed_at": null,
        "harvest": {
            "listed_at": AT, "is_stale": false, "error": null, "protocol": "2025-11-25",
            "actions": [
                action("merge", "R4", "override", "deny", "structural"),
                action("get_issue", "R1", "read_only_hint", "allow", "none"),
                action("fork", "R3", "unknown", "require_approval", "appeared"),
            ],
            "left_out": [{ "tool": "bad name", "why": "its name has a space" }, { "tool": null, "why": "it has no name" }],
        },
    })
}

fn get_issue() -> Value {
    json!({
        "id": "github.get_issue", "title": "get_issue", "description": "Reads an issue.", "version": "1", "tier": "R1", "class": "read",
        "mode": "allow", "mode_source": "inferred_default", "drift": "none", "result_schema": {}, "reversibility": "no_effect",
        "params_schema": { "type": "object", "properties": { "number": { "type": "integer" } }, "required": ["number"] },
        "profile": "in_process", "dry_run_supported": false, "timeout_ms": 30_000, "safety_class": "HIGH",
    })
}

fn review(name: &str, drift: &str, textual: Option<&str>, changes: Value, findings: Value) -> Value {
    json!({
        "action": format!("github.{name}"), "drift": drift, "reviewed_by": "user:usr_1", "reviewed_at": AT, "ignores_wording": false,
        "structural": textual, "textual": textual, "drifted_at": AT, "changes": changes, "findings": findings,
    })
}

fn drift() -> Value {
    let summary = "`merge` now takes `bypass_checks`, optional boolean";
    let pointer = "/params_schema/properties/bypass_checks";
    let changed = json!([{ "pointer": pointer, "summary": summary, "weight": "structural", "before": null, "after": "boolean" }]);
    let hidden = json!([{ "rule": "safety.hidden_text", "pointer": "/description", "message": "the definition has hidden characters" }]);
    json!({
        "items": [
            review("merge", "structural", Some(DIGEST), changed, json!([])),
            review("fork", "appeared", Some("ff"), json!([]), hidden),
            review("close", "structural", None, json!([]), json!([])),
        ],
        "next": null,
    })
}

fn answer(method: &str, path: &str, body: &Value) -> (u16, String) {
    let path = path.split('?').next().unwrap_or_default().trim_start_matches("/api/v1/");
    let told = |value: Value| (200, value.to_string());
    match (method, path) {
        ("POST", "sources") if body["name"] == "Git Hub" => {
            (400, serde_json::to_string(&Problem::new(Code::InvalidRequest, "the name has other letters")).unwrap())
        }
        ("POST", "sources") => {
            let mut added = github();
            if body["name"] == "calm" {
                added["harvest"]["actions"] = json!([action("get_issue", "R1", "read_only_hint", "allow", "none")]);
            }
            (201, added.to_string())
        }
        ("GET", "sources") => told(json!({ "items": [github()], "next": null })),
        ("GET" | "PATCH" | "DELETE", "sources/github") | ("POST", "sources/github/refresh") => told(github()),
        ("POST", "sources/github/test") => {
            told(json!({ "protocol": "2025-11-25", "actions": 3, "left_out": 2, "took_ms": 12, "error": null }))
        }
        ("POST", "sources/dead/refresh") => {
            let mut dead = github();
            (dead["id"], dead["harvest"]["is_stale"], dead["harvest"]["error"]) =
                (json!("dead"), json!(true), json!("nobody\u{1b} answers"));
            told(dead)
        }
        ("POST", "sources/dead/test") => {
            let error = json!({ "code": "source_unavailable", "message": "`dead` refused the connection" });
            told(json!({ "protocol": null, "actions": 0, "left_out": 0, "took_ms": 2, "error": error }))
        }
        ("GET", "sources/github/drift") => told(drift()),
        ("GET", "sources/dead/drift") | ("GET", "users") => told(json!({ "items": [], "next": null })),
        ("POST", "sources/github/review") => {
            let actions = body["actions"].as_array().unwrap().iter();
            told(json!({ "reviewed": actions.map(|one| one["action"].clone()).collect::<Vec<_>>() }))
        }
        ("GET", "actions/github.get_issue") => told(get_issue()),
        ("GET", "actions") => {
            let named = |id: &str| json!({ "id": id }).as_object().cloned().unwrap();
            let actions = ["github.get_issue", "github.merge", "gitlab.merge"].map(|id| {
                let mut one = get_issue();
                one.as_object_mut().unwrap().extend(named(id));
                one
            });
            told(json!({ "sources": [{ "id": "all", "title": "All", "actions": actions }] }))
        }
        ("PUT" | "DELETE", path) if path.starts_with("modes/") => {
            let action = path.trim_start_matches("modes/");
            told(json!({ "action": action, "mode": body["mode"], "version": 3 }))
        }
        ("GET", "sources/paused") => told(github()),
        ("GET", "kill-switches") => {
            let switch = json!({ "scope": "source:paused", "stop": "everything", "reason": "odd", "set_by": "user:usr_1", "set_at": AT });
            told(json!({ "items": [switch], "next": null }))
        }
        ("POST", "kill-switches/off") if body["scope"] == "source:dead" => {
            (404, serde_json::to_string(&Problem::new(Code::NotFound, "no kill switch on `source:dead` is on")).unwrap())
        }
        ("POST", "kill-switches/on" | "kill-switches/off") => {
            told(json!({ "scope": body["scope"], "on": path.ends_with("on"), "clocks": 0 }))
        }
        _ => (404, serde_json::to_string(&Problem::new(Code::UnknownSource, "there is no such source")).unwrap()),
    }
}

fn start() -> (Fake, User) {
    let fake = Fake::reading(answer);
    let user = User::new(&std::env::temp_dir(), &fake.url, Some("token"));
    (fake, user)
}

/// The last request that could change something.
fn sent(fake: &Fake) -> Asked {
    fake.asked().into_iter().rfind(|(method, ..)| method != "GET").unwrap()
}

#[test]
fn the_tiers_of_a_source_are_reviewed_in_one_table_and_changed_with_one_question() {
    let (fake, user) = start();
    let told = user.run(&["source", "tiers", "github"]).ok();
    assert_eq!(told.stdout.lines().next(), Some("github.merge\tR4\t\tdeny\toverride"), "{told:?}");
    assert!(fake.asked().iter().all(|(method, ..)| method == "GET"));
    // What has that tier already is not sent, and of two words for one tool the last one counts.
    let change = ["source", "tiers", "github", "*=R3", "get_*=R1", "merge=R4"];
    user.run(&change).exits(2);
    user.run(&[&change[..], &["--yes"]].concat()).ok();
    let expected = json!({ "tiers": { "fork": "R3", "get_issue": "R1" }, "version": 2 });
    assert_eq!(sent(&fake), ("PATCH".to_owned(), "/api/v1/sources/github".to_owned(), expected));
    // On a terminal, both are asked.
    let screen = user.on_screen(120, &["source", "tiers", "github"], "merge=none fork=R2\ny\n").ok();
    assert!(screen.stdout.contains("BECOMES") && screen.stdout.contains("Change the tier of 2 tools of `github`?"), "{screen:?}");
    assert_eq!(sent(&fake).2, json!({ "tiers": { "fork": "R2", "merge": null }, "version": 2 }));
    user.run(&["source", "tiers", "github", "fork=R2", "--accept-irreversible", "--yes"]).ok();
    assert_eq!(sent(&fake).2, json!({ "tiers": { "fork": "R2" }, "accept_irreversible": true, "version": 2 }));
    let wrong = user.run(&["source", "tiers", "github", "nothing=R1", "--yes"]).exits(3);
    assert!(wrong.stderr.contains("`nothing` is no tool of `github`"), "{wrong:?}");
}

#[test]
fn the_mode_of_every_action_of_a_source_is_set_with_one_question() {
    let (fake, user) = start();
    user.run(&["mode", "set", "github.*", "deny"]).exits(2);
    assert!(fake.asked().iter().all(|(method, ..)| method == "GET"));
    let set = user.run(&["mode", "set", "github.*", "deny", "--yes"]).ok();
    assert_eq!(set.stdout, "github.get_issue\tdeny\t3\ngithub.merge\tdeny\t3\n");
    let sent =
        |method: &str| fake.asked().into_iter().filter(|asked| asked.0 == method).map(|asked| (asked.1, asked.2)).collect::<Vec<_>>();
    let deny = json!({ "mode": "deny", "locked": false });
    let paths = ["/api/v1/modes/github.get_issue", "/api/v1/modes/github.merge"].map(str::to_owned);
    assert_eq!(sent("PUT"), paths.clone().map(|path| (path, deny.clone())));
    user.run(&["mode", "unset", "github.*", "--yes"]).ok();
    assert_eq!(sent("DELETE").into_iter().map(|(path, _)| path).collect::<Vec<_>>(), paths);
    user.run(&["mode", "set", "nothing.*", "deny", "--yes"]).exits(3);
}

#[test]
fn a_source_is_added_and_its_actions_are_told_with_the_one_to_try() {
    let (fake, user) = start();
    let add = ["source", "add", "github", "--mcp", URL, "--connection", "github-token", "--title", "GitHub", "--default-tier", "r2"];
    let more = ["--trust-hints", "--space", "main", "--space", "lab", "--list-timeout", "5", "--call-timeout", "10"];
    let ran = user.run(&[&add[..], &more].concat()).ok();
    let expected = json!({
        "name": "github", "url": URL, "connection": "github-token", "title": "GitHub", "default_tier": "R2", "trust_hints": true,
        "spaces": ["main", "lab"], "list_timeout_ms": 5_000, "call_timeout_ms": 10_000,
    });
    assert_eq!(sent(&fake), ("POST".to_owned(), "/api/v1/sources".to_owned(), expected));
    let rows = "github.merge\tR4\tdeny\toverride\tstructural\n\
                github.get_issue\tR1\tallow\tread_only_hint\tnone\n\
                github.fork\tR3\trequire_approval\tunknown\tappeared\n";
    assert_eq!(ran.stdout, rows);
    for told in [
        "✓ added `github`, which speaks MCP 2025-11-25\n",
        "! left out `bad name`: its name has a space\n! left out a tool: it has no name\n",
        "! `github.merge` needs approval until it is reviewed: nobody has looked at its definition\n",
        "! `github.fork` needs approval until it is reviewed: the definition has hidden characters (safety.hidden_text)\n",
        "next: countersign source review github\n",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {ran:?}");
    }
    let ran = user.run(&["source", "add", "calm", "--mcp", URL]).ok();
    assert!(ran.stderr.contains("next: countersign action invoke github.get_issue number:=…\n"), "{ran:?}");
    let refused = user.run(&["source", "add", "Git Hub", "--mcp", URL]).exits(8);
    assert!(refused.stderr.contains("hint: such as `countersign source add git-hub …`"), "{refused:?}");
    assert_eq!(user.run(&[&add[..], &["--json=id"]].concat()).ok().json(), json!({ "id": "github" }));
    assert_eq!(user.run(&[&add[..], &["-o", "name"]].concat()).ok().stdout, "github\n");
    let screen = user.on_screen(120, &[&add[..], &["--trust-hints"]].concat(), "").ok().stdout;
    for told in ["TIER BECAUSE", "an admin set it", "the server says it only reads", "the server does not say what it does", "! new"] {
        assert!(screen.contains(told), "{told}: {screen}");
    }
}

#[test]
fn a_program_has_its_words_as_typed_and_its_secrets_by_name() {
    let (fake, user) = start();
    let variables = ["--env", "LOG_LEVEL=a=b", "--secret-env", "API_TOKEN=crm-token"];
    let add = [&["source", "add", "crm", "--mcp-stdio"][..], &variables, &["--", "/opt/crm", "-y", "--json", "--", "x y"]].concat();
    user.run(&add).ok();
    let expected = json!({
        "name": "crm", "command": ["/opt/crm", "-y", "--json", "--", "x y"], "trust_hints": false,
        "env": [{ "name": "LOG_LEVEL", "value": "a=b" }, { "name": "API_TOKEN", "secret": "crm-token" }],
    });
    assert_eq!(sent(&fake).2, expected);
    user.run(&["source", "add", "crm", "--mcp-stdio", "--package", "crm-server", "--env", "LEVEL=2"]).ok();
    let env = json!([{ "name": "LEVEL", "value": "2" }]);
    assert_eq!(sent(&fake).2, json!({ "name": "crm", "package": "crm-server", "trust_hints": false, "env": env }));
    for wrong in [
        &["source", "add", "crm"][..],
        &["source", "add", "crm", "--mcp-stdio"],
        &["source", "add", "crm", "--mcp", URL, "--mcp-stdio", "--", "/opt/crm"],
        &["source", "add", "crm", "--mcp", URL, "--", "/opt/crm"],
        &["source", "add", "crm", "--mcp", URL, "--env", "A=b"],
        &["source", "add", "crm", "--mcp-stdio", "--connection", "crm", "--", "/opt/crm"],
        &["source", "add", "crm", "--mcp-stdio", "--env", "A", "--", "/opt/crm"],
        &["source", "add", "crm", "--mcp-stdio", "--package", "crm-server", "--", "/opt/crm"],
        &["source", "add", "crm", "--mcp", URL, "--package", "crm-server"],
        &["source", "add", "crm", "--mcp", URL, "--default-tier", "R9"],
        &["source", "add", "crm", "--mcp", URL, "--list-timeout", "0"],
    ] {
        user.run(wrong).exits(2);
    }
    for (flag, range) in [("--list-timeout", "1..=120"), ("--call-timeout", "1..=30")] {
        let refused = user.run(&["source", "add", "crm", "--mcp", URL, flag, "121"]).exits(2);
        assert!(refused.stderr.contains(range), "{refused:?}");
    }
}

#[test]
fn whether_a_server_is_believed_is_asked_once_and_only_of_a_person() {
    let (fake, user) = start();
    let add = ["source", "add", "github", "--mcp", URL];
    let question = "Believe the read-only hints of `github`? [y/N] ";
    for (typed, more, is_asked, is_believed) in [
        ("", &["--trust-hints"][..], false, true),
        ("y\n", &[], true, true),
        ("n\n", &[], true, false),
        ("\n", &[], true, false),
        ("", &["--trust-hints=false"], false, false),
        ("y\n", &["--no-input"], false, false),
    ] {
        let screen = user.on_screen(80, &[&add[..], more].concat(), typed).ok().stdout;
        assert_eq!(screen.matches(question).count(), usize::from(is_asked), "{screen}");
        assert_eq!(screen.contains("such tools are R1"), is_asked, "{screen}");
        assert_eq!(sent(&fake).2["trust_hints"], is_believed, "{more:?}");
    }
    user.run_with_stdin(&add, "y\n").ok();
    assert_eq!(sent(&fake).2["trust_hints"], false);
    let count = fake.asked().len();
    let shown = user.on_screen(80, &[&add[..], &["--dry-run"]].concat(), "y\n").ok().stdout;
    assert!(shown.contains("POST /api/v1/sources") && !shown.contains(question), "{shown}");
    assert_eq!(fake.asked().len(), count);
}

#[test]
fn a_source_is_listed_shown_tried_and_listed_anew() {
    let (fake, user) = start();
    assert_eq!(user.run(&["source", "list", "-o", "name"]).ok().stdout, "github\n");
    let listed = user.run(&["source", "list"]).ok();
    assert!(listed.stdout.starts_with(&format!("github\thttp\tdrifted\t3\t{URL}\tspc_1\t{AT}\tuser:usr_1\t")), "{listed:?}");
    assert!(listed.stderr.contains("next: countersign source review github"), "{listed:?}");
    for arguments in [["source", "show", "github"], ["source", "refresh", "github"]] {
        let shown = user.run(&arguments).ok();
        for told in [
            "connection\tgithub-token\n",
            "read-only hints\tbelieved\n",
            "tiers set\tmerge=R4\n",
            "may take\t15000 ms to list, 30000 ms to call\n",
            "MCP\t2025-11-25\n",
            "added by\tuser:usr_1\n",
            "changed by\tuser:usr_2\n",
            "\ngithub.get_issue\tR1\tallow\tread_only_hint\tnone\n",
        ] {
            assert!(shown.stdout.contains(told), "{told}: {shown:?}");
        }
        assert_eq!(user.run(&[&arguments[..], &["--json"]].concat()).ok().json(), github());
    }
    assert_eq!(sent(&fake).1, "/api/v1/sources/github/refresh");
    let tried = user.run(&["source", "test", "github"]).ok();
    assert!(tried.stdout.contains("state\tok\n") && tried.stdout.contains("left out\t2\n"), "{tried:?}");
    let tried = user.run(&["source", "test", "dead"]).exits(1);
    assert!(tried.stdout.contains("source_unavailable: `dead` refused the connection"), "{tried:?}");
    assert!(tried.stderr.contains("next: countersign source show dead"), "{tried:?}");
    let refreshed = user.run(&["source", "refresh", "dead"]).exits(1);
    assert!(refreshed.stderr.contains(r"`dead` could not be listed: nobody\u{1b} answers"), "{refreshed:?}");
    assert!(refreshed.stderr.contains("countersign source test dead") && refreshed.stdout.contains("stale\tyes\n"), "{refreshed:?}");
    let unknown = user.run(&["source", "show", "gitub"]).exits(3);
    assert!(unknown.stderr.contains("`countersign source list`"), "{unknown:?}");
}

#[test]
fn only_what_is_named_is_changed_and_none_removes() {
    let (fake, user) = start();
    for (typed, expected) in [
        (&["--title", "GitHub"][..], json!({ "title": "GitHub" })),
        (&["--default-tier", "none"], json!({ "default_tier": null })),
        (&["--default-tier", "R1"], json!({ "default_tier": "R1" })),
        (&["--trust-hints"], json!({ "trust_hints": true })),
        (&["--trust-hints=false"], json!({ "trust_hints": false })),
        (&["--space", "main"], json!({ "spaces": ["main"] })),
        (&["--all-spaces"], json!({ "spaces": null })),
        (&["--connection", "other"], json!({ "connection": "other" })),
        (&["--connection", "none"], json!({ "connection": null })),
        (&["--tier", "merge=R4", "--tier", "look=none"], json!({ "tiers": { "merge": "R4", "look": null } })),
        (&["--list-timeout", "3", "--call-timeout", "7"], json!({ "list_timeout_ms": 3_000, "call_timeout_ms": 7_000 })),
    ] {
        user.run(&[&["source", "edit", "github"][..], typed].concat()).ok();
        assert_eq!(sent(&fake), ("PATCH".to_owned(), "/api/v1/sources/github".to_owned(), expected));
    }
    let nothing = user.run(&["source", "edit", "github"]).exits(2);
    assert!(nothing.stderr.contains("there is nothing to change"), "{nothing:?}");
    for flag in ["--env", "--secret-env"] {
        let refused = user.run(&["source", "edit", "github", flag, "A=b"]).exits(2);
        assert!(refused.stderr.contains("countersign source remove github"), "{refused:?}");
    }
    for wrong in [&["--space", "main", "--all-spaces"][..], &["--tier", "merge"], &["--tier", "merge=R7"], &["--trust-hints=perhaps"]] {
        user.run(&[&["source", "edit", "github"][..], wrong].concat()).exits(2);
    }
}

#[test]
fn what_changed_is_told_in_plain_words() {
    let (_fake, user) = start();
    for arguments in [&["source", "drift"][..], &["source", "drift", "github"]] {
        let screen = user.on_screen(120, arguments, "").ok().stdout;
        for told in [
            "github.merge  ! changed\n",
            "structural: `merge` now takes `bypass_checks`, optional boolean  /params_schema/properties/bypass_checks\n  + boolean\n",
            "github.fork  ! new, not reviewed\n",
            "suspicious: the definition has hidden characters  /description  safety.hidden_text\n",
            "github.close  ✗ gone\n",
            "next: countersign source review github\n",
        ] {
            assert!(screen.contains(told), "{told}: {screen}");
        }
        let rows = user.run(arguments).ok().stdout;
        assert_eq!(rows.lines().map(|row| row.split('\t').nth(1).unwrap()).collect::<Vec<_>>(), ["structural", "appeared", "gone"]);
        // Nothing of it is left out where no person reads it.
        for told in ["/params_schema/properties/bypass_checks + boolean", "safety.hidden_text /description: the definition has hidden"] {
            assert!(rows.contains(told), "{told}: {rows}");
        }
        assert_eq!(user.run(&[arguments, &["--json"]].concat()).ok().json(), drift());
    }
    let nothing = user.run(&["source", "drift", "dead"]).ok();
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("nothing changed since it was reviewed"), "{nothing:?}");
}

#[test]
fn what_was_shown_is_reviewed_and_nothing_else() {
    let (fake, user) = start();
    let question = "Mark 2 actions of `github` as reviewed? [y/N] ";
    let all = ["source", "review", "github"];
    let refused = user.on_screen(100, &all, "n\n").exits(1).stdout;
    assert!(refused.contains(question) && refused.contains("bypass_checks") && refused.contains("hidden characters"), "{refused}");
    user.run(&all).exits(2);
    assert!(fake.asked().iter().all(|(method, ..)| method == "GET"));
    user.on_screen(100, &all, "y\n").ok();
    let merge = json!({ "action": "github.merge", "textual": DIGEST });
    let expected = json!({ "actions": [merge, { "action": "github.fork", "textual": "ff" }], "ignore_wording": false });
    assert_eq!(sent(&fake), ("POST".to_owned(), "/api/v1/sources/github/review".to_owned(), expected));

    for named in ["merge", "github.merge"] {
        let one = user.run(&[&all[..], &["--action", named, "--ignore-wording", "--yes"]].concat()).ok();
        assert_eq!(sent(&fake).2, json!({ "actions": [merge], "ignore_wording": true }));
        assert!(one.stderr.contains("✓ reviewed `github.merge`"), "{one:?}");
    }
    let reviewed = user.run(&[&all[..], &["--yes", "--json"]].concat()).ok().json();
    assert_eq!(reviewed, json!({ "reviewed": ["github.merge", "github.fork"] }));
    assert_eq!(user.run(&[&all[..], &["--yes", "-o", "name"]].concat()).ok().stdout, "github.merge\ngithub.fork\n");
    for gone in ["get_issue", "close"] {
        let refused = user.run(&[&all[..], &["--action", gone, "--yes"]].concat()).exits(3);
        assert!(refused.stderr.contains("hint: countersign source drift github"), "{refused:?}");
    }
    let nothing = user.run(&["source", "review", "dead", "--yes"]).ok();
    assert!(nothing.stderr.contains("nothing in `dead` needs a review"), "{nothing:?}");
}

#[test]
fn a_source_is_paused_resumed_and_removed() {
    let (fake, user) = start();
    let pause = ["source", "pause", "github"];
    user.run(&pause).exits(2);
    let asked = user.on_screen(80, &pause, "n\n").exits(1).stdout;
    assert!(asked.contains("Stop every call of source `github` at once? [y/N] "), "{asked}");
    let paused = user.run(&[&pause[..], &["--yes", "--reason", "nonsense"]].concat()).ok();
    assert!(paused.stderr.contains("next: countersign source resume github"), "{paused:?}");
    let expected = json!({ "scope": "source:github", "stop": "everything", "reason": "nonsense" });
    assert_eq!(sent(&fake), ("POST".to_owned(), "/api/v1/kill-switches/on".to_owned(), expected));
    // A name that no source has would stop nothing.
    user.run(&["source", "pause", "gitub", "--yes"]).exits(3);
    // A second pause keeps the reason of the first one.
    let count = fake.asked().iter().filter(|(method, ..)| method == "POST").count();
    let again = user.run(&["source", "pause", "paused", "--yes", "--reason", "other"]).ok();
    assert!(again.stdout.contains("state\ton\n") && again.stdout.contains("reason\todd\n"), "{again:?}");
    assert_eq!(fake.asked().iter().filter(|(method, ..)| method == "POST").count(), count);
    let refused = user.run(&["source", "resume", "dead"]).exits(3);
    assert!(refused.stderr.contains("hint: it is not paused"), "{refused:?}");
    user.run(&["source", "resume", "github", "--reason", "mended"]).ok();
    let expected = json!({ "scope": "source:github", "reason": "mended" });
    assert_eq!(sent(&fake), ("POST".to_owned(), "/api/v1/kill-switches/off".to_owned(), expected));

    let remove = ["source", "remove", "github"];
    let asked = user.on_screen(80, &remove, "n\n").exits(1).stdout;
    assert!(asked.contains("Remove source `github`? Its actions are gone then; its receipts stay. [y/N] "), "{asked}");
    assert_eq!(user.run(&[&remove[..], &["--yes", "--json=id"]].concat()).ok().json(), json!({ "id": "github" }));
    assert_eq!(sent(&fake).0, "DELETE");
}

#[test]
fn a_session_is_connected_to_the_sources_that_are_named() {
    let (_fake, user) = start();
    let create = ["session", "create", "--title", "x", "--dry-run", "--json"];
    let body = |more: &[&str]| user.run(&[&create[..], more].concat()).ok().json()["would_send"]["body"].clone();
    assert_eq!(body(&["--source", "github", "--source", "files"])["sources"], json!(["github", "files"]));
    assert_eq!(body(&[]).get("sources"), None);
}
