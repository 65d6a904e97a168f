//! The rate limit: it works the same in memory and in Redis, and a Redis outage does not stop calls.

use countersign_core::limiter::{Admission, CountedFor, Limited, RateLimiter, RateLimits};
use countersign_core::{Random, SessionId, SpaceId, Timestamp, UserId, random_bytes};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Error, MemoryLimiter, RedisLimiter};
use testkit::proxy::Proxy;
use testkit::{FixedClock, SeededRandom};

/// A session that no other test of any run has used, because Redis is shared.
fn fresh_session() -> SessionId {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = SeededRandom::new(RandomState::new().build_hasher().finish());
    SessionId::new(Timestamp::from_micros(0), random_bytes(&random as &dyn Random))
}

/// Ends a window: by advancing the clock in memory, by removing the key in Redis.
trait Window {
    async fn pass(&self, session: &SessionId);
}

struct InMemory(FixedClock);

impl Window for InMemory {
    async fn pass(&self, _: &SessionId) {
        self.0.advance_ms(60_000);
    }
}

struct InRedis(redis::aio::MultiplexedConnection);

impl Window for InRedis {
    async fn pass(&self, session: &SessionId) {
        let mut connection = self.0.clone();
        let gone: u64 = redis::cmd("DEL").arg(format!("ratelimit:actions:{session}")).query_async(&mut connection).await.unwrap();
        assert_eq!(gone, 1, "the key is where the window is kept");
    }
}

/// Sixty calls are admitted and the next is told how long to wait; other sessions are unaffected; the next window starts from zero.
async fn check(limiter: &dyn RateLimiter, window: &impl Window) {
    let (session, other) = (fresh_session(), fresh_session());
    for _ in 0..2 {
        for call in 0..60 {
            assert_eq!(limiter.admit((&session).into()).await, Admission::Admitted, "call {call}");
        }
        for _ in 0..2 {
            match limiter.admit((&session).into()).await {
                Admission::Refused { retry_after_ms, .. } => assert!((1..=60_000).contains(&retry_after_ms), "{retry_after_ms}"),
                Admission::Admitted => panic!("the 61st was admitted"),
            }
        }
        assert_eq!(limiter.admit((&other).into()).await, Admission::Admitted);
        window.pass(&session).await;
    }
    assert_eq!(limiter.admit((&session).into()).await, Admission::Admitted);
}

/// Three calls of a person in any sessions, four of anybody in a space. A refused call counts for nobody.
async fn check_teams(limiter: &dyn RateLimiter) {
    let fresh = || fresh_session().as_str().trim_start_matches("ses_").to_owned();
    let user = || UserId::parse(&format!("usr_{}", fresh())).unwrap();
    let (space, ada, eve) = (SpaceId::parse(&format!("spc_{}", fresh())).unwrap(), user(), user());
    let sessions: Vec<_> = (0..8).map(|_| fresh_session()).collect();
    let mut refused = Vec::new();
    for (at, person) in [&ada, &ada, &ada, &ada, &ada, &eve, &eve].into_iter().enumerate() {
        match limiter.admit(CountedFor { session: &sessions[at], person: Some(person), space: Some(&space) }).await {
            Admission::Admitted => {}
            Admission::Refused { limited, .. } => refused.push((at, limited)),
        }
    }
    assert_eq!(refused, [(3, Limited::Person), (4, Limited::Person), (6, Limited::Space)]);
    assert_eq!(limiter.admit((&sessions[7]).into()).await, Admission::Admitted, "another person, elsewhere");
}

const TEAMS: RateLimits = RateLimits { session: 60, person: Some(3), space: Some(4) };

#[tokio::test]
async fn a_person_and_a_space_are_limited_besides_a_session() {
    check_teams(&MemoryLimiter::new(TEAMS, Arc::new(FixedClock::new()))).await;
    check_teams(&RedisLimiter::connect(&testkit::redis::url(), TEAMS).await.unwrap()).await;
}

