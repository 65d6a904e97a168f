//! Tests `automation`, `trigger`, `firing` and `run` against a real server: from a file to a run that has ended.

use crate::countersign::{Server, User};
use crate::prompts::with_editor;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

fn tidy() -> Value {
    json!({
        "schema_version": "1.0",
        "name": "Tidy",
        "inputs": { "schema": { "type": "object", "additionalProperties": false,
            "properties": { "text": { "type": "string", "default": "hello" } } } },
        "triggers": [
            { "trigger_id": "hook", "type": "webhook" },
            { "trigger_id": "daily", "type": "schedule", "config": { "cron": "0 9 * * 1-5", "timezone": "Africa/Kigali" } },
        ],
        "plan": [
            { "step_id": "look", "action": "files.list" },
            { "step_id": "note", "action": "files.write_text", "config": { "path": "note.txt", "text": "{{ inputs.text }}" } },
        ],
    })
}

/// Writes a definition to a file of the server's folder, and returns its path.
fn written(server: &Server, name: &str, text: &str) -> String {
    let file = server.data().join(name);
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Saves `tidy`, and returns the id of the automation.
fn applied(server: &Server, owner: &User) -> String {
    applied_as(server, owner, "Tidy")
}

/// The same under another name.
pub(crate) fn applied_as(server: &Server, owner: &User, name: &str) -> String {
    let mut definition = tidy();
    definition["name"] = json!(name);
    let file = written(server, "applied.json", &definition.to_string());
    let saved = owner.run(&["automation", "apply", "-f", &file, "--json"]).ok().json();
    saved["automation"]["id"].as_str().unwrap().to_owned()
}

/// The call that a run waits for, once it does.
fn waiting(owner: &User, run: &str) -> String {
    let began = std::time::Instant::now();
    loop {
        let shown = owner.run(&["run", "show", run, "--json"]).ok().json();
        if shown["status"] == "waiting" {
            return shown["invocation_id"].as_str().unwrap().to_owned();
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{shown:#}");
    }
}

#[test]
fn a_file_becomes_an_automation_and_the_next_one_a_version() {
    let server = Server::start();
    let owner = server.owner();
    let empty = owner.run(&["automation", "list"]).ok();
    assert!(empty.stderr.contains("no automations: countersign automation apply"), "{empty:?}");
    let file = written(&server, "tidy.json", &tidy().to_string());
    let checked = owner.run(&["automation", "validate", "-f", &file]).ok();
    assert!(checked.stderr.contains("✓ the definition has no mistakes"), "{checked:?}");
    let planned = owner.run(&["automation", "dry-run", "-f", &file]).ok();
    assert!(planned.stdout.contains("require_approval") && planned.stdout.contains("allow"), "{planned:?}");
    assert!(planned.stdout.contains(r#"{"path":"note.txt","text":"hello"}"#), "{planned:?}");
    let fires = planned.stderr.split_once("daily fires at 09:00 on weekdays (Africa/Kigali): ").unwrap().1.lines().next().unwrap();
    assert!(fires.split(", ").all(|at| at.ends_with(" 09:00")), "{fires}");
    let mut handled = tidy();
    handled["execution"] = json!({ "on_failure": [{ "step_id": "mend", "action": "files.list" }] });
    let handled = written(&server, "handled.json", &handled.to_string());
    let drawn = owner.on_screen(160, &["automation", "dry-run", "-f", &handled], "").ok();
    assert!(drawn.stdout.contains("mend (on_failure)") && !drawn.stdout.contains("note (on_failure)"), "{drawn:?}");
    let saved = owner.run(&["automation", "apply", "-f", &file]).ok();
    assert!(saved.stdout.contains("cs_hook_") && saved.stderr.contains("the token is shown now and never again"), "{saved:?}");
    assert!(saved.stderr.contains("version 1 is in force"), "{saved:?}");
    // The same file changes nothing, and another one of the same name is a new version. YAML is as good as JSON.
    let same = owner.run(&["automation", "apply", "-f", &file]).ok();
    assert!(same.stderr.contains("version 1 stays in force") && !same.stdout.contains("cs_hook_"), "{same:?}");
    let yaml = "schema_version: '1.0'\nname: Tidy\ngoal: To be tidy\nplan:\n  - step_id: look\n    action: files.list\n";
    let yaml = written(&server, "tidy.yaml", yaml);
    let differs = owner.run(&["automation", "diff", "-f", &yaml]).ok();
    assert!(differs.stdout.contains("/goal"), "{differs:?}");
    // In another space the same name is another automation.
    owner.run(&["space", "create", "lab"]).ok();
    owner.run(&["automation", "diff", "-f", &yaml, "--space", "lab"]).exits(3);
    let in_lab = owner.run(&["automation", "apply", "-f", &yaml, "--space", "lab", "--json"]).ok().json();
    assert_eq!(owner.run(&["automation", "diff", "-f", &yaml, "--space", "lab", "--json"]).ok().json()["changes"], json!([]));
    owner.run(&["automation", "archive", in_lab["automation"]["id"].as_str().unwrap(), "--yes"]).ok();
    let second = owner.run(&["automation", "apply", "-f", &yaml, "--json"]).ok().json();
    assert_eq!((&second["automation"]["version"], &second["is_new_version"]), (&json!(2), &json!(true)));
    let (id, digest) = (second["automation"]["id"].as_str().unwrap(), second["automation"]["digest"].as_str().unwrap());
    owner.run(&["automation", "apply", "-f", &file, "--automation", id, "--if-match", &"0".repeat(64)]).exits(7);
    owner.run(&["automation", "apply", "-f", &file, "--automation", id, "--if-match", digest]).ok();
    let history = owner.run(&["automation", "history", "Tidy", "--json"]).ok().json();
    assert_eq!(history["items"].as_array().unwrap().len(), 3);
    let exported = owner.run(&["automation", "export", "Tidy", "--version-number", "2"]).ok().json();
    assert_eq!(exported["goal"], "To be tidy");
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&exported), ["schema_version", "name", "goal", "inputs", "triggers", "plan", "execution", "metadata"]);
    assert_eq!(members(&exported["plan"][0]), ["step_id", "action", "config", "on_interrupted"]);
    let named: Vec<_> = owner.run(&["automation", "list", "-o", "name"]).ok().stdout.lines().map(str::to_owned).collect();
    assert_eq!(named, [id]);
    let shown = owner.run(&["automation", "show", "Tidy"]).ok();
    assert!(shown.stdout.contains("daily: schedule, at 09:00 on weekdays"), "{shown:?}");
}

#[test]
fn every_mistake_is_a_line() {
    let server = Server::start();
    let owner = server.owner();
    let mut wrong = tidy();
    wrong["plan"][0]["action"] = json!("files.lst");
    wrong["triggers"][1]["config"]["cron"] = json!("61 9 * * *");
    let file = written(&server, "wrong.json", &wrong.to_string());
    for command in [["automation", "validate"], ["automation", "apply"], ["automation", "import"]] {
        let refused = owner.run(&[command[0], command[1], "-f", &file]).exits(8);
        assert!(refused.stderr.contains("/plan/0/action action_unknown: ") && refused.stderr.contains("files.list"), "{refused:?}");
        assert!(refused.stderr.contains("/triggers/1/config/cron cron_invalid: "), "{refused:?}");
    }
    let refused = owner.run(&["automation", "validate", "-f", &file, "--json"]).exits(8).error();
    assert_eq!(refused["code"], "definition_invalid");
    assert!(refused["mistakes"].as_array().unwrap().len() >= 2, "{refused:#}");
    assert_eq!(owner.run(&["automation", "list", "--json"]).ok().json()["items"], json!([]));
}

#[test]
fn a_run_is_followed_to_its_end_and_run_again() {
    let server = Server::start();
    let owner = server.owner();
    let id = applied(&server, &owner);
    owner.run(&["mode", "set", "files.write_text", "allow", "--automation", &id]).ok();
    let followed = owner.run(&["automation", "run", "Tidy", "text=good morning", "--follow"]).ok();
    assert!(followed.stderr.contains("✓ look files.list") && followed.stderr.contains("✓ note files.write_text"), "{followed:?}");
    assert_eq!(std::fs::read_to_string(server.workspace().join("note.txt")).unwrap(), "good morning");
    let run = owner.run(&["run", "list", "--automation", "Tidy", "-o", "name"]).ok().stdout.trim().to_owned();
    let shown = owner.run(&["run", "show", &run, "--json"]).ok().json();
    assert_eq!((&shown["status"], shown["steps"].as_array().unwrap().len()), (&json!("succeeded"), 2));
    for wrong in [["automation", "run", "Tidy", "txet=x"], ["automation", "dry-run", "Tidy", "--input=txet=x"]] {
        let wrong = owner.run(&wrong).exits(8);
        assert!(wrong.stderr.contains("/txet inputs_invalid: the automation takes no `txet`; did you mean `text`?"), "{wrong:?}");
    }
    let wrong = owner.run(&["automation", "run", "Tidy", "txet=x"]).exits(8);
    assert!(wrong.stderr.contains(&format!("countersign automation export {id}")), "{wrong:?}");
    // What a run came to stands for what the next one will come to.
    let planned = owner.run(&["automation", "dry-run", "Tidy"]).ok();
    assert!(planned.stdout.contains(r#""text":"good morning""#) && planned.stderr.contains(&run), "{planned:?}");
    for given in [["--input", "text=other"], ["--inputs", r#"{"text":"other"}"#]] {
        let planned = owner.run(&[&["automation", "dry-run", "Tidy", "--run", run.as_str()][..], &given].concat()).ok();
        assert!(planned.stdout.contains(r#""text":"other""#), "{planned:?}");
    }
    // The same key starts one run.
    let keyed = ["automation", "run", &id, "text=k", "--idempotency-key", "k1", "--json"];
    let first = owner.run(&keyed).ok().json();
    assert_eq!(owner.run(&keyed).ok().json()["run_id"], first["run_id"]);
    owner.run(&["run", "watch", first["run_id"].as_str().unwrap()]).ok();
    let rerun = owner.run(&["run", "rerun", &run, "--from", "note", "--follow"]).ok();
    assert!(rerun.stdout.contains("trigger\tmanual (rerun)\n") && rerun.stdout.contains(&format!("rerun of\t{run}\n")), "{rerun:?}");
    let listed = owner.run(&["run", "list", "--automation", "Tidy"]).ok().stdout;
    assert_eq!(listed.matches("\tmanual (rerun)\t").count(), 1, "{listed}");
    let rerun = listed.split('\t').next().unwrap();
    let logs = owner.run(&["run", "logs", rerun]).ok();
    assert!(logs.stdout.contains(&format!("  -  asked for by a person or a program, a rerun of {run}\n")), "{logs:?}");
    assert_eq!(std::fs::read_to_string(server.workspace().join("note.txt")).unwrap(), "good morning");
    owner.run(&["run", "rerun", &run, "--from", "nope"]).exits(7);
    let edits = with_editor(&owner, "sed -i 's/morning/evening/' \"$2\"");
    edits.at_terminal(&["run", "retry", &run, "--edit-input", "--follow"], &[]).exits(0);
    assert_eq!(std::fs::read_to_string(server.workspace().join("note.txt")).unwrap(), "good evening");
    owner.run(&["automation", "run", "Tidy", "--input", "text=by flag", "--follow"]).ok();
    assert_eq!(std::fs::read_to_string(server.workspace().join("note.txt")).unwrap(), "by flag");
    let firings = owner.run(&["firing", "list", "Tidy", "--outcome", "started", "--json"]).ok().json();
    assert_eq!(firings["items"].as_array().unwrap().len(), 5);
    let none = owner.run(&["firing", "list", "Tidy", "--no-run", "--json"]).ok().json()["items"].clone();
    assert_eq!((none.as_array().unwrap().len(), &none[0]["reason"]), (1, &json!("same_key")), "{none}");
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn inputs_that_are_shown_redacted_are_never_taken_for_those_that_were_given() {
    let server = Server::start();
    let owner = server.owner();
    let mut definition = tidy();
    definition["inputs"]["schema"]["properties"]["password"] = json!({ "type": "string" });
    definition["plan"][1]["config"]["text"] = json!("{{ inputs.text }} {{ inputs.password }}");
    let file = written(&server, "redacted.json", &definition.to_string());
    owner.run(&["automation", "apply", "-f", &file]).ok();
    owner.run(&["mode", "set", "files.write_text", "allow", "--automation", "Tidy"]).ok();
    owner.run(&["automation", "run", "Tidy", "text=open", "password=sesame", "--follow"]).ok();
    let run = owner.run(&["run", "list", "--automation", "Tidy", "-o", "name"]).ok().stdout.trim().to_owned();
    let shown = owner.run(&["run", "show", &run, "--json"]).ok().json();
    assert_eq!(shown["inputs"], json!({ "text": "open", "password": "[redacted]" }));
    let note = server.workspace().join("note.txt");
    let noted = || std::fs::read_to_string(&note).unwrap();
    assert_eq!(noted(), "open sesame");
    let rerun = |script: &str| with_editor(&owner, script).at_terminal(&["run", "rerun", &run, "--edit-input", "--follow"], &[]);
    std::fs::remove_file(&note).unwrap();
    rerun("true").exits(0);
    assert_eq!(noted(), "open sesame", "nothing was changed, so its own inputs are used");
    let refused = rerun("sed -i 's/\"open\"/\"close\"/' \"$2\"").exits(2);
    refused.shows("what was edited still has `[redacted]` at `/password`, in place of").shows("give all inputs with --input");
    assert_eq!(noted(), "open sesame");
    rerun("sed -i 's/\\[redacted\\]/barley/' \"$2\"").exits(0);
    assert_eq!(noted(), "open barley");
}

#[test]
fn a_run_that_waits_is_approved_or_cancelled() {
    let server = Server::start();
    let owner = server.owner();
    let id = applied(&server, &owner);
    let start = || owner.run(&["automation", "run", &id]).ok().stdout.trim().to_owned();
    let first = start();
    let invocation = waiting(&owner, &first);
    let shown = owner.run(&["run", "show", &first]).ok();
    let looked = shown.stdout.lines().find(|line| line.contains("✓ look files.list #")).unwrap();
    owner.run(&["receipt", "show", looked.rsplit(' ').next().unwrap()]).ok();
    assert!(shown.stdout.contains(&format!("◷ note files.write_text waits {invocation}\n")), "{shown:?}");
    // One is under way, so nothing is started. The firing says so.
    let busy = owner.run(&["automation", "run", &id]).exits(7);
    assert!(busy.stderr.contains(&format!("`countersign run list --automation {id}`; with `execution.concurrency` `queue`")), "{busy:?}");
    let dropped = owner.run(&["firing", "list", "Tidy", "--no-run", "--json"]).ok().json();
    assert_eq!((dropped["items"].as_array().unwrap().len(), &dropped["items"][0]["outcome"]), (1, &json!("dropped")), "{dropped:#}");
    owner.run(&["approve", &invocation]).ok();
    owner.run(&["run", "watch", &first]).ok();
    let second = start();
    waiting(&owner, &second);
    let cancelling = owner.run(&["run", "cancel", &second]).ok();
    assert!(cancelling.stderr.contains(&format!("✓ cancelling `{second}`")), "{cancelling:?}");
    assert!(cancelling.stderr.contains(&format!("next: countersign run show {second}")), "{cancelling:?}");
    owner.run(&["run", "watch", &second]).exits(7);
    let logs = owner.run(&["run", "logs", &second]).ok();
    assert!(logs.stdout.lines().last().unwrap().contains("  -  cancelled by "), "{logs:?}");
}

#[test]
fn the_logs_of_a_run_are_told_line_by_line_and_followed_to_its_end() {
    let server = Server::start();
    let owner = server.owner();
    let id = applied(&server, &owner);
    let run = owner.run(&["automation", "run", &id]).ok().stdout.trim().to_owned();
    let mut following = owner.command(&["run", "logs", &run, "-f"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(following.stdout.take().unwrap());
    let mut told = String::new();
    let waits = "  note  waits for a person: countersign approve ";
    while !told.contains(waits) {
        assert!(stdout.read_line(&mut told).unwrap() > 0, "it ended too early: {told}");
    }
    assert!(told.contains("  look  succeeded, receipt #"), "{told}");
    let invocation = waiting(&owner, &run);
    assert!(told.ends_with(&format!("{waits}{invocation}\n")), "{told}");
    assert_eq!(owner.run(&["run", "logs", &run]).ok().stdout, told, "the same without following");
    owner.run(&["approve", &invocation]).ok();
    stdout.read_to_string(&mut told).unwrap();
    assert_eq!(following.wait().unwrap().code(), Some(0), "{told}");
    let lines: Vec<_> = told.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    let expected = ["-  asked for by a person or a program", "-  started, version 1", "look  calls files.list"];
    assert!(lines.starts_with(&expected) && lines.last() == Some(&"-  succeeded"), "{told}");
    let over: String = told.split_inclusive('\n').filter(|line| !line.contains(waits)).collect();
    assert_eq!(owner.run(&["run", "logs", &run]).ok().stdout, over, "the same without following, once nothing waits");
    let of_step = owner.run(&["run", "logs", &run, "--step", "note", "--json"]).ok().stdout;
    let of_step: Vec<Value> = of_step.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((of_step.len(), &of_step[0]["step_id"], &of_step[0]["text"]), (2, &json!("note"), &json!("calls files.write_text")));
    let unknown = owner.run(&["run", "logs", "run_00000000000000000000000000"]).exits(3);
    assert!(unknown.stderr.contains("list them with `countersign run list`"), "{unknown:?}");
}

#[test]
fn only_the_runs_that_failed_are_listed() {
    let server = Server::start();
    let owner = server.owner();
    let mut fails = tidy();
    fails["plan"] = json!([{ "step_id": "read", "action": "files.read_text", "config": { "path": "{{ inputs.text }}" } }]);
    let file = written(&server, "fails.json", &fails.to_string());
    owner.run(&["automation", "apply", "-f", &file]).ok();
    std::fs::write(server.workspace().join("hello"), "x").unwrap();
    owner.run(&["automation", "run", "Tidy", "--follow"]).ok();
    owner.run(&["automation", "run", "Tidy", "text=nowhere", "--follow"]).exits(1);
    let failed = owner.run(&["run", "list", "--failed", "--json"]).ok().json();
    let statuses: Vec<_> = failed["items"].as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["failed"]);
    owner.run(&["run", "list", "--failed", "--status", "failed"]).exits(2);
}

#[test]
fn a_definition_is_edited_by_hand_and_what_was_written_is_never_lost() {
    let server = Server::start();
    let owner = server.owner();
    let id = applied(&server, &owner);
    let edit = ["automation", "edit", "Tidy"];
    let tidier = "sed -i 's/\"goal\": \"\"/\"goal\": \"To be tidy\"/' \"$2\"";
    with_editor(&owner, tidier).at_terminal(&edit, &[]).exits(0).shows("version 2 is in force");
    assert_eq!(owner.run(&["automation", "export", "Tidy"]).ok().json()["goal"], "To be tidy");
    with_editor(&owner, "true").at_terminal(&edit, &[]).exits(0).shows("nothing was changed");
    let refused = owner.run(&edit).exits(2);
    assert!(refused.stderr.contains("there is no terminal to edit the definition in"), "{refused:?}");
    // Where it cannot be saved, it is somewhere else.
    let kept = |screen: &str| {
        let file = screen.split("countersign automation apply -f ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        text
    };
    let worse = "sed -i 's/files.list/files.lst/' \"$2\"";
    let seen = with_editor(&owner, worse).at_terminal(&edit, &[("Edit it again? [y/N] ", "n\n")]).exits(8);
    assert!(kept(&seen.screen).contains("files.lst"), "{}", seen.screen);
    seen.shows("/plan/0/action action_unknown: ");
    let broken = with_editor(&owner, "echo '{' > \"$2\"").at_terminal(&edit, &[("Edit it again? [y/N] ", "n\n")]).exits(2);
    assert_eq!(kept(&broken.screen), "{\n");
    // Somebody saves another version while the editor is open.
    let other = written(&server, "other.json", &tidy().to_string());
    let apply = format!("{} automation apply -f {other} --automation {id} > /dev/null 2>&1", env!("CARGO_BIN_EXE_countersign"));
    let late = with_editor(&owner, &format!("{apply} || exit 9\nsed -i 's/To be tidy/Mine/' \"$2\"")).at_terminal(&edit, &[]).exits(7);
    assert!(kept(&late.screen).contains("\"goal\": \"Mine\""), "{}", late.screen);
    assert_eq!(owner.run(&["automation", "show", "Tidy", "--json"]).ok().json()["version"], 3);
}

#[test]
fn what_is_published_about_definitions_is_printed() {
    let server = Server::start();
    let owner = server.owner();
    for name in ["automation", "filter"] {
        assert_eq!(owner.run(&["schema", name]).ok().json()["$id"], format!("urn:countersign:schema:{name}:1"));
    }
    owner.run(&["schema", "nonsense"]).exits(2);
    let sample = owner.run(&["event", "sample", "automation.run.failed"]).ok().json();
    assert_eq!(sample["status"], "failed", "{sample:#}");
    let listed = owner.run(&["event", "sample"]).ok();
    assert!(listed.stdout.lines().any(|line| line == "automation.archived\tAn automation was archived."), "{listed:?}");
    let unknown = owner.run(&["event", "sample", "automation.run.faild"]).exits(3);
    assert!(unknown.stderr.contains("automation.run.failed"), "{unknown:?}");
}

#[test]
fn triggers_and_the_status_say_what_fires() {
    let server = Server::start();
    let owner = server.owner();
    let id = applied(&server, &owner);
    let listed = owner.run(&["trigger", "list", "Tidy"]).ok();
    assert!(listed.stdout.contains("hook") && listed.stdout.contains("at 09:00 on weekdays"), "{listed:?}");
    let disabled = owner.run(&["trigger", "disable", "Tidy", "daily", "--json"]).ok().json();
    assert_eq!(disabled["enabled"], false);
    owner.run(&["trigger", "enable", "Tidy", "daily"]).ok();
    owner.run(&["trigger", "enable", "Tidy", "daily", "--catch-up"]).ok();
    let refused = owner.run(&["trigger", "enable", "Tidy", "hook", "--catch-up"]).exits(8);
    assert!(refused.stderr.contains("`hook` is no schedule"), "{refused:?}");
    let unknown = owner.run(&["trigger", "enable", "Tidy", "nope"]).exits(3);
    assert!(unknown.stderr.contains(&format!("list them with `countersign trigger list {id}`")), "{unknown:?}");
    let rotated = owner.run(&["trigger", "rotate-token", "Tidy", "hook", "--keep-old", "--json"]).ok().json();
    assert!(rotated["token"].as_str().unwrap().starts_with("cs_hook_"), "{rotated:#}");
    assert_eq!(owner.run(&["automation", "pause", "Tidy", "--json"]).ok().json()["status"], "paused");
    assert_eq!(owner.run(&["automation", "resume", "Tidy", "--json"]).ok().json()["status"], "active");
    owner.run(&["automation", "archive", "Tidy", "--yes"]).ok();
    owner.run(&["automation", "run", &id]).exits(7);
}

#[test]
fn what_a_service_applies_is_a_draft_that_a_person_saves() {
    let server = Server::start();
    let owner = server.owner();
    let made = owner.run(&["token", "create", "ci", "--scope", "invoke", "--json"]).ok().json();
    let service = owner.with_token(made["token"].as_str().unwrap());
    let file = written(&server, "tidy.json", &tidy().to_string());
    let proposed = service.run(&["automation", "apply", "-f", &file, "--json"]).ok().json();
    let draft = proposed["draft"]["id"].as_str().unwrap();
    assert_eq!(proposed["automation"], Value::Null);
    service.run(&["automation", "draft", "save", draft, "--accept", "/plan/0/action"]).exits(5);
    let shown = owner.run(&["automation", "draft", "show", draft]).ok();
    assert!(shown.stderr.contains("no_on_failure") && shown.stderr.starts_with("! "), "{shown:?}");
    assert!(shown.stdout.contains("definition\t{\""), "{shown:?}");
    let drawn = owner.on_screen(80, &["automation", "draft", "show", draft], "").ok();
    assert!(drawn.stdout.contains("\n  \"plan\": [\n") && !drawn.stdout.contains("{\"path\""), "{drawn:?}");
    owner.run(&["automation", "draft", "save", draft]).exits(8);
    let flags = owner.run(&["automation", "draft", "show", draft, "--json"]).ok().json()["flags"].clone();
    let places: Vec<_> = flags.as_array().unwrap().iter().map(|flag| flag["pointer"].as_str().unwrap()).collect();
    let accepting = |places: &[&str]| {
        let mut words = vec!["automation", "draft", "save", draft];
        words.extend(places.iter().flat_map(|place| ["--accept", *place]));
        owner.run(&words)
    };
    let unread = places.last().unwrap();
    let most: Vec<_> = places.iter().copied().filter(|place| place != unread).collect();
    let left = accepting(&most);
    assert!(left.stderr.contains(unread) && !most.iter().any(|place| left.stderr.contains(place)), "{left:?}");
    left.exits(8);
    accepting(&places).ok();
    assert_eq!(owner.run(&["automation", "draft", "list", "--json"]).ok().json()["items"], json!([]));
    // Beside it another one needs another name.
    let beside = owner.run(&["automation", "import", "-f", &file, "--json"]).ok().json();
    let named: Vec<_> = beside["flags"].as_array().unwrap().iter().map(|flag| flag["pointer"].as_str().unwrap()).collect();
    let mut words = vec!["automation", "draft", "save", beside["id"].as_str().unwrap(), "--name", "Tidier"];
    words.extend(named.iter().filter(|place| **place != "/name").flat_map(|place| ["--accept", *place]));
    owner.run(&words).ok();
    owner.run(&["automation", "show", "Tidier"]).ok();
    owner.run(&["automation", "archive", "Tidy", "--yes"]).ok();
    let imported = owner.run(&["automation", "import", "-f", &file, "--json"]).ok().json();
    owner.run(&["automation", "draft", "drop", imported["id"].as_str().unwrap(), "--yes"]).ok();
}

#[test]
fn the_example_of_the_guide_runs_and_says_how_many_files_there_are() {
    let server = Server::start();
    let owner = server.owner();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/automations/morning-note.json");
    let saved = owner.run(&["automation", "apply", "-f", file, "--json"]).ok().json();
    let id = saved["automation"]["id"].as_str().unwrap();
    owner.run(&["mode", "set", "notify.send", "allow", "--automation", id]).ok();
    std::fs::write(server.workspace().join("a.txt"), "a").unwrap();
    owner.run(&["automation", "run", "Morning note", "greeting=Hello", "--follow"]).ok();
    let told = owner.run(&["notification", "list", "--json"]).ok().json();
    let told = &told["items"][0];
    assert_eq!((&told["title"], &told["body"]), (&json!("Hello"), &json!("Files in the workspace: 1")), "{told:#}");
}
