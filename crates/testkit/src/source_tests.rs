//! The fake source does what its scripts say.

use super::*;
use countersign_core::retry::FailureCause;
use futures_util::FutureExt;

fn source() -> FakeSource {
    FakeSource::new("fake").offering("write", |action| {
        action.tier = Tier::R2;
        action.repeatability = Repeatability::NotRepeatable;
        action.preview = Preview::Supported;
    })
}

fn write() -> ActionId {
    ActionId::parse("fake.write").unwrap()
}

async fn call(source: &FakeSource, params: Value) -> Answer {
    source.call(&context(), &write(), &params).await
}

/// One of each error. The match below has no wildcard, so that a new error cannot be forgotten here.
fn every_error() -> Vec<Error> {
    let source_id = || "fake".to_owned();
    let message = || "because".to_owned();
    let errors = vec![
        Error::Unreachable { source_id: source_id(), message: message() },
        Error::Busy { source_id: source_id(), message: message(), retry_after_ms: Some(5) },
        Error::NoTurn { source_id: source_id(), message: message() },
        Error::TimedOut { source_id: source_id(), timeout_ms: 1 },
        Error::Broken { source_id: source_id(), message: message() },
        Error::Reported {
            source_id: source_id(),
            message: message(),
            cause: FailureCause::Final,
            content: Box::default(),
            after: AfterError::Unknown,
        },
        Error::Refused { code: "outside", message: message() },
        Error::Failed { code: "full", message: message() },
        Error::WorkspaceElsewhere,
        Error::PreviewUnsupported { action: write() },
    ];
    for error in &errors {
        match error {
            Error::Unreachable { .. }
            | Error::Busy { .. }
            | Error::NoTurn { .. }
            | Error::TimedOut { .. }
            | Error::Broken { .. }
            | Error::Reported { .. }
            | Error::Refused { .. }
            | Error::Failed { .. }
            | Error::WorkspaceElsewhere
            | Error::PreviewUnsupported { .. } => {}
        }
    }
    errors
}

#[tokio::test]
async fn it_offers_what_was_defined() {
    let source = source().titled("Fake").guided("Write with care.").offering("read", |_| {});
    let listed = source.list(&context().org).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|action| (action.id.as_str(), action.tier)).collect();
    assert_eq!(ids, [("fake.write", Tier::R2), ("fake.read", Tier::R0)]);
    assert_eq!((source.id().as_str(), source.title(), source.guide().as_deref()), ("fake", "Fake", Some("Write with care.")));
}

#[tokio::test]
async fn answers_are_used_up_in_order_and_then_it_just_succeeds() {
    let source = source();
    source.will_answer(json!(1));
    source.will_output(Output { value: json!(2), quality_thousandths: 900, evidence: Some(json!("kept")) });
    assert_eq!(call(&source, json!({})).await, Ok(Output::new(json!(1))));
    let second = call(&source, json!({})).await.unwrap();
    assert_eq!((second.value, second.quality_thousandths, second.evidence), (json!(2), 900, Some(json!("kept"))));
    assert_eq!(call(&source, json!({})).await, Ok(Output::new(json!({ "done": true }))));
}

#[tokio::test]
async fn every_error_arrives_as_scripted_and_counts_an_effect_only_where_one_may_have_happened() {
    for error in every_error() {
        let source = source();
        source.will_fail(error.clone());
        let expected = match error.after() {
            AfterError::Unknown => 1,
            AfterError::NoEffect => 0,
        };
        assert_eq!(call(&source, json!({})).await, Err(error.clone()));
        assert_eq!(source.effects(), expected, "{error}");
    }
}

#[tokio::test]
async fn what_is_not_scripted_is_answered_by_the_test_which_may_look_at_the_source() {
    let outer = source();
    let seen = outer.clone();
    let source = outer.answering(move |call| Ok(Output::new(json!([call.params, seen.calls().len()]))));
    source.will_answer(json!("scripted"));
    assert_eq!(call(&source, json!({ "n": 1 })).await.unwrap().value, json!("scripted"));
    assert_eq!(call(&source, json!({ "n": 2 })).await.unwrap().value, json!([{ "n": 2 }, 2]));
}

