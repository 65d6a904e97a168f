use super::*;
use api::invocation::GateView;
use serde_json::json;

fn view(more: Value) -> InvocationView {
    let mut view = json!({
        "id": "inv_1", "status": "pending", "mode": "require_approval", "mode_source": "inferred_default", "action": "fake.write",
        "source": "fake", "tier": "R2", "class": "write", "session_id": "ses_1", "space_id": "spc_1", "principal": "agent:ses_1",
        "params": { "text": "bye" }, "reason": "tidy up", "dry_run": false, "gates": [], "attempts": 0, "trace_id": "t",
        "decision": { "mode": "require_approval", "base": "require_approval", "source": "inferred_default", "tightened": [] },
        "digests": { "raw": "aa", "params": "bb", "structural": "cc", "textual": "dd" },
        "binding": { "digest": "ee", "expires_at": "2026-11-15T12:04:59Z" }, "created_at": "2026-11-15T11:59:23Z",
    });
    view.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(view).unwrap()
}

/// Each fact as a line, with its time as on a page.
fn lines(view: &InvocationView, action: Option<&Action>, ahead: Option<&ForesightView>) -> Vec<String> {
    let robin = || Some("robin".to_owned());
    let known = Known {
        session_title: Some("release bot".to_owned()),
        requester: view.principal.clone(),
        owner: robin(),
        space: "main (R4)".to_owned(),
        approvers: vec!["robin".to_owned(); view.approvals.len()],
        answerer: robin(),
        editor: robin(),
        settler: robin(),
        before: Some((3, 2)),
        ..Known::default()
    };
    let line =
        |fact: FactView| format!("{}: {}{}{}", fact.label, fact.text, fact.at.map(|at| at.to_minute()).unwrap_or_default(), fact.more);
    Facts { view, action, ahead, known: &known }.all().into_iter().map(line).collect()
}

#[track_caller]
fn has(lines: &[String], expected: &[&str]) {
    for expected in expected {
        assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
    }
}

#[test]
fn the_facts_answer_everything_without_a_further_question() {
    let expected = [
        "Requested by: release bot · agent:ses_1 · for robin · 2026-11-15 11:59 UTC",
        "Reason given: “tidy up”",
        "Space: main (R4)",
        "Decision: inferred from the tier: require_approval",
        "Reversible: yes",
        "Earlier calls: 2 of 3 of this action succeeded in this session",
        "Approval covers: this one call, with these params (bb…), this definition (cc…), caller and place; digest ee…",
    ];
    let action = Action { reversibility: Reversibility::Reversible, checks: Vec::new(), ..testkit::source::action("fake.write") };
    assert_eq!(lines(&view(json!({})), Some(&action), None), expected);
}

#[test]
fn what_the_caller_says_of_its_call_is_among_them() {
    let claimed = json!({ "action_id": "7", "confidence": 0.9, "rollback_plan": { "steps": ["undo"] }, "more": { "ticket": "8" } });
    let said = ["Named by caller: 7", "Confidence given: 0.9", "Rollback plan: {\"steps\":[\"undo\"]}", "Other fields: {\"ticket\":\"8\"}"];
    has(&lines(&view(json!({ "claimed": claimed })), None, None), &said);
}

#[test]
fn what_came_to_nothing_or_was_taken_back_is_not_told_as_reversible() {
    let action = testkit::source::action("fake.write");
    let is_told = |more: Value| lines(&view(more), Some(&action), None).iter().any(|line| line.starts_with("Reversible: "));
    assert!(is_told(json!({ "status": "succeeded" })));
    for status in ["denied", "expired", "cancelled", "reverted"] {
        assert!(!is_told(json!({ "status": status })), "{status}");
    }
    assert!(!is_told(json!({ "status": "succeeded", "reverted_by": "inv_2" })));
}

#[test]
fn the_cascade_is_one_line_from_what_was_found_to_what_holds() {
    let tightened = ["an R4 action is never allowed without a person"];
    let decision =
        json!({ "mode": "require_approval", "base": "allow", "source": "org_default", "modes_version": 3, "tightened": tightened });
    let told = "Decision: set for the org (version 3): allow → an R4 action is never allowed without a person → require_approval";
    has(&lines(&view(json!({ "decision": decision })), None, None), &[told]);
}

#[test]
fn who_approved_what_was_edited_and_what_was_taken_out_is_told() {
    let call = view(json!({
        "approvals": [{ "by": "user:usr_1", "at": "2026-11-15T11:59:00Z", "reason": "fine" }],
        "edit": {
            "by": "user:usr_1", "at": "2026-11-15T11:59:00Z", "changed": ["/text"], "proposed_params": { "text": "hello" },
        },
        "grant_id": "grt_1", "redacted": { "email": 2 }, "released_from": "inv_0", "resumed_at": "2026-11-15T11:58:00Z",
        "gates": [{ "gate": "abac", "verdict": "deny", "determining": [], "errors": ["no such attribute"] }],
    }));
    let told = [
        "Approved by: robin, 2026-11-15 11:59 UTC: “fine”",
        "Resumed: 2026-11-15 11:58 UTC: it was approved and had not started when the server stopped",
        "Edited by: robin, 2026-11-15 11:59 UTC",
        "Edited: /text: \"hello\" → \"bye\"",
        "By grant: grt_1",
        "Redacted: 2 email",
        "Released from: inv_0",
        "Gate error: abac: no such attribute",
    ];
    has(&lines(&call, None, None), &told);
}

