//! What a run spends: a call of an action that has a price is reserved before it is made, and settled with its outcome.

use crate::engine::Engine;
use crate::error::Error;
use crate::program::{Program, StepProgram};
use crate::walk::Walk;
use countersign_core::ports::runs::{ReserveBudget, Reserved};
use countersign_core::run::Phase;
use countersign_core::{ActionId, Amount, Invocation, OrgId, RunId};

impl Engine {
    /// What a run will likely cost, if that is more than it may: it would only begin what it cannot end. A step without a history costs what it
    /// can cost at most, and one that may be skipped counts nothing.
    pub(crate) async fn too_dear(&self, org: &OrgId, program: &Program) -> Result<Option<Amount>, Error> {
        let mut estimate = Vec::new();
        for step in program.steps(Phase::Plan).iter().filter(|step| step.when.is_none()) {
            let Some(most) = self.at_most(org, step).await? else { continue };
            let mean = self.ledger().mean_cost(org, &step.definition.action).await?;
            estimate.push(mean.unwrap_or(most));
        }
        let estimate = estimate.into_iter().sum::<Amount>();
        Ok(Some(estimate).filter(|estimate| *estimate > program.definition.execution.budget_cap_usd))
    }

    /// What the call of a step can cost at most; `None` if its action has no price.
    async fn at_most(&self, org: &OrgId, step: &StepProgram) -> Result<Option<Amount>, Error> {
        let Ok(action) = ActionId::parse(&step.definition.action) else { return Ok(None) };
        Ok(self.ledger().find_price(org, &action).await?.map(|found| found.price.at_most()))
    }

    /// Says what a call did cost, if it was charged.
    pub(crate) async fn settle_call(&self, org: &OrgId, run: &RunId, entry: &str, ended: &Invocation) -> Result<(), Error> {
        if let Some(spent) = ended.charge.as_ref().and_then(|charge| charge.usd) {
            self.ledger().settle_budget(org, run, entry, spent).await?;
        }
        Ok(())
    }
}

impl Walk {
    /// Whether the call may be paid that follows so many attempts. It is reserved from then on.
    pub(crate) async fn reserve(&self, step: &StepProgram, attempts: u32) -> Result<Reserved, Error> {
        let Some(most) = self.engine.at_most(&self.run.org, step).await? else {
            return Ok(Reserved::Done);
        };
        let cap = self.program.definition.execution.budget_cap_usd;
        let action = step.definition.action.clone();
        let reserve = ReserveBudget { lease: self.lease.clone(), key: self.entry_of(step, attempts).await, action, most, cap };
        Ok(self.engine.ledger().reserve_budget(reserve).await?)
    }

    /// Says what the call did cost, if it was charged.
    pub(crate) async fn settle(&self, step: &StepProgram, attempts: u32, ended: &Invocation) -> Result<(), Error> {
        self.engine.settle_call(&self.run.org, &self.run.id, &self.entry_of(step, attempts).await, ended).await
    }

    /// Names what is reserved for the call that follows so many attempts. Each is paid by itself.
    pub(crate) async fn entry_of(&self, step: &StepProgram, attempts: u32) -> String {
        let entry = format!("{}:{attempts}", self.key(step));
        // After a crash a call with an intent is found again by its key. A read is made again, and paid again: what the worker that is gone
        // had reserved for it counts as spent.
        let is_read = self.engine.is_read(&self.run.org, step).await;
        if is_read { format!("{entry}:{}", self.run.recoveries) } else { entry }
    }
}
