//! Finds characters that a person does not see and a model reads. Joiners, marks and selectors that scripts and emoji need are allowed;
//! invisible characters that decode to a text count as smuggled.

use super::findings::{Findings, Rule, Severity};
use super::text::{self, Part, Path};
use super::unseen::{self, is_directional, is_tag, is_unseen, is_zero_width, selector};
use super::words::{self, Sink};
use serde_json::Value;
use std::borrow::Cow;

pub(super) const TAG_SMUGGLING: Rule = Rule {
    id: "safety.tag_smuggling",
    severity: Severity::Quarantines,
    message: "a text is written in invisible tag characters; a model reads it and a person does not",
};
pub(super) const SELECTOR_SMUGGLING: Rule = Rule {
    id: "safety.selector_smuggling",
    severity: Severity::Quarantines,
    message: "a text is encoded in invisible variation selectors",
};
pub(super) const HIDDEN_UNICODE: Rule = Rule {
    id: "safety.hidden_unicode",
    severity: Severity::Asks,
    message: "invisible characters stand where no script needs them; what is shown is not all there is",
};
pub(super) const BIDI_CONTROL: Rule = Rule {
    id: "safety.bidi_control",
    severity: Severity::Asks,
    message: "characters that turn the direction of writing are left open, override it or stand inside a name; it may read \
        differently than it acts",
};

/// Scans every key and every text of a value.
pub(super) fn scan(value: &Value, findings: &mut Findings) {
    text::each(value, &mut |path, part, text| {
        for rule in look(text, standing(path, part, text)) {
            findings.add(rule, || path.pointer());
        }
    });
}

/// The kind of a text, which decides how much it may hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Prose,
    /// A name, a path, a URL or a command: it is compared and executed exactly as written.
    Identifier,
}

/// The rules that a text breaks, each once.
pub(super) fn look(text: &str, standing: Standing) -> Vec<&'static Rule> {
    // No ASCII character is invisible, and `is_ascii` checks many bytes at a time.
    if text.is_ascii() || !text.chars().any(is_unseen) {
        return Vec::new();
    }
    let characters: Vec<char> = text.chars().collect();
    let mut rules: Vec<&'static Rule> = Vec::new();
    let smuggled = [
        (judge(&stray_tags(&characters), tags_say), &TAG_SMUGGLING),
        (judge(&stray_selectors(&characters), selectors_say), &SELECTOR_SMUGGLING),
    ];
    let mut is_hidden = has_odd_joiner(&characters, standing);
    for (stray, rule) in smuggled {
        match stray {
            Stray::None => {}
            Stray::Noise => is_hidden = true,
            Stray::Text => rules.push(rule),
        }
    }
    if is_hidden {
        rules.push(&HIDDEN_UNICODE);
    }
    if has_odd_direction(&characters, standing) {
        rules.push(&BIDI_CONTROL);
    }
    rules
}

/// The text as a person sees it, for rules that look for words.
pub(super) fn seen(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|character| !is_unseen(*character)).collect())
}

fn standing(path: &Path, part: Part, text: &str) -> Standing {
    // Nearly every text ends here: the kind matters only for a text that hides something.
    if part == Part::Content && text.is_ascii() {
        return Standing::Prose;
    }
    match (part, path.key().and_then(words::sink)) {
        (Part::Key, _) | (Part::Content, Some(Sink::Address | Sink::Path | Sink::Command)) => Standing::Identifier,
        (Part::Content, Some(Sink::Recipient) | None) => Standing::Prose,
    }
}

enum Stray {
    None,
    Noise,
    Text,
}

fn judge(stray: &[char], says: fn(&[char]) -> bool) -> Stray {
    if stray.is_empty() {
        Stray::None
    } else if says(stray) {
        Stray::Text
    } else {
        Stray::Noise
    }
}

/// Fewer smuggled characters than this carry no message.
const SMUGGLED_CHARS_MIN: usize = 4;

/// The flags that some systems draw from tag characters: England, Scotland, Wales, Northern Ireland, Texas and California.
const FLAGS: [&str; 6] = ["gbeng", "gbsct", "gbwls", "gbnir", "ustx", "usca"];

/// Tag characters that do not belong to a flag.
fn stray_tags(characters: &[char]) -> Vec<char> {
    let mut stray = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let length = characters[at..].iter().take_while(|character| is_tag(**character)).count();
        let run = &characters[at..at + length];
        let follows_flag = at.checked_sub(1).is_some_and(|before| characters[before] == '\u{1f3f4}');
        if length > 0 && !(follows_flag && is_flag(run)) {
            stray.extend_from_slice(run);
        }
        at += length.max(1);
    }
    stray
}

fn is_flag(run: &[char]) -> bool {
    let spelt: String = run.iter().filter_map(|tag| untagged(*tag)).collect();
    run.len() == spelt.len() + 1 && run.last() == Some(&'\u{e007f}') && FLAGS.contains(&spelt.as_str())
}

fn tags_say(stray: &[char]) -> bool {
    // A flag that was cut off by a length limit carries no message either.
    let said: String = stray.iter().filter_map(|tag| untagged(*tag)).collect();
    said.len() >= SMUGGLED_CHARS_MIN && !FLAGS.iter().any(|flag| flag.starts_with(&said))
}

