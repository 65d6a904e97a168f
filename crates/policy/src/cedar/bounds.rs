//! The limits that are checked before Cedar parses a text. Its parser recurses without checking the stack: a few hundred nested brackets,
//! or a chain of some thousand operators, would crash the process instead of failing the request.

use super::PolicyProblem;
use crate::limits::{POLICY_BYTES_MAX, POLICY_DEPTH_MAX, POLICY_TEXT_BYTES_MAX};
use countersign_core::decision::Gate;

/// The first limit that the text exceeds, if any.
pub(super) fn check(gate: Gate, text: &str) -> Result<(), PolicyProblem> {
    let refuse = |offset, message: String| Err(PolicyProblem::at(gate, None, text, offset, message));
    if text.len() > POLICY_TEXT_BYTES_MAX {
        return refuse(0, format!("the text has {} bytes, and {POLICY_TEXT_BYTES_MAX} are the most one gate may have", text.len()));
    }
    let mut policy = Policy::starting(0);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let offset = text.len() - rest.len();
        let length = token(rest, first);
        let end = offset + length;
        if policy.start == offset && is_blank(&rest[..length]) {
            policy.start = end;
        }
        policy.read(&rest[..length]);
        if policy.deepest() > POLICY_DEPTH_MAX {
            return refuse(offset, format!("a policy may nest {POLICY_DEPTH_MAX} levels of brackets and of `if`, and this is one more"));
        }
        if end - policy.start > POLICY_BYTES_MAX {
            return refuse(policy.start, format!("the policy is longer than {POLICY_BYTES_MAX} bytes: write it as several"));
        }
        if first == ';' && policy.brackets == 0 {
            policy = Policy::starting(end);
        }
        rest = &text[end..];
    }
    Ok(())
}

/// The state of the policy that is being scanned.
struct Policy {
    start: usize,
    brackets: usize,
    conditionals: usize,
}

impl Policy {
    const fn starting(start: usize) -> Self {
        Self { start, brackets: 0, conditionals: 0 }
    }

    fn read(&mut self, token: &str) {
        match token {
            "(" | "[" | "{" => self.brackets += 1,
            ")" | "]" | "}" => self.brackets = self.brackets.saturating_sub(1),
            "if" => self.conditionals += 1,
            _ => {}
        }
    }

    fn deepest(&self) -> usize {
        self.brackets.max(self.conditionals)
    }
}

/// Whether a token is only a comment or space between policies.
fn is_blank(token: &str) -> bool {
    token.starts_with("//") || token.chars().all(char::is_whitespace)
}

/// The length in bytes of the first token of `rest`: a string, a comment, a word, or one character.
fn token(rest: &str, first: char) -> usize {
    let is_word = |character: char| character == '_' || character.is_ascii_alphanumeric();
    match first {
        '"' => {
            let mut escaped = true; // So that the opening quote does not count as the end.
            rest.find(|character| {
                let ends = character == '"' && !escaped;
                escaped = character == '\\' && !escaped;
                ends
            })
            .map_or(rest.len(), |end| end + 1)
        }
        '/' if rest.starts_with("//") => rest.find(['\n', '\r']).unwrap_or(rest.len()),
        word if is_word(word) => rest.find(|character| !is_word(character)).unwrap_or(rest.len()),
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_place(text: &str, expected: Option<(u32, u32)>) {
        let found = check(Gate::Abac, text).err().map(|problem| (problem.line, problem.column));
        assert_eq!(found, expected, "{}", text.chars().take(200).collect::<String>());
    }

    #[test]
    fn what_would_exhaust_the_stack_is_refused_where_it_begins() {
        let nested = |open: &str, close: &str, levels: usize| format!("\n  {}1{}", open.repeat(levels), close.repeat(levels));
        let most = POLICY_DEPTH_MAX;
        let beyond = u32::try_from(most).unwrap() + 3;
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}")] {
            check_place(&nested(open, close, most), None);
            check_place(&nested(open, close, most + 1), Some((2, beyond)));
        }
        check_place(&"if 1 then 2 else ".repeat(most), None);
        check_place(&format!("\n{}", "if 1 then 2 else\n".repeat(most + 1)), Some((u32::try_from(most).unwrap() + 2, 1)));
        check_place(&format!(";\n{}", "1+".repeat(POLICY_BYTES_MAX / 2 + 1)), Some((2, 1)));
        check_place(&"1+1;".repeat(POLICY_TEXT_BYTES_MAX / 4), None);
        check_place(&" ".repeat(POLICY_TEXT_BYTES_MAX + 1), Some((1, 1)));
    }

    #[test]
    fn brackets_in_strings_and_comments_are_words_and_each_policy_counts_for_itself() {
        let many = "(".repeat(1_000);
        for harmless in [format!("\"{many}\""), format!("\"\\\"{many}\""), format!("\"\\\\\" // {many}\n"), format!("// \" {many}\r")] {
            check_place(&harmless, None);
            assert!(check(Gate::Abac, &format!("{harmless}{many}")).is_err());
        }
        check_place(&"if a then (b) else [c];\n".repeat(1_000), None);
        check_place(&"iffy elif \"if\" ".repeat(100), None);
    }
}
