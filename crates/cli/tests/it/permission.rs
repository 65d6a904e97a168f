//! Tests what is allowed and what stops a call: grants, kill switches, consents, quarantine, reviews, spaces and roles.

use crate::answers::colleague;
use crate::automations::applied_as;
use crate::countersign::{Server, User};
use crate::fake::Fake;
use serde_json::json;

#[test]
fn a_grant_is_asked_for_given_and_revoked() {
    let server = Server::start();
    let owner = server.owner();
    let created = owner.run(&["session", "create", "--json"]).ok().json();
    let (session, agent) = (created["id"].as_str().unwrap(), owner.with_token(created["token"].as_str().unwrap()));
    let asked = agent.run(&["grant", "request", "files.write_text", "--calls", "5", "--expires", "60d", "--reason", "five notes"]).exits(6);
    assert!(asked.stderr.contains("it allows nothing until a person approves it"), "{}", asked.stderr);
    let id = owner.run(&["grant", "list", "--state", "requested", "-o", "name"]).ok().stdout.trim().to_owned();
    assert_eq!(agent.run(&["grant", "approve", &id, "--yes"]).exits(5).stdout, "");
    let refused = owner.run(&["grant", "approve", &id]).exits(2);
    let told = format!("a grant for files.write_text to session:{session}, 5 calls, for 60 days\n");
    assert!(refused.stderr.contains(&told), "{}", refused.stderr);
    // The request ends sooner than the grant would.
    let lasts = || owner.run(&["grant", "show", &id]).ok().stdout.lines().find(|line| line.starts_with("lasts\t")).map(str::to_owned);
    assert_eq!(lasts().as_deref(), Some("lasts\t60 days from when it is given"));
    owner.run(&["grant", "approve", &id, "--yes"]).ok();
    assert_eq!(lasts().as_deref(), Some("lasts\t60 days"));
    agent.run(&["action", "invoke", "files.write_text", "path=a", "text=b"]).ok();
    let row = owner.run(&["grant", "list"]).ok().stdout;
    let cells: Vec<_> = row.trim().split('\t').collect();
    assert_eq!(cells[..5], [id.as_str(), "files.write_text", &format!("session:{session}"), "1 of 5", "active"]);
    assert!(cells[6].starts_with("user:usr_"), "{row}");
    owner.run(&["grant", "revoke", &id]).ok();
    agent.run(&["action", "invoke", "files.write_text", "path=b", "text=b", "--no-wait"]).exits(6);
    owner.run(&["grant", "revoke", &id]).exits(7);
    agent.run(&["grant", "request", "files.write_text"]).exits(6);
    let id = owner.run(&["grant", "list", "--state", "requested", "-o", "name"]).ok().stdout.trim().to_owned();
    assert_eq!(owner.run(&["grant", "refuse", &id, "--json=state"]).ok().json()["state"], "refused");
}

#[test]
fn a_grant_is_given_within_bounds() {
    let server = Server::start();
    let owner = server.owner();
    let condition = r#"{"properties":{"path":{"pattern":"^notes/"}}}"#;
    let given = ["grant", "give", "files.write_text", "--org", "--space", "main", "--expires", "2h", "--condition", condition, "--json"];
    let given = owner.run(&given).ok().json();
    assert_eq!((&given["state"], &given["scope"], &given["calls_max"]), (&json!("active"), &json!("org"), &json!(null)));
    assert_eq!(given["condition"]["properties"]["path"]["pattern"], "^notes/");
    owner.run(&["action", "invoke", "files.write_text", "path=notes/a", "text=b"]).ok();
    owner.run(&["action", "invoke", "files.write_text", "path=elsewhere", "text=b", "--no-wait"]).exits(6);
    let refused = owner.run(&["grant", "give", "files.*", "--org"]).exits(2);
    assert!(refused.stderr.contains("Give a grant for every action of `files.*`, also later ones?"), "{}", refused.stderr);
    assert_eq!(
        owner.run(&["grant", "give", "files.*", "--org", "--calls", "1", "--yes", "--json=covers"]).ok().json()["covers"],
        "files.*"
    );
    owner.run(&["grant", "give", "files.write_text"]).exits(2);
    owner.run(&["grant", "give", "files.write_text", "--org", "--session", "ses_1"]).exits(2);
    assert!(owner.run(&["grant", "give", "files.write_txt", "--org"]).exits(3).stderr.contains("did you mean `files.write_text`?"));
    assert!(owner.run(&["grant", "give", "files.*", "--org", "--condition", "[]"]).exits(2).stderr.contains("--condition"));
}

