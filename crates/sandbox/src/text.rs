//! Makes the output of a program harmless: valid UTF-8, without characters that control a terminal or mislead a reader.

/// Keeps line breaks and tabs. Other control characters, and characters that reverse or hide text, are replaced by their escapes.
pub(crate) fn neutralise(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '\n' | '\t' => text.push(character),
            steering if is_steering(steering) => text.extend(steering.escape_unicode()),
            plain => text.push(plain),
        }
    }
    text
}

fn is_steering(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Cuts a stream into lines as it arrives. A line that is too long is passed on in pieces, cut between two words where possible.
#[derive(Default)]
pub(crate) struct Lines {
    rest: Vec<u8>,
}

/// The longest line that is passed on in one piece.
const LINE_BYTES_MAX: usize = 4096;

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&str)) {
        for byte in bytes {
            if *byte == b'\n' {
                self.end(each);
            } else if self.rest.len() == LINE_BYTES_MAX {
                // A scanner that looks for secrets in a piece would not recognise half of one.
                let words = self.rest.iter().rposition(u8::is_ascii_whitespace).map_or(LINE_BYTES_MAX, |space| space + 1);
                let next = self.rest.split_off(words);
                self.end(each);
                self.rest = next;
            }
            if *byte != b'\n' {
                self.rest.push(*byte);
            }
        }
    }

    /// Passes on the last line even though it has no line break yet.
    pub(crate) fn end(&mut self, each: &mut dyn FnMut(&str)) {
        if !self.rest.is_empty() {
            each(&neutralise(&self.rest));
            self.rest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        for (printed, shown) in [
            (&b"plain\ttext\nmore"[..], "plain\ttext\nmore"),
            (b"\x1b[2J", "\\u{1b}[2J"),
            (b"a\rb", "a\\u{d}b"),
            (b"\x00\x07\x7f", "\\u{0}\\u{7}\\u{7f}"),
            ("\u{9b}31m".as_bytes(), "\\u{9b}31m"),
            ("\u{202e}txt.exe".as_bytes(), "\\u{202e}txt.exe"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
            ("gr\u{fc}n".as_bytes(), "gr\u{fc}n"),
        ] {
            assert_eq!(neutralise(printed), shown);
        }
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text = b"one\ntwo\n\nthree";
        for size in 1..text.len() {
            let mut seen = vec![];
            let mut lines = Lines::default();
            for chunk in text.chunks(size) {
                lines.push(chunk, &mut |line| seen.push(line.to_owned()));
            }
            lines.end(&mut |line| seen.push(line.to_owned()));
            assert_eq!(seen, ["one", "two", "three"], "{size}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_handed_out_in_pieces() {
        let mut sizes = vec![];
        Lines::default().push(&vec![b'a'; 3 * LINE_BYTES_MAX], &mut |line| sizes.push(line.len()));
        assert_eq!(sizes, [LINE_BYTES_MAX, LINE_BYTES_MAX]);
    }

    #[test]
    fn a_long_line_is_parted_between_two_words() {
        let mut pieces = vec![];
        let words = format!("{} {}\n", "a".repeat(LINE_BYTES_MAX - 4), "b".repeat(10));
        Lines::default().push(words.as_bytes(), &mut |line| pieces.push(line.to_owned()));
        assert_eq!(pieces, [format!("{} ", "a".repeat(LINE_BYTES_MAX - 4)), "b".repeat(10)]);
    }
}
