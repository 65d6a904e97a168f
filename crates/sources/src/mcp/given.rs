//! The secrets that a server was given, so that nothing of what it says repeats them.
//!
//! SECURITY: a tool that prints its environment and an error that quotes a request are honest, and common. What is kept of a call is redacted
//! by patterns, which a token need not fit; here the very values are known. A server that disguises what it repeats is not stopped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::Secret;
use countersign_core::ports::connections::ConnectionHeaders;
use parking_lot::RwLock;
use std::borrow::Cow;
use std::collections::VecDeque;

/// What stands for a secret.
const MARK: &str = "[secret]";

/// Shorter values are not searched for: they are part of many texts that have nothing to do with them.
const BYTES_MIN: usize = 6;

/// How many sets of secrets are remembered: that of the latest request, and those before it, whose answers may still come.
const SETS_MAX: usize = 4;

/// Backslashes before one character. A quoted backslash in a JSON text in a text in a text has so many.
const BACKSLASHES_MAX: usize = 16;

/// How often each byte of a text is compared with one secret. Only a text that was made for it needs more; the rest of it is left out.
const COMPARISONS_MAX: usize = 64;

/// The secrets of the latest requests, or of a program.
#[derive(Default)]
pub(super) struct Given(RwLock<VecDeque<Vec<Secret<String>>>>);

impl Given {
    /// Remembers what a request carries, or a program is started with.
    pub(super) fn add(&self, secrets: &[Secret<String>]) {
        // Any number of backslashes may stand before an escaped character, so they are not compared.
        let plain = |secret: &Secret<String>| Secret::new(secret.expose().replace('\\', ""));
        let plain: Vec<_> = secrets.iter().map(plain).filter(|secret| secret.expose().len() >= BYTES_MIN).collect();
        if plain.is_empty() || self.0.read().iter().any(|known| are_same(known, &plain)) {
            return;
        }
        let mut sets = self.0.write();
        if sets.len() >= SETS_MAX {
            sets.pop_front();
        }
        sets.push_back(plain);
    }

    /// The text with a mark in place of every secret, however its characters are escaped.
    pub(super) fn without<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let sets = self.0.read();
        let secrets: Vec<&str> = sets.iter().flatten().map(|secret| secret.expose().as_str()).collect();
        if secrets.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut begins = [false; 256];
        for first in secrets.iter().filter_map(|secret| secret.bytes().next()).chain([b'\\']) {
            begins[usize::from(first)] = true;
        }
        let mut left = text.len().saturating_mul(COMPARISONS_MAX).saturating_mul(secrets.len());
        let (mut clean, mut kept, mut at) = (String::new(), 0, 0);
        while let Some(byte) = text.as_bytes().get(at) {
            let found = if begins[usize::from(*byte)] {
                secrets.iter().filter_map(|secret| spelled(&text[at..], secret, &mut left)).max()
            } else {
                None
            };
            if found.is_none() && left > 0 {
                at += 1;
                continue;
            }
            clean.push_str(&text[kept..at]);
            clean.push_str(MARK);
            at += found.unwrap_or(text.len() - at);
            kept = at;
        }
        if kept == 0 {
            return Cow::Borrowed(text);
        }
        clean.push_str(&text[kept..]);
        Cow::Owned(clean)
    }
}

/// What is secret in the headers of a request: each value, and what follows the name of a scheme in it. `Basic …` spells a password.
pub(super) fn in_headers(headers: &ConnectionHeaders) -> Vec<Secret<String>> {
    let secret = |text: &str| Secret::new(text.to_owned());
    let mut secrets = Vec::new();
    for (_, value) in headers.expose() {
        secrets.push(secret(value));
        let Some((scheme, credential)) = value.split_once(' ') else { continue };
        secrets.push(secret(credential.trim_end_matches('=')));
        let decoded = if scheme.eq_ignore_ascii_case("basic") { STANDARD.decode(credential).ok() } else { None };
        if let Some(pair) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).map(Secret::new) {
            secrets.extend(pair.expose().split_once(':').map(|(_, password)| secret(password)));
            secrets.push(pair);
        }
    }
    secrets
}

fn are_same(one: &[Secret<String>], other: &[Secret<String>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.expose() == other.expose())
}

/// How many bytes at the beginning of the text spell the secret.
fn spelled(text: &str, secret: &str, left: &mut usize) -> Option<usize> {
    let mut rest = text;
    for character in secret.chars() {
        *left = left.checked_sub(1)?;
        rest = past(rest, character)?;
    }
    Some(text.len() - rest.len())
}

/// The text after a character that it begins with, as it is or escaped, also several times.
fn past(text: &str, character: char) -> Option<&str> {
    let backslashes = text.bytes().take(BACKSLASHES_MAX).take_while(|byte| *byte == b'\\').count();
    let rest = &text[backslashes..];
    let letter = match character {
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        _ => None,
    };
    let escaped = if backslashes > 0 { past_units(rest, character).or_else(|| rest.strip_prefix(letter?)) } else { None };
    escaped.or_else(|| rest.strip_prefix(character))
}

