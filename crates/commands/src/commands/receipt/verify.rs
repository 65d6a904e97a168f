//! `countersign receipt verify`: checks every record offline, either in a file with a pinned key or in an export that is fetched first; or
//! one receipt, in a file with its proof. A key from the same place as the records shows only that they are complete, not who wrote them.
//! The report always says so.

mod found;

use super::export::stream;
use super::key_origin::KeyOrigin;
use super::{first_receipt_key, prove};
use crate::shared::*;
use api::Page;
use api::receipt::{IntegrityView, KeyView};
use clap::Args;
use receipt::body::{Body as _, KeyBody};
use receipt::bundle::Line;
use receipt::checkpoint::Checkpoint;
use receipt::entry::Entry;
use receipt::key::PublicKey;
use receipt::verify::Report;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek as _};
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign receipt verify                                      what the server has now
  countersign receipt verify receipts.jsonl --key receipt.pem     offline, with a key you kept
  countersign receipt verify receipts.jsonl --key receipt.pem --checkpoint last-week.txt
  countersign receipt verify rcp_….proof.json                     one receipt, with the proof its page gave you";

/// The hint for a file that is not an export.
const EXPORT: &str = "countersign receipt export FILE writes one";
/// The first line of a public key in PEM.
const PEM_BEGIN: &str = "-----BEGIN PUBLIC KEY-----";

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// An export, or the proof of one receipt; an export is fetched from the server when absent
    file: Option<PathBuf>,
    /// The public key to trust, as written by `countersign receipt key`
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// A checkpoint you kept from earlier: without one a rewritten past cannot be told
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

impl Verify {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        let pinned = self.key.as_deref().map(read_key).transpose()?;
        let retained = self.checkpoint.as_deref().map(read_checkpoint).transpose()?;
        if let Some(kept) = self.file.as_deref().and_then(prove::read) {
            return match retained {
                Some(_) => Err(Failure::usage("a checkpoint is compared with an export, not with the proof of one receipt").hint(EXPORT)),
                None => prove::offline(&kept, pinned.as_ref(), setting.terminal),
            };
        }
        let (bundle, other) = match &self.file {
            Some(path) => {
                let bundle = open_bundle(path)?;
                let key = if pinned.is_none() { Some(announced_key(&bundle, path)?) } else { None };
                (bundle, key.map(|key| (key, KeyOrigin::SameFile)))
            }
            None => {
                let client = setting.client()?;
                let key = if pinned.is_none() { Some(served_key(&client).await?) } else { None };
                (fetch(&client).await?, key.map(|key| (key, KeyOrigin::SameServer)))
            }
        };
        let trusted = pinned.map(|key| (key, KeyOrigin::Pinned)).or(other);
        let (key, origin) = trusted.ok_or_else(|| Failure::usage("there is no key to check with").hint("give one with --key"))?;
        let key_id = key.key_id().to_owned();
        // The check runs on its own thread, so that Ctrl-C works during a long one.
        let checked =
            tokio::task::spawn_blocking(move || receipt::verify::verify(lines(BufReader::new(bundle)), &key, retained.as_deref()));
        let report = checked.await.map_err(|error| Failure::failed(format!("the check stopped: {error}")))?;
        let integrity = if self.file.is_none() && report.ok {
            Some(setting.client()?.get::<IntegrityView>(&["receipts", "integrity"], &[]).await?.read)
        } else {
            None
        };
        tell(&report, integrity.as_ref(), &Checked { key_id: &key_id, origin, file: self.file.as_deref() }, setting.terminal)
    }
}

/// Checks a file with the key in another one. Returns the number of its entries; what does not hold first is a failure.
pub(in crate::commands) fn offline(file: &Path, key: &Path) -> Result<u64, Failure> {
    let report = receipt::verify::verify(lines(BufReader::new(open_bundle(file)?)), &read_key(key)?, None);
    report.first_bad.as_ref().map_or(Ok(report.entries), |finding| Err(found::failure(finding, report.entries, report.lines)))
}

/// The key that was used for a check, and the file that was checked.
struct Checked<'a> {
    key_id: &'a str,
    origin: KeyOrigin,
    file: Option<&'a Path>,
}

