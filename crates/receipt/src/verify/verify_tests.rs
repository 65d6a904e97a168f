//! Every way to tamper with a bundle must be found and named by its class, and honest bundles must verify.

use super::*;
use crate::body::{IntentBody, KeyText};
use crate::checkpoint::Checkpoint;
use crate::story::{
    Bundle, FIRST_CHECKPOINT_KEY, FIRST_KEY, NEXT_CHECKPOINT_KEY, NEXT_KEY, STRANGER, Story, at, digest, intent, invocation, key, log,
    policy_slice, receipt, second, slice_of,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use countersign_core::decision::{Lock, ModeSource};
use countersign_core::{Decision, Mode, PrincipalId, ReceiptId, SessionId, Status, Tier, Timestamp};
use proptest::prelude::*;
use serde_json::json;
use std::convert::Infallible;
use std::path::Path;
use std::sync::LazyLock;

static TRUE_STORY: LazyLock<Bundle> = LazyLock::new(|| Story::new().seal());

fn true_story() -> Bundle {
    TRUE_STORY.clone()
}

fn verify_texts(texts: Vec<String>, retained: Option<&str>) -> Report {
    verify(texts.into_iter().map(Ok::<_, Infallible>), &key(FIRST_KEY).public(), retained)
}

fn report(bundle: &Bundle) -> Report {
    verify_texts(bundle.texts(), None)
}

#[track_caller]
fn expect(report: Report, class: Class, seq: Option<u64>) -> Finding {
    assert!(!report.ok, "nothing was found, expected {class:?}");
    let finding = report.first_bad.unwrap();
    assert_eq!((finding.class, finding.name), (class.number(), class.name()), "{finding:?}");
    assert_eq!(finding.seq, seq, "{finding:?}");
    finding
}

/// Signs a story that its key holder has falsified, and checks the finding.
#[track_caller]
fn check(story: Story, class: Class, seq: u64) -> Finding {
    expect(report(&story.seal()), class, Some(seq))
}

#[track_caller]
fn check_bundle(class: Class, seq: Option<u64>, tamper: impl FnOnce(&mut Bundle)) -> Finding {
    let mut bundle = true_story();
    tamper(&mut bundle);
    expect(report(&bundle), class, seq)
}

#[track_caller]
fn holds(bundle: &Bundle) -> Report {
    let report = report(bundle);
    assert!(report.ok, "{:?}", report.first_bad);
    report
}

#[test]
fn a_true_story_holds() {
    let bundle = true_story();
    let report = holds(&bundle);
    assert_eq!((report.entries, report.receipts, report.intents, report.checkpoints), (at::SIZE, 10, 6, 2));
    assert_eq!((report.open_intents, report.artifacts_unchecked), (1, 0));
    assert_eq!(report.warnings, ["1 intent has no receipt yet: running, or in doubt"]);
    let head = report.head.unwrap();
    assert_eq!((head.seq, head.root), (at::SIZE - 1, bundle.roots[at::SIZE as usize]));
    let text = serde_json::to_value(Report { head: None, ..holds(&bundle) }).unwrap();
    assert_eq!((&text["ok"], &text["first_bad"]), (&json!(true), &json!(null)));
}

#[test]
fn the_numbers_of_the_classes_are_stable() {
    let numbers: Vec<_> = Class::ALL.into_iter().map(Class::number).collect();
    assert_eq!(numbers, (1..=21).collect::<Vec<_>>());
}

#[test]
fn class_1_an_edited_body() {
    let finding = check_bundle(Class::EditedBody, Some(at::SEND), |bundle| {
        let edited = bundle.payload(at::SEND).replacen(r#""attempts":1"#, r#""attempts":3"#, 1);
        bundle.envelope(at::SEND).payload = STANDARD.encode(edited);
    });
    assert_eq!(finding.invocation_id, Some(invocation(3).to_string()));
    assert!(finding.receipt_id.is_some());
    check_bundle(Class::EditedBody, Some(at::KEYS), |bundle| {
        let edited = bundle.payload(at::KEYS).replacen(r#""revoked":[]"#, r#""revoked":["x"]"#, 1);
        bundle.envelope(at::KEYS).payload = STANDARD.encode(edited);
    });
    // The `end` line covers the lines that no signature covers.
    let mut texts = true_story().texts();
    let told = texts.iter().position(|text| text.contains("invocation.expired")).unwrap();
    texts[told] = texts[told].replacen("evt_0", "evt_7", 1);
    expect(verify_texts(texts, None), Class::EditedBody, None);
}

#[test]
fn class_2_a_swapped_payload_or_type() {
    check_bundle(Class::SwappedPayload, Some(at::WRITE), |bundle| {
        let (write, send) = (bundle.envelope(at::WRITE).payload.clone(), bundle.envelope(at::SEND).payload.clone());
        bundle.envelope(at::WRITE).payload = send;
        bundle.envelope(at::SEND).payload = write;
    });
    check_bundle(Class::SwappedPayload, Some(at::READ), |bundle| {
        bundle.envelope(at::READ).payload_type = "application/vnd.in-toto+json".to_owned();
    });
}

#[test]
fn class_3_an_unknown_key_or_one_outside_its_window() {
    for (seq, signer, why) in [
        (at::SEND, STRANGER, "not the log's key"),
        (at::FIRST_TRY, FIRST_KEY, "has replaced"),
        (at::EXPIRED, FIRST_KEY, "has replaced"),
        (at::DELETE, NEXT_KEY, "not the log's key"),
        (at::ROTATION, NEXT_KEY, "not the log's key"),
        (at::SEND, FIRST_CHECKPOINT_KEY, "not the log's key"),
    ] {
        let finding = check_bundle(Class::WrongKey, Some(seq), |bundle| {
            let payload = bundle.payload(seq);
            bundle.reseal(seq, &payload, signer);
        });
        assert!(finding.reason.contains(why), "{finding:?}");
    }
    let texts = true_story().texts();
    let by_other = verify(texts.into_iter().map(Ok::<_, Infallible>), &key(STRANGER).public(), None);
    expect(by_other, Class::WrongKey, Some(0));
}

#[test]
fn class_3_keys_that_were_not_announced_as_they_must_be() {
    let text = |seed| json!(KeyText::new(&key(seed).public()));
    let id = |seed| json!([key(seed).key_id()]);
    for (seq, pointer, value) in [
        (at::KEYS, "/replaces", json!("0000000000000000")),
        (at::KEYS, "/starts_at_seq", json!("1")),
        (at::KEYS, "/receipt_key", text(STRANGER)),
        (at::KEYS, "/checkpoint_key", text(FIRST_KEY)),
        (at::ROTATION, "/replaces", json!(null)),
        (at::ROTATION, "/replaces", json!(key(STRANGER).key_id())),
        (at::ROTATION, "/starts_at_seq", json!(at::ROTATION.to_string())),
        (at::ROTATION, "/starts_at_seq", json!((at::ROTATION + 2).to_string())),
        (at::ROTATION, "/revoked", id(NEXT_KEY)),
        (at::ROTATION, "/revoked", id(NEXT_CHECKPOINT_KEY)),
        (at::ROTATION, "/checkpoint_key", text(NEXT_KEY)),
    ] {
        check(Story::new().with(seq, pointer, value), Class::WrongKey, seq);
    }
    let mut headless = Story::new();
    headless.drafts.remove(at::KEYS as usize);
    check(headless, Class::WrongKey, 0);
}

#[test]
fn class_3_a_revoked_key() {
    let revoking = || Story::new().with(at::ROTATION, "/revoked", json!([key(FIRST_KEY).key_id()]));
    holds(&revoking().seal());
    let mut bundle = revoking().seal();
    let payload = bundle.payload(at::FAILED);
    bundle.reseal(at::FAILED, &payload, FIRST_KEY);
    let finding = expect(report(&bundle), Class::WrongKey, Some(at::FAILED));
    assert!(finding.reason.contains("revoked"), "{finding:?}");
    // Not even the key that replaced it can bring it back.
    let back = KeyBody {
        receipt_key: KeyText::new(&key(FIRST_KEY).public()),
        checkpoint_key: KeyText::new(&key(NEXT_CHECKPOINT_KEY).public()),
        replaces: Some(key(NEXT_KEY).key_id().to_owned()),
        starts_at_seq: (at::SIZE + 1).to_string(),
        revoked: Vec::new(),
    };
    check(revoking().and(Kind::Key, &back), Class::WrongKey, at::SIZE);
    holds(&Story::new().and(Kind::Key, &back).seal());
}

#[test]
fn class_3_a_checkpoint_by_another_key() {
    for (size, signer) in
        [(at::SIZE, STRANGER), (at::SIZE, NEXT_KEY), (at::SIZE, FIRST_CHECKPOINT_KEY), (at::ROTATION, NEXT_CHECKPOINT_KEY)]
    {
        check_bundle(Class::WrongKey, None, |bundle| bundle.lines.push(bundle.checkpoint(size, signer)));
    }
}

#[test]
fn class_4_lax_signatures_and_weak_keys() {
    const ORDER: [u8; 16] = [0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14];
    check_bundle(Class::LaxSignature, Some(at::SEND), |bundle| {
        let sig = &mut bundle.envelope(at::SEND).signatures[0].sig;
        let mut bytes = STANDARD.decode(&*sig).unwrap();
        let mut order = [0; 32];
        order[..16].copy_from_slice(&ORDER);
        order[31] = 0x10;
        let mut carry = 0;
        for (byte, add) in bytes[32..].iter_mut().zip(order) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            *byte = sum as u8;
            carry = sum >> 8;
        }
        *sig = STANDARD.encode(bytes);
    });
    check_bundle(Class::LaxSignature, Some(at::SEND), |bundle| {
        bundle.envelope(at::SEND).signatures[0].sig = STANDARD.encode([0; 65]);
    });
    let identity = STANDARD.encode([&[1][..], &[0; 31]].concat());
    for field in ["/receipt_key", "/checkpoint_key"] {
        check(Story::new().with(at::ROTATION, field, json!(identity)), Class::LaxSignature, at::ROTATION);
        check(Story::new().with(at::ROTATION, field, json!("AAAA")), Class::LaxSignature, at::ROTATION);
    }
}

#[test]
fn class_5_a_deleted_entry() {
    for seq in 0..at::SIZE - 1 {
        check_bundle(Class::DeletedEntry, Some(seq), |bundle| drop(bundle.lines.remove(bundle.index(seq))));
        // Relabelling the entries that follow does not close the gap.
        check_bundle(if seq == at::ROTATION { Class::WrongKey } else { Class::DeletedEntry }, Some(seq), |bundle| {
            bundle.lines.remove(bundle.index(seq));
            for line in &mut bundle.lines {
                if let Line::Entry { seq: label, .. } = line {
                    let old = label.parse::<u64>().unwrap();
                    *label = (old - u64::from(old > seq)).to_string();
                }
            }
        });
    }
}

#[test]
fn class_6_reordered_entries() {
    for first in 0..at::SIZE {
        for second in [first + 1, first + 2, at::SIZE - 1].into_iter().filter(|second| (first + 1..at::SIZE).contains(second)) {
            check_bundle(Class::InsertedOrReordered, Some(first), |bundle| {
                let (first, second) = (bundle.index(first), bundle.index(second));
                bundle.lines.swap(first, second);
            });
        }
    }
}

#[test]
fn class_6_an_inserted_entry() {
    // The entry was made by someone who holds the key but does not have the entries before.
    let finding = check_bundle(Class::InsertedOrReordered, Some(at::SEND), |bundle| {
        let prev = entry_prev(bundle, at::SEND);
        let payload = bundle.payload(at::SEND).replace(&prev, &digest("another past").to_string());
        bundle.reseal(at::SEND, &payload, FIRST_KEY);
    });
    assert!(finding.reason.contains("another one"), "{finding:?}");
    check_bundle(Class::InsertedOrReordered, Some(at::SEND), |bundle| {
        let other = LogId::new(second(0), [77; 10]);
        let payload = bundle.payload(at::SEND).replace(log().as_str(), other.as_str());
        bundle.reseal(at::SEND, &payload, FIRST_KEY);
    });
    let mut texts = true_story().texts();
    texts.push(texts[1].clone());
    expect(verify_texts(texts, None), Class::InsertedOrReordered, None);
    expect(with_end(at::SIZE - 1), Class::InsertedOrReordered, None);
}

fn entry_prev(bundle: &mut Bundle, seq: u64) -> String {
    Entry::parse(&bundle.payload(seq)).unwrap().header.prev.to_string()
}

/// The story with another count in its `end` line.
fn with_end(entries: u64) -> Report {
    let mut texts = true_story().texts();
    let end = texts.pop().unwrap();
    texts.push(end.replacen(&format!(r#""entries":"{}""#, at::SIZE), &format!(r#""entries":"{entries}""#), 1));
    verify_texts(texts, None)
}

#[test]
fn class_7_an_entry_or_an_id_twice() {
    for seq in 0..at::SIZE {
        check_bundle(Class::Duplicate, Some(seq), |bundle| {
            let index = bundle.index(seq);
            bundle.lines.insert(index + 1, bundle.lines[index].clone());
        });
    }
    let story = Story::new();
    let written = json!(story.receipt(at::WRITE).receipt_id);
    check(story.with(at::SEND, "/receipt_id", written), Class::Duplicate, at::SEND);
    let story = Story::new();
    let first = json!(story.intent(at::FIRST_TRY).intent_id);
    check(story.with(at::SECOND_TRY, "/intent_id", first), Class::Duplicate, at::SECOND_TRY);
}

#[test]
fn class_8_a_truncated_tail() {
    // The log is cut down to before the rotation, so that the key of the last checkpoint is missing too.
    for kept in [at::SIZE - 1, at::ROTATION + 1, at::ROTATION, at::WRITE] {
        check_bundle(Class::TruncatedTail, Some(kept), |bundle| {
            bundle.lines.retain(|line| !matches!(line, Line::Entry { seq, .. } if seq.parse::<u64>().unwrap() >= kept));
        });
    }
    let mut texts = true_story().texts();
    while texts.len() > 1 {
        texts.pop();
        expect(verify_texts(texts.clone(), None), Class::TruncatedTail, None);
    }
    expect(with_end(at::SIZE + 1), Class::TruncatedTail, None);
}

#[test]
fn class_9_a_forged_root() {
    for (size, signer) in [(0, FIRST_CHECKPOINT_KEY), (at::ROTATION, FIRST_CHECKPOINT_KEY), (at::SIZE - 1, NEXT_CHECKPOINT_KEY)] {
        check_bundle(Class::ForgedRoot, None, |bundle| {
            bundle.lines.retain(|line| !matches!(line, Line::Checkpoint { .. }));
            let note = Checkpoint::new(&log(), size, digest("another root")).sign(&key(signer));
            bundle.lines.push(Line::Checkpoint { note });
        });
    }
    let edits: [fn(&str) -> String; 3] =
        [|note| note.replacen("\n25\n", "\n24\n", 1), |note| note.replacen("\n25\n", "\n26\n", 1), |note| note.replacen('\n', "", 1)];
    for edit in edits {
        check_bundle(Class::ForgedRoot, None, |bundle| {
            let note = edit(&bundle.note(at::SIZE, NEXT_CHECKPOINT_KEY));
            bundle.lines.push(Line::Checkpoint { note });
        });
    }
}

#[test]
fn class_10_a_fork_or_a_rollback() {
    check_bundle(Class::ForkOrRollback, None, |bundle| {
        let note = Checkpoint::new(&log(), at::SIZE, digest("another root")).sign(&key(NEXT_CHECKPOINT_KEY));
        bundle.lines.push(Line::Checkpoint { note });
    });

    let original = true_story();
    for size in 0..=at::SIZE {
        let signer = if size > at::ROTATION { NEXT_CHECKPOINT_KEY } else { FIRST_CHECKPOINT_KEY };
        let report = verify_texts(original.texts(), Some(&original.note(size, signer)));
        assert!(report.ok, "{size}: {:?}", report.first_bad);
    }
    let retained = original.note(at::SIZE, NEXT_CHECKPOINT_KEY);

    // Someone who holds every key has rewritten everything. Only the retained note shows it.
    let rewritten = Story::new().with(at::READ, "/cost/cpu_ms", json!(4)).seal();
    holds(&rewritten);
    let finding = expect(verify_texts(rewritten.texts(), Some(&retained)), Class::ForkOrRollback, None);
    assert!(finding.reason.contains("not those"), "{finding:?}");

    let mut earlier = Story::new();
    earlier.drafts.truncate(at::OPEN_INTENT as usize);
    let earlier = earlier.seal();
    holds(&earlier);
    let finding = expect(verify_texts(earlier.texts(), Some(&retained)), Class::ForkOrRollback, None);
    assert!(finding.reason.contains("are left"), "{finding:?}");
}

#[test]
fn class_11_a_checkpoint_of_another_log() {
    let other = LogId::new(second(0), [77; 10]);
    check_bundle(Class::OtherLog, None, |bundle| {
        let note = Checkpoint::new(&other, at::SIZE, bundle.roots[at::SIZE as usize]).sign(&key(NEXT_CHECKPOINT_KEY));
        bundle.lines.push(Line::Checkpoint { note });
    });
    let bundle = true_story();
    let note = Checkpoint::new(&other, at::SIZE, bundle.roots[at::SIZE as usize]).sign(&key(NEXT_CHECKPOINT_KEY));
    expect(verify_texts(bundle.texts(), Some(&note)), Class::OtherLog, None);
}

#[test]
fn class_12_time_running_backwards() {
    let set_back = |micros: i64| {
        let mut story = Story::new();
        let before = story.drafts[at::SEND as usize - 1].at;
        story.drafts[at::SEND as usize].at = Timestamp::from_micros(before.as_micros() - micros);
        story
    };
    holds(&set_back(0).seal());
    check(set_back(1), Class::TimeBackwards, at::SEND);
    // The clock is told only where it was behind.
    let told = |clock: Timestamp| {
        let mut story = Story::new();
        story.drafts[at::SEND as usize].clock = Some(clock);
        story
    };
    let recorded = Story::new().drafts[at::SEND as usize].at;
    holds(&told(Timestamp::from_micros(recorded.as_micros() - 1)).seal());
    check(told(recorded), Class::TimeBackwards, at::SEND);

    let started_at = Story::new().receipt(at::SEND).timing.started_at.unwrap();
    let earlier = Timestamp::from_micros(started_at.as_micros() - 1);
    check(Story::new().with(at::SEND, "/timing/ended_at", json!(earlier)), Class::TimeBackwards, at::SEND);
    holds(&Story::new().with(at::SEND, "/timing/ended_at", json!(started_at)).seal());
}

/// The story without one of its entries, signed anew.
fn without(seq: u64) -> Story {
    let mut story = Story::new();
    story.drafts.remove(seq as usize);
    for draft in &mut story.drafts[seq as usize..] {
        if let Some(starts) = draft.body.get_mut("starts_at_seq") {
            *starts = json!((starts.as_str().unwrap().parse::<u64>().unwrap() - 1).to_string());
        }
    }
    story
}

#[test]
fn class_13_an_outcome_without_its_intent() {
    for seq in [at::WRITE_INTENT, at::SEND_INTENT, at::DELETE_INTENT] {
        check(without(seq), Class::UnpairedOutcome, seq);
    }
    // The remaining intent is that of the second attempt.
    check(without(at::FIRST_TRY), Class::UnpairedOutcome, at::FIRST_TRY);
    check(without(at::SECOND_TRY), Class::UnpairedOutcome, at::SECOND_TRY);
    check(
        Story::new().with(at::DRY_RUN, "/dry_run", json!(false)).with(at::DRY_RUN, "/approval", approval()),
        Class::UnpairedOutcome,
        at::DRY_RUN,
    );
    check(Story::new().with(at::SECOND_TRY, "/attempt", json!(1)), Class::UnpairedOutcome, at::SECOND_TRY);
    check(Story::new().with(at::EXPIRED, "/status", json!("in_doubt")), Class::UnpairedOutcome, at::EXPIRED);
}

/// Fields that an intent and a receipt both have, with another value, and the receipt's own path where it differs.
fn other_calls() -> Vec<(&'static str, serde_json::Value, Option<&'static str>)> {
    let definition = Story::new().receipt(at::READ).definition;
    vec![
        ("/principal", json!(PrincipalId::User(countersign_core::UserId::new(second(0), [78; 10]))), None),
        ("/space", json!(countersign_core::SpaceId::new(second(0), [78; 10])), None),
        ("/tier", json!("R1"), None),
        ("/definition/structural", json!(definition.structural), None),
        ("/definition/textual", json!(definition.textual), None),
        ("/params", json!(digest("other params")), None),
        ("/raw", json!(digest("other params")), None),
        ("/idempotency_key", json!(digest("other key")), None),
        ("/profile", json!("container"), Some("/sandbox/profile")),
        ("/profile", json!(""), Some("/sandbox/profile")),
        ("/trace_id", json!("1af7651916cd43dd8448eb211c80319c"), None),
    ]
}

#[test]
fn class_13_an_outcome_of_another_call_than_the_one_announced() {
    for (field, value, in_receipt) in other_calls() {
        for seq in [at::WRITE, at::DELETE, at::FAILED] {
            // The tier also changes the decision of a dangerous action, which then would not follow; but that is found later.
            check(Story::new().with(seq, in_receipt.unwrap_or(field), value.clone()), Class::UnpairedOutcome, seq);
        }
        check(Story::new().with(at::WRITE_INTENT, field, value.clone()), Class::UnpairedOutcome, at::WRITE);
        // Every attempt must be of the same call.
        check(Story::new().with(at::SECOND_TRY, field, value), Class::UnpairedOutcome, at::SECOND_TRY);
    }
    // A connection is named only where there is one, so the two differ also if one of them names none.
    let connection = |byte: u8| Some(countersign_core::ConnectionId::new(second(0), [byte; 10]));
    let decision = Story::new().receipt(at::READ).decision;
    let connected = |byte: u8| ReceiptBody {
        connection_id: connection(byte),
        idempotency_key: Some(digest("connected")),
        ..receipt(50, "files.read_text", Tier::R0, decision.clone(), Status::Succeeded)
    };
    let announced = |byte: u8| Story::new().and(Kind::Intent, &intent(&connected(byte), 1));
    holds(&announced(1).and(Kind::Receipt, &connected(1)).seal());
    check(announced(1).and(Kind::Receipt, &connected(2)), Class::UnpairedOutcome, at::SIZE + 1);
    let unnamed = ReceiptBody { connection_id: None, ..connected(1) };
    check(announced(1).and(Kind::Receipt, &unnamed), Class::UnpairedOutcome, at::SIZE + 1);
    check(Story::new().with(at::SEND, "/action", json!("files.write_text")), Class::UnpairedOutcome, at::SEND);
    check(Story::new().with(at::WRITE, "/idempotency_key", json!(null)), Class::UnpairedOutcome, at::WRITE);
}

#[test]
fn class_13_attempts_that_were_not_all_announced() {
    for (seq, attempts) in [
        (at::WRITE, 0),
        (at::WRITE, 2),
        (at::FAILED, 0),
        (at::FAILED, 1),
        (at::FAILED, 3),
        // If nothing was to run, there was no attempt.
        (at::DENIED, 1),
        (at::GATED, 1),
        (at::EXPIRED, 1),
        (at::DRY_RUN, 1),
    ] {
        check(Story::new().with(seq, "/attempts", json!(attempts)), Class::UnpairedOutcome, seq);
    }
    for (seq, attempt) in [(at::WRITE_INTENT, 0), (at::WRITE_INTENT, 2), (at::SECOND_TRY, 3), (at::SECOND_TRY, 1)] {
        check(Story::new().with(seq, "/attempt", json!(attempt)), Class::UnpairedOutcome, seq);
    }
    // A read may be repeated without an intent, unless it has an idempotency key or an approval.
    holds(&Story::new().with(at::READ, "/attempts", json!(3)).seal());
    check(Story::new().with(at::READ, "/idempotency_key", json!(digest("key"))), Class::UnpairedOutcome, at::READ);
    check(Story::new().with(at::READ, "/approval", approval()), Class::UnpairedOutcome, at::READ);
    let keyed = || ReceiptBody {
        idempotency_key: Some(digest("key")),
        ..receipt(50, "files.read_text", Tier::R0, Story::new().receipt(at::READ).decision, Status::Succeeded)
    };
    holds(&Story::new().and(Kind::Intent, &intent(&keyed(), 1)).and(Kind::Receipt, &keyed()).seal());
    let two = ReceiptBody { attempts: 2, ..keyed() };
    check(Story::new().and(Kind::Intent, &intent(&two, 1)).and(Kind::Receipt, &two), Class::UnpairedOutcome, at::SIZE + 1);
}

#[test]
fn class_13_what_was_announced_ends_as_something_that_was_tried() {
    let ending = |change: fn(&mut ReceiptBody)| {
        let story = Story::new();
        let mut body = ReceiptBody {
            error: Some("store_unavailable".to_owned()),
            outputs: None,
            ..receipt(10, "files.write_text", Tier::R2, story.receipt(at::WRITE).decision, Status::Failed)
        };
        change(&mut body);
        story.and(Kind::Receipt, &body)
    };
    // The intent was written and nothing was sent. It still counts as the attempt it announced.
    assert_eq!(holds(&ending(|_| ()).seal()).open_intents, 0);
    for change in [
        (|body| body.attempts = 0) as fn(&mut ReceiptBody),
        |body| body.status = Status::Expired,
        |body| (body.status, body.attempts) = (Status::Expired, 0),
        |body| (body.status, body.attempts) = (Status::Denied, 0),
        |body| (body.status, body.attempts, body.dry_run) = (Status::Succeeded, 0, true),
        |body| (body.status, body.attempts, body.replayed) = (Status::Succeeded, 0, true),
    ] {
        check(ending(change), Class::UnpairedOutcome, at::SIZE);
    }
}

fn approval() -> serde_json::Value {
    json!({ "approvers": [PrincipalId::User(countersign_core::UserId::new(second(0), [2; 10]))], "binding": digest("binding") })
}

#[test]
fn class_13_two_outcomes_or_an_effect_after_the_outcome() {
    let again = |supersedes: Option<ReceiptId>| {
        let story = Story::new();
        let receipt_id = ReceiptId::new(second(9), [1; 10]);
        let second_one = ReceiptBody { receipt_id, supersedes, ..story.receipt(at::WRITE) };
        story.and(Kind::Receipt, &second_one)
    };
    let first = Story::new().receipt(at::WRITE).receipt_id;
    check(again(None), Class::UnpairedOutcome, at::SIZE);
    check(again(Some(ReceiptId::new(second(8), [1; 10]))), Class::UnpairedOutcome, at::SIZE);
    check(again(Some(ReceiptId::new(second(9), [1; 10]))), Class::UnpairedOutcome, at::SIZE);
    check(again(Some(Story::new().receipt(at::SEND).receipt_id)), Class::UnpairedOutcome, at::SIZE);
    let itself = json!(Story::new().receipt(at::READ).receipt_id);
    check(Story::new().with(at::READ, "/supersedes", itself), Class::UnpairedOutcome, at::READ);
    // A correcting receipt names the receipt that it corrects.
    holds(&again(Some(first)).seal());

    let story = Story::new();
    let late = intent(&story.receipt(at::WRITE), 2);
    check(story.and(Kind::Intent, &late), Class::UnpairedOutcome, at::SIZE);
}

#[test]
fn an_intent_without_a_receipt_is_told() {
    // A crash leaves an intent without a receipt, and the report says just that.
    assert_eq!(holds(&true_story()).open_intents, 1);
}

#[test]
fn class_8_a_bundle_without_an_entry_proves_nothing_under_any_key() {
    let empty = Bundle { log: crate::story::log(), lines: Vec::new(), roots: vec![crate::tree::empty_root()] };
    for pinned in [FIRST_KEY, STRANGER] {
        expect(verify(empty.texts().into_iter().map(Ok::<_, String>), &key(pinned).public(), None), Class::TruncatedTail, None);
    }
    let mut noted = empty;
    noted.lines.push(noted.checkpoint(0, FIRST_CHECKPOINT_KEY));
    assert!(!report(&noted).ok);
}

#[test]
fn class_14_an_answer_by_somebody_who_could_not_give_it() {
    // Nobody answered; the answer was for another call; it was a denial; another person gave it.
    for (pointer, value) in
        [("/invocation_id", json!(invocation(5))), ("/binding", json!(digest("another binding"))), ("/answer", json!("deny"))]
    {
        check(Story::new().with(at::SEND_ANSWER, pointer, value), Class::EffectDespiteDenial, at::SEND_INTENT);
    }
    // The log says who had which role and which token.
    let other = countersign_core::UserId::new(second(0), [77; 10]);
    for (pointer, value) in [
        ("/role", json!("admin")),
        ("/by", json!(PrincipalId::User(other.clone()))),
        ("/by", json!(PrincipalId::Agent(SessionId::new(second(0), [4; 10])))),
        ("/token", json!(countersign_core::TokenId::new(second(0), [77; 10]))),
    ] {
        check(Story::new().with(at::SEND_ANSWER, pointer, value), Class::EffectDespiteDenial, at::SEND_ANSWER);
    }
    check(Story::new().with(at::OWNER, "/change/role", json!("member")), Class::EffectDespiteDenial, at::OWNER);
    check(Story::new().with(at::OWNER, "/change/user", json!(other)), Class::EffectDespiteDenial, at::OWNER_TOKEN);
    // A token that somebody else made, and a call that nobody is known to have denied.
    let maker = json!(PrincipalId::User(other));
    check(Story::new().with(at::OWNER_TOKEN, "/by", maker), Class::EffectDespiteDenial, at::OWNER_TOKEN);
    check(Story::new().with(at::DENIED, "/denied_by", json!("person")), Class::EffectDespiteDenial, at::DENIED);
}

#[test]
fn what_is_judged_by_time_is_judged_by_the_clock_of_its_moment() {
    let header =
        Header { log: crate::story::log(), seq: 1, prev: digest("prev"), kind: Kind::Rule, at: second(7_200), clock: Some(second(60)) };
    assert_eq!(header.judged_at(), second(60));
    let text = crate::entry::payload(&header, "{}");
    assert!(text.contains(r#""at":"2025-11-15T02:00:00.000000Z","clock":"2025-11-15T00:01:00.000000Z","kind""#), "{text}");
    assert_eq!(crate::entry::Entry::parse(&text).unwrap().header, header);
}

fn event(name: &str, receipt_id: ReceiptId, number: u8) -> Line {
    let event_id = countersign_core::EventId::new(second(1), [9; 10]);
    Line::Event { event_id, name: name.to_owned(), receipt_id, invocation_id: Some(invocation(number)) }
}

#[test]
fn class_13_a_replay_rests_on_an_earlier_answer() {
    let replay = |key: &str| {
        let story = Story::new();
        let earlier = story.receipt(at::WRITE);
        let body = ReceiptBody {
            receipt_id: ReceiptId::new(second(9), [1; 10]),
            invocation_id: invocation(50),
            attempts: 0,
            replayed: true,
            idempotency_key: Some(digest(key)),
            ..earlier
        };
        story.and(Kind::Receipt, &body)
    };
    holds(&replay("idempotency key").seal());
    check(replay("another key"), Class::UnpairedOutcome, at::SIZE);
}

#[test]
fn class_14_an_effect_despite_a_denial() {
    for (seq, status) in
        [(at::READ, "succeeded"), (at::WRITE, "succeeded"), (at::DELETE, "reverted"), (at::FAILED, "failed"), (at::DRY_RUN, "succeeded")]
    {
        for gate in ["rbac", "space", "redaction"] {
            let story = Story::new().with(seq, &format!("/policy/{gate}/verdict"), json!("deny"));
            assert_eq!(story.drafts[seq as usize].body["status"], status);
            check(story, Class::EffectDespiteDenial, seq);
        }
    }
    check(Story::new().with(at::SEND, "/approval", json!(null)), Class::EffectDespiteDenial, at::SEND);
    check(Story::new().with(at::SEND, "/approval/approvers", json!([])), Class::EffectDespiteDenial, at::SEND);
    check(Story::new().with(at::DELETE, "/approval", json!(null)), Class::EffectDespiteDenial, at::DELETE);
    check(Story::new().with(at::DENIED, "/status", json!("succeeded")), Class::EffectDespiteDenial, at::DENIED);
    check(Story::new().with(at::AUTOMATED, "/status", json!("reverted")), Class::EffectDespiteDenial, at::AUTOMATED);
    check(Story::new().with(at::GATED, "/status", json!("succeeded")), Class::EffectDespiteDenial, at::GATED);
    // An intent is the start of an effect, so it needs the permission too.
    check(Story::new().with(at::SEND_INTENT, "/approval", json!(null)), Class::EffectDespiteDenial, at::SEND_INTENT);
    let story = Story::new();
    let denial = Decision::new(Mode::Deny, ModeSource::OrgDefault, Some(4));
    let refused = receipt(60, "files.delete", Tier::R4, denial, Status::Running);
    let story = story.and(Kind::Mode, &mode("org", "files.delete", Some(Mode::Deny), 4));
    check(story.and(Kind::Intent, &intent(&refused, 1)), Class::EffectDespiteDenial, at::SIZE + 1);
}

#[test]
fn class_14_an_effect_by_another_right_than_the_one_announced() {
    let other = json!([PrincipalId::User(countersign_core::UserId::new(second(0), [78; 10]))]);
    for (field, value) in [("/approval/approvers", other), ("/approval/binding", json!(digest("another binding")))] {
        check(Story::new().with(at::SEND, field, value.clone()), Class::EffectDespiteDenial, at::SEND);
        check(Story::new().with(at::SEND_INTENT, field, value), Class::EffectDespiteDenial, at::SEND_INTENT);
    }
    check(Story::new().with(at::WRITE, "/approval", approval()), Class::EffectDespiteDenial, at::WRITE);
    check(Story::new().with(at::SECOND_TRY, "/approval", approval()), Class::EffectDespiteDenial, at::SECOND_TRY);

    // Each of the two decisions follows from the log at its time, but the call was started under the first one only.
    let ended_by = |version| {
        let decision = |version| Decision::new(Mode::Allow, ModeSource::OrgDefault, Some(version));
        let begun = receipt(20, "files.write_text", Tier::R2, decision(1), Status::Succeeded);
        let ended = receipt(20, "files.write_text", Tier::R2, decision(version), Status::Succeeded);
        let story = Story::new().and(Kind::Intent, &intent(&begun, 1));
        story.and(Kind::Mode, &mode("org", "files.write_text", Some(Mode::Allow), 4)).and(Kind::Receipt, &ended)
    };
    holds(&ended_by(1).seal());
    check(ended_by(4), Class::EffectDespiteDenial, at::SIZE + 2);
}

fn mode(scope: &str, action: &str, mode: Option<Mode>, version: i64) -> ModeBody {
    let by = PrincipalId::User(countersign_core::UserId::new(second(0), [2; 10]));
    ModeBody { scope: scope.to_owned(), action: countersign_core::ActionId::parse(action).unwrap(), mode, lock: Lock::Open, version, by }
}

#[test]
fn class_15_a_decision_that_does_not_follow() {
    let decided = |decision: Decision| json!(decision);
    let inferred = |mode| decided(Decision::new(mode, ModeSource::InferredDefault, None));
    let by_org = |mode, version| decided(Decision::new(mode, ModeSource::OrgDefault, Some(version)));
    let by_automation = |mode, version| decided(Decision::new(mode, ModeSource::AutomationOverride, Some(version)));
    for (seq, decision) in [
        (at::EXPIRED, inferred(Mode::Allow)),
        (at::EXPIRED, inferred(Mode::Deny)),
        (at::EXPIRED, decided(Decision::new(Mode::RequireApproval, ModeSource::InferredDefault, Some(1)))),
        (at::GATED, inferred(Mode::RequireApproval)),
        (at::DENIED, inferred(Mode::RequireApproval)),
        // No such row, not yet there, of another action, of another version, of another mode, without a version.
        (at::EXPIRED, by_org(Mode::Deny, 9)),
        (at::DENIED, by_org(Mode::Deny, 2)),
        (at::EXPIRED, by_org(Mode::Allow, 1)),
        (at::AUTOMATED, by_org(Mode::Allow, 2)),
        (at::AUTOMATED, by_org(Mode::Deny, 1)),
        (at::AUTOMATED, decided(Decision::new(Mode::Allow, ModeSource::OrgDefault, None))),
        // An org's row does not decide for an automation's, nor the reverse.
        (at::AUTOMATED, by_automation(Mode::Allow, 1)),
        (at::AUTOMATED, by_org(Mode::Deny, 3)),
    ] {
        check(Story::new().with(seq, "/decision", decision), Class::DecisionNotReproduced, seq);
    }
    for seq in [at::DELETE_INTENT, at::DELETE] {
        check(Story::new().with(seq, "/decision/tightened", json!([])), Class::DecisionNotReproduced, seq);
        check(Story::new().with(seq, "/decision", by_org(Mode::Allow, 2)), Class::DecisionNotReproduced, seq);
    }
    check(Story::new().with(at::GATED, "/decision/mode", json!("require_approval")), Class::DecisionNotReproduced, at::GATED);
    // A removed row decides nothing, and neither does the row of another automation.
    check(Story::new().with(at::WRITE_MODE, "/mode", json!(null)), Class::DecisionNotReproduced, at::WRITE_INTENT);
    check(Story::new().with(at::DELETE_MODE, "/version", json!(7)), Class::DecisionNotReproduced, at::DELETE_INTENT);
    let other = format!("automation:{}", countersign_core::AutomationId::new(second(0), [78; 10]));
    check(Story::new().with(at::AUTOMATION_MODE, "/scope", json!(other)), Class::DecisionNotReproduced, at::AUTOMATED);
    // An agent that acts for an automation does not name it.
    let agent = json!(Story::new().receipt(at::READ).principal);
    holds(&Story::new().with(at::AUTOMATED, "/principal", agent.clone()).seal());
    check(
        Story::new().with(at::AUTOMATED, "/principal", agent).with(at::AUTOMATION_MODE, "/scope", json!("org")),
        Class::DecisionNotReproduced,
        at::AUTOMATED,
    );
}

fn inferred(mode: Mode) -> Decision {
    Decision::new(mode, ModeSource::InferredDefault, None)
}

fn by_org(mode: Mode, version: i64) -> Decision {
    Decision::new(mode, ModeSource::OrgDefault, Some(version))
}

/// Milliseconds after the story began.
fn milli(millis: u64) -> Timestamp {
    Timestamp::from_micros(second(0).as_micros() + millis as i64 * 1_000)
}

/// A read as it is decided and recorded, with the digest of the row that decided.
fn read(asked_at: Timestamp, ended_at: Timestamp, decision: Decision) -> ReceiptBody {
    let status = if decision.mode == Mode::Allow { Status::Succeeded } else { Status::Denied };
    let mut body = receipt(70, "files.read_text", Tier::R0, decision, status);
    body.attempts = u32::from(status == Status::Succeeded);
    body.invocation_id = countersign_core::InvocationId::new(asked_at, [70; 10]);
    body.timing.total_ms = ended_at.millis_since(asked_at);
    (body.timing.started_at, body.timing.ended_at) = (None, ended_at);
    body
}

/// The story, after which `files.read_text` is denied from second 100 on, allowed from 120 on, and without a row from 140 on.
fn changing() -> Story {
    let mut story = Story::new();
    let changes = [(100, Some(Mode::Deny), 4), (120, Some(Mode::Allow), 5), (140, None, 6)];
    for (seconds, row, version) in changes {
        story = story.and(Kind::Mode, &mode("org", "files.read_text", row, version)).retimed(second(seconds));
    }
    story
}

#[test]
fn class_15_a_mode_that_was_not_in_force_while_the_call_lived() {
    let recorded = |body: &ReceiptBody| changing().and(Kind::Receipt, body).retimed(second(200));
    let short = |asked_ms: u64, decision: &Decision| recorded(&read(milli(asked_ms), milli(asked_ms + 10), decision.clone()));
    let seq = at::SIZE + 3;
    // The last moment at which a call may have been requested and still have seen these rules; the clocks may be five seconds apart.
    for (decision, last_ms) in [(inferred(Mode::Allow), 105_000), (by_org(Mode::Deny, 4), 125_000), (by_org(Mode::Allow, 5), 145_000)] {
        holds(&short(last_ms, &decision).seal());
        holds(&short(last_ms - 50_000, &decision).seal());
        holds(&recorded(&read(milli(last_ms), second(199), decision.clone())).seal());
        if decision.source == ModeSource::OrgDefault {
            check(short(last_ms + 1, &decision), Class::DecisionNotReproduced, seq);
            check(short(last_ms + 40_000, &decision), Class::DecisionNotReproduced, seq);
        } else {
            // There is no row again, so the inferred mode is right again.
            holds(&short(last_ms + 1, &decision).seal());
        }
    }
    // These were never in force: the mode of one row with the version of another, or a row that was removed.
    for decision in [by_org(Mode::Deny, 5), by_org(Mode::Allow, 4), by_org(Mode::Allow, 6), inferred(Mode::Deny)] {
        check(short(90_000, &decision), Class::DecisionNotReproduced, seq);
    }
    // The verifier believes a time of request only if the id and the timing both say it.
    let mut slow = read(milli(150_000), milli(150_010), by_org(Mode::Deny, 4));
    slow.timing.total_ms = 60_000;
    check(recorded(&slow), Class::DecisionNotReproduced, seq);
    let mut old = read(milli(150_000), milli(150_010), by_org(Mode::Deny, 4));
    old.invocation_id = countersign_core::InvocationId::new(second(90), [70; 10]);
    check(recorded(&old), Class::DecisionNotReproduced, seq);
}

#[test]
fn class_15_what_is_inferred_while_a_row_says_otherwise() {
    let recorded = |asked_ms: u64| {
        let mut story = changing();
        story.drafts.truncate(at::SIZE as usize + 1);
        story.and(Kind::Receipt, &read(milli(asked_ms), milli(asked_ms + 10), inferred(Mode::Allow))).retimed(second(200))
    };
    holds(&recorded(105_000).seal());
    check(recorded(105_001), Class::DecisionNotReproduced, at::SIZE + 1);
    // A row cannot decide before it is in the log.
    let mut early = Story::new().and(Kind::Receipt, &read(second(99), second(101), by_org(Mode::Deny, 4)));
    early.drafts.extend(changing().drafts.drain(at::SIZE as usize..));
    check(early, Class::DecisionNotReproduced, at::SIZE);
}

#[test]
fn class_15_an_intent_by_a_mode_that_was_no_longer_in_force() {
    let begun = |asked_ms: u64| {
        let story = Story::new().and(Kind::Mode, &mode("org", "files.write_text", Some(Mode::Deny), 4)).retimed(second(100));
        let mut body: IntentBody = intent(&story.receipt(at::WRITE), 1);
        body.invocation_id = countersign_core::InvocationId::new(milli(asked_ms), [70; 10]);
        body.intent_id = countersign_core::IntentId::new(second(100), [70; 10]);
        story.and(Kind::Intent, &body).retimed(second(200))
    };
    holds(&begun(105_000).seal());
    check(begun(105_001), Class::DecisionNotReproduced, at::SIZE + 1);
}

#[test]
fn class_15_an_automation_is_decided_by_its_own_row_first() {
    let automation = PrincipalId::Automation(countersign_core::AutomationId::new(second(0), [3; 10]));
    let asked = |principal: &PrincipalId, decision: Decision| {
        let mut body = receipt(80, "files.write_text", Tier::R2, decision, Status::Denied);
        (body.principal, body.attempts, body.outputs) = (principal.clone(), 0, None);
        Story::new().and(Kind::Receipt, &body)
    };
    let agent = Story::new().receipt(at::READ).principal;
    // The log does not say whether an agent acts for an automation.
    holds(&asked(&agent, by_org(Mode::Allow, 1)).seal());
    check(asked(&automation, by_org(Mode::Allow, 1)), Class::DecisionNotReproduced, at::SIZE);
    check(asked(&automation, inferred(Mode::RequireApproval)), Class::DecisionNotReproduced, at::SIZE);
    check(asked(&agent, inferred(Mode::RequireApproval)), Class::DecisionNotReproduced, at::SIZE);
}

#[test]
fn class_15_a_version_that_does_not_grow() {
    for version in [3, 2, 0, -1] {
        let again = mode("org", "http.request", Some(Mode::Allow), version);
        check(Story::new().and(Kind::Mode, &again), Class::DecisionNotReproduced, at::SIZE);
    }
    holds(&Story::new().and(Kind::Mode, &mode("org", "http.request", Some(Mode::Allow), 4)).seal());
}

#[test]
fn class_15_a_policy_slice_of_other_rules() {
    for seq in [at::READ, at::WRITE, at::SEND, at::DENIED, at::DELETE, at::FAILED, at::DRY_RUN, at::AUTOMATED, at::GATED, at::EXPIRED] {
        for slice in [digest("policy slice"), countersign_core::Digest::new([0; 32]), policy_slice(None, Some((Mode::Deny, 9)))] {
            check(Story::new().with(seq, "/policy_slice", json!(slice)), Class::DecisionNotReproduced, seq);
        }
    }
    // The call saw the org's row too, even though the automation's row decided.
    let alone = slice_of(&Story::new().receipt(at::AUTOMATED).decision);
    check(Story::new().with(at::AUTOMATED, "/policy_slice", json!(alone)), Class::DecisionNotReproduced, at::AUTOMATED);
    // The decision of one moment with the rules of another, both during the call.
    let mut body = read(second(110), second(130), by_org(Mode::Allow, 5));
    holds(&changing().and(Kind::Receipt, &body).retimed(second(200)).seal());
    body.policy_slice = slice_of(&by_org(Mode::Deny, 4));
    check(changing().and(Kind::Receipt, &body).retimed(second(200)), Class::DecisionNotReproduced, at::SIZE + 3);
}

#[test]
fn class_15_a_definition_that_is_not_archived_or_not_that_one() {
    let needed_first = [at::READ, at::READ, at::WRITE_INTENT, at::WRITE_INTENT, at::SEND_INTENT, at::SEND_INTENT, at::DENIED, at::DENIED];
    for (index, seq) in needed_first.into_iter().enumerate() {
        let mut story = Story::new();
        story.definitions.remove(index);
        check(story, Class::DecisionNotReproduced, seq);
    }
    let digest_of_nothing = json!(digest(""));
    for field in ["/definition/structural", "/definition/textual"] {
        check(Story::new().with(at::EXPIRED, field, digest_of_nothing.clone()), Class::DecisionNotReproduced, at::EXPIRED);
    }
    check_bundle(Class::DecisionNotReproduced, None, |bundle| {
        bundle.lines.push(Line::Definition { digest: digest("a"), body: "b".to_owned() });
    });
    // The definition says R0, and the caller may say R1. Where it says R3, nobody may say R2, although the decision would be the same.
    holds(&Story::new().with(at::GATED, "/tier", json!("R1")).seal());
    let lowered = Story::new().with(at::SEND_INTENT, "/tier", json!("R2")).with(at::SEND, "/tier", json!("R2"));
    check(lowered, Class::DecisionNotReproduced, at::SEND_INTENT);
    let read = json!(Story::new().receipt(at::READ).definition);
    check(Story::new().with(at::DENIED, "/definition", read), Class::DecisionNotReproduced, at::DENIED);
}

#[test]
fn class_16_artifacts_are_not_in_a_bundle_and_said_to_be_unchecked() {
    let report = holds(&Story::new().with(at::READ, "/artifacts", json!([digest("a"), digest("b")])).seal());
    assert_eq!(report.artifacts_unchecked, 2);
    assert!(report.warnings.contains(&"2 artifacts are named by digest only and were not checked".to_owned()), "{:?}", report.warnings);
}

#[test]
fn class_17_a_payload_with_a_second_form_or_meaning() {
    let edits: [fn(&str) -> String; 5] = [
        |payload| payload.replacen(r#""attempts":1"#, r#""attempts":1,"attempts":1"#, 1),
        |payload| payload.replacen(r#""attempts":1"#, r#""attempts": 1"#, 1),
        |payload| payload.replacen(r#""attempts":1"#, r#""attempts":1.0"#, 1),
        |payload| payload.replacen(r#""attempts":1"#, r#""attempts":9007199254740993"#, 1),
        |payload| payload.replacen("files.", r"files\u002e", 1),
    ];
    for edit in edits {
        check_bundle(Class::NotCanonical, Some(at::SEND), |bundle| {
            let payload = edit(&bundle.payload(at::SEND).replace("http.request", "files.request"));
            bundle.reseal(at::SEND, &payload, FIRST_KEY);
        });
    }
    check_bundle(Class::NotCanonical, Some(at::SEND), |bundle| bundle.envelope(at::SEND).payload.push('\n'));
    let mut texts = true_story().texts();
    texts[2] = texts[2].replacen('{', r#"{"line":"event","#, 1);
    expect(verify_texts(texts, None), Class::NotCanonical, None);
}

#[test]
fn a_last_line_that_breaks_off_is_a_tail_that_is_missing_wherever_it_was_cut() {
    let whole = true_story().texts();
    let (last, before) = whole.split_last().unwrap();
    for bytes in 1..last.len() {
        let cut = [before, &[last[..bytes].to_owned()]].concat();
        expect(verify_texts(cut, None), Class::TruncatedTail, None);
    }
    // A bad line in the middle was written wrongly. So was a complete last line with something behind it.
    let mut inside = whole.clone();
    inside[2].truncate(20);
    expect(verify_texts(inside, None), Class::NotCanonical, None);
    let behind = [before, &[format!("{last}x")]].concat();
    expect(verify_texts(behind, None), Class::NotCanonical, None);
}

#[test]
fn the_line_on_which_something_was_seen_is_counted_also_where_it_cannot_be_read() {
    let unreadable = |at: usize| {
        let lines = true_story().texts().into_iter().enumerate();
        lines.map(move |(index, text)| if index + 1 == at { Err("not UTF-8") } else { Ok(text) })
    };
    for at in [2, 3, 5] {
        let report = verify(unreadable(at), &key(FIRST_KEY).public(), None);
        assert_eq!((report.lines, report.first_bad.map(|finding| finding.name)), (at as u64, Some("unreadable")));
    }
}

#[test]
fn class_18_an_unknown_field_kind_or_version() {
    let edits: [fn(&str) -> String; 6] = [
        |payload| payload.replacen(r#""entry":{"#, r#""critical":1,"entry":{"#, 1),
        |payload| payload.replacen(r#""kind":"receipt""#, r#""kind":"consent""#, 1),
        |payload| payload.replacen(r#""attempts":1"#, r#""attempts":1,"audience":"x""#, 1),
        |payload| payload.replacen(r#""decision":{"base""#, r#""decision":{"also":1,"base""#, 1),
        |payload| payload.replacen(r#""error":null,"#, "", 1),
        |payload| payload.replacen(r#""attempts":1"#, r#""attempts":-1"#, 1),
    ];
    for edit in edits {
        check_bundle(Class::UnknownShape, Some(at::SEND), |bundle| {
            let payload = bundle.payload(at::SEND);
            let edited = edit(&payload);
            assert_ne!(edited, payload);
            bundle.reseal(at::SEND, &edited, FIRST_KEY);
        });
    }
    check_bundle(Class::UnknownShape, Some(at::SEND), |bundle| {
        let envelope = bundle.envelope(at::SEND);
        envelope.signatures.push(envelope.signatures[0].clone());
    });
    for (index, from, to) in [
        (0, r#""countersign_bundle":1"#, r#""countersign_bundle":2"#),
        (0, r#","log""#, r#","logs":1,"log""#),
        (1, r#""line":"entry""#, r#""line":"sentry""#),
        (1, r#""seq":"0""#, r#""seq":"00""#),
        (1, r#""seq":"0""#, r#""seq":"0","critical":1"#),
        (1, r#""keyid""#, r#""alg":"none","keyid""#),
    ] {
        let mut texts = true_story().texts();
        assert!(texts[index].contains(from), "{}", texts[index]);
        texts[index] = texts[index].replacen(from, to, 1);
        expect(verify_texts(texts, None), Class::UnknownShape, None);
    }
}

#[test]
fn class_19_one_idempotency_key_for_two_calls() {
    let second_call = |change: fn(&mut ReceiptBody)| {
        let story = Story::new();
        let first = story.receipt(at::WRITE);
        let mut body = ReceiptBody {
            receipt_id: ReceiptId::new(second(9), [1; 10]),
            invocation_id: invocation(50),
            params: digest("params 50"),
            raw: digest("raw 50"),
            ..first
        };
        change(&mut body);
        story.and(Kind::Intent, &intent(&body, 1)).and(Kind::Receipt, &body)
    };
    check(second_call(|_| ()), Class::KeyReused, at::SIZE + 1);
    let lasts = Story::new().receipt(at::WRITE).timing.ended_at.plus_seconds(crate::limits::IDEMPOTENCY_SECONDS);
    assert_eq!(lasts, second(3 + 24 * 60 * 60));
    check(second_call(|body| body.timing.ended_at = second(2 + 24 * 60 * 60)), Class::KeyReused, at::SIZE + 1);

    // The same call, another key, another action or space, a failure, and an expired key are all fine.
    holds(&second_call(|body| body.raw = digest("raw 2")).seal());
    holds(&second_call(|body| body.idempotency_key = Some(digest("another key"))).seal());
    holds(&second_call(|body| body.idempotency_key = None).seal());
    holds(&second_call(|body| body.space = countersign_core::SpaceId::new(second(0), [79; 10])).seal());
    holds(&second_call(|body| body.status = Status::Failed).seal());
    holds(&second_call(|body| body.timing.ended_at = second(3 + 24 * 60 * 60)).seal());
}

#[test]
fn class_20_an_event_without_its_receipt_or_the_reverse() {
    let event_of = |bundle: &Bundle, seq: u64| bundle.index(seq) + 1;
    for seq in [at::READ, at::WRITE, at::GATED, at::EXPIRED] {
        check_bundle(Class::UnpairedEvent, Some(seq), |bundle| drop(bundle.lines.remove(event_of(bundle, seq))));
    }
    check_bundle(Class::UnpairedEvent, None, |bundle| {
        let told = bundle.lines[event_of(bundle, at::READ)].clone();
        bundle.lines.push(told);
    });
    let stray = ReceiptId::new(second(9), [9; 10]);
    let finding =
        check_bundle(Class::UnpairedEvent, None, |bundle| bundle.lines.insert(0, event("invocation.succeeded", stray.clone(), 1)));
    assert_eq!(finding.receipt_id, Some(stray.to_string()));
    // An event must say what its receipt says, of the same invocation.
    let read = Story::new().receipt(at::READ).receipt_id;
    let mut of_none = event("invocation.succeeded", read.clone(), 1);
    if let Line::Event { invocation_id, .. } = &mut of_none {
        *invocation_id = None;
    }
    for told in [event("invocation.failed", read.clone(), 1), event("invocation.succeeded", read.clone(), 2), of_none] {
        check_bundle(Class::UnpairedEvent, Some(at::READ), |bundle| {
            let index = event_of(bundle, at::READ);
            bundle.lines[index] = told.clone();
        });
    }
}

#[test]
fn class_21_what_is_not_a_bundle() {
    expect(verify_texts(Vec::new(), None), Class::Unreadable, None);
    expect(verify_texts(vec!["{}".to_owned()], None), Class::Unreadable, None);
    let texts = true_story().texts();
    let broken = texts[..3].iter().cloned().map(Ok).chain([Err("the disk is gone")]);
    let finding = expect(verify(broken, &key(FIRST_KEY).public(), None), Class::Unreadable, None);
    assert!(finding.reason.contains("the disk is gone"), "{finding:?}");
    expect(verify_texts(texts, Some("not a note")), Class::Unreadable, None);
}

#[test]
fn class_8_an_end_that_no_checkpoint_covers() {
    let mut bundle = true_story();
    bundle.lines.pop();
    let finding = expect(report(&bundle), Class::TruncatedTail, Some(at::SIZE - 10));
    assert!(finding.reason.contains("the last 10 entries"), "{finding:?}");
    bundle.lines.retain(|line| !matches!(line, Line::Checkpoint { .. }));
    expect(report(&bundle), Class::TruncatedTail, Some(0));
}

#[test]
fn checkpoints_may_stand_before_the_entries_they_cover() {
    let mut bundle = true_story();
    let last = bundle.lines.pop().unwrap();
    bundle.lines.insert(0, last);
    assert_eq!(holds(&bundle).checkpoints, 2);
}

#[test]
fn the_published_vector_is_what_this_version_writes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let expected = [
        ("bundle.jsonl", true_story().texts().join("\n") + "\n"),
        ("receipt-key.pem", key(FIRST_KEY).public().to_pem()),
        ("checkpoint.txt", true_story().note(at::SIZE, NEXT_CHECKPOINT_KEY)),
    ];
    for (name, text) in expected {
        if std::env::var_os("COUNTERSIGN_WRITE_VECTORS").is_some() {
            std::fs::write(folder.join(name), &text).unwrap();
        }
        let published = std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(text == published, "what is signed has changed: if that is meant, run again with COUNTERSIGN_WRITE_VECTORS=1 ({name})");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_bundle_with_one_changed_byte_is_never_accepted(at in any::<prop::sample::Index>(), flip in 1u8..=255) {
        let mut bytes = true_story().texts().join("\n").into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let lines = bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8(line.to_vec()));
        prop_assert!(!verify(lines, &key(FIRST_KEY).public(), None).ok, "byte {} ^ {:#x}", at, flip);
    }
}
