//! Finds e-mail addresses in a folded text: a local part, an `@` or a spelling of it, and a domain with a plausible top level. Things that
//! only look alike are left alone: remotes of repositories, users in URLs, handles, versions, units and file names.

use std::ops::Range;

/// Every address, from left to right. No two overlap, and each character is looked at only a few times.
pub(super) fn find(chars: &[char]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let Some(sign) = sign(chars, at) else {
            at += 1;
            continue;
        };
        let from = found.last().map_or(0, |last| last.end);
        let address = address(chars, from, &sign);
        at = address.as_ref().map_or(at + 1, |address| address.end.max(at + 1));
        found.extend(address);
    }
    found
}

/// An `@` or a spelling of it, and how it is written.
struct Sign {
    range: Range<usize>,
    writing: Writing,
}

#[derive(Clone, Copy, PartialEq)]
enum Writing {
    Plain,
    /// A word in brackets, such as `[at]`.
    Spelled,
    /// With spaces around it. Then at least one dot must have spaces too.
    Spaced,
}

const OPEN: [char; 3] = ['[', '(', '{'];
const AT: &[&str] = &["at", "@"];
const DOT: &[&str] = &["dot", "."];
/// How many spaces may stand around a spelled sign.
const SPACES_MAX: usize = 2;

fn sign(chars: &[char], at: usize) -> Option<Sign> {
    match chars[at] {
        '@' if at > 0 && chars[at - 1] == ' ' && chars.get(at + 1) == Some(&' ') => {
            Some(Sign { range: at - 1..at + 2, writing: Writing::Spaced })
        }
        '@' => Some(Sign { range: at..at + 1, writing: Writing::Plain }),
        open if OPEN.contains(&open) => {
            let end = bracketed(chars, at, AT)?;
            let before = chars[..at].iter().rev().take(SPACES_MAX).take_while(|character| **character == ' ').count();
            let after = spaces(chars, end);
            // With spaces on one side only, as in `sum(at) total.value`, it is program code.
            ((before > 0) == (after > 0)).then_some(Sign { range: at - before..end + after, writing: Writing::Spelled })
        }
        _ => None,
    }
}

fn spaces(chars: &[char], from: usize) -> usize {
    chars[from..].iter().take(SPACES_MAX).take_while(|character| **character == ' ').count()
}

/// The end of `[word]`, if one of the words stands in brackets at `at`.
fn bracketed(chars: &[char], at: usize, words: &[&str]) -> Option<usize> {
    let close = match chars.get(at)? {
        '[' => ']',
        '(' => ')',
        '{' => '}',
        _ => return None,
    };
    let start = at + 1 + spaces(chars, at + 1);
    let end = words.iter().find_map(|word| starts_with(chars, start, word))?;
    let end = end + spaces(chars, end);
    (chars.get(end) == Some(&close)).then_some(end + 1)
}

/// The end of the word if it begins at `from`, in capitals or not.
fn starts_with(chars: &[char], from: usize, word: &str) -> Option<usize> {
    let mut at = from;
    for expected in word.chars() {
        let character = *chars.get(at)?;
        if character != expected && !character.to_lowercase().eq(std::iter::once(expected)) {
            return None;
        }
        at += 1;
    }
    Some(at)
}

fn address(chars: &[char], from: usize, sign: &Sign) -> Option<Range<usize>> {
    let start = local(chars, from, sign.range.start)?;
    let end = literal(chars, sign.range.end).or_else(|| domain(chars, sign.range.end, sign.writing))?;
    let name: String = chars[start..sign.range.start].iter().take(NAME_CHARS_MAX).collect();
    let is_handle = start > 0 && chars[start - 1] == '@';
    let is_other = is_handle || NOT_PEOPLE.contains(&name.as_str()) || is_remote(chars, end) || is_user_of_url(chars, start);
    (!is_other).then_some(start..end)
}

/// Longer than any of `NOT_PEOPLE`.
const NAME_CHARS_MAX: usize = 16;

/// Names before an `@` that are no person: the users under which code is fetched, and words with which a program names an outer scope.
const NOT_PEOPLE: &[&str] = &["git", "hg", "this", "super", "return", "break", "continue"];

/// Where the local part begins: as far left as it can reach, without characters that only precede it.
fn local(chars: &[char], from: usize, end: usize) -> Option<usize> {
    if end > from && chars[end - 1] == '"' {
        return quoted_local(chars, from, end - 1);
    }
    let length = chars[from..end].iter().rev().take_while(|character| is_local(**character)).count();
    let mut start = end - length;
    // In scripts without spaces between words, a Latin name before the `@` starts after the last character of that script.
    if let Some(before) = chars[start..end].iter().rposition(|character| is_undivided(*character)) {
        let tail = start + before + 1..end;
        if chars[tail.clone()].iter().any(char::is_ascii_alphabetic) {
            start = tail.start;
        }
    }
    start += chars[start..end].iter().take_while(|character| !is_letter(**character)).count();
    (start < end).then(|| return_path(chars, from, start))
}