#[test]
fn a_grant_bounds_a_sum() {
    let server = Server::start();
    let owner = server.owner();
    let give = ["grant", "give", "files.write_text", "--org"];
    let given = owner.run(&[&give[..], &["--sum-max", "100", "--of", "/text", "--per", "24h", "--json"]].concat()).ok().json();
    assert_eq!(given["sum_max"], json!({ "of": "/text", "max": "100", "per_seconds": 86_400, "spent": "0" }));
    let write = |amount: &str| {
        let params = json!({ "path": "a", "text": amount }).to_string();
        owner.run(&["action", "invoke", "files.write_text", "--params", &params, "--no-wait"])
    };
    write("60.5").ok();
    write("39.51").exits(6);
    write("39.5").ok();
    let shown = owner.run(&["grant", "show", given["id"].as_str().unwrap()]).ok().stdout;
    assert!(shown.contains("100 of 100 of /text per 24h"), "{shown}");
    let session = owner.run(&["session", "create", "--title", "notes", "--json=id"]).ok().json();
    let usable = ["actions", "grants", "list", "--session", session["id"].as_str().unwrap()];
    for list in [&["grant", "list"][..], &usable] {
        let listed = owner.run(list).ok().stdout;
        assert!(listed.contains("\t2 of any\t") && listed.ends_with("\t100 of 100 of /text per 24h\n"), "{list:?}: {listed}");
        let narrow = owner.on_screen(80, list, "").ok().stdout;
        assert!(narrow.contains("100 of 100 of /text per 24h"), "{list:?}: {narrow}");
    }
    // The three flags are one bound.
    for lacking in [&["--sum-max", "100"][..], &["--of", "/text", "--per", "1h"], &["--sum-max", "100", "--of", "/text"]] {
        owner.run(&[&give[..], lacking].concat()).exits(2);
    }
    owner.run(&[&give[..], &["--sum-max", "1e3", "--of", "/text", "--per", "24h"]].concat()).exits(2);
    let nowhere = owner.run(&[&give[..], &["--sum-max", "100", "--of", "/nope", "--per", "24h"]].concat()).exits(8);
    assert!(nowhere.stderr.contains("`/sum_max/of`: `files.write_text` has no param there"), "{nowhere:?}");
    owner.run(&["approve", "inv_1", "--sum-max", "100", "--of", "/text", "--per", "24h"]).exits(2);
}

