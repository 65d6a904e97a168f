//! Splits Rust source into what runs, what is quoted and what is only said, well enough for rules about words.

/// A source file without its comments. Line numbers are kept.
pub(crate) struct RustText {
    /// Everything outside comments and string literals; both are left out, line breaks stay.
    pub(crate) code: String,
    /// The string literals, each with the line it starts on.
    pub(crate) literals: Vec<(usize, String)>,
}

/// Reads a file up to its unit tests, which stand last in ours.
pub(crate) fn product_text(source: &str) -> RustText {
    let text = split(source);
    let Some(tests_at) = unit_tests_line(&text.code) else { return text };
    let code = text.code.lines().take(tests_at - 1).collect::<Vec<_>>().join("\n");
    let literals = text.literals.into_iter().filter(|(line, _)| *line < tests_at).collect();
    RustText { code, literals }
}

/// The line of `#[cfg(test)]` before a `mod` with a body, if there is one.
fn unit_tests_line(code: &str) -> Option<usize> {
    let lines: Vec<_> = code.lines().map(str::trim).collect();
    let opens_module = |line: &&str| line.starts_with("mod ") && line.ends_with('{');
    let is_test =
        |at: usize| lines[at] == "#[cfg(test)]" && lines[at + 1..].iter().find(|line| !line.starts_with("#[")).is_some_and(opens_module);
    (0..lines.len()).find(|at| is_test(*at)).map(|at| at + 1)
}

fn split(source: &str) -> RustText {
    let mut rest = Rest { characters: source.chars().collect(), at: 0, line: 1 };
    let mut text = RustText { code: String::new(), literals: vec![] };
    while let Some(character) = rest.peek(0) {
        let after_a_word = rest.at > 0 && is_word(rest.characters[rest.at - 1]);
        if rest.starts_with("//") {
            while rest.peek(0).is_some_and(|character| character != '\n') {
                rest.take();
            }
        } else if rest.starts_with("/*") {
            block_comment(&mut rest, &mut text.code);
        } else if let Some(hashes) = raw_string(&rest).filter(|_| !after_a_word) {
            while rest.take() != Some('"') {}
            let close = format!("\"{}", "#".repeat(hashes));
            literal(&mut rest, &mut text, &close, Escapes::None);
        } else if character == '"' {
            rest.take();
            literal(&mut rest, &mut text, "\"", Escapes::Backslash);
        } else if character == '\'' && is_character(&rest) {
            rest.take();
            while let Some(character) = rest.take() {
                match character {
                    '\\' => rest.skip(1),
                    '\'' => break,
                    _ => {}
                }
            }
        } else {
            text.code.extend(rest.take());
        }
    }
    text
}

#[derive(Clone, Copy, PartialEq)]
enum Escapes {
    None,
    Backslash,
}

/// Consumes a literal whose opening quote is gone. It leaves `""` and its line breaks in the code.
fn literal(rest: &mut Rest, text: &mut RustText, close: &str, escapes: Escapes) {
    let (line, mut quoted) = (rest.line, String::new());
    while rest.peek(0).is_some() && !rest.starts_with(close) {
        if escapes == Escapes::Backslash && rest.peek(0) == Some('\\') {
            rest.skip(1);
        }
        quoted.extend(rest.take());
    }
    rest.skip(close.len());
    text.code.push_str("\"\"");
    text.code.extend(quoted.chars().filter(|character| *character == '\n'));
    text.literals.push((line, quoted));
}

fn block_comment(rest: &mut Rest, code: &mut String) {
    let mut depth = 0;
    loop {
        let step = if rest.starts_with("/*") {
            1
        } else if rest.starts_with("*/") {
            -1
        } else {
            0
        };
        depth += step;
        for _ in 0..=step * step {
            code.extend(rest.take().filter(|character| *character == '\n'));
        }
        if depth == 0 || rest.peek(0).is_none() {
            break;
        }
    }
}

/// The number of hashes if a raw string starts here.
fn raw_string(rest: &Rest) -> Option<usize> {
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let hashes = (0..).take_while(|at| rest.peek(prefix.len() + at) == Some('#')).count();
    (rest.peek(prefix.len() + hashes) == Some('"')).then_some(hashes)
}

/// A quote opens a character unless it begins a lifetime.
fn is_character(rest: &Rest) -> bool {
    rest.peek(1) == Some('\\') || rest.peek(2) == Some('\'')
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

struct Rest {
    characters: Vec<char>,
    at: usize,
    line: usize,
}

impl Rest {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, character)| self.peek(ahead) == Some(character))
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.take();
        }
    }

    fn take(&mut self) -> Option<char> {
        let taken = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(taken == '\n');
        Some(taken)
    }
}

#[test]
fn code_literals_and_comments_are_told_apart() {
    for (source, code, literals) in [
        ("a // b \"c\"\nd", "a \nd", vec![]),
        ("a /* b /* \"c\" */ \n d */ e", "a \n e", vec![]),
        ("f(\"x // y\")", "f(\"\")", vec![(1, "x // y")]),
        (r#"f("a\"b")"#, r#"f("")"#, vec![(1, "a\"b")]),
        ("\n\"one\ntwo\" z", "\n\"\"\n z", vec![(2, "one\ntwo")]),
        ("r#\"say \"no\" \"# + br\"x\\\"", "\"\" + \"\"", vec![(1, "say \"no\" "), (1, "x\\")]),
        ("for\"x\" 'a' '\"' '\\'' b'\"' fn f<'a>(x: &'a str)", "for\"\"    b fn f<'a>(x: &'a str)", vec![(1, "x")]),
    ] {
        let text = split(source);
        let found: Vec<_> = text.literals.iter().map(|(line, literal)| (*line, literal.as_str())).collect();
        assert_eq!((text.code.as_str(), found), (code, literals), "{source}");
    }
}

#[test]
fn unit_tests_are_left_out_and_nothing_else_is() {
    let source = "fn a() { \"one\" }\n#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod outside;\n#[cfg(test)]\nfn only_for_tests() {}\n";
    let text = product_text(&format!("{source}#[cfg(test)]\nmod tests {{\n    const TWO: &str = \"two\";\n}}\n"));
    assert_eq!(text.code.lines().count(), 6);
    assert_eq!(text.literals, [(1, "one".to_owned()), (3, "a_tests.rs".to_owned())]);
}
