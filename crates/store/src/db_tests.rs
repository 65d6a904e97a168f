//! Group commit: a whole batch fails only if the database does; a write that fails undoes only itself.

use super::{Columns, Db, Tx, Val, vals};
use crate::Error;
use crate::fixture::{Opened, postgres, sqlite};
use crate::seal::{self, Draft};
use countersign_core::OrgId;
use futures_util::FutureExt;
use receipt::entry::Kind;
use std::pin::pin;
use tokio::sync::oneshot;

/// The entries in the log of a new org: its keys, its owner and the owner's token.
const BEGUN: u64 = 3;

const INSERT: &str = "INSERT INTO definitions (org_id, digest, body, archived_at) VALUES ($1, $2, $3, 0)";

/// A deferred statement must be undone together with the write that deferred it.
const INSERT_LATER: &str = "INSERT INTO checkpoints (org_id, size, note, at) SELECT $1, 1000 + count(*), $2, 0 FROM checkpoints";

async fn org(store: &Opened) -> OrgId {
    // Names of orgs are unique.
    let token = store.draw_owner_token();
    let name = token.expose().clone();
    store.create_org(&name, "owner", token).await.unwrap().org
}

async fn digests(db: &Db, org: &OrgId) -> Vec<String> {
    let rows = db.read("SELECT digest FROM definitions WHERE org_id = $1 ORDER BY digest", &vals![org.as_str()]).await.unwrap();
    rows.into_iter().map(|row| Columns::of(row).text().unwrap()).collect()
}

/// How a write ends after it has inserted a row and appended an entry.
#[derive(Clone, Copy)]
enum End {
    Well,
    WithAnError,
    AgainstARule,
    WithABrokenStatement,
}

fn writing(
    org: OrgId,
    n: usize,
    end: End,
) -> impl for<'t> FnOnce(&'t mut Tx) -> countersign_core::Future<'t, Result<u64, Error>> + Send + 'static {
    move |tx| {
        Box::pin(async move {
            let digest = format!("{n:03}");
            tx.exec(INSERT, &vals![org.as_str(), digest.as_str(), "{}"]).await?;
            let id = format!("entry_{n}");
            let seq = seal::append(tx, &org, Draft { kind: Kind::Mode, id: &id, invocation: None, body: "{}" }).await?;
            tx.later(INSERT_LATER, vals![org.as_str(), format!("later {digest}")].into());
            match end {
                End::Well => Ok(seq),
                End::WithAnError => Err(Error::Corrupt { message: "changed its mind".into() }),
                End::AgainstARule => tx.exec(INSERT, &vals![org.as_str(), digest.as_str(), "{}"]).await,
                End::WithABrokenStatement => tx.exec("SELECT org_id FROM no_such_table", &[]).await,
            }
        })
    }
}

async fn mixed(store: Opened) {
    let org = org(&store).await;
    let ends = [End::Well, End::WithAnError, End::Well, End::AgainstARule, End::WithABrokenStatement];
    // All writes start before the first is awaited, so that they share batches.
    let writes = (0..200).map(|n| store.db.write(org.clone(), writing(org.clone(), n, ends[n % 5])));
    let answers = futures_util::future::join_all(writes).await;
    let mut seqs = Vec::new();
    let mut expected = Vec::new();
    for (n, answer) in answers.into_iter().enumerate() {
        match (ends[n % 5], answer) {
            (End::Well, Ok(seq)) => {
                seqs.push(seq);
                expected.push(format!("{n:03}"));
            }
            (End::WithAnError | End::AgainstARule | End::WithABrokenStatement, Err(Error::Corrupt { .. })) => {}
            (_, other) => panic!("write {n}: {other:?}"),
        }
    }
    seqs.sort_unstable();
    assert_eq!(seqs, (BEGUN..BEGUN + 80).collect::<Vec<_>>());
    assert_eq!(digests(&store.db, &org).await, expected);
    assert_eq!(store.log_size(&org).await, Ok(BEGUN + 80));
    let later = store.db.read("SELECT note FROM checkpoints WHERE org_id = $1 ORDER BY note", &vals![org.as_str()]).await.unwrap();
    let later: Vec<_> = later.into_iter().map(|row| Columns::of(row).text().unwrap()).collect();
    assert_eq!(later, expected.iter().map(|digest| format!("later {digest}")).collect::<Vec<_>>());
    let rows = store.db.read("SELECT count(*) FROM entries WHERE org_id = $1", &vals![org.as_str()]).await.unwrap();
    assert_eq!(rows, [vec![Val::Int(BEGUN as i64 + 80)]]);
}

