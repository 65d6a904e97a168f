//! Webhooks, as <https://www.standardwebhooks.com> specifies them: a JSON message of a few facts, signed with HMAC-SHA256 under a secret that
//! both sides know. Params and results of a call are not in it; whoever may read them asks for them.

use super::kind::{Kind, Parts};
use super::{DeliveryError, Notice, Wire, secret};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use countersign_core::channel::{Channel, ChannelSetting, Moment};
use countersign_core::invocation::Deadline;
use countersign_core::ports::Secrets;
use countersign_core::{Clock, Future, Invocation, OrgId, Secret, Status, Timestamp, source};
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use sources::oauth::Own;
use sources::outbound::{Answered, Outbound};
use std::sync::Arc;

/// How a secret of the specification begins.
const SECRET_PREFIX: &str = "whsec_";
/// The bytes that the specification allows for a key.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Signatures of one message that are looked at. A sender that changes its secret has two.
const SIGNATURES_MAX: usize = 10;

pub(crate) const KIND: Kind = Kind {
    name: "webhook",
    title: "a signed webhook",
    settings: &[
        ChannelSetting {
            name: "url",
            label: "Address",
            help: "A signed request to this address, as Standard Webhooks specifies it; an operator allows its host",
            example: "https://hooks.example.com/countersign",
            is_required: true,
            value: "URL",
            ..ChannelSetting::TEXT
        },
        ChannelSetting {
            name: "secret",
            label: "Secret that signs",
            help: "The secret that signs: whsec_ and 24 to 64 bytes in base64",
            secret_prefix: Some(SECRET_PREFIX),
            ..ChannelSetting::SECRET
        },
    ],
    wire: |parts| Arc::new(WebhookWire::of(parts)),
};

struct WebhookWire {
    secrets: Arc<dyn Secrets>,
    outbound: Arc<Outbound>,
    clock: Arc<dyn Clock>,
    /// Where the server is reached.
    address: Own,
}

impl WebhookWire {
    fn of(parts: &Parts) -> Self {
        let Parts { secrets, outbound, clock, address, .. } = parts;
        Self { secrets: Arc::clone(secrets), outbound: Arc::clone(outbound), clock: Arc::clone(clock), address: address.clone() }
    }
}

impl Wire for WebhookWire {
    fn deliver<'a>(
        &'a self,
        channel: &'a Channel,
        notice: &'a Notice,
        _earlier: Option<&'a Value>,
    ) -> Future<'a, Result<Option<Value>, DeliveryError>> {
        Box::pin(async move {
            let text = |field: &str| channel.settings.get(field).and_then(Value::as_str).unwrap_or_default();
            let secret = secret::open(&*self.secrets, &notice.org, text("secret")).await?;
            let body = if notice.is_test { test(channel, notice) } else { message(notice, &self.address) }.to_string();
            let id = id_of(channel, notice);
            let seconds = self.clock.now().as_micros() / 1_000_000;
            let headers = [
                ("content-type", Secret::new("application/json".to_owned())),
                ("webhook-id", Secret::new(id.clone())),
                ("webhook-timestamp", Secret::new(seconds.to_string())),
                ("webhook-signature", Secret::new(signatures(&secret, &id, seconds, body.as_bytes())?)),
            ];
            match self.outbound.post(text("url"), &headers, body.into_bytes()).await {
                Ok(answered) => taken(&answered).map(|()| None),
                Err(error) => Err(DeliveryError::outside(&error)),
            }
        })
    }

    fn refusal(&self, settings: &Value) -> Option<source::Error> {
        let url = settings.get("url").and_then(Value::as_str).unwrap_or_default();
        self.outbound.check(url).err()
    }

    fn secret_refusal<'a>(&'a self, org: &'a OrgId, settings: &'a Value) -> Future<'a, Option<String>> {
        Box::pin(async move {
            let name = settings.get("secret").and_then(Value::as_str).unwrap_or_default();
            match secret::find(&*self.secrets, org, name).await {
                Ok(Some(secret)) => signatures(&secret, "", 0, &[]).err().map(DeliveryError::problem),
                Ok(None) => None,
                Err(error) => Some(error.problem()),
            }
        })
    }
}

/// Whether the other side took the message. What else it says is not kept: it may repeat what it was sent.
fn taken(answered: &Answered) -> Result<(), DeliveryError> {
    match answered.status {
        200..=299 => Ok(()),
        // The specification: whoever answers this wants no further messages.
        410 => Err(DeliveryError::Never("it answered 410: it wants no more messages".to_owned())),
        status => Err(DeliveryError::again(format!("it answered {status}"), answered.retry_after_ms)),
    }
}

/// The same for every attempt, and for nothing else. It has no `.`, which separates it from what follows in what is signed.
fn id_of(channel: &Channel, notice: &Notice) -> String {
    let about = if notice.is_test { "test" } else { notice.moment.as_str() };
    format!("{}-{}-{about}", channel.id, notice.invocation.id)
}