#[test]
fn a_space_observes_and_its_report_suggests_rules() {
    let server = Server::start();
    let owner = server.owner();
    let write =
        |more: &'static [&'static str]| owner.run(&[&["action", "invoke", "files.write_text", "path=a", "text=b"][..], more].concat());
    assert!(owner.run(&["observe", "report"]).ok().stderr.contains("space `main` does not observe"));
    assert!(!owner.run(&["space", "list"]).ok().stdout.contains("yes"));
    let refused = owner.run(&["observe", "on", "main"]).exits(2);
    assert!(refused.stderr.contains("run without asking anybody?"), "{}", refused.stderr);
    assert_eq!(owner.run(&["observe", "on", "main", "--yes", "--json=observes"]).ok().json()["observes"], true);
    assert!(owner.run(&["observe", "report"]).ok().stderr.contains("nobody would have been asked anything"));
    // Nobody forgets that a space asks nobody.
    assert!(owner.run(&["space", "list"]).ok().stdout.ends_with("\tyes\n"));
    assert!(owner.on_screen(60, &["space", "list"], "").ok().stdout.contains("observes  yes"));
    let status = owner.run(&["status"]).ok().stdout;
    assert!(status.contains("observes\tspace `main`: it asks nobody, but about R4\n"), "{status}");
    let doctor = owner.run(&["doctor", "--json"]).json();
    let found = doctor["items"].as_array().unwrap().iter().find(|item| item["subject"] == "space").unwrap();
    assert_eq!((&found["verdict"], &found["found"]), (&json!("look"), &json!("`main` observes: it asks nobody, but about R4")));
    write(&[]).ok();
    let rare = owner.run(&["observe", "report"]).ok().stderr;
    assert!(rare.contains("1 question, and nothing to suggest: ") && !rare.contains("with what is suggested"), "{rare}");
    for _ in 0..2 {
        write(&[]).ok();
    }
    let report = owner.run(&["observe", "report", "--space", "main", "--since", "1h"]).ok();
    assert!(report.stdout.starts_with("files.write_text\tR2\t3\tmode\tses_"), "{}", report.stdout);
    assert!(report.stderr.contains("3 questions, and 0 with what is suggested:"), "{}", report.stderr);
    assert!(report.stderr.contains("countersign mode set files.write_text allow"), "{}", report.stderr);
    assert_eq!(owner.run(&["observe", "report", "--json"]).ok().json()["asked"], 3);
    owner.run(&["observe", "off", "main"]).ok();
    assert!(!owner.run(&["status"]).ok().stdout.contains("observes"));
    write(&["--no-wait"]).exits(6);
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_kill_switch_stops_what_it_covers_and_everybody_sees_it() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["kill-switch", "on", "org", "--reason", "keys leaked"]).exits(2);
    owner.run(&["kill-switch", "on", "org", "--reason", "keys leaked", "--yes"]).ok();
    let denied = owner.run(&["action", "invoke", "files.list"]).exits(5);
    for told in ["a kill switch on `org` is on (“keys leaked”)", "hint: an admin ends it with `countersign kill-switch off org`"] {
        assert!(denied.stderr.contains(told), "{told}: {denied:?}");
    }
    let status = owner.run(&["status"]).ok().stdout;
    assert!(status.contains("kill switch\ton: org (“keys leaked”)"), "{status}");
    assert!(owner.run(&["inbox"]).ok().stderr.contains("■ kill switch on: org (“keys leaked”)"));
    assert!(owner.run(&["kill-switch", "list"]).ok().stdout.starts_with("org\teverything\tkeys leaked\tuser:usr_"));
    owner.run(&["kill-switch", "off", "org", "--reason", "rotated", "--yes"]).ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["kill-switch", "off", "org", "--reason", "again"]).exits(3);

    // A space is given by name, and only existing things can be stopped.
    owner.run(&["space", "create", "lab"]).ok();
    let on = owner.run(&["kill-switch", "on", "space:lab", "--reason", "r", "--except-dry-runs", "--yes", "--json"]).ok().json();
    assert!(on["scope"].as_str().unwrap().starts_with("space:spc_"), "{on}");
    assert!(owner.run(&["kill-switch", "list"]).ok().stdout.contains("\tall but dry runs\t"));
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["kill-switch", "on", "space:lab", "--reason", "r", "--as-dry-run", "--yes"]).ok();
    assert!(owner.run(&["kill-switch", "list"]).ok().stdout.contains("\teffects, answers with dry runs\t"));
    assert!(owner.run(&["status"]).ok().stdout.contains(", as dry runs (“r”)"));
    owner.run(&["kill-switch", "on", "space:lab", "--reason", "r", "--as-dry-run", "--except-dry-runs", "--yes"]).exits(2);
    owner.run(&["kill-switch", "off", "space:lab", "--reason", "r"]).ok();
    owner.run(&["kill-switch", "on", "everything", "--reason", "r", "--yes"]).exits(2);
    owner.run(&["kill-switch", "on", "space:nowhere", "--reason", "r", "--yes"]).exits(3);
    let unknown = owner.run(&["kill-switch", "on", "action:files.lst", "--reason", "r", "--yes"]).exits(3);
    assert!(unknown.stderr.contains("did you mean `files.list`?"), "{}", unknown.stderr);
}

