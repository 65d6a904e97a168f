//! Tests what the approval card shows.

use super::*;
use crate::output::{Format, Input, Settings, Times};
use crate::world::World;
use api::invocation::{BindingView, DigestsView};
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
    let card = Card {
        invocation: &invocation,
        action: Some(&action),
        before: Some(Before { ended: 3, succeeded: 2 }),
        foresight: None,
        names: &Names::default(),
    };
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

Requested by      release\\u{202e} bot · agent:ses_1 · for usr_1 · 37 s ago
Reason given      “tidy\\u{202e}up”
Space             spc_1
Decision          inferred from the tier: require_approval
Reversible        yes
Would change      not known; try countersign action invoke files.write_text --dry-run with these params
Earlier calls     2 of 3 of this action succeeded in this session
Approval covers   params bb…, definition cc…, policy inferred, caller and place; digest ee…";
    assert_eq!(drawn(json!({ "path": "a.txt", "n": 1, "text": "one\ntwo\n", "deep": { "a": true } })).join("\n"), expected);
}

#[test]
fn what_the_caller_says_of_its_call_is_on_the_card_and_cannot_touch_the_terminal() {
    let claimed = ClaimedView {
        action_id: Some(read("action:\u{1b}[2J")),
        confidence: Some(0.9),
        rollback_plan: Some(json!({ "steps": ["put \u{202e}it back"] })),
        more: Some(json!({ "ticket": "\u{202e}7" })),
        ..ClaimedView::default()
    };
    let expected = [
        ("Named by caller", "action:\\u{1b}[2J".to_owned()),
        ("Confidence given", "0.9".to_owned()),
        ("Rollback plan", "{\"steps\":[\"put \\u{202e}it back\"]}".to_owned()),
        ("Other fields", "{\"ticket\":\"\\u{202e}7\"}".to_owned()),
    ];
    assert_eq!(claims(&claimed), expected);
    assert_eq!(claims(&ClaimedView::default()), []);
    let invocation = InvocationView { claimed: Some(claimed), ..invocation(json!({})) };
    let card = Card { invocation: &invocation, action: None, before: None, foresight: None, names: &Names::default() };
    assert!(card.lines(&terminal()).iter().any(|line| line.contains("Rollback plan")));
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
fn what_came_to_nothing_or_was_taken_back_is_not_told_as_reversible() {
    let card = |invocation: InvocationView| looking_ahead(&invocation, &action(), &ForesightView::default());
    let ended = |status: &'static str| InvocationView { status: read(status), ..invocation(json!({})) };
    let succeeded = card(ended("succeeded"));
    assert!(succeeded.contains("Reversible") && succeeded.contains("Requested by"), "{succeeded}");
    let taken_back = InvocationView { reverted_by: Some(read("inv_2")), ..ended("succeeded") };
    for nothing in [ended("denied"), ended("expired"), ended("cancelled"), ended("reverted"), taken_back] {
        let drawn = card(nothing);
        assert!(!drawn.contains("Reversible"), "{drawn}");
    }
}

#[test]
fn a_text_without_a_last_line_break_is_told_from_one_with() {
    assert!(drawn(json!({ "text": "one\ntwo" })).iter().any(|line| line.contains("no line break at the end")));
    assert!(!drawn(json!({ "text": "one\ntwo\n" })).iter().any(|line| line.contains("no line break at the end")));
}

#[test]
fn the_cascade_is_one_line_from_what_was_found_to_what_holds() {
    let decision = DecisionView {
        mode: read("require_approval"),
        base: read("allow"),
        source: read("org_default"),
        rules_version: Some(1),
        modes_version: Some(3),
        tightened: vec![read("an R4 action is never allowed without a person")],
        tightened_by: Vec::new(),
    };
    assert_eq!(
        cascade(&decision),
        "set for the org (version 3): allow → an R4 action is never allowed without a person → require_approval"
    );
}

#[test]
fn a_card_tells_who_said_yes_what_was_changed_and_what_was_taken_out() {
    let mut invocation = invocation(json!({ "text": "bye" }));
    let yes = |by: &str| AnswerView { by: by.into(), at: read("2026-11-15T11:59:00Z"), reason: Some(read("fine")), mode: read("once") };
    invocation.approvals = vec![yes("user:usr_1")];
    invocation.edit = Some(EditView {
        by: read("user:usr_1"),
        at: read("2026-11-15T11:59:00Z"),
        changed: vec![read("/text")],
        proposed_params: json!({ "text": "\u{1b}hello" }),
    });
    invocation.grant_id = Some(read("grt_1"));
    invocation.redacted = std::collections::BTreeMap::from([("email".to_owned(), 2)]);
    invocation.released_from = Some(read("inv_0"));
    invocation.resumed_at = Some(read("2026-11-15T11:58:00Z"));
    (invocation.expires_at, invocation.clock_stopped) = (None, true);
    invocation.gates = vec![api::invocation::GateView {
        gate: read("abac"),
        verdict: read("deny"),
        determining: vec![],
        errors: vec![read("no such attribute")],
    }];
    let card = Card { invocation: &invocation, action: None, before: None, foresight: None, names: &Names::default() };
    let lines: Vec<_> = card.lines(&terminal()).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
    for expected in [
        "◷ pending · R2 ●●●○○ write · a kill switch is on: the deadline is stopped",
        "Approved by       user:usr_1 1 min ago: “fine”",
        "Resumed           2 min ago: it was approved and had not started when the server stopped",
        "Edited by         user:usr_1 1 min ago",
        "                  /text: \"\\u001bhello\" → \"bye\"",
        "By grant          grt_1",
        "Redacted          2 email",
        "Released from     inv_0",
        "Gate error        abac: no such attribute",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}\n{lines:#?}");
    }
}

fn looking_ahead(invocation: &InvocationView, action: &ActionView, foresight: &ForesightView) -> String {
    let card = Card { invocation, action: Some(action), before: None, foresight: Some(foresight), names: &Names::default() };
    let lines = card.lines(&terminal());
    lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_card_counts_the_approvals_where_more_than_one_is_needed() {
    let yes = AnswerView { by: read("user:usr_1"), at: read("2026-11-15T11:59:00Z"), reason: None, mode: read("once") };
    let counted = |given: usize, needed: u32| {
        let invocation = InvocationView { approvals: vec![yes.clone(); given], ..invocation(json!({})) };
        let foresight = ForesightView { approvals_needed: Some(needed), ..ForesightView::default() };
        let drawn = looking_ahead(&invocation, &action(), &foresight);
        drawn.lines().find_map(|line| line.strip_prefix("Approvals         ")).map(str::to_owned)
    };
    assert_eq!(counted(0, 1), None);
    assert_eq!(counted(0, 2).as_deref(), Some("0 of 2"));
    assert_eq!(counted(1, 2).as_deref(), Some("1 of 2"));
    // The quorum was lowered after the first approval.
    let enough = "1 of 1, which is enough by now: the next one runs it, also by somebody who has approved";
    assert_eq!(counted(1, 1).as_deref(), Some(enough));
}

#[test]
fn a_card_shows_the_change_whose_code_runs_and_what_will_be_checked() {
    let invocation = invocation(json!({}));
    let action = ActionView {
        package_sha256: Some(read("0123456789abcdef")),
        profile: read("high_isolation"),
        id: read("kit.fix"),
        checks: vec![read("read_back"), read("node --check {file}")],
        ..action()
    };
    let changes = json!({ "changes": [{ "path": "a", "change": "would_create", "added_lines": 1, "diff": "@@ -1 +1 @@\n+x\n" }] });
    let drawn = looking_ahead(&invocation, &action, &ForesightView { changes: Some(changes), ..ForesightView::default() });
    for expected in [
        "Would change\n  + would create  a  +1\n    new file\n    +x\n\nRequested by",
        "Runs code         of the package `kit` (0123456789ab…), in the sandbox under profile `high_isolation`, with no network",
        "Verified by       read_back, node --check {file}",
        "Reversible        yes",
    ] {
        assert!(drawn.contains(expected), "{expected}\n{drawn}");
    }
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
fn the_connection_that_a_call_uses_is_named() {
    let call = InvocationView { connection_id: Some("con_1\u{202e}".into()), ..invocation(json!({})) };
    let card = Card { invocation: &call, action: None, before: None, foresight: None, names: &Names::default() };
    let lines: Vec<_> = card.lines(&terminal()).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
    assert!(lines.iter().any(|line| line.starts_with("Connection") && line.ends_with(r"con_1\u{202e}")), "{lines:#?}");
    assert!(!drawn(json!({})).iter().any(|line| line.starts_with("Connection")));
}

#[test]
fn nobody_is_led_to_a_yes_that_would_do_nothing() {
    let deny = "countersign deny inv_1 --reason …";
    let of = |code: Option<&str>, invocation: &InvocationView, action: &ActionView| {
        let blocked = code.map(|code| api::invocation::FailureView { code: code.into(), message: read("no") });
        let foresight = ForesightView { blocked, ran_code: code == Some("package_failed"), ..ForesightView::default() };
        let card = Card { invocation, action: Some(action), before: None, foresight: Some(&foresight), names: &Names::default() };
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

#[test]
fn who_is_asked_by_the_safety_gate_sees_what_the_session_holds_and_since_when() {
    let mut invocation = invocation(json!({}));
    let gate = |gate: &str, verdict: &str, rules: &[&str]| api::invocation::GateView {
        gate: read(gate),
        verdict: read(verdict),
        determining: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        errors: vec![],
    };
    invocation.gates = vec![gate("rbac", "ok", &["role"]), gate("safety", "needs_approval", &["safety.trifecta", "safety.tainted_path"])];
    let concern = |rule: &str, pointer: &str, message: &str| api::invocation::ConcernView {
        rule: rule.into(),
        pointer: pointer.into(),
        message: message.into(),
    };
    let label = |label: &str, action: Option<&str>| api::invocation::LabelView {
        label: read(label),
        at: read("2026-11-15T11:57:00Z"),
        invocation_id: action.map(|_| read("inv_0")),
        action: action.map(str::to_owned),
    };
    let foresight = ForesightView {
        concerns: vec![
            concern("safety.trifecta", "", "it sends something away"),
            concern("safety.tainted_path", "/path", "the path was read"),
        ],
        labels: vec![label("private_data", Some("files.read_text")), label("untrusted_content", None)],
        ..ForesightView::default()
    };
    let drawn = looking_ahead(&invocation, &action(), &foresight);
    let expected = "\
Decision          inferred from the tier: require_approval
                  gate `safety`: it sends something away (safety.trifecta)
                  gate `safety`: the path was read (safety.tainted_path) at /path
Session holds     private_data since 3 min ago, from files.read_text inv_0
Session holds     untrusted_content since 3 min ago
";
    assert!(drawn.contains(expected), "{drawn}");
    // A caller who may not see the foresight, or who looks when the call has ended, still sees the sentence of the rule.
    let card = Card { invocation: &invocation, action: None, before: None, foresight: None, names: &Names::default() };
    let lines: Vec<_> = card.lines(&terminal()).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
    let sentence = homes::sentence_of("safety.trifecta").unwrap();
    assert!(lines.iter().any(|line| line.ends_with(&format!("gate `safety`: {sentence} (safety.trifecta)"))), "{lines:#?}");
}

#[test]
fn how_long_it_took_says_what_is_counted() {
    let took = |attempts: u32, duration_ms: Option<u64>, waited_ms: Option<u64>| {
        super::took(&InvocationView { attempts, duration_ms, waited_ms, ..invocation(json!({})) })
    };
    assert_eq!(took(1, Some(12), None).as_deref(), Some("12 ms in 1 attempt"));
    let expected = "1.5 s in 3 attempts, repair and rollback included, and waited 37.0 s for approval";
    assert_eq!(took(3, Some(1_500), Some(37_000)).as_deref(), Some(expected));
    assert_eq!(took(0, Some(2), None).as_deref(), Some("2 ms without a call to its source"));
    assert_eq!(took(1, None, None), None);
}

#[test]
fn what_a_call_changed_and_what_took_it_back_are_listed() {
    let mut done = invocation(json!({}));
    let file = |path: &str, change: &str| ChangedFileView { path: path.into(), change: read(change) };
    done.status = read("succeeded");
    done.changed_files = vec![file("a", "created"), file("b", "changed"), file("c\u{1b}", "removed")];
    done.reverted_by = Some(read("inv_2"));
    let card = Card { invocation: &done, action: None, before: None, foresight: None, names: &Names::default() };
    let drawn = card.lines(&terminal()).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect::<Vec<_>>().join("\n");
    let expected = "\
Changed           + created a
                  ~ changed b
                  − removed c\\u{1b}
Reverted by       inv_2";
    assert!(drawn.contains(expected), "{drawn}");
    (done.reverted_by, done.reverses) = (None, Some(read("inv_0")));
    let card = Card { invocation: &done, action: None, before: None, foresight: None, names: &Names::default() };
    let drawn = card.lines(&terminal()).join("\n");
    assert!(drawn.contains("Restored") && drawn.contains("Reverts") && !drawn.contains("Reverted by"), "{drawn}");
}
