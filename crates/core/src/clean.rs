//! Makes text from agents, sources and servers safe to show: on a terminal, on a page, in a log. Characters that a screen would obey, reorder
//! or hide, or that pass for others, are shown as `\u{…}` instead of being dropped, so that an approver sees them.

/// Cleans text for one line: line breaks and tabs are shown as escapes too.
pub fn line(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => clean.push_str("\\n"),
            '\r' => clean.push_str("\\r"),
            '\t' => clean.push_str("\\t"),
            other => push(&mut clean, other),
        }
    }
    clean
}

/// Cleans text of several lines: line breaks and tabs stay.
pub fn block(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => clean.push(character),
            '\r' => clean.push_str("\\r"),
            other => push(&mut clean, other),
        }
    }
    clean
}

/// Writes deceptive characters in JSON text as escapes. The JSON value stays the same.
pub fn json(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' || !is_deceptive(character) {
            clean.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                clean.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    clean
}

fn push(clean: &mut String, character: char) {
    if is_deceptive(character) {
        clean.push_str(&format!("\\u{{{:x}}}", u32::from(character)));
    } else {
        clean.push(character);
    }
}

/// Whether this is a control character, an invisible character, one that reorders the text around it, a dot that is not the full stop, or
/// a code point that Unicode keeps for no character.
pub fn is_deceptive(character: char) -> bool {
    let code = u32::from(character);
    character.is_control()
        || matches!(code & 0xffff, 0xfffe | 0xffff)
        || matches!(code,
            0x00ad | 0x034f | 0x061c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f | 0x2024..=0x2025
            | 0x2028..=0x202e | 0x2060..=0x206f | 0x2800 | 0x3164 | 0xfdd0..=0xfdef | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
            | 0x1_3430..=0x1_345f | 0x1_bca0..=0x1_bca3 | 0x1_d173..=0x1_d17a | 0xe_0000..=0xe_0fff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_would_deceive_a_reader_is_shown_instead() {
        for (text, expected) in [
            ("plain äöü 漢字 🙂", "plain äöü 漢字 🙂"),
            ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("tag\u{e0041}", "tag\\u{e0041}"),
            ("a\u{2024}txt, \u{2025}/x and so on…", "a\\u{2024}txt, \\u{2025}/x and so on…"),
            ("\u{fdd0}\u{ffff}\u{1fffe}", "\\u{fdd0}\\u{ffff}\\u{1fffe}"),
            ("bell\u{7}", "bell\\u{7}"),
            ("two\nlines\tand\r", "two\\nlines\\tand\\r"),
        ] {
            assert_eq!(line(text), expected);
        }
        assert_eq!(block("two\nlines\tand\r\n"), "two\nlines\tand\\r\n");
    }

    #[test]
    fn escaped_json_is_the_same_json() {
        let value = serde_json::json!({ "k\u{202e}": "\u{9b}\u{e0041}\u{1b}\n", "n": 1 });
        let text = json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|character| character == '\n' || !is_deceptive(character)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    proptest! {
        #[test]
        fn nothing_deceptive_is_ever_left(text in any::<String>()) {
            prop_assert!(!line(&text).chars().any(is_deceptive));
            prop_assert!(!block(&text).chars().any(|character| is_deceptive(character) && character != '\n' && character != '\t'));
        }

        #[test]
        fn printable_ascii_always_stays_as_it_is(text in "[ -~]*") {
            prop_assert_eq!(line(&text), text);
        }

        #[test]
        fn escaping_json_never_changes_its_meaning(text in any::<String>()) {
            let written = json(&serde_json::to_string(&text).unwrap());
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }
}
