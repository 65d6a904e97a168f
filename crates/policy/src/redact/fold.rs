//! Folds a text to what a reader understands, and maps it back to the bytes. Percent-encoding, entities, quoted-printable and escapes are
//! decoded, zero-width characters are dropped, and look-alikes of `@`, `.`, digits, dashes and spaces become the plain characters.

use std::ops::Range;

/// The folded characters, each with the bytes it came from.
pub(super) struct Folded {
    pub(super) chars: Vec<char>,
    bytes: Vec<Range<usize>>,
}

impl Folded {
    /// The bytes behind a non-empty range of characters.
    pub(super) fn bytes(&self, chars: &Range<usize>) -> Range<usize> {
        let start = self.bytes.get(chars.start).map_or(0, |bytes| bytes.start);
        let end = chars.end.checked_sub(1).and_then(|last| self.bytes.get(last)).map_or(start, |bytes| bytes.end);
        start..end.max(start)
    }
}

/// Folds a text in one pass, from left to right.
pub(super) fn fold(text: &str) -> Folded {
    let is_quoted_printable = is_quoted_printable(text);
    let mut folded = Folded { chars: Vec::with_capacity(text.len()), bytes: Vec::with_capacity(text.len()) };
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let read = match first {
            '%' => percent(rest),
            '&' => entity(rest),
            '=' if is_quoted_printable => quoted_printable(rest),
            '\\' => escape(rest),
            _ => None,
        };
        let (character, length) = read.unwrap_or((Some(first), first.len_utf8()));
        if let Some(character) = character.and_then(plain) {
            folded.chars.push(character);
            folded.bytes.push(at..at + length);
        }
        at += length;
    }
    folded
}

/// A character (`None` if it has no width) and the number of bytes that encode it.
type Read = Option<(Option<char>, usize)>;

/// Text that was encoded more often than this is not decoded further.
const LAYERS_MAX: usize = 4;

/// Decodes `%40` and `%C3%A9`, and `%2540` where it was encoded twice.
fn percent(text: &str) -> Read {
    bytes_as_char(|at| {
        let mut length = 1;
        let bytes = text.as_bytes();
        if bytes.get(at) != Some(&b'%') {
            return None;
        }
        for _ in 1..LAYERS_MAX {
            let is_layer = bytes[at + length..].starts_with(b"25") && hex_pair(bytes.get(at + length + 2..at + length + 4)?).is_some();
            length += if is_layer { 2 } else { break };
        }
        Some((hex_pair(bytes.get(at + length..at + length + 2)?)?, length + 2))
    })
}

/// Decodes `=40`, `=C3=A9` and soft line breaks. Letters and digits are never encoded in this way and may follow any `=`, so they are not
/// decoded.
fn quoted_printable(text: &str) -> Read {
    for (breaks, length) in [("=\r\n", 3), ("=\n", 2)] {
        if text.starts_with(breaks) {
            return Some((None, length));
        }
    }
    let read = bytes_as_char(|at| {
        let pair = text.as_bytes().get(at..at + 3)?;
        let is_upper = pair[0] == b'=' && !pair.iter().any(u8::is_ascii_lowercase);
        Some((hex_pair(&pair[1..]).filter(|_| is_upper)?, 3))
    });
    read.filter(|(character, _)| character.is_some_and(|character| !character.is_ascii_alphanumeric()))
}

fn is_quoted_printable(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(3).any(|pair| pair[0] == b'=' && hex_pair(&pair[1..]).is_some() && !pair.iter().any(u8::is_ascii_lowercase))
}

/// Decodes `&#64;`, `&#x40;`, the few named entities that occur in addresses, and `&amp;#64;` where it was encoded twice.
fn entity(text: &str) -> Read {
    let mut length = 1;
    for _ in 1..LAYERS_MAX {
        length += if text[length..].starts_with("amp;") { 4 } else { break };
    }
    let rest = &text[length..];
    for (name, character) in [
        ("commat;", '@'),
        ("period;", '.'),
        ("lowbar;", '_'),
        ("hyphen;", '-'),
        ("dash;", '-'),
        ("plus;", '+'),
        ("nbsp;", ' '),
        ("lpar;", '('),
        ("rpar;", ')'),
        ("lt;", '<'),
        ("gt;", '>'),
        ("quot;", '"'),
    ] {
        if rest.starts_with(name) {
            return Some((Some(character), length + name.len()));
        }
    }
    let number = rest.strip_prefix('#')?;
    let (digits, radix, marked) = match number.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16, 2),
        None => (number, 10, 1),
    };
    let count = digits.bytes().take(ENTITY_DIGITS_MAX).take_while(|byte| char::from(*byte).is_digit(radix)).count();
    let character = char::from_u32(u32::from_str_radix(&digits[..count], radix).ok()?)?;
    let end = usize::from(digits[count..].starts_with(';'));
    Some((Some(character), length + marked + count + end))
}

/// More digits than anyone writes, even with leading zeros.
const ENTITY_DIGITS_MAX: usize = 10;

/// Decodes the escapes that JSON, programs and patterns use inside quotes.
fn escape(text: &str) -> Read {
    let rest = &text[1..];
    let read = |digits: &str| char::from_u32(u32::from_str_radix(digits, 16).ok()?).filter(|character| !character.is_control());
    match rest.chars().next()? {
        'n' | 'r' | 't' => Some((Some('\n'), 2)),
        'u' => Some((Some(read(rest.get(1..5)?)?), 6)),
        'x' => Some((Some(read(rest.get(1..3)?)?), 4)),
        character @ ('"' | '\'' | '/' | '\\' | '.' | '@' | '+' | '-' | '_') => Some((Some(character), 2)),
        _ => None,
    }
}

/// Decodes one UTF-8 character. `byte` reads one byte at an offset, and says how many bytes of the text encode it.
fn bytes_as_char(byte: impl Fn(usize) -> Option<(u8, usize)>) -> Read {
    let (first, mut length) = byte(0)?;
    let count = match first {
        0x20..=0x7E => return Some((Some(char::from(first)), length)),
        b'\t' | b'\n' | b'\r' => return Some((Some('\n'), length)),
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return None,
    };
    let mut bytes = vec![first];
    while bytes.len() < count {
        let (next, read) = byte(length)?;
        bytes.push(next);
        length += read;
    }
    Some((Some(std::str::from_utf8(&bytes).ok()?.chars().next()?), length))
}

fn hex_pair(pair: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let (high, low) = (digit(pair.first()?)?, digit(pair.get(1)?)?);
    u8::try_from(high * 16 + low).ok()
}

/// The plain character that this one looks like; `None` if it has no width.
fn plain(character: char) -> Option<char> {
    if character.is_ascii() {
        return Some(character);
    }
    Some(match character {
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' => return None,
        '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E01EF}' => return None,
        '\u{A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' => '-',
        '\u{2024}' | '\u{FE52}' => '.',
        '\u{FF61}' => '\u{3002}',
        '\u{FE6B}' => '@',
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(character) - 0xFF01 + 0x21)?,
        _ => digit(character).unwrap_or(character),
    })
}

/// The code points of the digit zero in other scripts.
const ZEROS: &[u32] = &[0x660, 0x6F0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xE50, 0xED0, 0xF20, 0x1040, 0x17E0];

fn digit(character: char) -> Option<char> {
    let code = u32::from(character);
    let zero = ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&code))?;
    char::from_digit(code - zero, 10)
}
