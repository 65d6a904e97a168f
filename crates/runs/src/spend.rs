//! What a run spends: a paid call is reserved before it is made, and settled with its outcome.

use crate::error::Error;
use crate::program::StepProgram;
use crate::walk::Walk;
use countersign_core::Invocation;
use countersign_core::ports::runs::{ReserveBudget, Reserved};
use serde_json::Value;

impl Walk {
    /// Whether the call may be paid. It is reserved from then on.
    pub(crate) async fn reserve(&self, step: &StepProgram, params: &Value) -> Result<Reserved, Error> {
        let prices = self.engine.0.ports.prices.as_ref();
        let Some(most) = prices.and_then(|prices| prices.worst_case(&step.definition.action, params)) else {
            return Ok(Reserved::Done);
        };
        let cap = self.program.definition.execution.budget_cap_usd;
        let reserve = ReserveBudget { lease: self.lease.clone(), key: self.entry_of(step), most, cap };
        Ok(self.engine.ledger().reserve_budget(reserve).await?)
    }

    /// Says what the call did cost, if that is known.
    pub(crate) async fn settle(&self, step: &StepProgram, ended: &Invocation) -> Result<(), Error> {
        let prices = self.engine.0.ports.prices.as_ref();
        if let Some(spent) = prices.and_then(|prices| prices.cost(ended)) {
            self.engine.ledger().settle_budget(&self.run.org, &self.run.id, &self.entry_of(step), spent).await?;
        }
        Ok(())
    }

    /// Each attempt is paid by itself.
    fn entry_of(&self, step: &StepProgram) -> String {
        format!("{}:{}", self.key(step), self.run.attempts)
    }
}