/// The text after `u00e4`, or after the two of these that spell a character beyond the first 65,536.
fn past_units(text: &str, character: char) -> Option<&str> {
    let (mut rest, mut units) = (text, [0; 2]);
    for (place, unit) in character.encode_utf16(&mut units).iter().enumerate() {
        let escape = if place == 0 { rest } else { rest.trim_start_matches('\\') };
        let digits = escape.strip_prefix('u')?;
        if u16::from_str_radix(digits.get(..4)?, 16) != Ok(*unit) {
            return None;
        }
        rest = &digits[4..];
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn given(secrets: &[&str]) -> Given {
        let given = Given::default();
        given.add(&secrets.iter().map(|secret| Secret::new((*secret).to_owned())).collect::<Vec<_>>());
        given
    }

    #[test]
    fn a_secret_is_found_in_every_usual_spelling() {
        let value = "k\u{e9}y+\"a\\b\"/\n\u{1f511}end";
        let given = given(&[value]);
        let once = json!({ "token": value }).to_string();
        let twice = json!({ "text": once }).to_string();
        let thrice = json!([twice]).to_string();
        for text in [
            format!("refused {value}: bad"),
            format!("{once} {twice} {thrice}"),
            r#"{"ascii":"k\u00e9y+\"a\\b\"/\n\ud83d\udd11end"}"#.to_owned(),
            r#"{"capitals":"k\u00E9y\u002B\u0022a\\b\u0022\/\n\uD83D\uDD11end"}"#.to_owned(),
            r#"{"of php":"k\u00e9y+\"a\\b\"\/\n\ud83d\udd11end"}"#.to_owned(),
        ] {
            let clean = given.without(&text);
            assert!(clean.contains(MARK) && !clean.contains("end"), "{text}: {clean}");
            let was_json = serde_json::from_str::<Value>(&text).is_ok();
            assert!(!was_json || serde_json::from_str::<Value>(&clean).is_ok(), "{clean}");
        }
        assert_eq!(given.without(&once), r#"{"token":"[secret]"}"#);
    }

    #[test]
    fn other_texts_stay_as_they_are_and_are_not_copied() {
        let given = given(&["abcdef", "short", "\\\\\\\\\\\\"]);
        for text in ["", "abcde", "ABCDEF", "short", r"\\\\\\\\", "a\u{e9}bcdef", r"abc\u", r"abc\u00", "ab cdef"] {
            assert!(matches!(given.without(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        assert!(matches!(Given::default().without("abcdef"), Cow::Borrowed("abcdef")));
    }

    #[test]
    fn the_longer_of_two_that_begin_alike_is_taken_out() {
        let given = given(&["abcdef", "abcdefgh"]);
        assert_eq!(given.without("abcdefgh abcdef abcdefg"), "[secret] [secret] [secret]g");
    }

    #[test]
    fn the_last_few_are_remembered_and_each_once() {
        let given = Given::default();
        for number in [0, 1, 2, 2, 3, 3, 4] {
            given.add(&[Secret::new(format!("token-{number}"))]);
        }
        assert_eq!(given.without("token-0 token-1 token-2 token-3 token-4"), "token-0 [secret] [secret] [secret] [secret]");
    }

    #[test]
    fn of_a_header_the_bare_credential_is_secret_too() {
        let pair = |name: &str, value: &str| (name.to_owned(), Secret::new(value.to_owned()));
        let basic = format!("Basic {}", STANDARD.encode("robin:pass:word"));
        let headers =
            ConnectionHeaders::new(vec![pair("authorization", &basic), pair("x-api-key", "key-7731"), pair("x-auth", "Bearer token-1")]);
        let given = Given::default();
        given.add(&in_headers(&headers));
        let bare = basic.trim_start_matches("Basic ").trim_end_matches('=');
        for text in [basic.as_str(), bare, "robin:pass:word", "pass:word", "key-7731", "Bearer token-1", "token-1"] {
            assert_eq!(given.without(text), MARK, "{text}");
        }
        assert_eq!(given.without("robin"), "robin");
    }

    #[test]
    fn a_text_that_is_made_to_be_slow_is_cut_off() {
        let secret = format!("{}b", "a".repeat(10_000));
        let text = "a".repeat(100_000);
        let given = given(&[&secret]);
        assert!(given.without(&text).ends_with(MARK));
        assert_eq!(given.without(&r"\".repeat(100_000)).len(), 100_000);
        assert_eq!(given.without(&format!("x{secret}x")), "x[secret]x");
    }

    proptest! {
        #[test]
        fn a_secret_never_stays_in_json(value in "[ -~\u{e0}-\u{ff}]{8,20}", around in "[a-z ]{0,20}") {
            prop_assume!(value.replace('\\', "").len() >= BYTES_MIN);
            let given = given(&[&value]);
            let text = json!({ "text": format!("{around}{value}{around}") }).to_string();
            prop_assert!(given.without(&text).contains(MARK), "{}", text);
        }
    }
}
