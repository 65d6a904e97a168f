//! Schedules. Whenever one is due, after a restart and after a suspend alike, the same code lists its ticks since the last one that was handled.
//! A tick is fired first and passed then, and a tick that was fired before starts nothing: a crash in between repeats nothing and loses nothing.

use crate::engine::Engine;
use crate::error::Error;
use crate::mend;
use automation::schedule::{SkipReason, Skipped, StartReason};
use countersign_core::automation::{FiringReason, Tick, Trigger};
use countersign_core::ports::automations::{Mended, PassedTicks, SkippedTicks};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Schedules that are handled in one go.
const DUE_AT_ONCE: u32 = 100;

/// The longest sleep: another server may have saved a schedule that is due sooner.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// The shortest sleep.
const SLEEP_MIN: Duration = Duration::from_millis(20);

/// How soon a schedule is tried again that could not be handled.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl Engine {
    pub(crate) async fn keep_schedules(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let sleep = match self.handle_due_schedules().await {
                Ok(sleep) => sleep,
                Err(error) => {
                    tracing::warn!(%error, "schedules could not be handled; they are tried again");
                    TRY_AGAIN
                }
            };
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = self.0.schedule_changed.notified() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Handles every schedule that is due. Returns how long nothing will be due.
    pub async fn handle_due_schedules(&self) -> Result<Duration, Error> {
        let due = self.ledger().list_due_triggers(DUE_AT_ONCE).await?;
        let is_full = due.len() >= DUE_AT_ONCE as usize;
        let mut has_failed = false;
        for trigger in due {
            if let Err(error) = self.handle_schedule(&trigger).await {
                tracing::warn!(%error, automation = %trigger.automation, trigger = %trigger.id, "a schedule could not be handled");
                // The others are not to wait for it.
                has_failed = true;
            }
        }
        has_failed |= self.fire_due_gatherings().await.is_err();
        if has_failed {
            return Ok(TRY_AGAIN);
        }
        if is_full {
            return Ok(Duration::ZERO);
        }
        let next = [self.ledger().next_due_at().await?, self.ledger().next_gathering_at().await?].into_iter().flatten().min();
        // What is still due after all was handled is not handled without a pause.
        Ok(next.map_or(SLEEP_MAX, |next| Duration::from_millis(next.millis_since(self.now())).clamp(SLEEP_MIN, SLEEP_MAX)))
    }

    pub(crate) async fn handle_schedule(&self, trigger: &Trigger) -> Result<(), Error> {
        let Some(saved) = self.ledger().find_automation(&trigger.org, &trigger.automation).await? else {
            return Ok(());
        };
        let program = self.program(&trigger.org, saved.definition).await?;
        let Some(schedule) = program.schedule(&trigger.id) else {
            return Ok(());
        };
        let now = self.now();
        let due = schedule.due(trigger.high_water.unwrap_or(trigger.enabled_at), now);
        let mut fired = trigger.clone();
        for start in due.start {
            let tick = Tick {
                scheduled_for: start.tick.scheduled_for,
                wall: start.tick.wall.to_string(),
                zone: schedule.timezone().to_owned(),
                tzdata: automation::schedule::tzdata_version().to_owned(),
            };
            let reason = match start.reason {
                StartReason::OnTime => FiringReason::OnTime,
                StartReason::CaughtUp => FiringReason::CaughtUp,
            };
            let scheduled_for = tick.scheduled_for;
            // What each tick that is caught up covers begins where the one before it ended.
            if self.fire_tick(&saved, &program, &fired, tick, reason).await? {
                fired.last_fired_at = Some(scheduled_for);
            }
        }
        let mended = match due.corrected_from {
            Some(_) => Some(Mended::HighWater),
            None => due.next_due.filter(|_| trigger.next_due_at.is_none()).map(|_| Mended::NextDue),
        };
        let passed = PassedTicks {
            org: trigger.org.clone(),
            automation: trigger.automation.clone(),
            trigger: trigger.id.clone(),
            from: trigger.high_water,
            high_water: due.high_water,
            next_due_at: due.next_due,
            skipped: due.skipped.iter().map(skipped).collect(),
            mended,
        };
        // If another server was first, it has said so.
        if let (true, Some(mended)) = (self.ledger().pass_ticks(passed).await?, mended) {
            mend::count(mended.as_str(), 1);
            self.0.schedule_changed.notify_one();
        }
        Ok(())
    }
}

fn skipped(ticks: &Skipped) -> SkippedTicks {
    let reason = match ticks.reason {
        SkipReason::CatchUpNone => FiringReason::CatchUpNone,
        SkipReason::Superseded => FiringReason::Superseded,
        SkipReason::OutsideWindow => FiringReason::OutsideWindow,
        SkipReason::OverMax => FiringReason::OverMax,
        SkipReason::DstGap => FiringReason::DstGap,
    };
    SkippedTicks { reason, count: ticks.count, first_at: ticks.first.scheduled_for, last_at: ticks.last.scheduled_for }
}
