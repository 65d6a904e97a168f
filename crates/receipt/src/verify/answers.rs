//! Checks people's answers, from the log alone: that each came from a person who could give it at that moment, and that each approved
//! effect has the answers it names.

use super::people::{People, unfounded};
use super::{Finding, parse_seq};
use crate::body::{Answer, AnswerBody, ApprovalBody, ReceiptBody};
use crate::entry::Header;
use countersign_core::invocation::{Beyond, DeniedBy};
use countersign_core::principal::Permission;
use countersign_core::{Digest, InvocationId, PrincipalId, Tier};
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Answers {
    given: HashMap<InvocationId, Vec<Answered>>,
    /// The latest intent with an approval, and who allowed its action from then on.
    allowed: Option<(u64, Vec<PrincipalId>)>,
}

struct Answered {
    by: PrincipalId,
    answer: Answer,
    binding: Digest,
    /// Whether they could already approve when the call began to wait.
    could_then: bool,
    /// Whether they allowed the action from then on, and could.
    is_always: bool,
}

impl Answers {
    pub(super) fn answer(&mut self, people: &People, header: &Header, body: AnswerBody) -> Result<(), Finding> {
        let AnswerBody { answer, beyond, binding, by, invocation_id, pending_from_seq, role, token, approval_id: _ } = body;
        let PrincipalId::User(user) = &by else { return Err(unfounded(format!("`{by}` is not a person, and answered"))) };
        let could_from = people.answers(header.judged_at(), user, role, &token)?;
        let pending_from = parse_seq(&pending_from_seq)?;
        if pending_from > header.seq {
            return Err(unfounded("it answers a call that was not pending yet".to_owned()));
        }
        let could_then = could_from < pending_from;
        let is_always = beyond == Beyond::Always && role.may(Permission::ManagePolicy);
        self.given.entry(invocation_id).or_default().push(Answered { by, answer, binding, could_then, is_always });
        Ok(())
    }

    /// Checks that everybody named as an approver of an effect about to start has approved this very call.
    pub(super) fn begin(&mut self, seq: u64, invocation: &InvocationId, approval: &ApprovalBody, quorum: u32) -> Result<(), Finding> {
        let given = self.given.get(invocation).map(Vec::as_slice).unwrap_or_default();
        counted(given, approval, quorum)?;
        let always = given.iter().filter(|said| said.is_always && said.approves(approval)).map(|said| said.by.clone());
        self.allowed = Some((seq, always.collect()));
        Ok(())
    }

    /// Whether an answer permitted this principal to allow the action: the mode and the first review come right after the intent.
    pub(super) fn permit(&self, seq: u64, by: Option<&PrincipalId>) -> bool {
        let is_by = |always: &[PrincipalId]| by.is_some_and(|by| always.contains(by));
        self.allowed.as_ref().is_some_and(|(begun, always)| seq - begun <= 2 && is_by(always))
    }

    /// Checks that a call which a person is said to have denied has such an answer, and that nobody edited an R4 call and approved it alone.
    /// Forgets the answers of an ended call.
    pub(super) fn end(&mut self, receipt: &ReceiptBody) -> Result<(), Finding> {
        let given = self.given.remove(&receipt.invocation_id).unwrap_or_default();
        if receipt.denied_by == Some(DeniedBy::Person) && !given.iter().any(|said| said.answer == Answer::Deny) {
            return Err(unfounded("the log has no answer of the person who is said to have denied it".to_owned()));
        }
        match &receipt.approval {
            // A later receipt of the same call does not find the answers any more.
            Some(approval) if receipt.tier == Tier::R4 && receipt.edit.is_some() && !given.is_empty() => counted(&given, approval, 2),
            Some(_) | None => Ok(()),
        }
    }
}

impl Answered {
    fn approves(&self, approval: &ApprovalBody) -> bool {
        self.answer == Answer::Approve && self.binding == approval.binding
    }
}

/// Checks that there are enough approvers. Where more than one is needed, only those count who could approve when the call began to wait.
fn counted(given: &[Answered], approval: &ApprovalBody, quorum: u32) -> Result<(), Finding> {
    let mut counted = 0;
    for (place, approver) in approval.approvers.iter().enumerate() {
        let mut said = given.iter().filter(|said| said.by == *approver && said.approves(approval)).peekable();
        if said.peek().is_none() {
            return Err(unfounded(format!("the log has no approval of it by `{approver}`")));
        }
        let is_new = !approval.approvers.iter().take(place).any(|earlier| earlier == approver);
        counted += u32::from(is_new && (quorum < 2 || said.any(|said| said.could_then)));
    }
    if counted < quorum {
        return Err(unfounded(format!("{counted} people approved it who could, and {quorum} are needed")));
    }
    Ok(())
}