#[test]
fn a_kill_switch_says_how_many_calls_wait_with_their_clock_stopped() {
    for (clocks, told) in [
        (0, "no calls are pending there"),
        (1, "the deadline of 1 pending call is stopped"),
        (2, "the deadline of 2 pending calls is stopped"),
    ] {
        let fake = Fake::start(move |_, _| (200, json!({ "scope": "org", "on": true, "clocks": clocks }).to_string()));
        let user = User::new(&std::env::temp_dir(), &fake.url, Some("token"));
        let drawn = user.run(&["kill-switch", "on", "org", "--reason", "r", "--yes", "-o", "table"]).ok().stdout;
        assert!(drawn.contains(told), "{drawn}");
        assert!(user.run(&["kill-switch", "on", "org", "--reason", "r", "--yes"]).ok().stdout.contains(&format!("waiting\t{clocks}\n")));
    }
}

#[test]
fn a_consent_is_given_and_withdrawn() {
    let server = Server::start();
    let owner = server.owner();
    let given = owner.run(&["consent", "give", "files.write_text", "--expires", "30d", "--evidence", "said so", "--json"]).ok().json();
    assert_eq!(
        (&given["purpose"], &given["state"], &given["evidence"]),
        (&json!("action:files.write_text"), &json!("live"), &json!("said so"))
    );
    // A consent for a purpose that no action and no policy names would have no effect, so it is refused.
    let unknown = owner.run(&["consent", "give", "purpose:newsletter"]).exits(8);
    assert!(unknown.stderr.contains("no action and no policy names the purpose `purpose:newsletter`"), "{unknown:?}");
    assert!(owner.run(&["consent", "give", "files.writ_text"]).exits(8).stderr.contains("`action:ID`"));
    let policy = "consent = '''@id(\"consent.news\") forbid (principal, action, resource)\n\
                  when { context.tier > 3 && !context.consents.contains(\"purpose:newsletter\") };'''";
    std::fs::write(owner.folder().join("policies.toml"), policy).unwrap();
    owner.run(&["policy", "set", "policies.toml", "--yes"]).ok();
    let other = owner.run(&["consent", "give", "purpose:newsletter", "--space", "main", "--json"]).ok().json();
    assert_eq!(other["purpose"], "purpose:newsletter");
    assert!(other["space_id"].as_str().unwrap().starts_with("spc_"));
    let id = given["id"].as_str().unwrap();
    assert!(owner.run(&["consent", "list"]).ok().stdout.contains(&format!("{id}\taction:files.write_text\tlive\t")));
    assert_eq!(owner.run(&["consent", "withdraw", id, "--json=state"]).ok().json()["state"], "withdrawn");
    owner.run(&["consent", "withdraw", id]).exits(3);
}

#[test]
fn what_is_quarantined_is_looked_at_released_or_discarded() {
    let server = Server::start_with(&[("COUNTERSIGN_HTTP_ALLOWED_HOSTS", "https://example.com")]);
    let owner = server.owner();
    let robin = colleague(&owner, "robin");
    let secret = "body=my key is AKIAQYLPMN5HHHFPZAM2";
    let call = ["action", "invoke", "http.request", "method=POST", "url=https://example.com/x", secret, "--no-wait"];
    for _ in 0..2 {
        owner.run(&call).exits(5);
    }
    let held = owner.run(&["quarantine", "list", "--state", "held", "-o", "name"]).ok().stdout;
    let (released, discarded) = held.trim().split_once('\n').unwrap();
    let shown = owner.run(&["quarantine", "show", released]).ok().stdout;
    assert!(shown.contains("caught\tsafety.secret_egress at /body: "), "{shown}");
    assert!(!shown.contains("AKIA"), "{shown}");
    assert!(owner.run(&["show", released]).ok().stderr.contains(&format!("next: countersign quarantine show {released}")));

    // Its content is shown to who may settle it, and only when they ask. Where duties are separate, that is somebody else.
    owner.run(&["space", "set", "main", "--self-approval", "refused"]).ok();
    assert!(!owner.run(&["quarantine", "show", released, "--payload"]).exits(5).stdout.contains("AKIA"));
    assert!(robin.run(&["quarantine", "show", released, "--payload"]).ok().stdout.contains("AKIA"));
    let looked = robin.run(&["quarantine", "show", released, "--payload", "-o", "json"]).ok().json();
    assert_eq!(looked["payload"]["body"], secret.trim_start_matches("body="));
    let refused = robin.run(&["quarantine", "release", released, "--reason", "a test of ours"]).exits(2);
    assert!(refused.stderr.contains("▣ caught: safety.secret_egress"), "{}", refused.stderr);
    let new = robin.run(&["quarantine", "release", released, "--reason", "a test of ours", "--yes"]).exits(6).stdout;
    assert_eq!(owner.run(&["quarantine", "show", released, "--json=released_as"]).ok().json()["released_as"], new.trim());
    assert!(owner.run(&["show", new.trim()]).ok().stdout.contains(&format!("Released from     {released}")));

    // The call that was released is a call like any other.
    for more in [&["show", new.trim()][..], &["show", new.trim(), "--payload"], &["release", new.trim(), "--reason", "no", "--yes"]] {
        let told = robin.run(&[vec!["quarantine"], more.to_vec()].concat()).exits(3).stderr;
        assert!(told.contains(&format!("invocation `{}` is not quarantined", new.trim())), "{told}");
        assert!(told.contains("countersign quarantine list"), "{told}");
    }

    robin.run(&["quarantine", "discard", discarded, "--reason", "no"]).exits(2);
    robin.run(&["quarantine", "discard", discarded, "--reason", "no", "--yes"]).ok();
    robin.run(&["quarantine", "discard", discarded, "--reason", "no", "--yes"]).exits(7);
    assert_eq!(owner.run(&["quarantine", "list", "--state", "held", "-o", "name"]).ok().stdout, "");
}

