//! A regex whose cost is known before it is run, and the literals by which it is found in an index.
//!
//! SECURITY: filters come from strangers, and a regex that is linear in a text is not cheap: an automaton that is made while it searches may be
//! made anew for every byte. So the whole automaton is made beforehand, as a table in which each byte is one look. Where the table would be too
//! large, a byte is taken to cost as many looks as the automaton has states, and that number is bounded.

use crate::limits;
use regex_automata::dfa::{Automaton, StartKind, dense, sparse};
use regex_automata::meta::{BuildError, Regex};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Hir, HirKind};

/// Literals shorter than this are in nearly every text: to look for them would spare nothing.
const LITERAL_BYTES_MIN: usize = 2;
/// More alternatives than this are not worth their place in an index.
const LITERALS_MAX: usize = 16;
/// How deep groups and repetitions nest in a regex.
const NEST_MAX: u32 = 32;
/// What an automaton that is made while it searches may take; beyond that it is made anew.
const SEARCH_BYTES_MAX: usize = 64 * 1024;
/// What a table may take, and what may be taken beside it while it is made. One that takes more than it may while it is kept is kept as ranges.
const TABLE_BYTES_MAX: usize = 1024 * 1024;
const TABLE_MADE_BYTES_MAX: usize = 1024 * 1024;
const TABLE_KEPT_BYTES_MAX: usize = 64 * 1024;
/// Looks that finding a byte among ranges is counted as.
const RANGES_WORK: u64 = 8;

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    compiled: Compiled,
    literals: Vec<Box<str>>,
}

/// A regex that is ready to search.
#[derive(Clone, Debug)]
pub(crate) enum Compiled {
    /// The whole automaton, with a place for each byte.
    Table(Box<dense::DFA<Vec<u32>>>),
    /// The whole automaton, with ranges of bytes: most of those that know Unicode go on with few bytes.
    Ranges(Box<sparse::DFA<Vec<u8>>>),
    /// One that is made while it searches, of so many states.
    States(Regex, usize),
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
        let compiled = Compiled::of(text)?;
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
        self.compiled.finds(text)
    }
}

impl Compiled {
    /// The one way in which a filter's regex is compiled.
    pub(crate) fn of(text: &str) -> Result<Self, Refused> {
        let syntax = syntax::Config::new().nest_limit(NEST_MAX);
        let config =
            thompson::Config::new().nfa_size_limit(Some(limits::FILTER_REGEX_COMPILED_BYTES_MAX)).which_captures(WhichCaptures::None);
        let nfa = NFA::compiler().configure(config).syntax(syntax).build(text);
        let nfa = nfa.map_err(|error| match error.size_limit() {
            Some(_) => Refused::TooLarge,
            None => Refused::Syntax(error.to_string()),
        })?;
        let table = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(TABLE_BYTES_MAX))
            .determinize_size_limit(Some(TABLE_MADE_BYTES_MAX));
        // It also fails where a table cannot say what the regex says: a word boundary outside of ASCII.
        if let Ok(table) = dense::Builder::new().configure(table).build_from_nfa(&nfa) {
            return match table.to_sparse() {
                Ok(ranges) if table.memory_usage() > TABLE_KEPT_BYTES_MAX => Ok(Self::Ranges(Box::new(ranges))),
                Ok(_) | Err(_) => Ok(Self::Table(Box::new(table))),
            };
        }
        let states = nfa.states().len();
        if states > limits::FILTER_REGEX_STATES_MAX {
            return Err(Refused::TooLarge);
        }
        let refused = |error: BuildError| if error.size_limit().is_some() { Refused::TooLarge } else { Refused::Syntax(error.to_string()) };
        let config = Regex::config().nfa_size_limit(Some(limits::FILTER_REGEX_COMPILED_BYTES_MAX)).hybrid_cache_capacity(SEARCH_BYTES_MAX);
        let regex = Regex::builder().configure(config).syntax(syntax).build(text).map_err(refused)?;
        Ok(Self::States(regex, states))
    }

    /// The one way in which it searches: in the beginning of a text. What comes after is seen, so that `$` is still the end of the whole.
    pub(crate) fn finds(&self, text: &str) -> bool {
        let input = Input::new(text).range(..searched(text)).anchored(Anchored::No).earliest(true);
        match self {
            Self::Table(table) => table.try_search_fwd(&input).is_ok_and(|found| found.is_some()),
            Self::Ranges(ranges) => ranges.try_search_fwd(&input).is_ok_and(|found| found.is_some()),
            Self::States(regex, _) => regex.is_match(input),
        }
    }

    /// The looks at states that a search in this text takes at most.
    pub(crate) fn work(&self, text: &str) -> u64 {
        let per_byte = match self {
            Self::Table(_) => 1,
            Self::Ranges(_) => RANGES_WORK,
            Self::States(_, states) => *states as u64,
        };
        (searched(text) as u64 + 1) * per_byte
    }
}

/// The bytes of a text that are searched.
fn searched(text: &str) -> usize {
    (0..=text.len().min(limits::FILTER_REGEX_SEARCHED_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default()
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
    fn what_a_search_costs_is_known_before_it_is_made() {
        let text = "a".repeat(limits::FILTER_REGEX_SEARCHED_BYTES_MAX * 2);
        let looks = limits::FILTER_REGEX_SEARCHED_BYTES_MAX as u64 + 1;
        for (pattern, per_byte) in [
            // Each of these was made anew for every byte.
            ("[a-z]{1,480}[0-9]", 1..=1),
            ("^([a-z]{1,63}\\.){3}[a-z]{2,63}$", 1..=1),
            ("[0-9a-f]{64}", 1..=1),
            (r"^\w+@\w+\.com$", 1..=RANGES_WORK),
            (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}", 1..=RANGES_WORK),
            (r"rel-[0-9]+$", 1..=1),
            // No table holds these.
            ("[ab]*a[ab]{100}", 100..=limits::FILTER_REGEX_STATES_MAX as u64),
            (r"\bfoo\b", 5..=100),
        ] {
            let work = Pattern::parse(pattern).ok().unwrap().compiled.work(&text);
            assert!(per_byte.contains(&(work / looks)) && work.is_multiple_of(looks), "{pattern}: {work}");
        }
        assert!(matches!(Pattern::parse("[ab]*a[ab]{480}[cd]{480}"), Err(Refused::TooLarge)));
    }

    #[test]
    fn a_table_finds_what_the_other_way_finds() {
        let texts = ["", "a", "foo", "x foo y", "éfoo", "a-1\n", "rel-12", "xrel-12 ", "2026-01-02T03:04:05", "a@b.com", &"ab".repeat(300)];
        for pattern in [
            "^$",
            "foo",
            "^rel-[0-9]+$",
            "(?i)FOO",
            r"\w+@\w+\.com",
            "[a-z]{1,480}[0-9]",
            "b$",
            "(?m)^a",
            "a.b",
            "(?s)a.",
            "é?f",
            "(?-u:\\b)foo",
        ] {
            let compiled = Compiled::of(pattern).ok().unwrap();
            let regex = Regex::new(pattern).unwrap();
            for text in texts {
                assert_eq!(compiled.finds(text), regex.is_match(text), "{pattern} in {text}");
            }
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
