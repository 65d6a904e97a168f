//! Mends what nothing else would move any more, whatever led to it: a run that nobody woke, a queue without its first run, a schedule that
//! is never due. Every server looks for it now and then. Each of these is one guarded write, so several servers do it once, with an event.

use crate::engine::Engine;
use crate::error::Error;

/// Schedules that are mended in one go.
const STRAY_AT_ONCE: u32 = 100;

impl Engine {
    /// Looks once, and mends what it finds.
    pub async fn mend(&self) -> Result<(), Error> {
        let woken = self.ledger().wake_forgotten_runs().await?;
        count("run_woken", woken);
        let promoted = self.ledger().promote_stuck_runs().await?;
        count("queue_moved", promoted);
        if woken + promoted > 0 {
            self.0.due.tell_all();
        }
        for trigger in self.ledger().list_stray_schedules(STRAY_AT_ONCE).await? {
            // The others are not to wait for one that cannot be handled.
            if let Err(error) = self.handle_schedule(&trigger).await {
                tracing::warn!(%error, automation = %trigger.automation, trigger = %trigger.id, "a schedule could not be mended");
            }
        }
        Ok(())
    }
}

/// Counts what was mended. It should be nothing.
pub(crate) fn count(what: &'static str, times: u64) {
    if times > 0 {
        tracing::warn!(what, times, "what nothing else would have moved was mended");
        metrics::counter!("countersign_mended_total", "what" => what).increment(times);
    }
}
