//! Tests what the approval card shows.

use super::*;
use crate::output::{Format, Input, Settings, Times};
use crate::world::World;
use api::invocation::{BindingView, DecisionView, DigestsView, FactView};
use countersign_core::{Clock, Timestamp};
use serde_json::json;
use std::sync::Arc;

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
    }
}

/// A word of the wire as the type it is there.
fn read<T: serde::de::DeserializeOwned>(word: &str) -> T {
    serde_json::from_value(Value::from(word)).unwrap()
}

fn terminal() -> Terminal {
    let settings = Settings { format: Format::Auto, times: Times::Relative, input: Input::Never, colours: None };
    Terminal::new(settings, Arc::new(Noon), World::of_process())
}

fn invocation(params: Value) -> InvocationView {
    InvocationView {
        id: read("inv_1"),
        status: read("pending"),
        mode: read("require_approval"),
        mode_source: read("inferred_default"),
        action: read("files.write_text"),
        source: read("files"),
        connection_id: None,
        caller_left: false,
        tier: read("R2"),
        class: read("write"),
        session_id: read("ses_1"),
        session_title: Some("release\u{202e} bot".into()),
        space_id: read("spc_1"),
        principal: read("agent:ses_1"),
        owner_id: Some(read("usr_1")),
        params,
        result: None,
        error: None,
        denied_by: None,
        reason: Some(read("tidy\u{202e}up")),
        idempotency_key: None,
        dry_run: false,
        decision: DecisionView {
            mode: read("require_approval"),
            base: read("require_approval"),
            source: read("inferred_default"),
            rules_version: Some(1),
            modes_version: None,
            tightened: vec![],
            tightened_by: Vec::new(),
        },
        gates: vec![],
        digests: DigestsView { raw: read("aa"), params: read("bb"), structural: read("cc"), textual: read("dd") },
        binding: Some(BindingView { digest: read("ee"), expires_at: read("2026-11-15T12:04:59Z") }),
        expires_at: Some(read("2026-11-15T12:04:59Z")),
        void: None,
        clock_stopped: false,
        approvals: Vec::new(),
        answer: None,
        edit: None,
        grant_id: None,
        observed: None,
        claimed: None,
        redacted: std::collections::BTreeMap::new(),
        released_from: None,
        checks: Vec::new(),
        repair: None,
        rollback: None,
        reverses: None,
        reverted_by: None,
        changed_files: Vec::new(),
        facts: vec![
            FactView::new("Requested by", "release\u{202e} bot · agent:ses_1 · ").at(read("2026-11-15T11:59:23Z"), ""),
            FactView::new("Approved by", "robin, ").at(read("2026-11-15T11:59:00Z"), ": “tidy\u{202e}up”"),
            FactView::new("Approved by", "sam, ").at(read("2026-11-15T11:59:00Z"), ""),
            FactView::new("Reversible", "no").toned(FactTone::Danger),
        ],
        batch: None,
        settled: None,
        scope: None,
        verification: None,
        cost_usd: None,
        attempts: 0,
        created_at: read("2026-11-15T11:59:23Z"),
        resumed_at: None,
        started_at: None,
        completed_at: None,
        duration_ms: None,
        waited_ms: None,
        receipt: None,
        trace_id: read("t"),
    }
}

fn action() -> ActionView {
    ActionView {
        id: read("files.write_text"),
        title: read("Write a text file"),
        description: String::new(),
        version: read("1"),
        tier: read("R2"),
        class: read("write"),
        safety_class: read("LOW"),
        requires: vec![read("files.write")],
        idempotency_key_fields: Vec::new(),
        mode: read("require_approval"),
        mode_source: read("inferred_default"),
        drift: read("none"),
        params_schema: json!({}),
        result_schema: json!({}),
        reversibility: read("reversible"),
        reversible_seconds: None,
        checks: Vec::new(),
        hosts: Vec::new(),
        effects: vec![read("filesystem_write")],
        produces_artifacts: Vec::new(),
        profile: read("in_process"),
        package_sha256: None,
        tightened: Vec::new(),
        dry_run_supported: true,
        timeout_ms: 1,
        price: None,
    }
}

