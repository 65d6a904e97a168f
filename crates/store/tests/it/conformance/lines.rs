//! Lines: a call whose caller has left begins only when it was asked for again, and is handed to one caller.

use crate::harness::{Kind, Tenant, WRITE, World, on_both_engines, sha256};
use countersign_core::ledger::{AskedAgain, Begin, Begun, Hold, Joined, NewLine, Row};
use countersign_core::limits::{APPROVAL_UNATTENDED_SECONDS, LEASE_SECONDS};
use countersign_core::ports::{Claims, Invocations, Lines};
use countersign_core::{Invocation, Status};
use store::Store;
use testkit::SeededRandom;

on_both_engines!(
    what_was_left_does_not_begin_until_it_is_asked_for_again,
    of_several_callers_one_joins,
    an_end_of_an_earlier_line_changes_nothing,
    a_ticket_is_used_once,
    a_ticket_that_nobody_shows_is_joined,
    a_line_of_a_server_that_is_gone_was_left,
    what_began_on_a_line_of_a_server_that_is_gone_was_left,
    what_expired_is_not_joined,
    a_result_is_kept_for_a_while,
    a_repeated_write_finds_what_its_first_try_did,
    lines_that_nobody_came_back_to_are_forgotten,
    a_line_of_a_server_that_lives_is_open_once_that_server_was_heard_of,
    a_line_of_a_server_that_is_not_heard_of_was_left_when_its_lease_runs_out,
    what_ended_late_on_a_server_that_is_gone_is_kept_from_its_end_on,
);

fn line(of: &Invocation, name: &str) -> NewLine {
    let (org, session, invocation) = (of.org.clone(), of.session.clone(), of.id.clone());
    NewLine { org, session, invocation, identity: sha256("same"), line: name.into(), kept_seconds: 60 }
}

/// A call of the same session with this identity, asked for on another line.
fn again(left: &Invocation, identity: &str, line: &str) -> AskedAgain {
    let (org, session) = (left.org.clone(), left.session.clone());
    AskedAgain { org, session, identity: sha256(identity), line: line.into(), kept_seconds: 60, since: None }
}

/// A call that is held while its caller waits on the line `first`.
async fn held(world: &World, tenant: &Tenant) -> Invocation {
    let invocation = tenant.writing();
    let hold = Hold { line: Some(line(&invocation, "first")), ..tenant.hold(&invocation) };
    assert_eq!(world.store.hold(hold).await, Ok(countersign_core::ledger::Held::Pending));
    world.store.find_invocation(&tenant.org, &invocation.id).await.unwrap().unwrap()
}

async fn what_was_left_does_not_begin_until_it_is_asked_for_again(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = held(&world, &tenant).await;
    assert_eq!(store.has_left(&tenant.org, &pending.id).await, Ok(false));
    assert_eq!(store.join_left(again(&pending, "same", "second")).await, Ok(Joined::Nothing), "its caller is there");
    store.leave(line(&pending, "first")).await.unwrap();
    assert_eq!(store.has_left(&tenant.org, &pending.id).await, Ok(true));
    store.approve(tenant.approve(&pending)).await.unwrap();
    let approved = store.find_invocation(&tenant.org, &pending.id).await.unwrap().unwrap();
    let begin = || tenant.begin(&approved, Row::From(Status::Approved));
    assert_eq!(store.begin(begin()).await, Ok(Begun::CallerLeft));
    assert_eq!(store.join_left(again(&pending, "other", "second")).await, Ok(Joined::Nothing), "another call");
    assert_eq!(store.join_left(again(&pending, "same", "second")).await, Ok(Joined::Call(pending.id.clone())));
    assert_eq!(store.begin(begin()).await, Ok(Begun::Started));
}

async fn of_several_callers_one_joins(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = held(&world, &tenant).await;
    store.leave(line(&pending, "first")).await.unwrap();
    let join = |name: &'static str| store.join_left(again(&pending, "same", name));
    let joined = [join("a").await.unwrap(), join("b").await.unwrap()];
    assert_eq!(joined, [Joined::Call(pending.id.clone()), Joined::Nothing]);
}

async fn an_end_of_an_earlier_line_changes_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = held(&world, &tenant).await;
    store.leave(line(&pending, "first")).await.unwrap();
    store.join_left(again(&pending, "same", "second")).await.unwrap();
    store.leave(line(&pending, "first")).await.unwrap();
    store.hang_up(&tenant.org, &pending.id, "first").await.unwrap();
    assert_eq!(store.has_left(&tenant.org, &pending.id).await, Ok(false), "the second caller is on the line");
    store.leave(line(&pending, "second")).await.unwrap();
    assert_eq!(store.has_left(&tenant.org, &pending.id).await, Ok(true));
    store.join_left(again(&pending, "same", "third")).await.unwrap();
    store.hang_up(&tenant.org, &pending.id, "third").await.unwrap();
    assert_eq!(store.join_left(again(&pending, "same", "fourth")).await, Ok(Joined::Nothing), "it was delivered");
}

