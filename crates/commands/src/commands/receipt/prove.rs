//! `countersign receipt prove`: proves that one receipt is in the audit log, by its signature, its leaf, the path to the root, and the
//! signature of the root. Each step is computed here; the server, or a file that was kept, only supplies the data.

use super::key_origin::KeyOrigin;
use crate::shared::*;
use api::Page;
use api::receipt::{KeyPurpose, KeyView, ProofView};
use countersign_core::Digest;
use receipt::checkpoint::{Checkpoint, origin};
use receipt::entry::Entry;
use receipt::envelope::Envelope;
use receipt::key::PublicKey;
use receipt::tree;
use serde::Deserialize;
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// A step that was verified: its name, and what was found.
type Step = (&'static str, String);

/// What is needed to prove one receipt. `receipt prove --json` and the page of a receipt write it to a file.
#[derive(Deserialize)]
pub(super) struct Kept {
    proof: ProofView,
    keys: Vec<KeyView>,
}

pub(super) async fn run(id: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let id = super::receipt_id(id, client).await?;
    let proof = client.get::<ProofView>(&["receipts", &id, "proof"], &[]).await?.read;
    let keys = client.get::<Page<KeyView>>(&["keys"], &[]).await?.read.items;
    tell(&id, &Kept { proof, keys }, None, KeyOrigin::SameServer, terminal)
}

/// The proof that a file has; `None` if it is a file of another kind. Of an export only the first line is read.
pub(super) fn read(path: &Path) -> Option<Kept> {
    serde_json::from_reader(BufReader::new(File::open(path).ok()?)).ok()
}

/// Checks a proof from a file. With a pinned key, no other may have signed the receipt.
pub(super) fn offline(kept: &Kept, pinned: Option<&PublicKey>, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let origin = if pinned.is_some() { KeyOrigin::Pinned } else { KeyOrigin::SameFile };
    let hint = "an export has the whole log, with every change of its keys: countersign receipt export FILE";
    tell(&kept.proof.entry.id, kept, pinned, origin, terminal).map_err(|failure| failure.hint(hint))
}

fn tell(id: &str, kept: &Kept, pinned: Option<&PublicKey>, origin: KeyOrigin, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let Kept { proof, keys } = kept;
    let mut steps = Vec::new();
    let checked = check(id, kept, pinned, &mut steps);
    if terminal.is_document() {
        let steps: Vec<_> = steps.iter().map(|(step, found)| json!({ "step": step, "found": found })).collect();
        let failure = checked.as_ref().err().map(|failure| failure.message.clone());
        let key_from = origin.word();
        terminal.document(&json!({
            "ok": checked.is_ok(), "receipt_id": id, "steps": steps, "failure": failure, "key_from": key_from, "proof": proof, "keys": keys,
        }))?;
        return Ok(if checked.is_ok() { Exit::Ok } else { Exit::Failed });
    }
    for (step, found) in &steps {
        terminal.line(format!("{} {step:11} {}", Tone::Ok.paint("✓ holds"), clean::line(found)))?;
    }
    checked?;
    let note = match origin {
        KeyOrigin::SameServer => "the keys came from the same server: compare the receipt key with one you kept",
        KeyOrigin::SameFile => {
            "the keys came from the file itself: this shows that the file is whole, not who wrote it; give the key with --key"
        }
        KeyOrigin::Pinned => "the checkpoint's key came from the file itself; that the log announced it, an export shows",
    };
    terminal.note(Tone::Warn.paint(format!("! note: {note}")));
    if origin == KeyOrigin::SameServer {
        terminal.next("countersign receipt verify");
    }
    Ok(Exit::Ok)
}

/// Adds each verified step to `steps`. The first step that cannot be verified is the failure.
fn check(id: &str, Kept { proof, keys }: &Kept, pinned: Option<&PublicKey>, steps: &mut Vec<Step>) -> Result<(), Failure> {
    let broken = |step: &str, why: String| {
        Failure::failed(format!("the proof of `{id}` does not hold at its {step}: {why}")).hint("countersign receipt verify")
    };

    let envelope = Envelope::deserialize(&proof.entry.envelope).map_err(|error| broken("signature", error.to_string()))?;
    // That the entry stands at this position is shown by its leaf.
    let signer = key_at(keys, KeyPurpose::Receipt, proof.index).filter(|key| pinned.is_none_or(|pinned| pinned == key));
    let payload = envelope.open(signer.as_slice()).map_err(|error| {
        let is_of_another = matches!(error, receipt::Error::UnknownKey { .. });
        broken("signature", if is_of_another { "it is not of the key that signs there".to_owned() } else { error.to_string() })
    })?;
    steps.push(("signature", format!("signed by key {}", super::key_id(&proof.entry))));

    let entry = Entry::parse(&payload).map_err(|error| broken("payload", error.to_string()))?;
    if entry.body.get("receipt_id").and_then(serde_json::Value::as_str) != Some(id) {
        return Err(broken("payload", "it is another receipt".to_owned()));
    }
    steps.push(("payload", format!("receipt {id}, entry #{} of {}", entry.header.seq, entry.header.log)));

    let leaf = tree::leaf(&payload);
    if proof.leaf != leaf.to_string() || proof.index != entry.header.seq {
        return Err(broken("leaf", "the leaf is not that of this payload".to_owned()));
    }
    steps.push(("leaf", leaf.to_string()));

    let signed = Checkpoint::parse(&proof.checkpoint).map_err(|error| broken("checkpoint", error.to_string()))?;
    let checkpoint = &signed.checkpoint;
    if checkpoint.origin != origin(&entry.header.log) {
        return Err(broken("checkpoint", format!("it is of `{}`", checkpoint.origin)));
    }
    let path: Option<Vec<_>> = proof.hashes.iter().map(|hash| Digest::parse(hash)).collect();
    let path = path.ok_or_else(|| broken("path", "a hash does not read".to_owned()))?;
    tree::verify_inclusion(&leaf, proof.index, checkpoint.size, &path, &checkpoint.root)
        .map_err(|error| broken("path", error.to_string()))?;
    steps.push((
        "path",
        match path.len() {
            1 => format!("1 hash leads to root {}", checkpoint.root),
            hashes => format!("{hashes} hashes lead to root {}", checkpoint.root),
        },
    ));

    let signer = key_at(keys, KeyPurpose::Checkpoint, checkpoint.size);
    let signer = signer.filter(|key| signed.verify(key).is_ok());
    let signer = signer.ok_or_else(|| broken("checkpoint", "the checkpoint key that signs there did not sign it".to_owned()))?;
    steps.push(("checkpoint", format!("{}, signed by key {}", counted(checkpoint.size, "entry", "entries"), signer.key_id())));
    Ok(())
}

/// The key that signs the entry at this position, or a checkpoint of so many entries: the last one that has begun, as `receipt::verify`
/// follows the log's keys. What others sign there does not count, whether they were replaced or revoked.
fn key_at(keys: &[KeyView], purpose: KeyPurpose, position: u64) -> Option<PublicKey> {
    let begun = keys.iter().filter(|key| key.purpose == purpose && key.starts_at_seq <= position);
    begun.max_by_key(|key| key.starts_at_seq).and_then(|key| PublicKey::from_base64(&key.public).ok())
}