#[tokio::test]
async fn calls_are_recorded_with_their_context_and_params() {
    let source = source();
    let second = CallContext { attempt: 2, ..context() };
    call(&source, json!({ "n": 1 })).await.unwrap();
    source.clone().call(&second, &write(), &json!({ "n": 2 })).await.unwrap();
    let seen: Vec<_> = source.calls().into_iter().map(|call| (call.context.attempt, call.action, call.params)).collect();
    assert_eq!(seen, [(1, write(), json!({ "n": 1 })), (2, write(), json!({ "n": 2 }))]);
    assert_eq!(source.effects(), 2);
}

#[tokio::test]
async fn a_held_call_has_its_effect_and_answers_when_it_is_released() {
    let source = source();
    let mut held = source.will_hold(Ok(Output::new(json!("late"))));
    let running = tokio::spawn({
        let source = source.clone();
        async move { call(&source, json!({})).await }
    });
    held.arrived().await;
    assert_eq!(source.effects(), 1);
    assert!(!running.is_finished());
    held.release();
    assert_eq!(running.await.unwrap(), Ok(Output::new(json!("late"))));
}

#[tokio::test]
async fn a_call_may_be_released_before_it_arrives() {
    let source = source();
    let held = source.will_hold(Ok(Output::new(json!("free"))));
    held.release();
    assert_eq!(call(&source, json!({})).now_or_never(), Some(Ok(Output::new(json!("free")))));
}

#[tokio::test]
async fn a_hold_that_is_dropped_never_answers() {
    let source = source();
    drop(source.will_hold(Ok(Output::new(json!("never")))));
    let mut call = std::pin::pin!(call(&source, json!({})));
    assert_eq!(call.as_mut().now_or_never(), None);
    tokio::task::yield_now().await;
    assert_eq!(call.now_or_never(), None);
}

#[tokio::test]
async fn a_definition_may_change_or_vanish_between_calls() {
    let source = source();
    let before = source.list(&context().org).await.unwrap();
    source.redefine("write", |action| action.description = "Now it deletes.".into());
    let after = source.list(&context().org).await.unwrap();
    assert_eq!(before[0].description, "Does what the test says `fake.write` does.");
    assert_eq!(after[0].description, "Now it deletes.");
    source.withdraw("write");
    assert_eq!(source.list(&context().org).await, Ok(vec![]));
    assert_eq!(call(&source, json!({})).await.unwrap_err().code(), "unknown_action");
    assert_eq!((source.calls().len(), source.effects()), (1, 0));
}

#[tokio::test]
#[should_panic(expected = "the test redefines `fake.rite`, which is not offered")]
async fn redefining_what_is_not_offered_is_a_mistake_of_the_test() {
    source().redefine("rite", |_| {});
}

#[tokio::test]
async fn a_preview_changes_nothing() {
    let source = source().offering("blind", |_| {});
    let blind = ActionId::parse("fake.blind").unwrap();
    let preview = |params| {
        let source = source.clone();
        async move { source.preview(&context(), &write(), &params).await }
    };
    source.will_preview(Ok(Output::new(json!("scripted"))));
    assert_eq!(preview(json!({})).await, Ok(Output::new(json!("scripted"))));
    assert_eq!(preview(json!({ "n": 1 })).await, Ok(Output::new(json!({ "would": { "n": 1 } }))));
    assert_eq!(source.preview(&context(), &blind, &json!({})).await, Err(Error::PreviewUnsupported { action: blind.clone() }));
    assert_eq!((source.previews().len(), source.calls().len(), source.effects()), (3, 0, 0));
}

#[tokio::test]
async fn listing_may_fail_once() {
    let source = source();
    let error = Error::Unreachable { source_id: "fake".into(), message: "no route".into() };
    source.will_fail_to_list(error.clone());
    assert_eq!(source.list(&context().org).await, Err(error));
    assert_eq!(source.list(&context().org).await.unwrap().len(), 1);
}

#[test]
fn effects_are_counted_across_threads() {
    let source = source();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| drop(call(&source, json!({})).now_or_never().unwrap())));
        }
    });
    assert_eq!((source.effects(), source.calls().len()), (400, 400));
}
