//! The receipt of a batch must agree with the receipts of its parts.

use super::*;
use crate::body::{BatchBody, PartBody, PartRevertBody, ReceiptBody};
use crate::entry::Kind;
use crate::story::{FIRST_KEY, Story, answer, at, intent, key, receipt, second};
use countersign_core::batch::{BatchStatus, PartEffect};
use countersign_core::decision::ModeSource;
use countersign_core::part_of::BatchMode;
use countersign_core::{BatchId, Decision, InvocationId, Mode, ReceiptId, Status, Tier};
use std::convert::Infallible;

fn batch_id() -> BatchId {
    BatchId::new(second(0), [42; 10])
}

/// A write that was allowed and made.
fn made(number: u8) -> ReceiptBody {
    let allowed = Decision::new(Mode::Allow, ModeSource::OrgDefault, Some(1));
    ReceiptBody { batch: Some(batch_id()), ..receipt(number, "files.write_text", Tier::R2, allowed, Status::Succeeded) }
}

/// A call that requires an approval and has one.
fn sent(number: u8) -> ReceiptBody {
    let asked = Decision::new(Mode::RequireApproval, ModeSource::InferredDefault, None);
    let approval = Story::new().receipt(at::SEND).approval;
    ReceiptBody { batch: Some(batch_id()), approval, ..receipt(number, "http.request", Tier::R3, asked, Status::Succeeded) }
}

fn undoing(number: u8, part: &ReceiptBody) -> ReceiptBody {
    ReceiptBody { approval: None, reverses: Some(part.invocation_id.clone()), ..sent(number) }
}

fn failed(number: u8) -> ReceiptBody {
    ReceiptBody { status: Status::Failed, error: Some("no_room".to_owned()), ..made(number) }
}

fn part(receipt: &ReceiptBody, effect: PartEffect) -> PartBody {
    PartBody {
        action: receipt.action.clone(),
        effect,
        error: receipt.error.clone(),
        invocation_id: receipt.invocation_id.clone(),
        receipt_id: Some(receipt.receipt_id.clone()),
        status: Some(receipt.status),
        revert: None,
    }
}

fn batch(status: BatchStatus, parts: Vec<PartBody>) -> BatchBody {
    let story = made(40);
    BatchBody {
        batch_id: batch_id(),
        dry_run: false,
        ended_at: second(60),
        mode: BatchMode::AllOrNothing,
        parts,
        principal: story.principal,
        receipt_id: ReceiptId::new(second(0), [99; 10]),
        session: story.session,
        space: story.space,
        started_at: second(30),
        status,
        trace_id: story.trace_id,
    }
}

fn tell(story: Story, receipt: &ReceiptBody) -> Story {
    let approvers = receipt.approval.iter().flat_map(|approval| &approval.approvers);
    let story = approvers.fold(story, |story, approver| story.and(Kind::Answer, &answer(receipt, approver)));
    story.and(Kind::Intent, &intent(receipt, 1)).and(Kind::Receipt, receipt)
}

fn report(story: &Story) -> Report {
    verify(story.seal().texts().into_iter().map(Ok::<_, Infallible>), &key(FIRST_KEY).public(), None)
}

#[track_caller]
fn holds(story: &Story) {
    let report = report(story);
    assert!(report.ok && report.batches == 1, "{:?}", report.first_bad);
}

#[track_caller]
fn refused(story: &Story, class: Class, because: &str) {
    let finding = report(story).first_bad.unwrap_or_else(|| panic!("nothing was found, expected: {because}"));
    assert_eq!((finding.class, finding.reason.contains(because)), (class.number(), true), "{finding:?}");
}

#[test]
fn a_batch_that_says_what_its_parts_say_holds() {
    let (first, second) = (made(40), made(41));
    let story = tell(tell(Story::new(), &first), &second);
    let parts = vec![part(&first, PartEffect::Stands), part(&second, PartEffect::Stands)];
    holds(&story.and(Kind::Batch, &batch(BatchStatus::Succeeded, parts)));
    // Here the second part failed, so the first was reverted.
    let (first, second) = (sent(40), failed(41));
    let undo = undoing(42, &first);
    let story = tell(tell(tell(Story::new(), &first), &second), &undo);
    let revert = PartRevertBody { invocation_id: Some(undo.invocation_id.clone()), ok: true, receipt_id: Some(undo.receipt_id.clone()) };
    let parts = vec![PartBody { revert: Some(revert), ..part(&first, PartEffect::Reverted) }, part(&second, PartEffect::None)];
    holds(&story.and(Kind::Batch, &batch(BatchStatus::Reverted, parts)));
}