/// One signature under each key of the secret.
fn signatures(secret: &Secret<String>, id: &str, seconds: i64, body: &[u8]) -> Result<String, DeliveryError> {
    let keys = keys(secret.expose()).map_err(DeliveryError::Never)?;
    let sign = |key: &Secret<Vec<u8>>| format!("v1,{}", STANDARD.encode(mac(key.expose(), id, seconds, body).finalize().into_bytes()));
    Ok(keys.iter().map(sign).collect::<Vec<_>>().join(" "))
}

/// The keys of a secret: while it is changed, it has the new key and the old one, separated by a space. The error says what is wrong with it.
pub fn keys(secret: &str) -> Result<Vec<Secret<Vec<u8>>>, String> {
    let wrong = || {
        let (least, most) = (*KEY_BYTES.start(), *KEY_BYTES.end());
        format!("the secret is not `{SECRET_PREFIX}` and {least} to {most} bytes in base64")
    };
    let mut keys = Vec::new();
    for text in secret.split_ascii_whitespace() {
        let encoded = text.strip_prefix(SECRET_PREFIX).ok_or_else(wrong)?;
        // Some write it without what fills up its end.
        let key = Secret::new(STANDARD_NO_PAD.decode(encoded.trim_end_matches('=')).map_err(|_| wrong())?);
        if !KEY_BYTES.contains(&key.expose().len()) {
            return Err(wrong());
        }
        keys.push(key);
    }
    if keys.is_empty() { Err(wrong()) } else { Ok(keys) }
}

/// The headers of a message that somebody else has signed.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// `webhook-id`
    pub id: &'a str,
    /// `webhook-timestamp`, in seconds since 1970.
    pub timestamp: &'a str,
    /// `webhook-signature`: one or several of `v1,…`, separated by spaces.
    pub signatures: &'a str,
}

/// Whether one of the signatures is right under one of the keys of the secret, and was made within `window_seconds` of now.
pub fn is_signed(secret: &str, signed: Signed<'_>, body: &[u8], now: Timestamp, window_seconds: u64) -> bool {
    let Signed { id, timestamp, signatures } = signed;
    // An id with a dot could move what is signed from one part to another.
    let is_number = (1..=12).contains(&timestamp.len()) && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let Some(seconds) = timestamp.parse::<i64>().ok().filter(|_| is_number && !id.is_empty() && !id.contains('.')) else {
        return false;
    };
    let is_now = (now.as_micros() / 1_000_000).abs_diff(seconds) <= window_seconds;
    let Some(keys) = keys(secret).ok().filter(|_| is_now) else { return false };
    let given = signatures.split_ascii_whitespace().filter_map(|text| STANDARD.decode(text.strip_prefix("v1,")?).ok());
    // SECURITY: this comparison takes the same time wherever a difference lies.
    let is_right = |given: &[u8]| keys.iter().any(|key| mac(key.expose(), id, seconds, body).verify_slice(given).is_ok());
    given.take(SIGNATURES_MAX).any(|given| is_right(&given))
}

/// HMAC-SHA256 of `id.timestamp.body`. A key of at most 64 bytes is padded with zeros, as HMAC does it.
fn mac(key: &[u8], id: &str, seconds: i64, body: &[u8]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new(&block.into());
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    mac
}

/// A message that only tries the channel. Whoever acts on calls ignores its type.
fn test(channel: &Channel, notice: &Notice) -> Value {
    json!({
        "type": "channel.test",
        "timestamp": notice.made_at,
        "data": {
            "org_id": notice.org,
            "channel_id": channel.id,
            "channel": channel.name,
            "requested_by": notice.who.requester,
            "reason": notice.invocation.call.reason,
        },
    })
}

fn message(notice: &Notice, address: &Own) -> Value {
    let invocation = &*notice.invocation;
    let (status, at) = match notice.moment {
        Moment::Pending => (Status::Pending, Some(invocation.created_at)),
        Moment::Decided => (Status::Approved, invocation.answer.as_ref().map(|answer| answer.at)),
        Moment::InDoubt => (Status::InDoubt, Some(notice.made_at)),
        Moment::Ended => (invocation.status, invocation.ended_at),
    };
    json!({
        "type": status.event_name(),
        "timestamp": at.unwrap_or(invocation.created_at),
        "data": {
            "org_id": notice.org,
            "invocation_id": invocation.id,
            "session_id": invocation.session,
            "session_title": notice.who.session_title,
            "space_id": invocation.space,
            "principal": invocation.principal.to_string(),
            "owner": notice.who.owner,
            "action": invocation.action.as_str(),
            "tier": invocation.tier,
            "status": status,
            "reason": invocation.call.reason,
            "requested_at": invocation.created_at,
            "expires_at": expires_at(invocation),
            "answered_by": invocation.answer.as_ref().map(|answer| answer.by.to_string()),
            "answered_by_name": notice.who.answered_by,
            "answer_reason": invocation.answer.as_ref().and_then(|answer| answer.reason.as_deref()),
            "error_code": invocation.failure.as_ref().map(|failure| failure.code.as_str()),
            "ended_at": invocation.ended_at,
            "receipt_id": invocation.receipt.as_ref().map(|receipt| receipt.id.to_string()),
            "url": format!("{}/api/v1/invocations/{}", address.address(), invocation.id),
            "page_url": format!("{}/inbox/{}", address.address(), invocation.id),
        },
    })
}

