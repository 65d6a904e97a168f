//! Counts calls in Redis, so that several servers share one limit.

use super::WINDOW_MS;
use crate::Error;
use countersign_core::Future;
use countersign_core::limiter::{Admission, CountedFor, RateLimiter, RateLimits};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use std::time::Duration;

/// A slow Redis must not slow down every call: after this time the call is admitted without an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);

pub struct RedisLimiter {
    limits: RateLimits,
    connection: ConnectionManager,
    script: redis::Script,
}

impl RedisLimiter {
    /// Fails if Redis cannot be reached at start: a wrong URL should be noticed then, and not admit every call for ever.
    pub async fn connect(url: &str, limits: impl Into<RateLimits>) -> Result<Self, Error> {
        let unavailable = |error: redis::RedisError| Error::Unavailable { message: format!("redis: {error}") };
        let client = redis::Client::open(url).map_err(unavailable)?;
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_connection_timeout(Some(Duration::from_secs(2)))
            .set_response_timeout(Some(ANSWER_TIMEOUT));
        let connection = ConnectionManager::new_with_config(client, config).await.map_err(unavailable)?;
        // Counting and setting the window's end must be one step. A crash between the two would otherwise limit a session for ever.
        let script = redis::Script::new(
            "for i = 1, #KEYS do
               local count = tonumber(redis.call('GET', KEYS[i]) or '0')
               if count >= tonumber(ARGV[i + 1]) then return {i, redis.call('PTTL', KEYS[i])} end
             end
             for i = 1, #KEYS do
               if redis.call('INCR', KEYS[i]) == 1 then redis.call('PEXPIRE', KEYS[i], ARGV[1]) end
             end
             return {0, 0}",
        );
        Ok(Self { limits: limits.into(), connection, script })
    }
}

impl RateLimiter for RedisLimiter {
    fn admit<'a>(&'a self, call: CountedFor<'a>) -> Future<'a, Admission> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let limits = call.limits(&self.limits);
            let mut counting = self.script.prepare_invoke();
            counting.arg(WINDOW_MS);
            for (_, max, key) in &limits {
                counting.key(format!("ratelimit:actions:{key}")).arg(*max);
            }
            let counted = counting.invoke_async::<(usize, i64)>(&mut connection);
            // The driver's own time limit does not cover waiting for a new connection.
            let counted = tokio::time::timeout(ANSWER_TIMEOUT, counted).await;
            match counted.unwrap_or_else(|_| Err((redis::ErrorKind::Io, "no answer in time").into())) {
                // The script names the limit that was reached, from one on.
                Ok((reached, left_ms)) => match reached.checked_sub(1).and_then(|at| limits.get(at)) {
                    Some((limited, _, _)) => {
                        Admission::Refused { retry_after_ms: u64::try_from(left_ms).unwrap_or(WINDOW_MS), limited: *limited }
                    }
                    None => Admission::Admitted,
                },
                // The limit only protects against abuse. Without Redis, calls go on; a counter and the log show the gap.
                Err(error) => {
                    metrics::counter!("countersign_limiter_errors_total").increment(1);
                    tracing::warn!(%error, "the shared rate limit is away; admitting");
                    Admission::Admitted
                }
            }
        })
    }
}