#[test]
fn a_definition_is_looked_at_and_stood_for() {
    let server = Server::start();
    let owner = server.owner();
    let looked_at = owner.run(&["action", "review", "files.write_text"]).exits(2);
    for row in ["reviewed by\t\n", "title\tWrite a text file\n", "definition\t", "with wording\t"] {
        assert!(looked_at.stdout.contains(row), "{}", looked_at.stdout);
    }
    assert_eq!(owner.run(&["action", "reviews"]).ok().stdout, "");
    owner.run(&["action", "review", "files.write_text", "--ignore-wording", "--yes"]).ok();
    let row = owner.run(&["action", "reviews"]).ok().stdout;
    assert!(row.starts_with("files.write_text\tnone\t\tignored\tuser:usr_"), "{row}");
    assert!(owner.run(&["action", "list"]).ok().stdout.lines().all(|line| line.ends_with("\tnone")));
    assert!(owner.run(&["action", "review", "files.write_txt"]).exits(3).stderr.contains("did you mean `files.write_text`?"));
}

#[test]
fn a_drift_is_marked_and_told_with_what_was_and_what_is() {
    let change =
        json!({ "pointer": "/description", "summary": "description changed", "weight": "textual", "before": "reads", "after": "sends" });
    let review = json!({
        "action": "files.list", "drift": "textual", "reviewed_by": "user:usr_1", "reviewed_at": "2026-11-15T00:00:00Z", "ignores_wording": false,
        "structural": "aa", "textual": "bb", "drifted_at": null, "changes": [change],
    });
    let fake = Fake::start(move |_, path| match path {
        path if path.starts_with("/api/v1/reviews?") => (200, json!({ "items": [review], "next": null }).to_string()),
        path if path.starts_with("/api/v1/reviews/") => (200, review.to_string()),
        _ => (404, json!({}).to_string()),
    });
    let user = User::new(&std::env::temp_dir(), &fake.url, Some("token"));
    let shown = user.run(&["action", "review", "files.list", "--yes"]).ok().stdout;
    assert!(shown.contains("drift\ttextual\n"), "{shown}");
    assert!(shown.ends_with("\ntextual: description changed  /description\n  - reads\n  + sends\n"), "{shown}");
    let (method, _, body) = fake.asked().pop().unwrap();
    assert_eq!((method.as_str(), body), ("POST", json!({ "textual": "bb", "ignore_wording": false })));
    let listed = user.run(&["action", "reviews"]).ok();
    assert!(listed.stdout.starts_with("files.list\ttextual\tdescription changed\t"), "{}", listed.stdout);
    assert!(listed.stderr.contains("next: countersign action review files.list"), "{}", listed.stderr);
}

