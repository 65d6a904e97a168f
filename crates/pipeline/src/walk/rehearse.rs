//! A kill switch may have the calls it covers answered with their dry run, so that agents go on planning while nothing happens.

use crate::error::Error;
use crate::walk::admit::{Admitted, Entrance};
use crate::walk::ground::Walk;
use crate::walk::resolve::Resolved;
use countersign_core::invocation::Intention;
use countersign_core::switch::Stop;

impl Walk {
    /// Makes a call a dry run if every switch that covers it says so. What is not a call of its own stays as it is, and is stopped: a part
    /// of a batch, a revert, and a call that a person has approved or released.
    pub(crate) async fn rehearse(&self, mut resolved: Resolved) -> Result<Resolved, Error> {
        let Admitted { session, request, entrance, .. } = &*resolved.admitted;
        let is_own = match entrance {
            Entrance::Fresh => request.intention == Intention::Effect && request.approval_ref.is_none(),
            Entrance::Part(_) | Entrance::Compensation(_) | Entrance::Released(_) | Entrance::Replacing(_) | Entrance::Resumed(_) => false,
        };
        let action = resolved.action();
        if !is_own || !action.has_dry_run() {
            return Ok(resolved);
        }
        let switches = self.ledger().list_switches(&session.org).await?;
        let mut covering = switches.iter().filter(|switch| switch.scope.covers(&session.space, &session.id, &action.id));
        let Some(first) = covering.next() else { return Ok(resolved) };
        if first.stop != Stop::AsDryRun || covering.any(|switch| switch.stop != Stop::AsDryRun) {
            return Ok(resolved);
        }
        let (scope, reason) = (&first.scope, policy::redact_text(&first.reason));
        let why = format!("a kill switch on `{scope}` is on (“{reason}”): nothing was done, and this is the dry run");
        resolved.admitted.rehearsed = Some(why);
        resolved.admitted.request.intention = Intention::DryRun;
        if let Some(older) = &mut resolved.admitted.request.call.older {
            older.is_rehearsed = true;
        }
        Ok(resolved)
    }
}
