//! Checks who answered a call, from the log alone: that each answer came from a person who could give it at that moment, and that each
//! approved effect has the answers it names.

use super::{Class, Finding, parse_seq};
use crate::body::{Answer, AnswerBody, ApprovalBody, IdentityBody, IdentityChange, ReceiptBody};
use countersign_core::invocation::DeniedBy;
use countersign_core::principal::{Permission, Role};
use countersign_core::{Digest, InvocationId, PrincipalId, TokenId, UserId};
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct People {
    users: HashMap<UserId, Person>,
    tokens: HashMap<TokenId, Token>,
    /// Whom each invitation is for, until it is redeemed or revoked.
    invitations: HashMap<TokenId, UserId>,
    answers: HashMap<InvocationId, Vec<Answered>>,
}

struct Person {
    role: Role,
    /// The position from which their role permits them to approve.
    approves_from: u64,
    is_disabled: bool,
}

struct Token {
    user: UserId,
    /// The position from which its bearer is known to be this person.
    from: u64,
}

struct Answered {
    by: PrincipalId,
    answer: Answer,
    binding: Digest,
    /// Whether they could already approve when the call began to wait.
    could_then: bool,
}

impl People {
    pub(super) fn change(&mut self, seq: u64, body: IdentityBody) -> Result<(), Finding> {
        let IdentityBody { by, change } = body;
        match change {
            IdentityChange::UserCreated { user, role } => {
                let person = Person { role, approves_from: seq, is_disabled: false };
                if self.users.insert(user.clone(), person).is_some() {
                    return Err(Finding::new(Class::Duplicate, format!("user `{user}` was created already")));
                }
            }
            IdentityChange::UserDisabled { user } => self.person(&user)?.is_disabled = true,
            IdentityChange::Invited { invitation, user, expires_at: _ } => {
                self.person(&user)?;
                // A new invitation ends those before it.
                self.invitations.retain(|_, invited| *invited != user);
                self.invitations.insert(invitation, user);
            }
            IdentityChange::InvitationRedeemed { invitation, token, user } => {
                if self.invitations.remove(&invitation).as_ref() != Some(&user) {
                    return Err(unfounded(format!("invitation `{invitation}` was not open for `{user}`")));
                }
                self.tokens.insert(token, Token { user, from: seq });
            }
            IdentityChange::TokenMade { token, holder: PrincipalId::User(user), scopes: _, with } => {
                if by.is_some_and(|by| by != PrincipalId::User(user.clone())) {
                    return Err(unfounded(format!("token `{token}` was made for somebody else")));
                }
                let from = with.and_then(|with| self.tokens.get(&with)).map_or(seq, |with| with.from);
                self.tokens.insert(token, Token { user, from });
            }
            IdentityChange::TokenRevoked { token } => {
                self.tokens.remove(&token);
                self.invitations.remove(&token);
            }
            // A secret is no token: nobody answers with it.
            IdentityChange::TokenMade { .. }
            | IdentityChange::LinkMade { .. }
            | IdentityChange::SecretSet { .. }
            | IdentityChange::SecretRotated { .. }
            | IdentityChange::SecretDeleted { .. } => {}
        }
        Ok(())
    }

    pub(super) fn change_role(&mut self, seq: u64, user: &UserId, role: Role) -> Result<(), Finding> {
        let person = self.person(user)?;
        if !person.role.may(Permission::Approve) {
            person.approves_from = seq;
        }
        person.role = role;
        Ok(())
    }

    pub(super) fn answer(&mut self, seq: u64, body: AnswerBody) -> Result<(), Finding> {
        let AnswerBody { answer, binding, by, invocation_id, pending_from_seq, role, token, .. } = body;
        let PrincipalId::User(user) = &by else { return Err(unfounded(format!("`{by}` is not a person, and answered"))) };
        let person = self.person(user)?;
        if person.is_disabled || person.role != role || !role.may(Permission::Approve) {
            return Err(unfounded(format!("`{user}` could not answer as {} then", role.with_article())));
        }
        let approves_from = person.approves_from;
        let held = self.tokens.get(&token).filter(|held| held.user == *user);
        let held = held.ok_or_else(|| unfounded(format!("`{user}` did not have token `{token}` then")))?;
        let pending_from = parse_seq(&pending_from_seq)?;
        if pending_from > seq {
            return Err(unfounded("it answers a call that was not pending yet".to_owned()));
        }
        let could_then = approves_from.max(held.from) < pending_from;
        self.answers.entry(invocation_id).or_default().push(Answered { by, answer, binding, could_then });
        Ok(())
    }

    /// Checks that everybody named as an approver has approved this very call. Where more than one person is needed, only those count who
    /// could approve when the call began to wait.
    pub(super) fn approved(&self, invocation: &InvocationId, approval: &ApprovalBody, quorum: u32) -> Result<(), Finding> {
        let given = self.answers.get(invocation).map(Vec::as_slice).unwrap_or_default();
        let mut counted = 0;
        for (place, approver) in approval.approvers.iter().enumerate() {
            let said = given.iter().find(|said| said.by == *approver && said.answer == Answer::Approve && said.binding == approval.binding);
            let said = said.ok_or_else(|| unfounded(format!("the log has no approval of it by `{approver}`")))?;
            let is_new = !approval.approvers.iter().take(place).any(|earlier| earlier == approver);
            counted += u32::from(is_new && (quorum < 2 || said.could_then));
        }
        if counted < quorum {
            return Err(unfounded(format!("{counted} people approved it who could, and the space asks for {quorum}")));
        }
        Ok(())
    }

    /// Checks that a call which a person is said to have denied has such an answer, and forgets the answers of an ended call.
    pub(super) fn end(&mut self, receipt: &ReceiptBody) -> Result<(), Finding> {
        let given = self.answers.remove(&receipt.invocation_id).unwrap_or_default();
        if receipt.denied_by == Some(DeniedBy::Person) && !given.iter().any(|said| said.answer == Answer::Deny) {
            return Err(unfounded("the log has no answer of the person who is said to have denied it".to_owned()));
        }
        Ok(())
    }

    fn person(&mut self, user: &UserId) -> Result<&mut Person, Finding> {
        self.users.get_mut(user).ok_or_else(|| unfounded(format!("the log does not know user `{user}`")))
    }
}

fn unfounded(reason: String) -> Finding {
    Finding::new(Class::EffectDespiteDenial, reason)
}