/// `integrity`: how the server's database agrees with the log, if the log was fetched from it.
fn tell(report: &Report, integrity: Option<&IntegrityView>, checked: &Checked<'_>, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let Checked { key_id, origin, file } = checked;
    if terminal.is_document() {
        let mut document = json!(report);
        document["key_id"] = json!(key_id);
        document["key_from"] = json!(origin.word());
        document["integrity"] = json!(integrity);
        terminal.document(&document)?;
        return Ok(if report.ok && integrity.is_none_or(|found| found.ok) { Exit::Ok } else { Exit::Failed });
    }
    if let Some(finding) = &report.first_bad {
        return Err(found::failure(finding, report.entries, report.lines));
    }
    if let Some(found) = integrity.filter(|found| !found.ok) {
        let rest = found.differences.len().saturating_sub(1);
        let more = if rest == 0 { String::new() } else { format!("; {rest} more with --json") };
        let first = found.differences.first().map(|first| clean::line(first)).unwrap_or_default();
        return Err(Failure::failed("the log is whole, and the database differs from it")
            .cause(format!("{first}{more}"))
            .hint("somebody has changed the database without the server; restore a backup, or set the rule again"));
    }
    let head = report.head.as_ref().map(|head| format!("#{} {}", head.seq, head.digest));
    let record = Record::new(key_id)
        .with("verdict", Cell::shown("✓ verified", "verified").toned(Tone::Ok))
        .with("entries", Cell::text(report.entries.to_string()))
        .with("receipts", Cell::text(report.receipts.to_string()))
        .with("batches", Cell::text(report.batches.to_string()))
        .with("answers", Cell::text(report.answers.to_string()))
        .with("intents", Cell::text(report.intents.to_string()))
        .with("checkpoints", Cell::text(report.checkpoints.to_string()))
        .with("head", Cell::maybe(head))
        .with("key", Cell::text(format!("{key_id}, {}", origin.words())));
    terminal.record(&serde_json::Value::Null, &record)?;
    for warning in report.warnings.iter().map(String::as_str).chain(origin.warning(*file)) {
        terminal.note(Tone::Warn.paint(format!("! note: {}", clean::line(warning))));
    }
    Ok(Exit::Ok)
}

fn read_key(path: &Path) -> Result<PublicKey, Failure> {
    let hint = "countersign receipt key --out FILE writes it; receipt.pub in the server's data folder is the same key";
    let text = read_text(path, "a public key", hint)?;
    PublicKey::from_pem(&text).map_err(|error| {
        let cause =
            if text.trim_start().starts_with(PEM_BEGIN) { error.to_string() } else { format!("it does not begin with `{PEM_BEGIN}`") };
        Failure::usage(format!("`{}` is not a public key", path.display())).cause(cause).hint(hint)
    })
}

fn read_checkpoint(path: &Path) -> Result<String, Failure> {
    let hint = "countersign receipt checkpoint --out FILE writes one";
    let text = read_text(path, "a checkpoint", hint)?;
    let is_not =
        |error: receipt::Error| Failure::usage(format!("`{}` is not a checkpoint", path.display())).cause(error.to_string()).hint(hint);
    Checkpoint::parse(&text).map_err(is_not)?;
    Ok(text)
}

fn read_text(path: &Path, what: &str, hint: &str) -> Result<String, Failure> {
    let is_not_text = |error: &io::Error| error.kind() == io::ErrorKind::InvalidData;
    std::fs::read_to_string(path).map_err(|error| {
        if is_not_text(&error) {
            return Failure::usage(format!("`{}` is not {what}", path.display())).cause("it is not text").hint(hint);
        }
        Failure::file(path, &error).hint(hint)
    })
}

/// Opens a file whose first line says that it is an export. This does not check its records.
fn open_bundle(path: &Path) -> Result<File, Failure> {
    let unusable = |error: &io::Error| Failure::file(path, error).hint(EXPORT);
    let is_not = |cause: &str| Failure::failed(format!("`{}` is not an export of receipts", path.display())).cause(cause).hint(EXPORT);
    let mut bundle = File::open(path).map_err(|error| unusable(&error))?;
    let first = match lines(BufReader::new(&bundle)).next() {
        None => return Err(is_not("it is empty")),
        Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => return Err(is_not("it is not text")),
        Some(first) => first.map_err(|error| unusable(&error))?,
    };
    let opening = serde_json::from_str::<serde_json::Value>(&first).ok();
    if opening.is_none_or(|opening| opening.get("countersign_bundle").is_none()) {
        return Err(is_not("its first line is not that of one, and it is no proof of a receipt"));
    }
    bundle.rewind().map_err(|error| unusable(&error))?;
    Ok(bundle)
}

