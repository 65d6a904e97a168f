//! A regex of linear time and bounded size, and the literals by which it is found in an index.

use countersign_core::limits;
use regex_automata::Input;
use regex_automata::meta::{BuildError, Regex};
use regex_automata::util::syntax;
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
pub(crate) enum Refused {
    Syntax(String),
    TooLarge,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, Refused> {
        let syntax = regex_syntax::ParserBuilder::new().nest_limit(NEST_MAX).build().parse(text);
        let syntax = syntax.map_err(|error| Refused::Syntax(error.to_string()))?;
        if places(&syntax) > limits::FILTER_REGEX_PLACES_MAX {
            return Err(Refused::TooLarge);
        }
        let compiled = compile(text)?;
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
        finds(&self.compiled, text)
    }
}

/// The one way in which a filter's regex is compiled.
pub(crate) fn compile(text: &str) -> Result<Regex, Refused> {
    let refused = |error: BuildError| if error.size_limit().is_some() { Refused::TooLarge } else { Refused::Syntax(error.to_string()) };
    let config = Regex::config().nfa_size_limit(Some(limits::FILTER_REGEX_COMPILED_BYTES_MAX)).hybrid_cache_capacity(SEARCH_BYTES_MAX);
    Regex::builder().configure(config).syntax(syntax::Config::new().nest_limit(NEST_MAX)).build(text).map_err(refused)
}

/// The one way in which it searches: in the beginning of a text. What comes after is seen, so that `$` is still the end of the whole.
pub(crate) fn finds(regex: &Regex, text: &str) -> bool {
    let searched = (0..=text.len().min(limits::FILTER_REGEX_SEARCHED_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end));
    regex.is_match(Input::new(text).range(..searched.unwrap_or_default()))
}

/// The places of a regex, with its repetitions written out. A search may be at all of them at once, at every byte of a text. A class is one,
/// however many characters it has: inside of it a search goes one way.
fn places(syntax: &Hir) -> usize {
    match syntax.kind() {
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => 1,
        HirKind::Capture(capture) => places(&capture.sub).saturating_add(1),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            places(&repetition.sub).saturating_add(1).saturating_mul(times as usize)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(places).fold(0, usize::saturating_add),
    }
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

    #[test]
    fn a_search_is_at_few_places_at_once() {
        for (text, fits) in [
            (r"^\w+@\w+\.com$", true),
            (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}", true),
            ("^([a-z]{1,63}\\.){3}[a-z]{2,63}$", true),
            ("[0-9a-f]{64}", true),
            ("(?:a?){300}", true),
            // Each compiles to less than 256 KB.
            ("(?:a?){600}", false),
            ("(a|b|ab){300}", false),
            ("[ab]*a[ab]{600}", false),
            ("a{2000}", false),
        ] {
            assert_eq!(Pattern::parse(text).is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn only_the_beginning_of_a_text_is_searched_and_its_end_stays_where_it_is() {
        let long = |start: &str, end: &str| format!("{start}{}{end}", "é".repeat(limits::FILTER_REGEX_SEARCHED_BYTES_MAX));
        for (pattern, text, expected) in [
            ("needle", long("needle", ""), true),
            ("needle", long("", "needle"), false),
            ("^xé", long("x", ""), true),
            ("é$", long("", ""), false),
            ("^x?é+$", long("x", ""), false),
            ("^é+$", "é".repeat(limits::FILTER_REGEX_SEARCHED_BYTES_MAX / 2), true),
            ("^$", String::new(), true),
        ] {
            assert_eq!(Pattern::parse(pattern).ok().unwrap().is_match(&text), expected, "{pattern}");
        }
    }
}