fn untagged(tag: char) -> Option<char> {
    let ascii = u32::from(tag).checked_sub(0xe0000)?;
    char::from_u32(ascii).filter(|character| character.is_ascii_graphic() || *character == ' ')
}

/// Selectors without effect: after an ASCII letter, after another selector, or of a kind that the character before does not have.
fn stray_selectors(characters: &[char]) -> Vec<char> {
    let mut stray = Vec::new();
    let mut before = None;
    for &character in characters {
        if selector(character).is_some() && !selects(before, character) {
            stray.push(character);
        }
        before = Some(character);
    }
    stray
}

fn selects(before: Option<char>, selector: char) -> bool {
    match (before, selector) {
        // Left over after an emoji was removed, or typed twice: harmless, and common.
        (None, '\u{fe0e}' | '\u{fe0f}') => true,
        (Some(before), '\u{fe0e}' | '\u{fe0f}') => !before.is_ascii_alphabetic(),
        (Some(before), '\u{fe00}' | '\u{fe01}') => !before.is_ascii_alphabetic() && unseen::selector(before).is_none(),
        (Some(before), '\u{fe02}'..='\u{fe0d}') => is_ideograph(before) || matches!(before, '\u{13000}'..='\u{143fa}'),
        (Some(before), _) => is_ideograph(before),
        (None, _) => false,
    }
}

const fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3005}'..='\u{3007}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Decodes the selectors as bytes, one selector each, or as half bytes.
fn selectors_say(stray: &[char]) -> bool {
    let numbers: Vec<u8> = stray.iter().filter_map(|character| selector(*character)).collect();
    let halves: Vec<u8> = numbers.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1] & 15).collect();
    is_text(&numbers) || (numbers.iter().all(|number| *number < 16) && is_text(&halves))
}

fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| {
        text.chars().count() >= SMUGGLED_CHARS_MIN
            && text.chars().all(|character| !character.is_control() || character.is_ascii_whitespace())
    })
}

/// No script uses so many joiners in a row; encoded bits do.
const ZERO_WIDTH_RUN_MIN: usize = 8;

fn has_odd_joiner(characters: &[char], standing: Standing) -> bool {
    let mut at = 0;
    while at < characters.len() {
        let length = characters[at..].iter().take_while(|character| is_zero_width(**character)).count();
        if length > 0
            && is_odd_joiner(
                at.checked_sub(1).map(|before| characters[before]),
                &characters[at..at + length],
                characters.get(at + length).copied(),
                standing,
            )
        {
            return true;
        }
        at += length.max(1);
    }
    false
}

fn is_odd_joiner(before: Option<char>, run: &[char], after: Option<char>, standing: Standing) -> bool {
    let is_in = |is: fn(&char) -> bool| before.as_ref().is_some_and(is) && after.as_ref().is_some_and(is);
    // A soft hyphen marks where a word may be broken; typesetters put it inside words of any language.
    let only_hyphens = run.iter().all(|character| *character == '\u{ad}');
    let in_word = is_in(char::is_ascii_alphanumeric) && !only_hyphens;
    // Persian, Indic scripts and emoji use single joiners and non-joiners.
    let joins_script =
        matches!(run, ['\u{200c}' | '\u{200d}']) && [before, after].into_iter().flatten().any(|neighbour| !neighbour.is_ascii());
    run.len() >= ZERO_WIDTH_RUN_MIN || in_word || (standing == Standing::Identifier && !joins_script)
}

fn has_odd_direction(characters: &[char], standing: Standing) -> bool {
    let any = characters.iter().copied().any(is_directional);
    any && (standing == Standing::Identifier || !is_balanced(characters) || splits_word(characters))
}

/// Whether a direction mark stands between two ASCII letters or digits, where no change of direction makes sense.
fn splits_word(characters: &[char]) -> bool {
    let mut at = 0;
    while at < characters.len() {
        let length = characters[at..].iter().take_while(|character| is_directional(**character)).count();
        let before = at.checked_sub(1).map(|before| characters[before]);
        let after = characters.get(at + length);
        if length > 0 && before.is_some_and(|before| before.is_ascii_alphanumeric()) && after.is_some_and(char::is_ascii_alphanumeric) {
            return true;
        }
        at += length.max(1);
    }
    false
}

/// Whether every direction that is opened in a line is closed in it, in order, and no character forces letters from right to left.
fn is_balanced(characters: &[char]) -> bool {
    let mut open: Vec<char> = Vec::new();
    for &character in characters {
        let fits = match character {
            '\u{202e}' => false,
            '\u{202a}' | '\u{202b}' | '\u{202d}' => {
                open.push('\u{202c}');
                true
            }
            '\u{2066}'..='\u{2068}' => {
                open.push('\u{2069}');
                true
            }
            '\u{202c}' | '\u{2069}' => open.pop() == Some(character),
            '\n' | '\u{2029}' => open.is_empty(),
            _ => true,
        };
        if !fits {
            return false;
        }
    }
    open.is_empty()
}
