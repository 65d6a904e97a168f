//! A filter as a few words: the tree of its members, with leaves by number. Hundreds of thousands of filters are kept like this.

use super::leaf::{Condition, Test};
use crate::filter::{Filter, Member, Operator, Path};

/// A part of a filter, with the words of what it has.
#[derive(Clone, Copy)]
pub(super) enum Node<'c> {
    /// The tests of one filter object: terms.
    Object(&'c [u32]),
    /// Nodes.
    And(&'c [u32]),
    /// Nodes.
    Or(&'c [u32]),
    /// One node.
    Not(&'c [u32]),
}

/// A leaf of an object, as it is or negated.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub(super) leaf: u32,
    pub(super) negated: bool,
}

const OBJECT: u32 = 0 << LENGTH_BITS;
const AND: u32 = 1 << LENGTH_BITS;
const OR: u32 = 2 << LENGTH_BITS;
const NOT: u32 = 3 << LENGTH_BITS;
const LENGTH_BITS: u32 = 30;
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;

impl Term {
    pub(super) const fn of(word: u32) -> Self {
        Self { leaf: word >> 1, negated: word & 1 == 1 }
    }

    pub(super) fn word(self) -> u32 {
        self.leaf << 1 | u32::from(self.negated)
    }
}

/// The nodes that these words are.
pub(super) fn nodes(words: &[u32]) -> Nodes<'_> {
    Nodes(words)
}

pub(super) struct Nodes<'c>(&'c [u32]);

impl Nodes<'_> {
    /// How many words are not read yet.
    pub(super) const fn remaining(&self) -> usize {
        self.0.len()
    }
}

impl<'c> Iterator for Nodes<'c> {
    type Item = Node<'c>;

    fn next(&mut self) -> Option<Node<'c>> {
        let (head, rest) = self.0.split_first()?;
        let (body, rest) = rest.split_at_checked((head & LENGTH_MASK) as usize)?;
        self.0 = rest;
        Some(match head & !LENGTH_MASK {
            OBJECT => Node::Object(body),
            AND => Node::And(body),
            OR => Node::Or(body),
            _ => Node::Not(body),
        })
    }
}

/// Writes the filter as one node. `number` gives a leaf its number.
pub(super) fn write(filter: &Filter, words: &mut Vec<u32>, number: &mut impl FnMut(&Path, Test) -> u32) {
    let fields = |words: &mut Vec<u32>, number: &mut _| {
        composite(words, OBJECT, |words| {
            for member in &filter.members {
                if let Member::Field(path, operators) = member {
                    terms(path, operators, words, number);
                }
            }
        });
    };
    if filter.members.iter().all(|member| matches!(member, Member::Field(..))) {
        return fields(words, number);
    }
    composite(words, AND, |words| {
        if filter.members.iter().any(|member| matches!(member, Member::Field(..))) {
            fields(words, number);
        }
        for member in &filter.members {
            match member {
                Member::Field(..) => {}
                Member::And(filters) => composite(words, AND, |words| filters.iter().for_each(|filter| write(filter, words, number))),
                Member::Or(filters) => composite(words, OR, |words| filters.iter().for_each(|filter| write(filter, words, number))),
                Member::Not(filter) => composite(words, NOT, |words| write(filter, words, number)),
            }
        }
    });
}

fn composite(words: &mut Vec<u32>, tag: u32, write: impl FnOnce(&mut Vec<u32>)) {
    let head = words.len();
    words.push(tag);
    write(words);
    let length = (words.len() - head - 1) as u32;
    if let Some(word) = words.get_mut(head) {
        *word = tag | length & LENGTH_MASK;
    }
}

/// The terms of one member stand side by side: they have the same path.
fn terms(path: &Path, operators: &[Operator], words: &mut Vec<u32>, number: &mut impl FnMut(&Path, Test) -> u32) {
    let positive: Vec<_> = operators.iter().filter(|operator| operator.is_positive()).filter_map(Condition::of).collect();
    if !positive.is_empty() {
        words.push(Term { leaf: number(path, Test::of(positive)), negated: false }.word());
    }
    for operator in operators.iter().filter(|operator| !operator.is_positive()) {
        let (test, negated) = match (Condition::of(operator), operator) {
            (Some(condition), _) => (Test::One(condition), true),
            (None, operator) => (Test::Exists, matches!(operator, Operator::Exists(false))),
        };
        words.push(Term { leaf: number(path, test), negated }.word());
    }
}
