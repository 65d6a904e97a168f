use super::*;
use countersign_core::ports::Error;
use countersign_core::ports::events::Cause;
use countersign_core::{EventId, Future, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// An org's events in memory. It counts how often it is read.
#[derive(Default)]
struct FakeFeed {
    events: Mutex<Vec<Event>>,
    published: Notify,
    reads: AtomicU64,
}

impl FakeFeed {
    fn publish(&self, count: usize) {
        let mut events = self.events.lock();
        for _ in 0..count {
            let (seq, at) = (events.len() as i64 + 1, Timestamp::from_micros(0));
            let (name, key, body) = ("invocation.held".to_owned(), format!("inv_{seq}"), r#"{"status":"pending"}"#.to_owned());
            let (id, receipt, origin, space, cause) = (EventId::new(at, [1; 10]), None, None, None, Cause::default());
            events.push(Event { seq, id, name, key, receipt, body, at, origin, space, cause });
        }
        drop(events);
        self.published.notify_waiters();
    }
}

impl EventFeed for FakeFeed {
    fn list_events_after<'a>(&'a self, _: &'a OrgId, after: i64, limit: u32) -> Future<'a, Result<Vec<Event>, Error>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let events = self.events.lock().iter().filter(|event| event.seq > after).take(limit as usize).cloned().collect();
        Box::pin(async move { Ok(events) })
    }

    fn newest_event<'a>(&'a self, _: &'a OrgId) -> Future<'a, Result<i64, Error>> {
        let newest = self.events.lock().len() as i64;
        Box::pin(async move { Ok(newest) })
    }

    fn oldest_event<'a>(&'a self, _: &'a OrgId) -> Future<'a, Result<i64, Error>> {
        let oldest = self.events.lock().first().map_or(0, |event| event.seq);
        Box::pin(async move { Ok(oldest) })
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn wait_for_event<'a>(&'a self, _: &'a OrgId, after: i64) -> Future<'a, ()> {
        Box::pin(async move {
            let mut published = std::pin::pin!(self.published.notified());
            published.as_mut().enable();
            if self.events.lock().len() as i64 <= after {
                published.await;
            }
        })
    }
}

fn org(number: u8) -> OrgId {
    OrgId::new(Timestamp::from_micros(0), [number; 10])
}

fn streams(bounds: Bounds) -> (Arc<FakeFeed>, Streams) {
    let feed = Arc::new(FakeFeed::default());
    (Arc::clone(&feed), Streams::new(feed, bounds))
}

fn bounds() -> Bounds {
    Bounds { streams_max: 100, streams_per_org_max: 100, events_kept: 16, silence: Duration::from_secs(60) }
}

/// The positions of the next events.
async fn told(stream: &mut Subscription, count: usize) -> Vec<i64> {
    let mut told = Vec::new();
    while told.len() < count {
        match stream.next().await.unwrap() {
            // Of the event at the cursor, the rest may be new, or nothing.
            Next::Event(event) => {
                if stream.new_parts(&event).await.next().is_some() {
                    told.push(event.event.seq);
                }
            }
            other @ (Next::Silence | Next::TooSlow | Next::Closing) => panic!("{other:?} after {told:?}"),
        }
    }
    told
}

#[tokio::test]
async fn a_stream_has_what_it_missed_and_then_what_comes_each_once() {
    let (feed, streams) = streams(bounds());
    feed.publish(600);
    let mut stream = streams.subscribe(&org(1), Some(Cursor::after(10))).await.unwrap();
    assert_eq!(told(&mut stream, 590).await, (11..=600).collect::<Vec<_>>());
    feed.publish(3);
    assert_eq!(told(&mut stream, 3).await, [601, 602, 603]);
    // Without a cursor it begins now.
    let mut late = streams.subscribe(&org(1), None).await.unwrap();
    assert_eq!(late.begins_after(), Cursor::after(603));
    feed.publish(1);
    assert_eq!((told(&mut late, 1).await, told(&mut stream, 1).await), (vec![604], vec![604]));
}

#[tokio::test]
async fn of_the_event_at_the_cursor_only_the_rest_is_new() {
    let (feed, streams) = streams(bounds());
    feed.publish(2);
    for (after, expected) in [("1", vec!["1.1", "2", "2.1"]), ("1.1", vec!["2", "2.1"]), ("0", vec!["1", "1.1", "2", "2.1"])] {
        let mut stream = streams.subscribe(&org(1), Cursor::parse(after)).await.unwrap();
        let mut parts = Vec::new();
        while parts.len() < expected.len() {
            if let Next::Event(told) = stream.next().await.unwrap() {
                parts.extend(stream.new_parts(&told).await.map(|frame| frame.cursor.to_string()));
            }
        }
        assert_eq!(parts, expected, "{after}");
    }
}

#[tokio::test]
async fn a_cursor_from_the_future_is_refused() {
    let (feed, streams) = streams(bounds());
    feed.publish(2);
    assert!(matches!(streams.subscribe(&org(1), Cursor::parse("3")).await, Err(NotOpened::Ahead)));
    assert!(streams.subscribe(&org(1), Cursor::parse("2.1")).await.is_ok());
}

#[tokio::test]
async fn who_reads_too_slowly_is_told_so_and_the_others_lose_nothing() {
    let (feed, streams) = streams(bounds());
    let (mut slow, mut quick) = (streams.subscribe(&org(1), None).await.unwrap(), streams.subscribe(&org(1), None).await.unwrap());
    // Each has read the store up to now, and listens.
    feed.publish(1);
    assert_eq!((told(&mut slow, 1).await, told(&mut quick, 1).await), (vec![1], vec![1]));
    for round in 0..10 {
        feed.publish(10);
        assert_eq!(told(&mut quick, 10).await, (round * 10 + 2..round * 10 + 12).collect::<Vec<_>>());
    }
    assert!(matches!(slow.next().await.unwrap(), Next::TooSlow));
    let mut again = streams.subscribe(&org(1), Some(Cursor::after(1))).await.unwrap();
    assert_eq!(told(&mut again, 100).await, (2..=101).collect::<Vec<_>>());
}

#[tokio::test]
async fn many_streams_are_fed_by_one_reader() {
    let (feed, streams) = streams(Bounds { streams_max: 200, streams_per_org_max: 200, ..bounds() });
    let mut open = Vec::new();
    for _ in 0..200 {
        open.push(streams.subscribe(&org(1), None).await.unwrap());
    }
    feed.publish(1);
    for stream in &mut open {
        assert_eq!(told(stream, 1).await, [1]);
    }
    let before = feed.reads.load(Ordering::SeqCst);
    feed.publish(1);
    for stream in &mut open {
        assert_eq!(told(stream, 1).await, [2]);
    }
    let reads = feed.reads.load(Ordering::SeqCst) - before;
    assert!(reads <= 2, "{reads}");
}

#[tokio::test]
async fn streams_are_counted_by_org_and_in_all_and_a_place_is_given_back() {
    let (_feed, streams) = streams(Bounds { streams_max: 3, streams_per_org_max: 2, ..bounds() });
    let first = streams.subscribe(&org(1), None).await.unwrap();
    let _second = streams.subscribe(&org(1), None).await.unwrap();
    assert!(matches!(streams.subscribe(&org(1), None).await, Err(NotOpened::TooMany { streams_max: 2 })));
    let _other = streams.subscribe(&org(2), None).await.unwrap();
    assert!(matches!(streams.subscribe(&org(3), None).await, Err(NotOpened::TooMany { streams_max: 3 })));
    drop(first);
    assert!(streams.subscribe(&org(3), None).await.is_ok());
    assert!(streams.subscribe(&org(1), None).await.is_ok());
}

#[tokio::test]
async fn a_silent_stream_says_that_it_lives_and_a_stopping_server_ends_it() {
    let (_feed, streams) = streams(Bounds { silence: Duration::from_millis(1), ..bounds() });
    let mut stream = streams.subscribe(&org(1), None).await.unwrap();
    assert!(matches!(stream.next().await.unwrap(), Next::Silence));
    let closing = tokio::spawn({
        let streams = streams.clone();
        async move { streams.close().await }
    });
    while !matches!(stream.next().await.unwrap(), Next::Closing) {}
    assert!(!closing.is_finished(), "it waits for the streams");
    drop(stream);
    closing.await.unwrap();
}