async fn served_key(client: &Client) -> Result<PublicKey, Failure> {
    let keys = client.get::<Page<KeyView>>(&["keys"], &[]).await?.read.items;
    PublicKey::from_pem(&first_receipt_key(&keys)?.pem)
        .map_err(|error| Failure::failed("the server's receipt key cannot be read").cause(error.to_string()))
}

/// The key that the first entry of the file announces.
fn announced_key(mut bundle: &File, path: &Path) -> Result<PublicKey, Failure> {
    let unclear = || {
        Failure::failed(format!("`{}` does not begin with the keys of a log", path.display()))
            .cause("its second line is not the entry that names them: it was cut off or changed")
            .hint(EXPORT)
    };
    let unreadable = |error: io::Error| Failure::file(path, &error);
    let first = lines(BufReader::new(bundle)).take(2).last().ok_or_else(unclear)?.map_err(unreadable)?;
    bundle.rewind().map_err(unreadable)?;
    let Ok(Line::Entry { envelope, .. }) = serde_json::from_str(&first) else { return Err(unclear()) };
    let payload = envelope.peek().map_err(|_| unclear())?;
    let body = Entry::parse(&payload).and_then(|entry| KeyBody::read(&entry.body)).map_err(|_| unclear())?;
    body.receipt_key.read().map_err(|_| unclear())
}

/// Fetches the whole export into an unnamed temporary file, which disappears when this process ends.
async fn fetch(client: &Client) -> Result<File, Failure> {
    let mut file = tempfile::tempfile().map_err(|error| Failure::failed(format!("there is no room for a temporary file: {error}")))?;
    let place = std::env::temp_dir();
    stream(client, io::BufWriter::new(&file)).await.map_err(|broken| broken.of(&place))?;
    file.rewind().map_err(|error| Failure::file(&place, &error))?;
    Ok(file)
}

/// The lines of a file without the newline and otherwise unchanged, so that exactly the bytes of the file are hashed.
fn lines(mut reader: impl BufRead) -> impl Iterator<Item = io::Result<String>> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => {
                let is_whole = line.last() == Some(&b'\n');
                if is_whole {
                    line.pop();
                }
                Some(String::from_utf8(line).or_else(|error| match error.utf8_error() {
                    // The file ends in the middle of a character. The text before it is returned, and the verifier reports that the line
                    // breaks off.
                    cut if !is_whole && cut.error_len().is_none() => {
                        Ok(String::from_utf8_lossy(&error.as_bytes()[..cut.valid_up_to()]).into_owned())
                    }
                    _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not UTF-8")),
                }))
            }
            Err(error) => Some(Err(error)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_every_byte_but_the_newline() {
        let text = |bytes: &[u8]| lines(bytes).map(|line| line.map_err(|error| error.to_string())).collect::<Vec<_>>();
        assert_eq!(text(b"a\r\nb\n\nc"), [Ok("a\r".to_owned()), Ok("b".to_owned()), Ok(String::new()), Ok("c".to_owned())]);
        assert_eq!(text(b""), []);
        for wrong in [&b"\xff\n"[..], b"\xff", b"a\xe2\x80\n"] {
            assert_eq!(text(wrong), [Err("not UTF-8".to_owned())]);
        }
        // The file ends after the first two bytes of a dash.
        assert_eq!(text(b"a\n{\"b\xe2\x80"), [Ok("a".to_owned()), Ok("{\"b".to_owned())]);
    }

    #[test]
    fn the_published_vector_announces_its_own_key() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../receipt/vectors");
        let bundle = File::open(folder.join("bundle.jsonl")).unwrap();
        let announced = announced_key(&bundle, Path::new("bundle.jsonl")).unwrap();
        assert_eq!(announced, read_key(&folder.join("receipt-key.pem")).unwrap());
        let report = receipt::verify::verify(lines(BufReader::new(bundle)), &announced, None);
        assert!(report.ok, "{report:?}");
    }
}
