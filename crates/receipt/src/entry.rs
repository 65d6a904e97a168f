//! One entry of an org's audit log: a header that fixes its place, and a body built elsewhere.
//! The payload is canonical JSON (RFC 8785). Exactly this text is hashed, signed and put into the tree.

use crate::Error;
use countersign_core::{Digest, LogId, Timestamp, json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

/// The value of `prev` in the first entry.
pub const NO_PREV: Digest = Digest::new([0; 32]);

/// The kind of fact that an entry records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EntryKind)]
pub enum Kind {
    /// The keys that sign from the next entry on.
    Key,
    /// A change of a mode row.
    Mode,
    /// A space that was created or changed.
    Space,
    /// A change of any other rule: grants, switches, reviews, policies, consents.
    Rule,
    /// A change of who may act, and with what: people, tokens, links, secrets, connections.
    Identity,
    /// A person's answer to a pending call.
    Answer,
    /// An effect about to start.
    Intent,
    /// The end of an invocation.
    Receipt,
    /// The end of a batch.
    Batch,
}

countersign_core::words!(Kind {
    Key = "key", Mode = "mode", Space = "space", Rule = "rule", Identity = "identity", Answer = "answer", Intent = "intent",
    Receipt = "receipt", Batch = "batch",
});

/// The place of an entry. `seq` starts at 0 and has no gaps; `prev` is the digest of the payload before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub log: LogId,
    pub seq: u64,
    pub prev: Digest,
    pub kind: Kind,
    /// Never before the entry before it.
    pub at: Timestamp,
    /// What the clock said, if it had been set back: what is judged by time was judged by this.
    pub clock: Option<Timestamp>,
}

impl Header {
    /// The time that whatever the entry records was judged by.
    pub fn judged_at(&self) -> Timestamp {
        self.clock.unwrap_or(self.at)
    }
}