async fn a_ticket_is_used_once(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = held(&world, &tenant).await;
    store.give_ticket(line(&pending, "first"), sha256("ticket")).await.unwrap();
    store.hang_up(&tenant.org, &pending.id, "first").await.unwrap();
    assert_eq!(store.has_left(&tenant.org, &pending.id).await, Ok(false), "whoever has a ticket has not left");
    assert_eq!(store.take_ticket(&tenant.org, sha256("another"), "second").await, Ok(None));
    assert_eq!(store.take_ticket(&tenant.org, sha256("ticket"), "second").await, Ok(Some(pending.id.clone())));
    assert_eq!(store.take_ticket(&tenant.org, sha256("ticket"), "third").await, Ok(None));
    store.give_ticket(line(&pending, "second"), sha256("late")).await.unwrap();
    world.clock.advance_seconds(61);
    assert_eq!(store.take_ticket(&tenant.org, sha256("late"), "third").await, Ok(None), "its time is over");
}

async fn a_line_of_a_server_that_is_gone_was_left(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let pending = held(&world, &tenant).await;
    let next = world.home.open(&world.clock, &SeededRandom::new(99)).await.unwrap();
    assert_eq!(next.has_left(&tenant.org, &pending.id).await, Ok(true));
    let joined = next.join_left(again(&pending, "same", "second")).await;
    assert_eq!(joined, Ok(Joined::Call(pending.id.clone())));
}

async fn a_ticket_that_nobody_shows_is_joined(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = held(&world, &tenant).await;
    store.give_ticket(line(&pending, "first"), sha256("ticket")).await.unwrap();
    let join = |name: &'static str| store.join_left(again(&pending, "same", name));
    assert_eq!(join("second").await, Ok(Joined::Call(pending.id.clone())));
    assert_eq!(store.take_ticket(&tenant.org, sha256("ticket"), "third").await, Ok(None), "the call goes on with who asked again");
    assert_eq!(join("fourth").await, Ok(Joined::Nothing), "its caller is there");
    store.leave(line(&pending, "second")).await.unwrap();
    assert_eq!(store.has_left(&tenant.org, &pending.id).await, Ok(true));
}

/// A write that began while its caller waits on the line `first`, without having been held.
async fn begun(world: &World, tenant: &Tenant) -> Invocation {
    let invocation = tenant.calling(WRITE, Status::Running);
    let begin = Begin { line: Some(line(&invocation, "first")), ..tenant.begin(&invocation, Row::Insert) };
    assert_eq!(world.store.begin(begin).await, Ok(Begun::Started));
    world.store.find_invocation(&tenant.org, &invocation.id).await.unwrap().unwrap()
}

async fn what_began_on_a_line_of_a_server_that_is_gone_was_left(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (running, delivered) = (begun(&world, &tenant).await, begun(&world, &tenant).await);
    assert_eq!(store.join_left(again(&running, "same", "second")).await, Ok(Joined::Nothing), "its caller is there");
    store.hang_up(&tenant.org, &delivered.id, "first").await.unwrap();
    let next = world.home.open(&world.clock, &SeededRandom::new(99)).await.unwrap();
    let join = |name: &'static str| next.join_left(again(&running, "same", name));
    let joined = [join("second").await, join("third").await];
    assert_eq!(joined, [Ok(Joined::Call(running.id.clone())), Ok(Joined::Nothing)], "only one was left");
}

async fn what_expired_is_not_joined(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (pending, approved) = (held(&world, &tenant).await, held(&world, &tenant).await);
    store.approve(tenant.approve(&approved)).await.unwrap();
    world.clock.advance_seconds(300);
    for left in [&pending, &approved] {
        store.leave(line(left, "first")).await.unwrap();
    }
    // Nobody has written yet that their time is over.
    assert_eq!(store.join_left(again(&pending, "same", "second")).await, Ok(Joined::Nothing));
    assert_eq!(store.forget_lines(&tenant.org).await, Ok(0), "until they have ended, it is known that their callers left");
    assert_eq!(store.has_left(&tenant.org, &pending.id).await, Ok(true));
}

async fn a_result_is_kept_for_a_while(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let ended = tenant.read_once(store).await;
    store.leave(line(&ended, "first")).await.unwrap();
    let join = |name: &'static str| store.join_left(again(&ended, "same", name));
    world.clock.advance_seconds(59);
    assert_eq!(join("second").await, Ok(Joined::Call(ended.id.clone())));
    store.leave(line(&ended, "second")).await.unwrap();
    world.clock.advance_seconds(61);
    assert_eq!(join("third").await, Ok(Joined::Nothing), "its time is over, though it is not forgotten yet");
    assert_eq!(store.forget_lines(&tenant.org).await, Ok(1));
}