/// In `bounces+jane=example.org@…` the person stands before the sign: after a `+`, with `=` in place of `@`. Includes that part.
fn return_path(chars: &[char], from: usize, start: usize) -> usize {
    if start == from || chars[start - 1] != '=' {
        return start;
    }
    let before = chars[from..start - 1].iter().rev().take(LOCAL_CHARS_MAX).take_while(|character| is_local(**character)).count();
    let path = &chars[start - 1 - before..start - 1];
    if path.contains(&'+') && path.first().is_some_and(|first| is_letter(*first)) { start - 1 - before } else { start }
}

/// Accepts `"jane doe"@…`: plain words in quotes, where the opening quote does not follow a letter.
fn quoted_local(chars: &[char], from: usize, close: usize) -> Option<usize> {
    let is_inside = |character: &&char| is_letter(**character) || matches!(character, ' ' | '.' | '_' | '-' | '+');
    let open = close.checked_sub(chars[from..close].iter().rev().take(LOCAL_CHARS_MAX).take_while(is_inside).count() + 1)?;
    let is_quoted = open >= from && chars[open] == '"' && close > open + 1 && is_letter(chars[open + 1]) && is_letter(chars[close - 1]);
    let is_begun = open == 0 || !is_letter(chars[open - 1]);
    (is_quoted && is_begun).then_some(open)
}

/// The longest local part that the standard allows.
const LOCAL_CHARS_MAX: usize = 64;

/// The end of an address literal, as in `jane@[192.0.2.1]`.
fn literal(chars: &[char], from: usize) -> Option<usize> {
    if chars.get(from) != Some(&'[') {
        return None;
    }
    let is_inside = |character: &&char| character.is_ascii_hexdigit() || matches!(character, '.' | ':' | 'I' | 'P' | 'v');
    let close = from + 1 + chars[from + 1..].iter().take(LITERAL_CHARS_MAX).take_while(is_inside).count();
    let has_digits =
        chars[from + 1..close].iter().any(char::is_ascii_digit) && chars[from + 1..close].iter().any(|c| matches!(c, '.' | ':'));
    (has_digits && chars.get(close) == Some(&']')).then_some(close + 1)
}

/// The longest spelling of an IPv6 address.
const LITERAL_CHARS_MAX: usize = 50;

/// Where the domain ends: after the last label that could be a top level and has at least one label before it.
fn domain(chars: &[char], from: usize, writing: Writing) -> Option<usize> {
    let mut labels: Vec<Range<usize>> = Vec::new();
    let mut at = from;
    let mut is_spaced = false;
    loop {
        let length = chars[at..].iter().take_while(|character| is_letter(**character) || **character == '-').count();
        if length == 0 || chars[at] == '-' {
            break;
        }
        labels.push(at..at + length);
        match dot(chars, at + length, writing) {
            Some(next) if labels.len() < LABELS_MAX => {
                is_spaced |= next > at + length + 1;
                at = next;
            }
            Some(_) | None => break,
        }
    }
    let is_number = |label: &Range<usize>| chars[label.clone()].iter().all(char::is_ascii_digit);
    let is_version = labels.len() >= 2 && chars[labels[0].start].is_ascii_digit() && is_number(&labels[1]);
    let is_loose = writing == Writing::Spaced && !is_spaced;
    while !is_version && !is_loose && labels.len() >= 2 {
        let top = labels.pop()?;
        if let Some(length) = top_level(&chars[top.clone()]) {
            return Some(top.start + length);
        }
    }
    None
}

/// More labels than a domain has; the rest is not looked at.
const LABELS_MAX: usize = 32;

/// Where the next label begins, after a dot or a spelling of it.
fn dot(chars: &[char], at: usize, writing: Writing) -> Option<usize> {
    let (before, after) = (chars[..at].last()?, |next: usize| chars.get(next).is_some_and(|character| is_letter(*character)));
    let next = match chars.get(at)? {
        '.' => at + 1,
        // The ideographic full stop between two Latin letters is a disguised dot, and between two letters of its own script a dot. Between
        // one of each, it ends a sentence.
        '\u{3002}' if chars.get(at + 1).is_some_and(|next| next.is_ascii() == before.is_ascii()) => at + 1,
        ' ' | '[' | '(' | '{' => {
            let start = at + spaces(chars, at);
            match bracketed(chars, start, DOT) {
                Some(end) => end + spaces(chars, end),
                None => {
                    let word = match writing {
                        Writing::Plain => return None,
                        Writing::Spelled => "dot",
                        Writing::Spaced => ".",
                    };
                    let end = starts_with(chars, start, word).filter(|_| start > at)?;
                    end + Some(spaces(chars, end)).filter(|spaces| *spaces > 0)?
                }
            }
        }
        _ => return None,
    };
    after(next).then_some(next)
}