/// The text to sign. `body` must already be canonical JSON.
pub fn payload(header: &Header, body: &str) -> String {
    let Header { log, seq, prev, kind, at, clock } = header;
    let clock = clock.map(|clock| format!(r#""clock":"{clock}","#)).unwrap_or_default();
    // "body" sorts before "entry", and the header's fields are in order, so the text joined from canonical parts is canonical.
    format!(r#"{{"body":{body},"entry":{{"at":"{at}",{clock}"kind":"{kind}","log":"{log}","prev":"{prev}","seq":"{seq}"}}}}"#)
}

/// SHA-256 of a payload, which the next entry holds as `prev`. The tree uses another hash of it, see `tree::leaf`.
pub fn payload_digest(payload: &str) -> Digest {
    Digest::new(Sha256::digest(payload.as_bytes()).into())
}

/// A payload that was read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub header: Header,
    pub body: Value,
}

impl Entry {
    /// Reads a payload strictly: it must have one meaning and be canonical, and no field may be unknown to this version.
    pub fn parse(payload: &str) -> Result<Self, Error> {
        let value =
            json::parse_strict(payload.as_bytes()).map_err(|error| Error::NotStrict { what: "payload", message: error.to_string() })?;
        let unknown = |message: String| Error::UnknownShape { what: "payload", message };
        let Wire { body, entry } = Wire::deserialize(value).map_err(|error| unknown(error.to_string()))?;
        let kind = Kind::parse(&entry.kind).ok_or_else(|| unknown(format!("kind `{}`", entry.kind)))?;
        let seq = entry.seq.parse().map_err(|_| unknown(format!("seq `{}`", entry.seq)))?;
        let header = Header { log: entry.log, seq, prev: entry.prev, kind, at: entry.at, clock: entry.clock };
        let text = json::canonical(&body).map_err(|error| Error::NotStrict { what: "payload", message: error.to_string() })?;
        if self::payload(&header, &text) != payload {
            return Err(Error::NotCanonical { what: "payload" });
        }
        Ok(Self { header, body })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    body: Value,
    entry: WireHeader,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireHeader {
    at: Timestamp,
    #[serde(default)]
    clock: Option<Timestamp>,
    kind: String,
    log: LogId,
    prev: Digest,
    seq: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn header(seq: u64, kind: Kind) -> Header {
        let at = Timestamp::from_micros(1_763_164_800_000_001);
        Header { log: LogId::new(at, [7; 10]), seq, prev: Digest::new([0xab; 32]), kind, at, clock: None }
    }

    #[test]
    fn a_payload_is_written_in_exactly_one_way() {
        let mut header = header(12, Kind::Receipt);
        header.log = LogId::parse("log_01ka2bypw007700w1rf3g70007").unwrap();
        let payload = payload(&header, r#"{"x":1}"#);
        let prev = "ab".repeat(32);
        assert_eq!(
            payload,
            format!(
                r#"{{"body":{{"x":1}},"entry":{{"at":"2025-11-15T00:00:00.000001Z","kind":"receipt","log":"log_01ka2bypw007700w1rf3g70007","prev":"{prev}","seq":"12"}}}}"#
            )
        );
    }

    #[test]
    fn kinds_read_back_from_their_words() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), json!(kind.as_str()));
        }
        assert_eq!(Kind::parse("Receipt"), None);
    }

    #[test]
    fn what_is_not_exactly_a_payload_is_refused() {
        let good = payload(&header(3, Kind::Mode), r#"{"a":[1,"2"],"b":null}"#);
        assert!(Entry::parse(&good).is_ok());
        let edit = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            Entry::parse(&good.replacen(from, to, 1)).unwrap_err()
        };
        let what = "payload";
        for (from, to) in [
            (r#""seq":"3""#, r#""seq":"03""#),
            (r#""seq":"3""#, r#""seq":"+3""#),
            (r#""a":[1"#, r#""a": [1"#),
            (r#""a":[1"#, r#""a":[1.0"#),
            (r#"{"a":[1,"2"],"b":null}"#, r#"{"b":null,"a":[1,"2"]}"#),
            (".000001Z", ".000001+00:00"),
            (".000001Z", ".0000010Z"),
        ] {
            assert_eq!(edit(from, to), Error::NotCanonical { what }, "{to}");
        }
        for (from, to) in [
            (r#""kind":"mode""#, r#""kind":"mood""#),
            (r#""kind":"mode","#, ""),
            (r#""seq":"3""#, r#""seq":3"#),
            (r#""seq":"3""#, r#""seq":"-3""#),
            (r#""seq":"3""#, r#""seq":"3","zeal":1"#),
            (r#""entry":"#, r#""critical":1,"entry":"#),
            ("abab", "ABAB"),
        ] {
            assert!(matches!(edit(from, to), Error::UnknownShape { .. }), "{to}");
        }
        for (from, to) in
            [(r#""b":null"#, r#""b":null,"b":null"#), (r#"{"body""#, r#"{"body":1,"body""#), ("[1", "[9007199254740993"), ("}}", "}")]
        {
            assert!(matches!(edit(from, to), Error::NotStrict { .. }), "{to}");
        }
    }

    fn any_body() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-json::INTEGER_MAX..=json::INTEGER_MAX).prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #[test]
        fn joining_canonical_parts_is_always_the_canonical_whole(body in any_body(), seq in any::<u64>(), kind in prop::sample::select(&Kind::ALL)) {
            let header = Header { seq, ..header(0, kind) };
            let joined = payload(&header, &json::canonical(&body).unwrap());
            let whole = json!({
                "entry": { "seq": seq.to_string(), "prev": header.prev, "log": header.log, "kind": kind, "at": header.at },
                "body": body,
            });
            prop_assert_eq!(&joined, &json::canonical(&whole).unwrap());
            prop_assert_eq!(Entry::parse(&joined).unwrap(), Entry { header, body });
        }
    }
}
