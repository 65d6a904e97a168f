//! Finds runs of base64 that decode to readable text, because a receiver can decode them too.

use super::text::{BASE64, BASE64_URL};
use base64::Engine as _;
use std::ops::Range;

/// A run, and the text it decodes to.
pub(super) struct Decoded {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

/// Shorter runs are taken for words.
const RUN_BYTES_MIN: usize = 16;
/// Each line of a wrapped run has at least this length.
const LINE_BYTES_MIN: usize = 60;

/// Every run that decodes to printable text, from left to right.
pub(super) fn find(text: &str) -> Vec<Decoded> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let Some(range) = run(bytes, at) else {
            at += 1;
            continue;
        };
        at = range.end.max(at + 1);
        if range.len() < RUN_BYTES_MIN {
            continue;
        }
        match decode(&text[range.clone()]) {
            Some(decoded) => found.push(Decoded { range, text: decoded }),
            None => found.extend(parts(text, &range)),
        }
    }
    found
}

/// A run of letters, digits and the four other characters of both base64 alphabets, with padding at the end. It continues over line breaks
/// if it is wrapped.
fn run(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    let is_sign = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    if !bytes.get(from).is_some_and(is_sign) {
        return None;
    }
    let mut end = from;
    loop {
        let line = bytes[end..].iter().take_while(|byte| is_sign(byte)).count();
        end += line;
        let wrap = match bytes.get(end..) {
            Some([b'\r', b'\n', next, ..]) if is_sign(next) => 2,
            Some([b'\n', next, ..]) if is_sign(next) => 1,
            _ => 0,
        };
        if wrap == 0 || line < LINE_BYTES_MIN || line % 4 != 0 {
            break;
        }
        end += wrap;
    }
    end += bytes[end..].iter().take(2).take_while(|byte| **byte == b'=').count();
    Some(from..end)
}

/// Runs of base64 between the slashes of a path.
fn parts(text: &str, range: &Range<usize>) -> Vec<Decoded> {
    let mut start = range.start;
    let mut found = Vec::new();
    for part in text[range.clone()].split('/') {
        let end = start + part.len();
        if part.len() >= RUN_BYTES_MIN && part.len() < range.len() {
            found.extend(decode(part).map(|text| Decoded { range: start..end, text }));
        }
        start = end + 1;
    }
    found
}

fn decode(run: &str) -> Option<String> {
    // Most runs are not text, and their beginning shows it.
    let head = run.get(..RUN_BYTES_MIN)?;
    let engine = if run.contains(['-', '_']) { &BASE64_URL } else { &BASE64 };
    let is_plain = |byte: &u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n' | b'\r');
    let is_text = engine.decode(head).is_ok_and(|head| head.iter().all(is_plain));
    if !is_text {
        return None;
    }
    let joined: String = run.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
    let text = String::from_utf8(engine.decode(joined).ok()?).ok()?;
    text.bytes().all(|byte| is_plain(&byte)).then_some(text)
}
