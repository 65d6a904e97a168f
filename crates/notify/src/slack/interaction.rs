//! What somebody pressed in Slack: the form `payload=…` of an interaction, of which a few fields count.

use countersign_core::{Digest, InvocationId};
use serde::Deserialize;
use url::form_urlencoded;

pub(super) const APPROVE: &str = "countersign_approve";
pub(super) const DENY: &str = "countersign_deny";
pub(super) const OPEN: &str = "countersign_open";

/// Somebody pressed one of our buttons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interaction {
    /// Slack's id of the person.
    pub user: String,
    /// Slack's id of the channel where they pressed it. Several channels of ours may use one app, and it tells one of them.
    pub place: Option<String>,
    pub pressed: Pressed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pressed {
    Approve(Shown),
    Deny(Shown),
    /// A link, which the person's browser has opened.
    Open,
}

/// The call that the message is about, and the digest of what it showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub invocation: InvocationId,
    pub binding: Digest,
}

impl Shown {
    /// The value of a button.
    pub(super) fn text(&self) -> String {
        format!("{}:{}", self.invocation, self.binding)
    }

    fn parse(text: &str) -> Option<Self> {
        let (invocation, binding) = text.split_once(':')?;
        Some(Self { invocation: InvocationId::parse(invocation).ok()?, binding: Digest::parse(binding)? })
    }
}

#[derive(Deserialize)]
struct Payload {
    #[serde(rename = "type")]
    kind: String,
    user: Named,
    channel: Option<Named>,
    #[serde(default)]
    actions: Vec<Action>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

#[derive(Deserialize)]
struct Action {
    action_id: String,
    value: Option<String>,
}

/// Reads a request that Slack has signed, or says what is wrong with it.
pub fn read(body: &[u8]) -> Result<Interaction, &'static str> {
    let mut payloads = form_urlencoded::parse(body).filter(|(name, _)| name == "payload");
    let (Some((_, payload)), None) = (payloads.next(), payloads.next()) else {
        return Err("the form has no `payload`, or more than one");
    };
    let payload: Payload = serde_json::from_str(&payload).map_err(|_| "`payload` is not an interaction of Slack's")?;
    let [action] = payload.actions.as_slice() else {
        return Err("`payload` is about no button, or about several");
    };
    if payload.kind != "block_actions" {
        return Err("`payload` is not about a button");
    }
    let shown = || action.value.as_deref().and_then(Shown::parse).ok_or("the button is about no call");
    let pressed = match action.action_id.as_str() {
        APPROVE => Pressed::Approve(shown()?),
        DENY => Pressed::Deny(shown()?),
        OPEN => Pressed::Open,
        _ => return Err("the button is none of ours"),
    };
    Ok(Interaction { user: payload.user.id, place: payload.channel.map(|channel| channel.id), pressed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::Timestamp;
    use serde_json::{Value, json};

    fn shown() -> Shown {
        Shown { invocation: InvocationId::new(Timestamp::default(), [7; 10]), binding: Digest::new([9; 32]) }
    }

    fn form(payload: &Value) -> String {
        form_urlencoded::Serializer::new(String::new()).append_pair("payload", &payload.to_string()).finish()
    }

    /// As Slack sends it, with more than we read.
    fn payload(action_id: &str, value: Value) -> Value {
        json!({
            "type": "block_actions",
            "user": { "id": "U0123456789", "username": "robin", "team_id": "T1" },
            "api_app_id": "A1",
            "token": "deprecated",
            "container": { "type": "message", "message_ts": "1548261231.000200", "channel_id": "C0123456789" },
            "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
            "channel": { "id": "C0123456789", "name": "approvals" },
            "response_url": "https://hooks.slack.com/actions/T1/1/x",
            "actions": [{ "action_id": action_id, "block_id": "b", "type": "button", "value": value, "action_ts": "1548426417.840180" }],
        })
    }

    #[test]
    fn each_button_is_read_back() {
        for (action_id, value, pressed) in [
            (APPROVE, json!(shown().text()), Pressed::Approve(shown())),
            (DENY, json!(shown().text()), Pressed::Deny(shown())),
            (OPEN, Value::Null, Pressed::Open),
        ] {
            let read = read(form(&payload(action_id, value)).as_bytes());
            let place = Some("C0123456789".to_owned());
            assert_eq!(read, Ok(Interaction { user: "U0123456789".to_owned(), place, pressed }));
        }
        let mut nowhere = payload(OPEN, Value::Null);
        nowhere["channel"] = Value::Null;
        assert_eq!(read(form(&nowhere).as_bytes()).unwrap().place, None);
    }

    #[test]
    fn whatever_is_no_button_of_ours_is_refused() {
        let value = || json!(shown().text());
        let but = |name: &str, value: Value| {
            let mut changed = payload(APPROVE, json!(shown().text()));
            changed[name] = value;
            changed
        };
        let twice = payload(APPROVE, value())["actions"][0].clone();
        let forms = [
            payload("another", value()),
            payload(APPROVE, Value::Null),
            payload(APPROVE, json!("inv_1:xyz")),
            payload(APPROVE, json!(shown().invocation.to_string())),
            but("type", json!("view_submission")),
            but("actions", json!([])),
            but("actions", json!([twice.clone(), twice])),
            but("user", json!({})),
            json!([]),
            json!(null),
        ];
        for payload in forms {
            assert!(read(form(&payload).as_bytes()).is_err(), "{payload}");
        }
        let good = form(&payload(APPROVE, value()));
        for body in ["", "payload=", "payload={", "other=1", &format!("{good}&{good}")] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
