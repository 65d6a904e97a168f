//! A regex of linear time and bounded size, and the literals by which it is found in an index.

use countersign_core::limits;
use regex::Regex;
use regex_syntax::hir::{Hir, HirKind};

/// Literals shorter than this are in nearly every text: to look for them would spare nothing.
const LITERAL_BYTES_MIN: usize = 2;
/// More alternatives than this are not worth their place in an index.
const LITERALS_MAX: usize = 16;
/// How deep groups and repetitions nest in a regex.
const NEST_MAX: u32 = 32;
/// What the lazily built automaton of one regex may take while it searches; beyond that it starts anew, still in linear time.
const SEARCH_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    compiled: Regex,
    literals: Vec<Box<str>>,
}

/// Why a regex is refused.
pub(super) enum Refused {
    Syntax(String),
    TooLarge,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, Refused> {
        let syntax = regex_syntax::ParserBuilder::new().nest_limit(NEST_MAX).build().parse(text);
        let syntax = syntax.map_err(|error| Refused::Syntax(error.to_string()))?;
        let too_large = |error: &regex::Error| matches!(error, regex::Error::CompiledTooBig(_));
        let compiled =
            compile(text).map_err(|error| if too_large(&error) { Refused::TooLarge } else { Refused::Syntax(error.to_string()) })?;
        Ok(Self { text: text.into(), compiled, literals: required(&syntax).unwrap_or_default() })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Texts of which every match contains at least one; none if there are no such texts.
    pub(crate) fn literals(&self) -> &[Box<str>] {
        &self.literals
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }
}

/// The one way in which a filter's regex is compiled.
pub(crate) fn compile(text: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(text)
        .nest_limit(NEST_MAX)
        .size_limit(limits::FILTER_REGEX_COMPILED_BYTES_MAX)
        .dfa_size_limit(SEARCH_BYTES_MAX)
        .build()
}

/// Of a sequence, the part whose shortest literal is longest; of alternatives, all of them.
fn required(syntax: &Hir) -> Option<Vec<Box<str>>> {
    match syntax.kind() {
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok().filter(|text| text.len() >= LITERAL_BYTES_MIN)?;
            Some(vec![text.into()])
        }
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Concat(parts) => {
            parts.iter().filter_map(required).max_by_key(|literals| literals.iter().map(|literal| literal.len()).min())
        }
        HirKind::Alternation(parts) => {
            let literals = parts.iter().map(required).collect::<Option<Vec<_>>>()?.concat();
            (literals.len() <= LITERALS_MAX).then_some(literals)
        }
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_found_only_where_every_match_has_it() {
        for (text, expected) in [
            ("^rel-[0-9]+$", vec!["rel-"]),
            ("[0-9]+-alpha-[0-9]+xy", vec!["-alpha-"]),
            ("(foo|barbar)+", vec!["foo", "barbar"]),
            ("(foo|b)", vec![]),
            ("(foo)*", vec![]),
            ("(foo)?bar", vec!["bar"]),
            ("(?i)foo", vec![]),
            ("[a-z]+", vec![]),
            ("x", vec![]),
            ("", vec![]),
        ] {
            let pattern = Pattern::parse(text).ok().unwrap();
            assert_eq!(pattern.literals().iter().map(|literal| &**literal).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