#[tokio::test]
async fn on_sqlite_a_failing_write_undoes_only_itself() {
    mixed(sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql_a_failing_write_undoes_only_itself() {
    mixed(postgres().await).await;
}

/// A server whose lease has expired may begin nothing. That must not refuse the writes that share a batch with such a beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql_a_fenced_write_fails_no_other() {
    let store = postgres().await;
    let org = org(&store).await;
    let refused = || store.db.write(org.clone(), move |_| Box::pin(async move { Err::<u64, _>(Error::Fenced) }));
    let both = (0..50).map(|n| futures_util::future::join(store.db.write(org.clone(), writing(org.clone(), n, End::Well)), refused()));
    for (written, refused) in futures_util::future::join_all(both).await {
        assert!(written.is_ok() && refused == Err(Error::Fenced), "{written:?} {refused:?}");
    }
}

fn pragma(store: &Opened, text: &'static str) -> impl Future<Output = Result<Vec<super::Row>, Error>> {
    store.db.write_unscoped(move |tx| Box::pin(async move { tx.query(&format!("/* every org */ PRAGMA {text}"), &[]).await }))
}

/// Writes a row too large for the free space in the pages in use.
fn large(org: OrgId, n: usize) -> impl for<'t> FnOnce(&'t mut Tx) -> countersign_core::Future<'t, Result<u64, Error>> + Send + 'static {
    move |tx| {
        Box::pin(async move {
            writing(org.clone(), n, End::Well)(tx).await?;
            tx.exec(INSERT, &vals![org.as_str(), format!("large {n}"), "x".repeat(100_000)]).await
        })
    }
}

/// Checks that nothing of the refused writes was kept, and that the same store goes on working.
async fn goes_on(store: &Opened, org: &OrgId, refused: Vec<Result<u64, Error>>) {
    for answer in refused {
        let refusal = answer.unwrap_err();
        assert!(matches!(refusal, Error::Unavailable { .. }) && refusal.is_transient(), "{refusal:?}");
    }
    assert_eq!(digests(&store.db, org).await, ["000"]);
    assert_eq!(store.log_size(org).await, Ok(BEGUN + 1));
    assert_eq!(store.db.write(org.clone(), writing(org.clone(), 1, End::Well)).await, Ok(BEGUN + 1), "no position was lost");
    store.db.write(org.clone(), large(org.clone(), 2)).await.unwrap();
    assert_eq!(digests(&store.db, org).await, ["000", "001", "002", "large 2"]);
    assert_eq!(store.log_size(org).await, Ok(BEGUN + 3));
    assert_eq!(store.check().await, Ok(()));
}

#[tokio::test]
async fn a_full_disk_refuses_whole_writes_and_they_go_on_when_there_is_room() {
    let store = sqlite().await;
    let org = org(&store).await;
    store.db.write(org.clone(), writing(org.clone(), 0, End::Well)).await.unwrap();
    // SQLite raises a limit below the present size to the present size.
    pragma(&store, "max_page_count = 1").await.unwrap();
    let refused = futures_util::future::join_all((1..20).map(|n| store.db.write(org.clone(), large(org.clone(), n)))).await;
    pragma(&store, "max_page_count = 1000000").await.unwrap();
    goes_on(&store, &org, refused).await;
}

#[tokio::test]
async fn a_read_only_database_refuses_whole_writes_and_they_go_on_when_it_is_writable() {
    let store = sqlite().await;
    let org = org(&store).await;
    store.db.write(org.clone(), writing(org.clone(), 0, End::Well)).await.unwrap();
    // All writes must be in one batch, because a read-only database does not begin another. So the first waits until the others are queued.
    let (release, released) = std::sync::mpsc::channel::<()>();
    let first = store.db.write_unscoped(move |_| {
        let _released = released.recv();
        Box::pin(std::future::ready(Ok(())))
    });
    let (on, off) = (pragma(&store, "query_only = ON"), pragma(&store, "query_only = OFF"));
    let refused = futures_util::future::join_all((1..20).map(|n| store.db.write(org.clone(), large(org.clone(), n))));
    let all_queued = async { release.send(()).unwrap() };
    let (first, on, refused, off, ()) = tokio::join!(biased; first, on, refused, off, all_queued);
    assert!(first.is_ok() && on.is_ok() && off.is_ok(), "{first:?} {on:?} {off:?}");
    goes_on(&store, &org, refused).await;
}