#[test]
fn a_space_says_how_many_must_agree_what_is_taken_out_and_what_may_cross() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["space", "create", "lab"]).ok();
    assert_eq!(owner.run(&["space", "quorum", "lab", "R3=2", "r4=3", "--json=quorum"]).ok().json()["quorum"], json!({ "R3": 2, "R4": 3 }));
    let redaction = owner.run(&["space", "redact", "lab", "email", "phone", "--region", "us", "--json=redaction"]).ok().json();
    assert_eq!(redaction["redaction"], json!({ "kinds": ["email", "phone"], "regions": ["US"] }));
    owner.run(&["space", "allow-crossing", "files.write_text", "--from", "lab", "--to", "main"]).ok();
    assert!(owner.run(&["space", "crossings"]).ok().stdout.starts_with("files.write_text\tspc_"));
    let shown = owner.run(&["space", "show", "lab"]).ok().stdout;
    for row in
        ["quorum\tR3: 2 people, R4: 3 people\n", "redacts\temail, phone (numbers of US)\n", "crossing\tfiles.write_text may act in main\n"]
    {
        assert!(shown.contains(row), "{shown}");
    }
    assert!(owner.run(&["space", "show", "main"]).ok().stdout.contains("crossing\tfiles.write_text may act here from lab\n"));
    owner.run(&["space", "forbid-crossing", "files.write_text", "--from", "lab", "--to", "main"]).ok();
    owner.run(&["space", "forbid-crossing", "files.write_text", "--from", "lab", "--to", "main"]).exits(3);
    // A tier that is not named stays as it is, and one that takes one person again has no row.
    assert!(owner.run(&["space", "quorum", "lab", "R2=2"]).ok().stdout.contains("quorum\tR2: 2 people, R3: 2 people, R4: 3 people\n"));
    assert!(owner.run(&["space", "quorum", "lab", "R3=1"]).ok().stdout.contains("quorum\tR2: 2 people, R4: 3 people\n"));
    owner.run(&["space", "quorum", "lab", "--none"]).ok();
    owner.run(&["space", "band", "lab", "amber"]).ok();
    assert!(owner.run(&["space", "redact", "lab", "--by-band"]).ok().stdout.contains("redacts\temail, phone, face, by its band\n"));
    owner.run(&["space", "redact", "lab", "--by-band", "--none"]).exits(2);
    owner.run(&["space", "redact", "lab", "--none"]).ok();
    let shown = owner.run(&["space", "show", "lab"]).ok().stdout;
    assert!(shown.contains("quorum\tone person\n") && shown.contains("redacts\tnothing\n") && !shown.contains("crossing"), "{shown}");
    for wrong in [&["space", "quorum", "lab"][..], &["space", "quorum", "lab", "R9=2"], &["space", "quorum", "lab", "R3=0"]] {
        owner.run(wrong).exits(2);
    }
    let defaults =
        |words: &[&str]| owner.run(&[&["space", "defaults", "lab", "--json=defaults"][..], words].concat()).ok().json()["defaults"].clone();
    assert_eq!(defaults(&["team=ops", "limit:=20"]), json!({ "limit": 20, "team": "ops" }));
    assert_eq!(defaults(&["team=sre", "--remove", "limit"]), json!({ "team": "sre" }));
    assert!(owner.run(&["space", "show", "lab"]).ok().stdout.contains("defaults\tteam: \"sre\"\n"));
    assert_eq!(defaults(&["--none"]), json!({}));
    owner.run(&["space", "defaults", "lab"]).exits(2);
    owner.run(&["space", "redact", "lab"]).exits(2);
    owner.run(&["space", "redact", "lab", "phone", "--region", "XX"]).exits(8);
}