/// When the question ends, if a kill switch does not suspend it.
fn expires_at(invocation: &Invocation) -> Option<Timestamp> {
    match invocation.deadline {
        Some(Deadline::At(at)) => Some(at),
        Some(Deadline::Stopped { .. }) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn secret(text: &str) -> Secret<String> {
        Secret::new(text.to_owned())
    }

    #[test]
    fn signatures_are_those_of_the_published_vectors() {
        let signed = |body: &str| signatures(&secret(KEY), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body.as_bytes());
        assert_eq!(signed(r#"{"test": 2432232314}"#), Ok("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_owned()));
        assert_ne!(signed(r#"{"test": 2432232315}"#), signed(r#"{"test": 2432232314}"#));
    }

    #[test]
    fn a_secret_that_is_being_changed_signs_with_both_keys() {
        let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let sign = |text: &str| signatures(&secret(text), "id", 1, b"{}").unwrap();
        assert_eq!(sign(&format!("{other} {KEY}\n")), format!("{} {}", sign(other), sign(KEY)));
    }

    #[test]
    fn what_was_signed_a_short_while_ago_is_taken_and_nothing_else() {
        let (other, body) = ("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", br#"{"test": 2432232314}"#.as_slice());
        let good = Signed {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: "1614265330",
            signatures: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        };
        let at = |seconds: i64| Timestamp::from_micros((1_614_265_330 + seconds) * 1_000_000);
        let taken = |secret: &str, signed, body: &[u8], seconds| is_signed(secret, signed, body, at(seconds), 300);
        assert!(taken(KEY, good, body, 0) && taken(KEY, good, body, 300) && taken(KEY, good, body, -300));
        assert!(taken(&format!("{other} {KEY}"), good, body, 0), "a secret that is being changed");
        let several = format!("v1a,x v1,AAAA {}", good.signatures);
        assert!(taken(KEY, Signed { signatures: &several, ..good }, body, 0), "a sender that changes its secret");
        for (secret, signed, body, seconds) in [
            (other, good, body, 0),
            ("", good, body, 0),
            (KEY, good, b"{}".as_slice(), 0),
            (KEY, good, body, 301),
            (KEY, good, body, -301),
            (KEY, Signed { id: "msg_other", ..good }, body, 0),
            (KEY, Signed { timestamp: "1614265331", ..good }, body, 0),
            (KEY, Signed { timestamp: "+1614265330", ..good }, body, 0),
            (KEY, Signed { signatures: "", ..good }, body, 0),
            (KEY, Signed { signatures: "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", ..good }, body, 0),
        ] {
            assert!(!taken(secret, signed, body, seconds), "{signed:?}");
        }
    }

    #[test]
    fn a_secret_that_is_none_of_the_specification_signs_nothing() {
        for wrong in ["", " ", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64", &format!("{KEY} x")] {
            let refused = signatures(&secret(wrong), "id", 1, b"{}").unwrap_err();
            let DeliveryError::Never(message) = &refused else { panic!("{refused:?}") };
            assert!(message.contains("whsec_") && !message.contains("MfKQ"), "{message}");
        }
        let longest = format!("whsec_{}", STANDARD.encode([7; 64]));
        assert!(signatures(&secret(&longest), "id", 1, b"{}").is_ok());
        let longer = format!("whsec_{}", STANDARD.encode([7; 65]));
        assert!(signatures(&secret(&longer), "id", 1, b"{}").is_err());
    }

    #[test]
    fn what_the_other_side_answers_says_whether_to_try_again() {
        let answered = |status| taken(&Answered { status, retry_after_ms: None, body: Vec::new() });
        for status in [200, 201, 204, 299] {
            assert_eq!(answered(status), Ok(()), "{status}");
        }
        for status in [301, 400, 401, 404, 429, 500, 503] {
            assert_eq!(answered(status), Err(DeliveryError::Again(format!("it answered {status}"))));
        }
        assert!(matches!(answered(410), Err(DeliveryError::Never(_))));
        let busy = taken(&Answered { status: 503, retry_after_ms: Some(7_000), body: Vec::new() });
        assert_eq!(busy, Err(DeliveryError::Later { problem: "it answered 503".to_owned(), asked_ms: 7_000 }));
    }
}
