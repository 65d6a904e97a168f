//! The last chapter: the audit log verifies, and a copy of it with one byte flipped does not, at exactly that receipt.

use super::end::End;
use super::stage::Stage;
use crate::commands::receipt;
use crate::shared::*;
use api::invocation::ReceiptRefView;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// What is before the byte that is flipped, in the text that was signed.
const BEFORE: &[u8] = br#""status":""#;

pub(super) async fn play(stage: &Stage, flipped: &ReceiptRefView) -> Result<End, Failure> {
    let (whole, copy, key) = (stage.file("receipts.jsonl"), stage.file("tampered.jsonl"), &stage.started.public_key_file);
    receipt::export_to(&whole, &stage.owner).await?;
    let text = std::fs::read_to_string(&whole).map_err(|error| Failure::file(&whole, &error))?;
    let tampered = flip(&text, flipped.seq).ok_or_else(|| Failure::failed(format!("the export has no entry #{}", flipped.seq)))?;
    std::fs::write(&copy, tampered).map_err(|error| Failure::file(&copy, &error))?;
    let entries = counted(receipt::verify_offline(&whole, key)?, "entry verifies", "entries verify");
    Ok(match receipt::verify_offline(&copy, key) {
        Ok(_) => End::new(false, format!("{entries}, and so do those of a copy with one byte flipped")),
        Err(found) => End::new(found.message.contains(&flipped.id), format!("{entries}; with one byte flipped, {}", found.message)),
    })
}

/// The same export with one byte of the entry's signed text flipped.
fn flip(export: &str, seq: u64) -> Option<String> {
    let mut lines = export.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let seq = seq.to_string();
    let entry = lines.find(|line| line["line"] == "entry" && line["seq"] == seq)?;
    let payload = entry["envelope"]["payload"].as_str()?;
    let mut signed = STANDARD.decode(payload).ok()?;
    let at = signed.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    *signed.get_mut(at)? ^= 1;
    Some(export.replacen(payload, &STANDARD.encode(signed), 1))
}