#[test]
fn an_automation_has_modes_of_its_own_and_its_sessions_follow_them() {
    let server = Server::start();
    let owner = server.owner();
    let (nightly, weekly) = (applied_as(&server, &owner, "Nightly"), applied_as(&server, &owner, "Weekly"));
    let (automation, other) = (nightly.as_str(), weekly.as_str());
    let call = ["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"];
    let agent_of = |automation: &str| {
        let created = owner.run(&["session", "create", "--automation", automation, "--json"]).ok().json();
        assert_eq!(created["session"]["automation_id"], automation);
        let shown = owner.run(&["session", "show", created["id"].as_str().unwrap()]).ok().stdout;
        assert!(shown.contains(&format!("automation\t{automation}\n")), "{shown}");
        owner.with_token(created["token"].as_str().unwrap())
    };
    let (agent, others) = (agent_of(automation), agent_of(other));
    owner.run(&["mode", "set", "files.list", "deny"]).ok();
    let set = owner.run(&["mode", "set", "files.write_text", "allow", "--automation", automation]).ok().stdout;
    assert!(set.contains(&format!("automation\t{automation}\n")) && set.contains("mode\tallow\n"), "{set}");
    agent.run(&call).ok();
    others.run(&call).exits(6);
    owner.run(&call).exits(6);
    assert_eq!(owner.run(&["mode", "list"]).ok().stdout.lines().count(), 2);
    let own = owner.run(&["mode", "list", "--automation", automation]).ok().stdout;
    assert!(own.starts_with(&format!("files.write_text\tallow\topen\tautomation:{automation}\t")) && own.lines().count() == 1, "{own}");
    assert_eq!(owner.run(&["mode", "list", "--automation", "Nightly"]).ok().stdout, own);
    assert_eq!(owner.run(&["mode", "list", "--automation", other]).ok().stdout, "");
    let unset = owner.run(&["mode", "unset", "files.write_text", "--automation", automation]).ok().stdout;
    assert!(unset.contains("mode\tunset\n"), "{unset}");
    agent.run(&["action", "invoke", "files.write_text", "path=b", "text=b", "--no-wait"]).exits(6);
    owner.run(&["mode", "set", "files.list", "allow", "--automation", automation, "--locked"]).exits(2);
    owner.run(&["mode", "list", "--automation", "nightly"]).exits(3);
    for absent in ["nightly", "aut_01k9z6m4x0abcdefghjkmnpqrs"] {
        owner.run(&["mode", "set", "files.list", "allow", "--automation", absent]).exits(3);
        owner.run(&["session", "create", "--automation", absent]).exits(3);
        owner.run(&["grant", "give", "files.write_text", "--automation", absent]).exits(3);
    }
    let typo = owner.run(&["mode", "set", "files.lst", "deny", "--automation", automation]).exits(3);
    assert!(typo.stderr.contains("did you mean `files.list`?"), "{}", typo.stderr);
}

#[test]
fn a_canary_is_laid_out_listed_and_taken_away() {
    let server = Server::start_with(&[("COUNTERSIGN_HTTP_ALLOWED_HOSTS", "https://example.com")]);
    let owner = server.owner();
    let canary = "invoice 7731 of Quillfeather";
    let created = owner.run(&["canary", "create", canary, "--json"]).ok().json();
    let id = created["id"].as_str().unwrap();
    assert_eq!(created["text"], canary);
    let piped = owner.run_with_stdin(&["canary", "create", "-", "--json"], "from a pipe\n").ok().json();
    assert_eq!(piped["text"], "from a pipe");
    assert_eq!(owner.run(&["canary", "list", "-o", "name"]).ok().stdout.lines().count(), 2);
    assert!(owner.run(&["canary", "list"]).ok().stdout.contains(&format!("{id}\t{canary}\tuser:usr_")));
    let body = format!("body=about {canary}");
    let call = ["action", "invoke", "http.request", "method=POST", "url=https://example.com/x", &body, "--no-wait"];
    owner.run(&call).exits(5);
    let shown = owner.run(&["quarantine", "show", owner.run(&["quarantine", "list", "-o", "name"]).ok().stdout.trim()]).ok().stdout;
    assert!(shown.contains("caught\tsafety.canary_egress at /body: ") && !shown.contains(canary), "{shown}");
    owner.run(&["canary", "remove", id]).exits(2);
    assert_eq!(owner.run(&["canary", "remove", id, "--yes", "--json"]).ok().json(), json!({ "id": id, "removed": true }));
    owner.run(&["canary", "remove", id, "--yes"]).exits(3);
    owner.run(&call).exits(6);
    owner.run(&["canary", "create", "short"]).exits(8);
    owner.run(&["canary", "create", &"x".repeat(201)]).exits(8);
    // Only people who need to know may list the canary tokens.
    let mia = owner.run(&["user", "create", "mia", "--json"]).ok().json();
    owner.invited(&mia["invitation"]).run(&["canary", "list"]).exits(5);
}