fn drawn(params: Value) -> Vec<String> {
    let (invocation, action) = (invocation(params), action());
    let card = Card { invocation: &invocation, action: Some(&action), foresight: None };
    card.lines(&terminal()).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
}

#[test]
fn a_card_answers_everything_without_a_further_question() {
    let expected = "\
◷ pending · R2 ●●●○○ write · expires in 4:59
files.write_text  titled “Write a text file” by its source
inv_1

Params
  path  \"a.txt\"
  n     1
  text  2 lines
    │ one
    │ two
  deep  {\"a\":true}

Would change      not known; try countersign action invoke files.write_text --dry-run with these params
Requested by      release\\u{202e} bot · agent:ses_1 · 37 s ago
Approved by       robin, 1 min ago: “tidy\\u{202e}up”
                  sam, 1 min ago
Reversible        no";
    assert_eq!(drawn(json!({ "path": "a.txt", "n": 1, "text": "one\ntwo\n", "deep": { "a": true } })).join("\n"), expected);
}

#[test]
fn no_param_is_ever_cut_and_none_can_touch_the_terminal() {
    let long = "x".repeat(5_000);
    let lines = drawn(json!({ "long": long, "evil": "\u{1b}[2J\u{9b}K", "\u{1b}name": "ok" })).join("\n");
    assert!(lines.contains(&long));
    assert!(lines.contains("\"\\u{1b}[2J\\u{9b}K\""), "{lines}");
    assert!(lines.contains("\\u{1b}name"), "{lines}");
    assert!(!lines.chars().any(|character| character.is_control() && character != '\n'));
}

#[test]
fn what_was_too_large_to_keep_is_said_to_be_missing() {
    let kept = "x".repeat(60_000);
    let lines = drawn(json!({ "text": kept, "_truncated": true, "_original_bytes": 70_000 })).join("\n");
    assert!(lines.contains("\n  ! too large to be kept whole (70000 bytes): a part that will be sent is not shown"));
    assert!(lines.contains(&kept) && !lines.contains("_truncated"));
    // Small params were never truncated, even if they contain the members that mark truncation.
    let lines = drawn(json!({ "text": "x", "_truncated": true, "_original_bytes": 70_000 })).join("\n");
    assert!(lines.contains("_truncated") && lines.contains("_original_bytes") && !lines.contains("too large"), "{lines}");
}

#[test]
fn whoever_answers_sees_whole_what_was_too_large_to_keep() {
    let invocation = invocation(json!({ "text": "x…", "_truncated": true, "_original_bytes": 70_000 }));
    let foresight = ForesightView { params: Some(json!({ "text": "xyz" })), ..ForesightView::default() };
    let drawn = looking_ahead(&invocation, &action(), &foresight);
    assert!(drawn.contains("Params\n  text  \"xyz\"\n") && !drawn.contains("too large"), "{drawn}");
}

#[test]
fn a_text_without_a_last_line_break_is_told_from_one_with() {
    assert!(drawn(json!({ "text": "one\ntwo" })).iter().any(|line| line.contains("no line break at the end")));
    assert!(!drawn(json!({ "text": "one\ntwo\n" })).iter().any(|line| line.contains("no line break at the end")));
}

fn looking_ahead(invocation: &InvocationView, action: &ActionView, foresight: &ForesightView) -> String {
    let card = Card { invocation, action: Some(action), foresight: Some(foresight) };
    let lines = card.lines(&terminal());
    lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_card_shows_the_change() {
    let changes = json!({ "changes": [{ "path": "a", "change": "would_create", "added_lines": 1, "diff": "@@ -1 +1 @@\n+x\n" }] });
    let drawn = looking_ahead(&invocation(json!({})), &action(), &ForesightView { changes: Some(changes), ..ForesightView::default() });
    assert!(drawn.contains("Would change\n  + would create  a  +1\n    new file\n    +x\n\nRequested by"), "{drawn}");
}

#[test]
fn what_cannot_be_told_is_told_by_what_the_action_declares() {
    let unknown = ForesightView { unknown: Some(read("not known in advance")), ..ForesightView::default() };
    let action = ActionView { effects: vec![read("filesystem_read"), read("network_call")], ..action() };
    let drawn = looking_ahead(&invocation(json!({})), &action, &unknown);
    let expected = "Would change      not known in advance; it declares that it reads files and uses the network";
    assert!(drawn.contains(expected), "{drawn}");
}

#[test]
fn a_call_that_cannot_run_says_so_before_anything_else() {
    let blocked = api::invocation::FailureView { code: read("package_code_disabled"), message: read("this server runs no such code") };
    let foresight = ForesightView { blocked: Some(blocked), ..ForesightView::default() };
    let drawn = looking_ahead(&invocation(json!({})), &action(), &foresight);
    assert_eq!(drawn.lines().nth(3), Some("! cannot run now: this server runs no such code (package_code_disabled)"), "{drawn}");
    assert!(!drawn.contains("Would change"), "{drawn}");
}

#[test]
fn that_code_was_run_to_know_it_is_said_wherever_what_is_known_is() {
    let run = "code of the package `kit` was run to find this out, without effect";
    let invocation = InvocationView { action: read("kit.fix"), ..invocation(json!({})) };
    let changes = json!({ "changes": [{ "path": "a", "change": "would_create" }] });
    let known = ForesightView { changes: Some(changes), ran_code: true, ..ForesightView::default() };
    let drawn = looking_ahead(&invocation, &action(), &known);
    assert!(drawn.contains(&format!("\nWould change      {run}\n  + would create  a")), "{drawn}");
    let late = ForesightView { unknown: Some(read("it took too long")), ran_code: true, ..ForesightView::default() };
    let drawn = looking_ahead(&invocation, &action(), &late);
    assert!(drawn.contains(&format!("Would change      it took too long; it declares that it changes files; {run}")), "{drawn}");
    let blocked = api::invocation::FailureView { code: read("package_failed"), message: read("it ended") };
    let fails = ForesightView { blocked: Some(blocked), ran_code: true, ..ForesightView::default() };
    let drawn = looking_ahead(&invocation, &action(), &fails);
    assert_eq!(drawn.lines().nth(3), Some(format!("! cannot run now: it ended (package_failed); {run}").as_str()), "{drawn}");
    let meant = ActionView { id: read("kit.fix"), package_sha256: Some(read("00")), ..action() };
    assert_eq!(ahead::meanwhile(&invocation, Some(&meant)), "running the package's code without effect, to see what it would change…");
    let silent = ActionView { dry_run_supported: false, ..meant };
    for none in [Some(&silent), Some(&action()), None] {
        assert_eq!(ahead::meanwhile(&invocation, none), "looking at what it would change…");
    }
    // Nothing is rehearsed to take something back.
    let revert = InvocationView { reverses: Some(read("inv_1")), ..invocation.clone() };
    assert_eq!(ahead::meanwhile(&revert, Some(&ActionView { dry_run_supported: true, ..silent })), "looking at what it would change…");
}

#[test]
fn nobody_is_led_to_a_yes_that_would_do_nothing() {
    let deny = "countersign deny inv_1 --reason …";
    let of = |code: Option<&str>, invocation: &InvocationView, action: &ActionView| {
        let blocked = code.map(|code| api::invocation::FailureView { code: code.into(), message: read("no") });
        let foresight = ForesightView { blocked, ran_code: code == Some("package_failed"), ..ForesightView::default() };
        let card = Card { invocation, action: Some(action), foresight: Some(&foresight) };
        card.answer()
    };
    let (own, package) = (action(), ActionView { package_sha256: Some(read("00")), ..action() });
    let (call, revert) = (invocation(json!({})), InvocationView { reverses: Some(read("inv_0")), ..invocation(json!({})) });
    for (code, invocation, action, expected) in [
        (None, &call, &own, format!("countersign approve inv_1, or {deny}")),
        (Some("stopped"), &call, &own, "countersign kill-switch list".to_owned()),
        (Some("definition_mismatch"), &call, &package, format!("{deny}, then countersign action review files.write_text")),
        (Some("content_changed"), &revert, &own, format!("countersign show inv_0, or {deny}")),
        (Some("package_code_disabled"), &call, &package, format!("countersign doctor, or {deny}")),
        (Some("package_failed"), &call, &package, deny.to_owned()),
        (Some("path_outside_workspace"), &call, &own, deny.to_owned()),
    ] {
        assert_eq!(of(code, invocation, action), expected);
    }
}