#[test]
fn approvals_are_counted_where_more_than_one_is_needed() {
    let counted = |given: usize, needed: u32| {
        let approval = json!({ "by": "user:usr_1", "at": "2026-11-15T11:59:00Z" });
        let ahead = ForesightView { approvals_needed: Some(needed), ..ForesightView::default() };
        let lines = lines(&view(json!({ "approvals": vec![approval; given] })), None, Some(&ahead));
        lines.iter().find_map(|line| line.strip_prefix("Approvals: ")).map(str::to_owned)
    };
    assert_eq!(counted(0, 1), None);
    assert_eq!(counted(0, 2).as_deref(), Some("0 of 2"));
    assert_eq!(counted(1, 2).as_deref(), Some("1 of 2"));
    // The quorum was lowered after the first approval.
    let enough = "1 of 1, which is enough by now: the next one runs it, also by somebody who has approved";
    assert_eq!(counted(1, 1).as_deref(), Some(enough));
}

#[test]
fn whose_code_runs_and_what_will_be_checked_is_told() {
    let digest = countersign_core::Digest::new([1; 32]);
    let checks = vec!["read_back".to_owned(), "node --check {file}".to_owned()];
    let action = Action { package_sha256: Some(digest), checks, ..testkit::source::action("kit.fix") };
    let profile = action.profile;
    let code = format!("Runs code: of the package `kit` (010101010101…), in the sandbox under profile `{profile}`, with no network");
    has(&lines(&view(json!({ "action": "kit.fix" })), Some(&action), None), &[&code, "Verified by: read_back, node --check {file}"]);
}

#[test]
fn who_is_asked_by_the_safety_gate_sees_what_the_session_holds_and_since_when() {
    let gates = json!([
        { "gate": "rbac", "verdict": "ok", "determining": ["role"] },
        { "gate": "safety", "verdict": "needs_approval", "determining": ["safety.trifecta", "safety.tainted_path"] },
    ]);
    let call = view(json!({ "gates": gates }));
    let ahead: ForesightView = serde_json::from_value(json!({
        "concerns": [
            { "rule": "safety.trifecta", "pointer": "", "message": "it sends something away" },
            { "rule": "safety.tainted_path", "pointer": "/path", "message": "the path was read" },
        ],
        "labels": [
            { "label": "private_data", "at": "2026-11-15T11:57:00Z", "invocation_id": "inv_0", "action": "files.read_text" },
            { "label": "untrusted_content", "at": "2026-11-15T11:57:00Z" },
        ],
    }))
    .unwrap();
    let told = [
        "Asked by: gate `safety`: it sends something away (safety.trifecta)",
        "Asked by: gate `safety`: the path was read (safety.tainted_path) at /path",
        "Session holds: private_data since 2026-11-15 11:57 UTC, from files.read_text inv_0",
        "Session holds: untrusted_content since 2026-11-15 11:57 UTC",
    ];
    has(&lines(&call, None, Some(&ahead)), &told);
    // A caller who may not see the foresight, or who looks when the call has ended, still sees the sentence of the rule.
    let sentence = policy::scan::sentence_of("safety.trifecta").unwrap();
    has(&lines(&call, None, None), &[&format!("Asked by: gate `safety`: {sentence} (safety.trifecta)")]);
    let none: Vec<GateView> = Vec::new();
    assert_eq!(reasons::facts(&none, Some(&ahead)), []);
}

#[test]
fn how_long_it_took_says_what_is_counted() {
    let took = |attempts: u32, duration_ms: Option<u64>, waited_ms: Option<u64>| {
        after::took(&InvocationView { attempts, duration_ms, waited_ms, ..view(json!({})) })
    };
    assert_eq!(took(1, Some(12), None).as_deref(), Some("12 ms in 1 attempt"));
    let expected = "1500 ms in 3 attempts, repair and rollback included, and waited 37 seconds for approval";
    assert_eq!(took(3, Some(1_500), Some(37_000)).as_deref(), Some(expected));
    assert_eq!(took(0, Some(2), None).as_deref(), Some("2 ms without a call to its source"));
    assert_eq!(took(1, None, None), None);
}

#[test]
fn what_a_call_changed_and_what_took_it_back_are_told() {
    let files = json!([{ "path": "a", "change": "created" }, { "path": "b", "change": "changed" }]);
    let done = lines(&view(json!({ "status": "succeeded", "changed_files": files, "reverted_by": "inv_2" })), None, None);
    has(&done, &["Changed: + created a", "Changed: ~ changed b", "Reverted by: inv_2"]);
    let revert = lines(&view(json!({ "status": "succeeded", "changed_files": files, "reverses": "inv_0" })), None, None);
    has(&revert, &["Restored: + created a", "Reverts: inv_0"]);
    assert!(!revert.iter().any(|line| line.starts_with("Reverted by")), "{revert:#?}");
}