#[tokio::test]
async fn a_full_disk_over_many_batches_loses_no_position() {
    let store = sqlite().await;
    let org = org(&store).await;
    pragma(&store, "max_page_count = 1").await.unwrap();
    let mut written = 0;
    for n in 0..200 {
        match store.db.write(org.clone(), writing(org.clone(), n, End::Well)).await {
            Ok(seq) => {
                assert_eq!(seq, BEGUN + written);
                written += 1;
            }
            Err(Error::Unavailable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(written < 200, "the disk was never full");
    pragma(&store, "max_page_count = 1000000").await.unwrap();
    assert_eq!(store.db.write(org.clone(), writing(org.clone(), 200, End::Well)).await, Ok(BEGUN + written));
    assert_eq!(store.log_size(&org).await, Ok(BEGUN + written + 1));
    assert_eq!(digests(&store.db, &org).await.len() as u64, written + 1);
}

#[tokio::test]
async fn a_check_really_writes_and_leaves_nothing() {
    let store = sqlite().await;
    let written = || std::fs::metadata(store.folder.path().join("test.db-wal")).unwrap().len();
    let before = written();
    store.check().await.unwrap();
    assert!(written() > before, "a check that writes nothing would pass on a full disk");
    let rows = store.db.read("/* every org */ SELECT version FROM schema_migrations", &[]).await.unwrap();
    assert_eq!(rows, (1..=crate::Store::schema_version()).map(|version| vec![Val::Int(version)]).collect::<Vec<_>>());
    pragma(&store, "query_only = ON").await.unwrap();
    assert!(matches!(store.check().await, Err(Error::Unavailable { .. })));
}

#[tokio::test]
async fn a_write_that_awaits_something_else_is_refused_and_holds_nobody_up() {
    let store = sqlite().await;
    let stuck: Result<(), Error> = store.db.write_unscoped(|_| Box::pin(std::future::pending())).await;
    assert!(matches!(stuck, Err(Error::Corrupt { .. })), "{stuck:?}");
    assert_eq!(store.check().await, Ok(()));
}

/// A write that panics: the other writes of its batch may retry, and the store goes on working.
async fn panicking(store: Opened) {
    let org = org(&store).await;
    store.db.write(org.clone(), writing(org.clone(), 0, End::Well)).await.unwrap();
    let bug: Result<(), Error> = store.db.write_unscoped(|tx| Box::pin(broken(tx))).await;
    assert!(matches!(bug, Err(Error::Unavailable { .. })), "{bug:?}");
    assert_eq!(store.db.write(org.clone(), writing(org.clone(), 1, End::Well)).await, Ok(BEGUN + 1));
    assert_eq!(digests(&store.db, &org).await, ["000", "001"]);
}

async fn broken(tx: &mut Tx) -> Result<(), Error> {
    tx.exec("/* every org */ DELETE FROM definitions", &[]).await?;
    panic!("a bug")
}

#[tokio::test]
async fn on_sqlite_a_write_that_panics_leaves_the_store_as_it_was_and_working() {
    panicking(sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql_a_write_that_panics_leaves_the_store_as_it_was_and_working() {
    panicking(postgres().await).await;
}

/// The first statement of a batch cannot even be prepared. The transaction has not begun then, and the other writes must still succeed.
async fn broken_first(store: Opened) {
    let org = org(&store).await;
    let broken = store.db.write_unscoped(|tx| Box::pin(async move { tx.exec("SELECT org_id FROM no_such_table", &[]).await }));
    let others = (0..8).map(|n| store.db.write(org.clone(), writing(org.clone(), n, End::Well)));
    let (broken, others) = futures_util::future::join(broken, futures_util::future::join_all(others)).await;
    assert!(matches!(broken, Err(Error::Corrupt { .. })), "{broken:?}");
    assert_eq!(others, (BEGUN..BEGUN + 8).map(Ok).collect::<Vec<_>>());
    assert_eq!(digests(&store.db, &org).await.len(), 8);
}

#[tokio::test]
async fn on_sqlite_a_batch_goes_on_after_a_first_statement_that_does_not_read() {
    broken_first(sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql_a_batch_goes_on_after_a_first_statement_that_does_not_read() {
    broken_first(postgres().await).await;
}

/// A write that undoes a part of itself and fails later is undone completely.
async fn undone_in_parts(store: Opened) {
    let org = org(&store).await;
    let twice = org.clone();
    let failed: Result<(), Error> = store
        .db
        .write(org.clone(), move |tx| {
            Box::pin(async move {
                writing(twice.clone(), 0, End::Well)(tx).await?;
                let mark = tx.sealing.mark();
                writing(twice.clone(), 1, End::Well)(tx).await?;
                tx.sealing.undo_to(mark);
                writing(twice.clone(), 2, End::Well)(tx).await?;
                Err(Error::Corrupt { message: "changed its mind".into() })
            })
        })
        .await;
    assert!(failed.is_err());
    assert_eq!(store.db.write(org.clone(), writing(org.clone(), 3, End::Well)).await, Ok(BEGUN), "no position was lost");
    assert_eq!(store.log_size(&org).await, Ok(BEGUN + 1));
}

#[tokio::test]
async fn on_sqlite_a_write_that_undid_a_part_of_itself_is_undone_whole() {
    undone_in_parts(sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql_a_write_that_undid_a_part_of_itself_is_undone_whole() {
    undone_in_parts(postgres().await).await;
}

/// A write that reports when it has begun, and stays open until it is released.
fn held_open(
    org: OrgId,
    begun: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
) -> impl for<'t> FnOnce(&'t mut Tx) -> countersign_core::Future<'t, Result<u64, Error>> + Send + 'static {
    move |tx| {
        Box::pin(async move {
            let seq = writing(org, 0, End::Well)(tx).await?;
            begun.send(()).unwrap();
            released.await.unwrap();
            Ok(seq)
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_batch_of_one_org_is_open_another_server_commits_for_another_org() {
    let one = postgres().await;
    let other = one.another().await;
    let (ours, theirs) = (org(&one).await, org(&one).await);
    let ((begun, has_begun), (release, released)) = (oneshot::channel(), oneshot::channel());
    let body = held_open(ours.clone(), begun, released);
    let open = tokio::spawn({
        let (db, ours) = (one.db.clone(), ours.clone());
        async move { db.write(ours, body).await }
    });
    has_begun.await.unwrap();
    assert_eq!(other.db.write(theirs.clone(), writing(theirs.clone(), 1, End::Well)).await, Ok(BEGUN));
    let mut waits = pin!(other.db.write(ours.clone(), writing(ours.clone(), 1, End::Well)));
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(digests(&other.db, &ours).await, Vec::<String>::new());
    release.send(()).unwrap();
    assert_eq!(open.await.unwrap(), Ok(BEGUN));
    assert_eq!(waits.await, Ok(BEGUN + 1), "batches of one org take turns");
    assert_eq!(digests(&one.db, &theirs).await, ["001"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_an_org_that_the_running_batch_has_not_locked_waits_for_the_next() {
    let store = postgres().await;
    let (ours, theirs) = (org(&store).await, org(&store).await);
    let ((begun, has_begun), (release, released)) = (oneshot::channel(), oneshot::channel());
    let body = held_open(ours.clone(), begun, released);
    let open = store.db.write(ours.clone(), body);
    let later = async {
        has_begun.await.unwrap();
        let same = store.db.write(ours.clone(), writing(ours.clone(), 1, End::Well));
        let other = store.db.write(theirs.clone(), writing(theirs.clone(), 1, End::Well));
        let last = store.db.write(ours.clone(), writing(ours.clone(), 2, End::Well));
        let released = async { release.send(()).unwrap() };
        tokio::join!(biased; same, other, last, released)
    };
    let (open, (same, other, last, ())) = tokio::join!(open, later);
    assert_eq!((open, same, other, last), (Ok(BEGUN), Ok(BEGUN + 1), Ok(BEGUN), Ok(BEGUN + 2)));
}

async fn taken_along(store: Opened) {
    let org = org(&store).await;
    for round in 0..20 {
        let first = store.db.write_along(org.clone(), writing(org.clone(), 3 * round, End::Well));
        let second = store.db.write_along(org.clone(), writing(org.clone(), 3 * round + 1, End::Well));
        let own = store.db.write(org.clone(), writing(org.clone(), 3 * round + 2, End::Well)).await.unwrap();
        let first = first.now_or_never().unwrap().unwrap();
        assert_eq!([first, second.await.unwrap()], [own - 2, own - 1], "those that were left come before it, in their order");
    }
    // Nobody writes anything else.
    let alone = store.db.write_along(org.clone(), writing(org.clone(), 100, End::Well));
    assert_eq!(alone.await, Ok(BEGUN + 60));
    let refused = store.db.write_along(org.clone(), writing(org.clone(), 101, End::AgainstARule));
    assert!(store.db.write(org.clone(), writing(org.clone(), 102, End::Well)).await.is_ok());
    assert!(matches!(refused.await, Err(Error::Corrupt { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_a_write_that_may_wait_is_committed_with_the_next_and_before_it() {
    taken_along(sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql_a_write_that_may_wait_is_committed_with_the_next_and_before_it() {
    taken_along(postgres().await).await;
}
