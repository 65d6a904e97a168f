//! The look of things: one tone and one symbol for each status, always together with its word, so that colour is never the only signal.
//! `clean` of the core makes other people's text safe to print, `time` writes times in few words.

pub(crate) mod time;

pub(crate) use countersign_core::clean;

use anstyle::{AnsiColor, Style};
use countersign_core::{Mode, Status, Tier};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The meaning of a colour. Colours themselves are named only in `style` below and in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Muted,
    Ok,
    Primary,
    Warn,
    Danger,
}

impl Tone {
    pub(crate) const fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Muted => Style::new().dimmed(),
            Self::Ok => AnsiColor::Green.on_default(),
            Self::Primary => AnsiColor::Cyan.on_default(),
            Self::Warn => AnsiColor::Yellow.on_default(),
            Self::Danger => AnsiColor::Red.on_default(),
        }
    }

    /// The text in this tone. A stream without colours removes the escapes again.
    pub(crate) fn paint(self, text: impl std::fmt::Display) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}

/// On narrower terminals nothing is wrapped, because that would give a column of single words.
const HANG_COLUMNS_MIN: u16 = 60;

/// The length of a SHA-256 digest in hex.
const DIGEST_CHARS: usize = 64;

/// Wraps a text at words and indents all lines but the first. Without a width it stays on one line. Words stay whole, except digests that
/// are longer than a line: to compare a whole digest, read it from a pipe.
pub(crate) fn hang(text: &str, indent: usize, columns: Option<u16>) -> String {
    let Some(columns) = columns.filter(|columns| *columns >= HANG_COLUMNS_MIN) else { return text.to_owned() };
    let width = |word: &str| anstream::adapter::strip_str(word).to_string().chars().count();
    let mut wrapped = String::with_capacity(text.len());
    let mut at = indent;
    for (index, word) in text.split(' ').enumerate() {
        let word = &shortened(word, usize::from(columns).saturating_sub(indent));
        let wide = width(word);
        if index > 0 && at + 1 + wide > usize::from(columns) {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            at = indent;
        } else if index > 0 {
            wrapped.push(' ');
            at += 1;
        }
        wrapped.push_str(word);
        at += wide;
    }
    wrapped
}

/// Cuts a digest, also one followed by punctuation, to the available room. Other words stay as they are.
fn shortened(word: &str, room: usize) -> Cow<'_, str> {
    match word.split_at_checked(DIGEST_CHARS) {
        Some((digest, mark)) if word.len() > room && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            let left = room.saturating_sub(mark.chars().count() + 1).min(DIGEST_CHARS);
            Cow::Owned(format!("{}…{mark}", &digest[..left]))
        }
        _ => Cow::Borrowed(word),
    }
}

/// `1 entry`, `2 entries`: a count with its noun.
pub(crate) fn counted(count: impl Into<u64>, one: &str, many: &str) -> String {
    match count.into() {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}

/// The symbol and tone of a status.
pub(crate) const fn status(status: Status) -> (&'static str, Tone) {
    match status {
        Status::Pending => ("◷", Tone::Warn),
        Status::Approved => ("✓", Tone::Primary),
        Status::Running => ("●", Tone::Primary),
        Status::Succeeded => ("✓", Tone::Ok),
        Status::Failed => ("✗", Tone::Danger),
        Status::Reverted => ("↩", Tone::Warn),
        Status::Denied => ("⊘", Tone::Danger),
        Status::Quarantined => ("▣", Tone::Warn),
        Status::Expired => ("◌", Tone::Muted),
        Status::Cancelled => ("–", Tone::Muted),
        Status::InDoubt => ("?", Tone::Danger),
    }
}

/// A status as its symbol and its word.
pub(crate) fn status_word(of: Status) -> (String, Tone) {
    let (symbol, tone) = status(of);
    (format!("{symbol} {of}"), tone)
}

/// `R2 ●●●○○`: a tier as a word and as one to five dots.
pub(crate) fn tier(tier: Tier) -> (String, Tone) {
    let (filled, tone) = match tier {
        Tier::R0 => (1, Tone::Plain),
        Tier::R1 => (2, Tone::Plain),
        Tier::R2 => (3, Tone::Plain),
        Tier::R3 => (4, Tone::Warn),
        Tier::R4 => (5, Tone::Danger),
    };
    (format!("{tier} {}{}", "●".repeat(filled), "○".repeat(5 - filled)), tone)
}

/// The word that something of a closed set has on the wire.
pub(crate) fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

/// How grave a mode is.
pub(crate) const fn mode(mode: Mode) -> Tone {
    match mode {
        Mode::Allow => Tone::Ok,
        Mode::RequireApproval => Tone::Warn,
        Mode::Deny => Tone::Danger,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_symbol_and_keeps_its_word() {
        for known in Status::ALL {
            let (text, tone) = status_word(known);
            let (symbol, word) = text.split_once(' ').unwrap();
            assert_eq!(symbol.chars().count(), 1);
            assert_eq!(word, known.as_str());
            assert_ne!(tone, Tone::Plain);
        }
    }

    #[test]
    fn a_digest_is_whole_where_a_line_has_room_for_it() {
        let digest = "0123456789abcdef".repeat(4);
        assert_eq!(hang(&digest, 16, None), digest);
        assert_eq!(hang(&digest, 16, Some(80)), digest);
        let told = hang(&format!("sha256 {digest}; yes"), 16, Some(60));
        assert_eq!(told, format!("sha256\n{0}{1}…;\n{0}yes", " ".repeat(16), &digest[..42]));
        let word = "x".repeat(70);
        assert_eq!(hang(&word, 16, Some(60)), word);
    }

    #[test]
    fn one_is_not_many() {
        let told = [0_u64, 1, 2].map(|count| counted(count, "entry", "entries"));
        assert_eq!(told, ["0 entries", "1 entry", "2 entries"]);
    }

    #[test]
    fn a_tier_is_a_word_and_dots() {
        assert_eq!(tier(Tier::R0).0, "R0 ●○○○○");
        assert_eq!(tier(Tier::R4), ("R4 ●●●●●".to_owned(), Tone::Danger));
    }
}
