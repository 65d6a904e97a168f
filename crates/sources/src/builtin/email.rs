//! `email`: a mail through the org's mail server, or the operator's. Offered only where an operator has named one.

use crate::builtin::{Builtin, Open, VERSION, action_id, object_schema, read_params, source_id, unknown_action};
use crate::limits::{EMAIL_ADDRESS_BYTES_MAX, EMAIL_RECIPIENTS_MAX, EMAIL_SUBJECT_CHARS_MAX, EMAIL_TEXT_CHARS_MAX};
use crate::mail::{Mail, MailAddress, Mailer, Sender, Senders, Subject};
use crate::words::{patience, refused};
use countersign_core::action::Effect;
use countersign_core::limits::CALL_TIMEOUT_MS;
use countersign_core::source::{Asked, CallContext, Error, Output, SentAs, Source};
use countersign_core::{Action, ActionId, Clock, Future, OrgId, SourceId, SpaceId, Tier};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

pub(super) const BUILTIN: Builtin = Builtin {
    actions: || Ok(vec![Arc::new(definition()?)]),
    open: Open::Once(|parts| {
        let Some((mailer, senders)) = &parts.mail else { return Ok(None) };
        Ok(Some(Arc::new(Email::new(Arc::clone(mailer), Arc::clone(senders), Arc::clone(&parts.clock))?)))
    }),
};

/// The source `email`.
pub struct Email {
    id: SourceId,
    action: Arc<Action>,
    mailer: Arc<Mailer>,
    senders: Arc<dyn Senders>,
    clock: Arc<dyn Clock>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    to: Vec<String>,
    subject: String,
    text: String,
}

/// Params that make a mail.
struct Checked {
    to: Vec<MailAddress>,
    subject: Subject,
    text: String,
}

impl Email {
    pub fn new(mailer: Arc<Mailer>, senders: Arc<dyn Senders>, clock: Arc<dyn Clock>) -> Result<Self, crate::Error> {
        Ok(Self { id: source_id("email")?, action: Arc::new(definition()?), mailer, senders, clock })
    }

    async fn send(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Output, Error> {
        let Checked { to, subject, text } = self.checked(action, params)?;
        let recipients = to.len();
        let Sender { route, from } = self.senders.sender_of(&context.org, Some(&context.space)).await?;
        let value = json!({ "recipients": recipients, "from": from.to_string() });
        let mail = Mail {
            from,
            to,
            subject,
            text,
            html: None,
            // The same for every attempt, so that a reader's program can tell that two are one.
            id: context.invocation.to_string(),
            answers: None,
            at: self.clock.now(),
        };
        self.mailer.send(&route, &mail, patience(context)).await?;
        Ok(Output { value, quality_thousandths: 1_000, evidence: None })
    }

    fn checked(&self, action: &ActionId, params: &Value) -> Result<Checked, Error> {
        if *action != self.action.id {
            return Err(unknown_action(action));
        }
        let Send { to, subject, text } = read_params(action, params)?;
        let invalid = |message: String| refused("invalid_params", message);
        if !(1..=EMAIL_RECIPIENTS_MAX).contains(&to.len()) {
            return Err(invalid(format!("`to` names 1 to {EMAIL_RECIPIENTS_MAX} addresses")));
        }
        let to: Result<Vec<MailAddress>, crate::Error> = to.iter().map(|to| to.parse::<MailAddress>()).collect();
        let to = to.map_err(|_| invalid("`to` has something that is no plain e-mail address: a name, an @ and a domain".to_owned()))?;
        let subject = Subject::new(&subject).ok_or_else(|| {
            invalid(format!("`subject` is one line of 1 to {EMAIL_SUBJECT_CHARS_MAX} characters, without control characters"))
        })?;
        if text.trim().is_empty() || text.chars().nth(EMAIL_TEXT_CHARS_MAX).is_some() {
            return Err(invalid(format!("`text` has 1 to {EMAIL_TEXT_CHARS_MAX} characters")));
        }
        Ok(Checked { to, subject, text })
    }
}

impl Source for Email {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn title(&self) -> &str {
        "E-mail"
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        Some(include_str!("email/guide.md").into())
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        Box::pin(std::future::ready(Ok(vec![self.action.clone()])))
    }

    fn sent_as<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId) -> Future<'a, Result<Option<SentAs>, Error>> {
        self.senders.sent_as(org, Some(space))
    }

    /// An address that cannot be one is refused before a person is asked.
    fn check<'a>(&'a self, asked: Asked<'a>) -> Future<'a, Result<(), Error>> {
        let checked = asked.params.map_or(Ok(()), |params| self.checked(asked.action, params).map(|_| ()));
        Box::pin(std::future::ready(checked))
    }

    fn call<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(self.send(context, action, params))
    }
}

fn definition() -> Result<Action, crate::Error> {
    let address = json!({ "type": "string", "minLength": 3, "maxLength": EMAIL_ADDRESS_BYTES_MAX });
    Ok(Action {
        version: VERSION.to_owned(),
        title: "Send an e-mail".to_owned(),
        description: "Sends a plain-text mail from the address of the org. All recipients see each other.".to_owned(),
        params_schema: object_schema(
            json!({
                "to": { "type": "array", "items": address, "minItems": 1, "maxItems": EMAIL_RECIPIENTS_MAX, "uniqueItems": true,
                    "description": "Plain addresses, without names." },
                "subject": { "type": "string", "minLength": 1, "maxLength": EMAIL_SUBJECT_CHARS_MAX, "description": "One line." },
                "text": { "type": "string", "minLength": 1, "maxLength": EMAIL_TEXT_CHARS_MAX, "description": "Plain text." },
            }),
            &["to", "subject", "text"],
        ),
        result_schema: object_schema(
            json!({
                "recipients": { "type": "integer", "minimum": 1 },
                "from": { "type": "string", "description": "The address that it came from." },
            }),
            &["recipients", "from"],
        ),
        requires: vec!["email.send".to_owned()],
        effects: vec![Effect::NetworkCall],
        timeout_ms: CALL_TIMEOUT_MS,
        // What arrived cannot be called back, so there is no rollback.
        ..Action::new(action_id("email.send")?, Tier::R3)
    })
}

#[cfg(test)]
#[path = "email_tests.rs"]
mod tests;