async fn a_repeated_write_finds_what_its_first_try_did(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let invocation = tenant.writing();
    let hold = || Hold { line: Some(line(&invocation, "first")), pending_max: 1, ..tenant.hold(&invocation) };
    for _ in 0..2 {
        assert_eq!(store.hold(hold()).await, Ok(countersign_core::ledger::Held::Pending));
    }
    store.leave(line(&invocation, "first")).await.unwrap();
    for _ in 0..2 {
        let joined = store.join_left(again(&invocation, "same", "second")).await;
        assert_eq!(joined, Ok(Joined::Call(invocation.id.clone())));
    }
    store.give_ticket(line(&invocation, "second"), sha256("ticket")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(store.take_ticket(&tenant.org, sha256("ticket"), "third").await, Ok(Some(invocation.id.clone())));
    }
    assert_eq!(store.take_ticket(&tenant.org, sha256("ticket"), "fourth").await, Ok(None));
    assert_eq!(store.count_in_status(&tenant.org, Status::Pending).await, Ok(1));
}

async fn lines_that_nobody_came_back_to_are_forgotten(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (open, ended) = (held(&world, &tenant).await, tenant.read_once(store).await);
    store.leave(line(&open, "first")).await.unwrap();
    store.leave(line(&ended, "other")).await.unwrap();
    assert_eq!(store.forget_lines(&tenant.org).await, Ok(0), "their time is not over");
    world.clock.advance_seconds(61);
    assert_eq!(store.forget_lines(&tenant.org).await, Ok(1), "a call that is open keeps its line");
    assert_eq!(store.has_left(&tenant.org, &open.id).await, Ok(true));
}

/// A call that is held on the first of two servers that know of each other, and the second.
async fn held_beside(world: &World, tenant: &Tenant) -> (Invocation, Store) {
    let second = world.another_store().await;
    second.join().await.unwrap();
    // On SQLite the last store to join considers itself the only one, so the first renews its lease after it.
    world.store.renew_lease().await.unwrap();
    (held(world, tenant).await, second)
}

async fn a_line_of_a_server_that_lives_is_open_once_that_server_was_heard_of(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let (pending, second) = held_beside(&world, &tenant).await;
    let since = world.store.now().await.unwrap();
    let unknown = Ok(Joined::NotKnown { since });
    assert_eq!(second.join_left(again(&pending, "same", "second")).await, unknown);
    assert_eq!(second.join_left(again(&pending, "other", "second")).await, Ok(Joined::Nothing), "another call waits for nobody");
    let later = || second.join_left(AskedAgain { since: Some(since), ..again(&pending, "same", "second") });
    world.clock.advance_seconds(5);
    assert_eq!(later().await, unknown);
    world.store.renew_lease().await.unwrap();
    assert_eq!(later().await, Ok(Joined::Nothing), "its caller is there");
    world.store.leave(line(&pending, "first")).await.unwrap();
    assert_eq!(later().await, Ok(Joined::Call(pending.id.clone())));
}

async fn a_line_of_a_server_that_is_not_heard_of_was_left_when_its_lease_runs_out(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let (pending, second) = held_beside(&world, &tenant).await;
    let since = world.store.now().await.unwrap();
    let later = || second.join_left(AskedAgain { since: Some(since), ..again(&pending, "same", "second") });
    for (seconds, joined) in [(LEASE_SECONDS - 1, Joined::NotKnown { since }), (1, Joined::Call(pending.id.clone()))] {
        world.clock.advance_seconds(seconds);
        second.renew_lease().await.unwrap();
        assert_eq!(later().await, Ok(joined));
    }
}

async fn what_ended_late_on_a_server_that_is_gone_is_kept_from_its_end_on(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let running = begun(&world, &tenant).await;
    world.clock.advance_seconds(100);
    store.finish(tenant.finish(&running, Row::From(Status::Running), Status::Succeeded).into()).await.unwrap();
    let next = world.home.open(&world.clock, &SeededRandom::new(99)).await.unwrap();
    world.clock.advance_seconds(59);
    assert_eq!(next.forget_lines(&tenant.org).await, Ok(0));
    assert_eq!(next.join_left(again(&running, "same", "second")).await, Ok(Joined::Call(running.id.clone())));
    let last = world.home.open(&world.clock, &SeededRandom::new(100)).await.unwrap();
    world.clock.advance_seconds(1);
    assert_eq!(last.join_left(again(&running, "same", "third")).await, Ok(Joined::Nothing), "its time is over");
    world.clock.advance_seconds(APPROVAL_UNATTENDED_SECONDS);
    assert_eq!(last.forget_lines(&tenant.org).await, Ok(1));
}
