//! The export file: JSON lines with everything a verifier needs, except the pinned key.
//! It is written and read one line at a time. The writer passes every line through a `Tally`, which makes the `end` line.

use crate::envelope::Envelope;
use countersign_core::{Digest, EventId, InvocationId, LogId, ReceiptId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The bundle version that this crate writes and reads.
pub const VERSION: u32 = 1;

/// The first line of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    pub countersign_bundle: u32,
    pub log: LogId,
}

/// Any further line. Entries are in order; other lines may stand anywhere between the first line and `end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case", deny_unknown_fields)]
pub enum Line {
    Entry {
        seq: String,
        envelope: Envelope,
    },
    /// An archived definition; the digest is SHA-256 of the body.
    Definition {
        digest: Digest,
        body: String,
    },
    /// The event that told of a receipt. It is not signed, so a verifier accepts nothing of it that the receipt does not say.
    Event {
        event_id: EventId,
        name: String,
        receipt_id: ReceiptId,
        invocation_id: Option<InvocationId>,
    },
    Checkpoint {
        note: String,
    },
    End {
        /// The number of `entry` lines before this one.
        entries: String,
        /// SHA-256 of every byte before this line.
        sha256: Digest,
    },
}

impl Opening {
    pub const fn new(log: LogId) -> Self {
        Self { countersign_bundle: VERSION, log }
    }
}

/// The line's text with its newline.
pub fn to_line(line: &Line) -> String {
    text(line)
}

/// The first line's text with its newline.
pub fn to_opening(opening: &Opening) -> String {
    text(opening)
}

/// Counts the entries and hashes the bytes of a bundle while it is written, for its `end` line.
#[derive(Clone, Default)]
pub struct Tally {
    hasher: Sha256,
    entries: u64,
}

impl Tally {
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts the first line and returns its text.
    pub fn opening(&mut self, opening: &Opening) -> String {
        let text = to_opening(opening);
        self.add_bytes(text.as_bytes());
        text
    }

    /// Counts a further line and returns its text.
    pub fn line(&mut self, line: &Line) -> String {
        let text = to_line(line);
        self.add_bytes(text.as_bytes());
        if matches!(line, Line::Entry { .. }) {
            self.entries += 1;
        }
        text
    }

    /// The `end` line for everything counted so far.
    pub fn end(&self) -> Line {
        Line::End { entries: self.entries.to_string(), sha256: self.sha256() }
    }

    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    pub(crate) fn sha256(&self) -> Digest {
        Digest::new(self.hasher.clone().finalize().into())
    }
}

fn text(line: &impl Serialize) -> String {
    // The line holds only strings and small integers and is written to memory, so this cannot fail.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::Timestamp;

    const ZEROS: &str = "00000000000000000000000000";

    fn check(line: &Line, expected: &str) {
        let text = to_line(line);
        assert_eq!(text, format!("{expected}\n"));
        assert_eq!(&serde_json::from_str::<Line>(&text).unwrap(), line);
    }

    #[test]
    fn lines_are_written_as_documented_and_read_back() {
        let at = Timestamp::from_micros(0);
        let log = LogId::new(at, [0; 10]);
        assert_eq!(to_opening(&Opening::new(log)), format!("{{\"countersign_bundle\":1,\"log\":\"log_{ZEROS}\"}}\n"));
        let envelope = Envelope { payload: String::new(), payload_type: "t".to_owned(), signatures: Vec::new() };
        check(
            &Line::Entry { seq: "0".to_owned(), envelope },
            r#"{"line":"entry","seq":"0","envelope":{"payload":"","payloadType":"t","signatures":[]}}"#,
        );
        let digest = "00".repeat(32);
        let zero = Digest::new([0; 32]);
        check(
            &Line::Definition { digest: zero, body: "{\"a\":1}".to_owned() },
            &format!(r#"{{"line":"definition","digest":"{digest}","body":"{{\"a\":1}}"}}"#),
        );
        check(
            &Line::Event {
                event_id: EventId::new(at, [0; 10]),
                name: "invocation.denied".to_owned(),
                receipt_id: ReceiptId::new(at, [0; 10]),
                invocation_id: Some(InvocationId::new(at, [0; 10])),
            },
            &format!(
                r#"{{"line":"event","event_id":"evt_{ZEROS}","name":"invocation.denied","receipt_id":"rcp_{ZEROS}","invocation_id":"inv_{ZEROS}"}}"#
            ),
        );
        check(&Line::Checkpoint { note: "a\n".to_owned() }, r#"{"line":"checkpoint","note":"a\n"}"#);
        check(&Line::End { entries: "1".to_owned(), sha256: zero }, &format!(r#"{{"line":"end","entries":"1","sha256":"{digest}"}}"#));
    }

    #[test]
    fn unknown_lines_and_fields_are_refused() {
        for bad in [
            r#"{"line":"extra"}"#,
            r#"{"line":"checkpoint","note":"a","more":1}"#,
            r#"{"line":"checkpoint"}"#,
            r#"{"note":"a"}"#,
            r#"{"line":"trimmed","detail":"events","through_seq":"9"}"#,
        ] {
            assert!(serde_json::from_str::<Line>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_end_line_covers_every_byte_before_it() {
        let mut tally = Tally::new();
        let mut text = tally.opening(&Opening::new(LogId::new(Timestamp::from_micros(0), [0; 10])));
        let envelope = Envelope { payload: String::new(), payload_type: String::new(), signatures: Vec::new() };
        text += &tally.line(&Line::Checkpoint { note: "n".to_owned() });
        text += &tally.line(&Line::Entry { seq: "0".to_owned(), envelope });
        assert_eq!(tally.end(), Line::End { entries: "1".to_owned(), sha256: Digest::new(Sha256::digest(&text).into()) });
    }
}