#[test]
fn a_persons_role_is_changed_by_name() {
    let server = Server::start();
    let owner = server.owner();
    let robin = colleague(&owner, "robin");
    robin.run(&["user", "role", "owner", "member", "--yes"]).exits(5);
    let own = robin.run(&["user", "role", "robin", "member", "--yes"]).exits(5);
    assert!(own.stderr.contains("you cannot change your own role"), "{}", own.stderr);
    owner.run(&["user", "role", "robin", "member"]).exits(2);
    assert_eq!(owner.run(&["user", "role", "robin", "member", "--yes", "--json=role"]).ok().json()["role"], "member");
    robin.run(&["mode", "set", "files.list", "deny"]).exits(5);
    owner.run(&["user", "role", "robin", "king"]).exits(2);
    owner.run(&["user", "role", "nobody", "admin", "--yes"]).exits(3);
}

#[tokio::test]
async fn explaining_counts_no_error_of_a_policy_and_a_call_does() {
    server::init_process();
    let server = Server::start();
    let owner = server.owner();
    let errs = r#"@id("errs") forbid (principal, action, resource) when { context.tier + 9223372036854775807 > 0 };"#;
    std::fs::write(owner.folder().join("policies.json"), json!({ "abac": errs }).to_string()).unwrap();
    owner.run(&["policy", "set", "policies.json", "--yes"]).ok();
    let session = owner.run(&["session", "create", "-o", "name"]).ok().stdout;
    let counted = async || {
        let text = reqwest::get(format!("{}/metrics", server.url)).await.unwrap().text().await.unwrap();
        ["countersign_policy_errors_total{gate=\"abac\"} 1", "countersign_stage_seconds_count{stage=\"gate\"} 1"]
            .map(|line| text.contains(line))
    };
    assert!(owner.run(&["explain", "files.write_text", "--as", session.trim()]).ok().stdout.starts_with("⊘ would be denied: "));
    assert_eq!(counted().await, [false, false]);
    owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"]).exits(5);
    assert_eq!(counted().await, [true, true]);
}

#[test]
fn a_person_is_limited_by_name() {
    let server = Server::start();
    let owner = server.owner();
    let robin = colleague(&owner, "robin");
    robin.run(&["user", "limit", "robin", "black"]).exits(5);
    assert_eq!(owner.run(&["user", "limit", "robin", "amber", "--json=max_band"]).ok().json()["max_band"], "amber");
    assert!(owner.run(&["user", "list"]).ok().stdout.contains("\trobin\tadmin\tamber\t"));
    owner.run(&["user", "limit", "nobody", "amber"]).exits(3);
}

#[test]
fn people_are_named_for_people_and_told_by_id_to_programs() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let drawn = owner.run(&["mode", "list", "-o", "table"]).ok().stdout;
    assert!(drawn.contains(" owner "), "{drawn}");
    assert!(owner.run(&["mode", "list"]).ok().stdout.contains("\tuser:usr_"));
}

#[test]
fn nobody_is_asked_about_a_path_or_a_host_that_can_never_be_reached() {
    let server = Server::start();
    let owner = server.owner();
    let calls: [(&[&str], &str); 3] = [
        (&["files.write_text", "path=../evil.txt", "text=x"], "path_outside_workspace"),
        (&["files.delete", "path=/etc/hostname"], "path_outside_workspace"),
        (&["http.request", "url=https://nowhere.example/", "method=POST"], "host_not_allowed"),
    ];
    for (call, code) in calls {
        let refused = owner.run(&[&["action", "invoke", "--json"], call].concat()).exits(5).error();
        assert_eq!((&refused["code"], &refused["error"]), (&json!(code), &json!(code)), "{call:?}: {refused:#}");
    }
    assert_eq!(owner.run(&["inbox", "-o", "name"]).ok().stdout, "");
}
