//! Checkpoints: the signed size and root of an audit log, as a C2SP signed note of three lines, an empty one, and a signature line.
//! Another key signs them than signs entries, so the holder of the receipt key alone cannot confirm a second history.

use crate::Error;
use crate::key::{PublicKey, SealingKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use countersign_core::{Digest, LogId};
use sha2::{Digest as _, Sha256};

/// The byte that stands for Ed25519 in a note.
const ALGORITHM: u8 = 1;

/// The size and root of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// `countersign/<log id>`.
    pub origin: String,
    pub size: u64,
    pub root: Digest,
}

impl Checkpoint {
    pub fn new(log: &LogId, size: u64, root: Digest) -> Self {
        Self { origin: origin(log), size, root }
    }

    /// Signs the checkpoint and returns the whole note.
    pub fn sign(&self, key: &SealingKey) -> String {
        let text = self.text();
        let signature = key.sign(text.as_bytes());
        let line = STANDARD.encode([&key_hash(&self.origin, &key.public())[..], &signature].concat());
        format!("{text}\n\u{2014} {} {line}\n", self.origin)
    }

    /// Reads a note. It proves nothing before `SignedCheckpoint::verify`.
    pub fn parse(note: &str) -> Result<SignedCheckpoint, Error> {
        SignedCheckpoint::parse(note)
    }

    fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, STANDARD.encode(self.root.as_bytes()))
    }
}

/// The name of an audit log in its checkpoints.
pub fn origin(log: &LogId) -> String {
    format!("countersign/{log}")
}

/// A note with its signatures. Signatures of witnesses are kept, but not checked here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCheckpoint {
    pub checkpoint: Checkpoint,
    signatures: Vec<NoteSignature>,
}

impl SignedCheckpoint {
    /// Checks the log's own signature on the note.
    pub fn verify(&self, key: &PublicKey) -> Result<(), Error> {
        let expected = key_hash(&self.checkpoint.origin, key);
        let own = self.signatures.iter().find(|signature| signature.name == self.checkpoint.origin && signature.key_hash == expected);
        let own = own.ok_or_else(|| Error::UnknownKey { key_id: key.key_id().to_owned() })?;
        let bytes = <[u8; 64]>::try_from(own.bytes.as_slice()).map_err(|_| Error::LaxSignature { key_id: key.key_id().to_owned() })?;
        key.verify_strict(self.checkpoint.text().as_bytes(), &bytes)
    }