/// How many characters of a label form a top level: letters of one alphabet that are no file extension.
fn top_level(label: &[char]) -> Option<usize> {
    let ascii = label.iter().take_while(|character| character.is_ascii_alphabetic()).count();
    let is_foreign = label.iter().all(|character| !character.is_ascii()) && label.len() >= 2;
    let text: String = label.iter().flat_map(|character| character.to_lowercase()).collect();
    if is_foreign || (text.starts_with("xn--") && text.len() > "xn--".len() && text.is_ascii()) {
        return Some(label.len());
    }
    // A word in another script, or a dash, may follow without a space.
    let ends = label.get(ascii).is_none_or(|character| !character.is_ascii() || *character == '-');
    let is_ending = FILES.split_ascii_whitespace().any(|ending| text == ending);
    ((2..=TOP_LEVEL_CHARS_MAX).contains(&ascii) && ends && !is_ending).then_some(ascii)
}

/// The longest top level that exists.
const TOP_LEVEL_CHARS_MAX: usize = 24;

/// File extensions that are no top level. Names with them may contain an `@`: `icon@2x.png`, `getty@tty1.service`.
const FILES: &str = "png jpg jpeg gif svg webp bmp ico json jsonl txt html htm css scss js jsx tsx mjs cjs yaml yml toml xml pdf csv tsv \
    lock log exe dll jar war class java cpp hpp tgz gz tar bz2 xz zst whl rpm dmg iso bak tmp ini cfg conf service socket timer target \
    mount slice scope desktop plist bin dat sql patch diff snap vue svelte md5 sha256";

/// Recognises the remote of a repository, such as `deploy@host.example:org/repo.git`.
fn is_remote(chars: &[char], end: usize) -> bool {
    let is_path = |character: &&char| is_letter(**character) || matches!(character, '/' | '.' | '_' | '-' | '~' | ':');
    if chars.get(end) != Some(&':') {
        return false;
    }
    let path: String = chars[end + 1..].iter().take(PATH_CHARS_MAX).take_while(is_path).collect();
    path.trim_end_matches(['.', ':']).ends_with(".git")
}

/// Longer than the path of any repository.
const PATH_CHARS_MAX: usize = 256;

/// Recognises `https://jane@host.example/`, with or without a password: this names an account on the host, not a mail address.
fn is_user_of_url(chars: &[char], start: usize) -> bool {
    let is_user = |character: &&char| !character.is_whitespace() && !matches!(character, '/' | '@' | '"' | '\'' | '<' | '>');
    let before = start - chars[..start].iter().rev().take(USER_CHARS_MAX).take_while(is_user).count();
    let Some(scheme_end) = before.checked_sub(3).filter(|end| chars[*end..before] == [':', '/', '/']) else {
        return false;
    };
    let is_scheme = |character: &&char| character.is_ascii_alphanumeric() || matches!(character, '+' | '.' | '-');
    let mut scheme: Vec<char> = chars[..scheme_end].iter().rev().take(SCHEME_CHARS_MAX).take_while(is_scheme).copied().collect();
    scheme.reverse();
    let scheme: String = scheme.iter().map(char::to_ascii_lowercase).collect();
    SCHEMES.split(' ').any(|known| scheme == known)
}

/// A longer user is treated as an address.
const USER_CHARS_MAX: usize = 256;
/// No scheme below is longer.
const SCHEME_CHARS_MAX: usize = 16;
const SCHEMES: &str = "http https ssh git ftp ftps sftp rsync git+ssh svn+ssh postgres postgresql mysql redis rediss amqp amqps mongodb \
    mongodb+srv ldap ldaps nats ws wss";

fn is_local(character: char) -> bool {
    is_letter(character) || matches!(character, '.' | '_' | '%' | '+' | '-' | '\'' | '~')
}

/// Letters and digits of any script, with their combining marks.
fn is_letter(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '\u{300}'..='\u{36F}' | '\u{900}'..='\u{DFF}')
}

/// Scripts that put no spaces between words.
fn is_undivided(character: char) -> bool {
    matches!(character, '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{2E80}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}
