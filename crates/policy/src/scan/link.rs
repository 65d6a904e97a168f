//! Finds images and links that carry data out. An image is fetched by the program that renders it, without a click. What matters is the
//! content of the URL besides its location: a text in it, plain or encoded, or far too much data.

use super::canary::{unbase64, unescaped, unhexed};
use super::findings::{Findings, Rule, Severity};
use super::text;
use regex::Regex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) const IMAGE_EXFILTRATION: Rule = Rule {
    id: "safety.image_exfiltration",
    severity: Severity::Asks,
    message: "an image is fetched from a URL that carries data; showing it would send that data away",
};
pub(super) const LINK_EXFILTRATION: Rule = Rule {
    id: "safety.link_exfiltration",
    severity: Severity::Asks,
    message: "a link carries encoded data; following it would send that data away",
};

pub(super) fn scan(params: &Value, findings: &mut Findings) {
    text::each(params, &mut |path, _, text| {
        if !text.contains("//") {
            return;
        }
        let Ok(pattern) = &*PATTERN else {
            // Without the pattern, links cannot be told apart.
            findings.add(&IMAGE_EXFILTRATION, || path.pointer());
            return;
        };
        for captures in pattern.captures_iter(text) {
            let Some(url) = URLS.iter().find_map(|group| captures.name(group)) else { continue };
            let is_link = captures.get(0).is_some_and(|found| found.as_str().trim_start().starts_with('['));
            let rule = match is_link {
                true if link_carries(url.as_str()) => &LINK_EXFILTRATION,
                false if image_carries(url.as_str()) => &IMAGE_EXFILTRATION,
                true | false => continue,
            };
            findings.add(rule, || path.pointer());
            return;
        }
    });
}

const URLS: [&str; 4] = ["inline", "reference", "element", "style"];

/// Markdown images and links, inline and by reference; HTML elements that fetch a URL; and styles.
static PATTERN: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"!?\[[^\[\]\n]*\]\(\s*<?(?<inline>(?i:https?:)?//[^\s)>]+)",
        r"|(?m:^)[ ]{0,3}\[[^\[\]\n]+\]:\s*<?(?<reference>(?i:https?:)?//[^\s>]+)",
        r#"|(?i)<(?:img|image|iframe|video|audio|source|embed|object|link|script)\s[^<>]*?(?:src|srcset|href|data|poster)\s*=\s*["']?(?<element>(?:https?:)?//[^\s"'<>]+)"#,
        r#"|url\(\s*["']?(?<style>(?:https?:)?//[^\s"')]+)"#,
    ))
});

/// Shorter texts are taken for names.
const WORDS_BYTES_MIN: usize = 32;
const ENCODED_BYTES_MIN: usize = 20;
/// No id is as long as this.
const OPAQUE_BYTES_MIN: usize = 64;
/// Only data is as long as this.
const PIECE_BYTES_MAX: usize = 256;

fn image_carries(url: &str) -> bool {
    let Parts { host, path, query } = parts(url);
    let host_carries = host.split('.').any(is_encoded_text);
    let path_carries = path.split('/').any(|piece| is_encoded_text(piece) || is_words(piece) || piece.len() >= PIECE_BYTES_MAX);
    let query_carries =
        query.iter().any(|piece| is_encoded_text(piece) || is_words(piece) || is_opaque(piece) || piece.len() >= PIECE_BYTES_MAX);
    host_carries || path_carries || query_carries
}

/// People share texts and searches by links, so plain text is allowed in a link; encoded text is not meant for people.
fn link_carries(url: &str) -> bool {
    let Parts { host, path, query } = parts(url);
    host.split('.').chain(path.split('/')).chain(query).any(is_encoded_text)
}

struct Parts<'u> {
    host: &'u str,
    path: &'u str,
    /// The values of the query and the fragment.
    query: Vec<&'u str>,
}

fn parts(url: &str) -> Parts<'_> {
    let url = url.split_once("//").map_or(url, |(_, rest)| rest);
    let (place, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let values = query.split(['?', '#', '&', ';']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    Parts { host, path, query: values.filter(|value| !value.is_empty()).collect() }
}

/// Whether the piece is base64 or hex of readable text.
fn is_encoded_text(piece: &str) -> bool {
    let piece = unescaped(piece.as_bytes());
    let Ok(piece) = std::str::from_utf8(&piece) else { return false };
    let piece = piece.trim_end_matches('=');
    if piece.len() < ENCODED_BYTES_MIN {
        return false;
    }
    let is_hex = piece.len().is_multiple_of(2) && piece.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex && is_readable(&unhexed(piece.as_bytes())) {
        return true;
    }
    piece.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')) && is_readable(&unbase64(piece))
}

/// Whether the bytes are text that consists mostly of letters and has no control characters.
fn is_readable(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| {
        let letters = text.chars().filter(|character| character.is_alphanumeric() || *character == ' ').count();
        text.chars().all(|character| !character.is_control() || character.is_ascii_whitespace()) && letters * 3 >= text.chars().count() * 2
    })
}

/// Whether the piece has several words in a row.
fn is_words(piece: &str) -> bool {
    let piece = unescaped(piece.as_bytes());
    let piece = String::from_utf8_lossy(&piece);
    piece.len() >= WORDS_BYTES_MIN && piece.split([' ', '+', '\n']).filter(|word| word.chars().any(char::is_alphabetic)).count() >= 5
}

/// Whether the piece is long, has no pattern, and is not a digest (64, 96 or 128 hex digits).
fn is_opaque(piece: &str) -> bool {
    let is_digest = matches!(piece.len(), 64 | 96 | 128) && piece.bytes().all(|byte| byte.is_ascii_hexdigit());
    let longest = piece.split(['-', '_', '.', '/', '%', '+']).map(str::len).max().unwrap_or(0);
    piece.len() >= OPAQUE_BYTES_MIN && !is_digest && longest >= OPAQUE_BYTES_MIN / 4 && entropy_millibits(piece) >= ENTROPY_MILLIBITS_MIN
}

/// The entropy of words is lower, even of long ones; that of base64 and ciphertext is higher.
const ENTROPY_MILLIBITS_MIN: u32 = 4_500;

/// The Shannon entropy per byte, in thousandths of a bit.
fn entropy_millibits(text: &str) -> u32 {
    let mut counts: HashMap<u8, u32> = HashMap::new();
    for byte in text.bytes() {
        *counts.entry(byte).or_default() += 1;
    }
    let total = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let bits: f64 = counts.values().map(|count| f64::from(*count) / total).map(|share| -share * share.log2()).sum();
    (bits * 1_000.0) as u32
}