    fn parse(note: &str) -> Result<Self, Error> {
        let not_a_note = |message| Error::NotANote { message };
        let (text, signatures) = note.split_once("\n\n").ok_or_else(|| not_a_note("no empty line before the signatures"))?;
        let [origin, size, root] =
            <[&str; 3]>::try_from(text.split('\n').collect::<Vec<_>>()).map_err(|_| not_a_note("expected three lines"))?;
        let root = STANDARD.decode(root).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()).ok_or_else(|| not_a_note("no root"))?;
        let checkpoint = Checkpoint {
            origin: origin.to_owned(),
            size: size.parse().map_err(|_| not_a_note("the size is not a number"))?,
            root: Digest::new(root),
        };
        if checkpoint.text().strip_suffix('\n') != Some(text) || origin.is_empty() {
            return Err(not_a_note("a line is written in another way"));
        }
        let lines = signatures.strip_suffix('\n').ok_or_else(|| not_a_note("no newline at the end"))?;
        let signatures =
            lines.split('\n').map(NoteSignature::parse).collect::<Option<_>>().ok_or_else(|| not_a_note("a signature line"))?;
        Ok(Self { checkpoint, signatures })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NoteSignature {
    name: String,
    key_hash: [u8; 4],
    bytes: Vec<u8>,
}

impl NoteSignature {
    fn parse(line: &str) -> Option<Self> {
        let (name, encoded) = line.strip_prefix("\u{2014} ")?.split_once(' ')?;
        let bytes = STANDARD.decode(encoded).ok()?;
        let (key_hash, bytes) = bytes.split_first_chunk::<4>()?;
        (!name.is_empty()).then(|| Self { name: name.to_owned(), key_hash: *key_hash, bytes: bytes.to_vec() })
    }
}

/// The first four bytes of SHA-256(name ‖ newline ‖ algorithm ‖ key).
fn key_hash(name: &str, key: &PublicKey) -> [u8; 4] {
    let hash = Sha256::new().chain_update(name).chain_update([b'\n', ALGORITHM]).chain_update(key.as_bytes()).finalize();
    [hash[0], hash[1], hash[2], hash[3]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::{Secret, Timestamp};

    fn key(seed: u8) -> SealingKey {
        SealingKey::from_seed(&Secret::new([seed; 32]))
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint::new(&LogId::new(Timestamp::from_micros(0), [0; 10]), 42, Digest::new([7; 32]))
    }

    #[test]
    fn a_checkpoint_is_a_note_of_three_lines_and_a_signature() {
        let note = checkpoint().sign(&key(1));
        let (text, line) = note.split_once("\n\n").unwrap();
        assert_eq!(text, "countersign/log_00000000000000000000000000\n42\nBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
        let encoded = line.strip_prefix("— countersign/log_00000000000000000000000000 ").unwrap().strip_suffix('\n').unwrap();
        let bytes = STANDARD.decode(encoded).unwrap();
        let hashed = [b"countersign/log_00000000000000000000000000\n\x01", &key(1).public().as_bytes()[..]].concat();
        assert_eq!(bytes[..4], Sha256::digest(hashed)[..4]);
        assert_eq!(bytes.len(), 4 + 64);
        let signature = bytes[4..].try_into().unwrap();
        assert_eq!(key(1).public().verify_strict(format!("{text}\n").as_bytes(), signature), Ok(()));
    }

    #[test]
    fn a_note_verifies_under_its_own_key_and_as_it_was_signed() {
        let note = checkpoint().sign(&key(1));
        let signed = Checkpoint::parse(&note).unwrap();
        assert_eq!(signed.checkpoint, checkpoint());
        assert_eq!(signed.verify(&key(1).public()), Ok(()));
        assert!(matches!(signed.verify(&key(2).public()), Err(Error::UnknownKey { .. })));
        let edited = Checkpoint::parse(&note.replacen("\n42\n", "\n43\n", 1)).unwrap();
        assert!(matches!(edited.verify(&key(1).public()), Err(Error::WrongSignature { .. })));
    }

    #[test]
    fn a_witness_may_sign_too_and_does_not_stand_for_the_log() {
        let note = checkpoint().sign(&key(1));
        let witness = "— witness.example AAAAAAA=\n";
        let cosigned = Checkpoint::parse(&format!("{note}{witness}")).unwrap();
        assert_eq!(cosigned.verify(&key(1).public()), Ok(()));
        let renamed = Checkpoint::parse(&note.replace("— countersign", "— witness")).unwrap();
        assert!(matches!(renamed.verify(&key(1).public()), Err(Error::UnknownKey { .. })));
    }

    #[test]
    fn what_is_not_exactly_a_note_is_refused() {
        let note = checkpoint().sign(&key(1));
        let root = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
        for (from, to) in [
            ("\n42\n", "\n042\n"),
            ("\n42\n", "\n+42\n"),
            ("\n42\n", "\n-1\n"),
            ("\n42\n", "\n18446744073709551616\n"),
            ("\n42\n", "\n42\nextension\n"),
            (root, "BwcH"),
            (root, root.trim_end_matches('=')),
            ("\n\n", "\n"),
            ("— ", "- "),
            ("countersign/log_00000000000000000000000000\n42", "\n42"),
        ] {
            assert!(note.contains(from), "{from}");
            let found = Checkpoint::parse(&note.replacen(from, to, 1));
            assert!(matches!(found, Err(Error::NotANote { .. })), "{to:?}: {found:?}");
        }
        for bad in ["", "\n\n", note.trim_end(), &format!("{note}\n"), &format!("{note}— x\n"), &note[..note.len() - 40]] {
            assert!(Checkpoint::parse(bad).is_err(), "{bad:?}");
        }
    }
}
