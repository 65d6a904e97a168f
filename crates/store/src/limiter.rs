//! The rate limit: invocations per minute of a session, a person and a space, counted in fixed windows, in memory or shared through Redis.
//! Both count the same way, so "60 per minute" means the same on one server and on several.

mod memory;
mod redis;

pub use memory::MemoryLimiter;
pub use redis::RedisLimiter;

const WINDOW_MS: u64 = 60_000;