#[tokio::test]
async fn the_limiter_in_memory_keeps_the_limit() {
    let clock = FixedClock::new();
    check(&MemoryLimiter::new(60_u32, Arc::new(clock.clone())), &InMemory(clock)).await;
}

#[tokio::test]
async fn the_limiter_in_memory_says_exactly_how_long_to_wait() {
    let clock = FixedClock::new();
    let (limiter, session) = (MemoryLimiter::new(1_u32, Arc::new(clock.clone())), fresh_session());
    assert_eq!(limiter.admit((&session).into()).await, Admission::Admitted);
    assert_eq!(limiter.admit((&session).into()).await, Admission::Refused { retry_after_ms: 60_000, limited: Limited::Session });
    clock.advance_ms(59_999);
    assert_eq!(limiter.admit((&session).into()).await, Admission::Refused { retry_after_ms: 1, limited: Limited::Session });
    clock.advance_ms(1);
    assert_eq!(limiter.admit((&session).into()).await, Admission::Admitted);
    // A clock that was set back must not lock a session out for longer than one window.
    clock.set(Timestamp::from_micros(0));
    match limiter.admit((&session).into()).await {
        Admission::Admitted => {}
        Admission::Refused { retry_after_ms, .. } => assert!(retry_after_ms <= 60_000, "{retry_after_ms}"),
    }
}

#[tokio::test]
async fn the_limiter_in_redis_keeps_the_limit() {
    let client = redis::Client::open(testkit::redis::url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    check(&RedisLimiter::connect(&testkit::redis::url(), 60_u32).await.unwrap(), &InRedis(connection)).await;
}

#[tokio::test]
async fn two_servers_share_the_limit_in_redis() {
    let session = fresh_session();
    let one = RedisLimiter::connect(&testkit::redis::url(), 2_u32).await.unwrap();
    let two = RedisLimiter::connect(&testkit::redis::url(), 2_u32).await.unwrap();
    assert_eq!(one.admit((&session).into()).await, Admission::Admitted);
    assert_eq!(two.admit((&session).into()).await, Admission::Admitted);
    for limiter in [&one, &two] {
        assert!(matches!(limiter.admit((&session).into()).await, Admission::Refused { .. }));
    }
}

#[tokio::test]
async fn a_window_in_redis_ends_by_itself() {
    let session = fresh_session();
    let limiter = RedisLimiter::connect(&testkit::redis::url(), 1_u32).await.unwrap();
    limiter.admit((&session).into()).await;
    limiter.admit((&session).into()).await;
    let client = redis::Client::open(testkit::redis::url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let left: i64 = redis::cmd("PTTL").arg(format!("ratelimit:actions:{session}")).query_async(&mut connection).await.unwrap();
    assert!((1..=60_000).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_admitted_without_delay_while_redis_is_away() {
    let (proxy, url) = Proxy::before(&testkit::redis::url()).await;
    let (limiter, session) = (RedisLimiter::connect(&url, 1_u32).await.unwrap(), fresh_session());
    assert_eq!(limiter.admit((&session).into()).await, Admission::Admitted);
    assert!(matches!(limiter.admit((&session).into()).await, Admission::Refused { .. }));
    proxy.cut();
    for call in 0..5 {
        let began = Instant::now();
        assert_eq!(limiter.admit((&session).into()).await, Admission::Admitted, "call {call}");
        // This does not measure speed: without its own time limit the client would go on trying for ten seconds and more.
        assert!(began.elapsed() < Duration::from_secs(8), "call {call} waited {:?}", began.elapsed());
    }
    proxy.mend();
    let patience = Instant::now();
    while limiter.admit((&session).into()).await == Admission::Admitted {
        assert!(patience.elapsed() < Duration::from_secs(30), "the limit never came back");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_redis_that_is_not_there_is_noticed_at_start() {
    for url in ["redis://127.0.0.1:1/", "not a url"] {
        let refusal = RedisLimiter::connect(url, 1_u32).await.map(|_| ()).unwrap_err();
        assert!(matches!(refusal, Error::Unavailable { .. }), "{refusal}");
    }
}
