//! Canary tokens: texts that nothing should ever send. A call that would send one, plain or encoded, is quarantined.

use super::findings::{Findings, Rule, Severity};
use super::{hidden, text};
use serde_json::Value;

const CANARY_EGRESS: Rule = Rule {
    id: "safety.canary_egress",
    severity: Severity::Quarantines,
    message: "a text that was laid out to be stolen is in content that leaves",
};

pub const CANARY_EGRESS_ID: &str = CANARY_EGRESS.id;

/// Shorter canary tokens would match by chance, above all in decoded content.
pub const CANARY_BYTES_MIN: usize = 6;

pub(super) fn scan(params: &Value, canaries: &Canaries, findings: &mut Findings) {
    if canaries.0.is_empty() {
        return;
    }
    text::each(params, &mut |path, _, text| {
        if canaries.are_in(text) {
            findings.add(&CANARY_EGRESS, || path.pointer());
        }
    });
}

/// The canary tokens in lower case, because capitals are the first thing that changes on the way.
pub(super) struct Canaries(Vec<String>);

impl Canaries {
    pub(super) fn of(canaries: &[String]) -> Self {
        let seen = canaries.iter().map(|canary| hidden::seen(canary).to_lowercase());
        Self(seen.filter(|canary| canary.len() >= CANARY_BYTES_MIN).collect())
    }

    fn are_in(&self, text: &str) -> bool {
        let seen = hidden::seen(text);
        if self.met(seen.as_bytes()) {
            return true;
        }
        let unescaped = unescaped(seen.as_bytes());
        self.met(&unescaped)
            || runs(&unescaped, is_hex).any(|run| self.in_hex(run))
            || runs(&unescaped, is_base64).any(|run| self.in_base64(run))
    }

    /// Cuts a pointer off before the first key that contains a canary token.
    pub(super) fn take_out_of(&self, pointer: &mut String) {
        while self.met(pointer.as_bytes()) {
            pointer.truncate(pointer.rfind('/').unwrap_or(0));
        }
    }

    fn met(&self, bytes: &[u8]) -> bool {
        let lower = String::from_utf8_lossy(bytes).to_lowercase();
        self.0.iter().any(|canary| lower.contains(canary))
    }

    /// Other text before the hex digits may shift them by one, so both alignments are tried.
    fn in_hex(&self, run: &[u8]) -> bool {
        run.len() >= CANARY_BYTES_MIN * 2 && (0..2).any(|shift| self.met(&unhexed(&run[shift..])))
    }

    /// Other text before the base64, such as the path of a URL, may shift it by up to three characters, so all four alignments are tried.
    fn in_base64(&self, run: &[u8]) -> bool {
        let digits: Vec<u8> = run.iter().filter_map(|byte| sextet(*byte)).collect();
        digits.len() >= CANARY_BYTES_MIN && (0..4).any(|shift| self.met(&unpacked(digits.get(shift..).unwrap_or_default())))
    }
}

fn runs(bytes: &[u8], is_in: fn(u8) -> bool) -> impl Iterator<Item = &[u8]> {
    bytes.split(move |byte| !is_in(*byte)).filter(|run| !run.is_empty())
}

const fn is_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

/// Line breaks count as part of a run, because base64 in mails is wrapped.
const fn is_base64(byte: u8) -> bool {
    sextet(byte).is_some() || matches!(byte, b'\r' | b'\n')
}

/// The value of a base64 digit, in either alphabet.
const fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

pub(super) fn unbase64(text: &str) -> Vec<u8> {
    unpacked(&text.bytes().filter_map(sextet).collect::<Vec<u8>>())
}

fn unpacked(digits: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        let [_, first, second, third] = bits.to_be_bytes();
        bytes.extend([first, second, third].into_iter().take(four.len().saturating_sub(1)));
    }
    bytes
}

pub(super) fn unhexed(digits: &[u8]) -> Vec<u8> {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()).unwrap_or_default();
    digits.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

/// Decodes percent-encoding such as `%41`; everything else stays.
pub(super) fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes.get(at + 1..at + 3) {
            Some(digits) if bytes[at] == b'%' && digits.iter().all(u8::is_ascii_hexdigit) => {
                plain.extend(unhexed(digits));
                at += 3;
            }
            Some(_) | None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    plain
}