#[test]
fn class_13_a_batch_that_says_something_else_than_its_parts() {
    let (first, second) = (made(40), failed(41));
    let told = || tell(tell(Story::new(), &first), &second);
    let good = || vec![part(&first, PartEffect::Stands), part(&second, PartEffect::None)];
    holds(&told().and(Kind::Batch, &batch(BatchStatus::Failed, good())));
    let cases: Vec<(BatchStatus, Vec<PartBody>, &str)> = vec![
        (BatchStatus::Succeeded, good(), "its parts make it `failed`"),
        (BatchStatus::Reverted, good(), "its parts make it `failed`"),
        (BatchStatus::Failed, vec![part(&first, PartEffect::Stands)], "left out"),
        (BatchStatus::Reverted, vec![part(&first, PartEffect::None), part(&second, PartEffect::None)], "is left of"),
        (
            BatchStatus::Succeeded,
            vec![part(&first, PartEffect::Stands), part(&ReceiptBody { status: Status::Succeeded, ..second.clone() }, PartEffect::Stands)],
            "is not what the receipt",
        ),
        (
            BatchStatus::Failed,
            vec![part(&first, PartEffect::Stands), PartBody { receipt_id: None, ..part(&second, PartEffect::None) }],
            "is not what the receipt",
        ),
        (
            BatchStatus::Failed,
            vec![part(&first, PartEffect::Stands), part(&second, PartEffect::None), part(&made(43), PartEffect::Stands)],
            "no receipt of this batch says so",
        ),
        (
            BatchStatus::Reverted,
            vec![
                PartBody {
                    revert: Some(PartRevertBody { invocation_id: None, ok: true, receipt_id: None }),
                    ..part(&first, PartEffect::Reverted)
                },
                part(&second, PartEffect::None),
            ],
            "was reverted, but",
        ),
    ];
    for (status, parts, because) in cases {
        refused(&told().and(Kind::Batch, &batch(status, parts)), Class::UnpairedOutcome, because);
    }
    let twice = told().and(Kind::Batch, &batch(BatchStatus::Failed, good()));
    let again = BatchBody { receipt_id: ReceiptId::new(self::second(0), [98; 10]), ..batch(BatchStatus::Failed, good()) };
    refused(&twice.and(Kind::Batch, &again), Class::Duplicate, "has ended already");
    let later = tell(told().and(Kind::Batch, &batch(BatchStatus::Failed, good())), &made(44));
    refused(&later, Class::UnpairedOutcome, "has ended without it");
    let backwards = BatchBody { ended_at: self::second(1), ..batch(BatchStatus::Failed, good()) };
    refused(&told().and(Kind::Batch, &backwards), Class::TimeBackwards, "before it started");
}

#[test]
fn class_14_a_batch_lets_nothing_run_but_the_undoing_of_its_own_parts() {
    let first = sent(40);
    let undo = undoing(42, &first);
    let story = || tell(Story::new(), &first);
    let unasked = |body: ReceiptBody| refused(&tell(story(), &body), Class::EffectDespiteDenial, "nobody approved it");
    unasked(ReceiptBody { reverses: None, ..undo.clone() });
    unasked(ReceiptBody { batch: None, ..undo.clone() });
    unasked(ReceiptBody { batch: Some(BatchId::new(second(0), [43; 10])), ..undo.clone() });
    unasked(ReceiptBody { reverses: Some(InvocationId::new(second(0), [77; 10])), ..undo.clone() });
    // A part cannot be reverted without an approval after its batch has ended.
    let ended = story().and(Kind::Batch, &batch(BatchStatus::Succeeded, vec![part(&first, PartEffect::Stands)]));
    refused(&tell(ended, &undo), Class::EffectDespiteDenial, "nobody approved it");
}
