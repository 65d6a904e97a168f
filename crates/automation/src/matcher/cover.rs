//! By which leaves a filter is found: a few of its leaves of which at least one is true whenever the filter holds.

use super::code::{Node, Term, nodes};
use super::leaf::{Condition, Leaf, Test};
use crate::filter::{Number, Scalar};
use std::collections::HashMap;
use std::slice::from_ref;

/// Leaves of which at least one is true whenever what they cover is so.
pub(super) struct Cover {
    /// How likely an event is thought to make one of them true. The lower, the fewer filters are judged in vain.
    chance: f64,
    pub(super) leaves: Vec<u32>,
}

/// What an index has to look for to find a leaf.
#[derive(Clone, Copy)]
pub(super) enum Access<'l> {
    Exists,
    Equals(&'l [Scalar]),
    StartsWith(&'l str),
    EndsWith(&'l str),
    Contains(&'l [Box<str>]),
    Range(Bound, Bound),
}

/// One end of a range.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    Open,
    /// The number itself is not in the range.
    Beyond(Number),
    At(Number),
}

/// The kinds of access, as they are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Exists,
    Equals,
    Start,
    End,
    Part,
    Literal,
    Between,
    OneSided,
}

/// Knows how often each kind of access is used on each path: a value among a thousand others says more than one among two.
pub(super) struct Chooser<'l> {
    leaves: &'l [Leaf],
    distinct: HashMap<(u32, Kind), u32>,
}

impl<'l> Chooser<'l> {
    pub(super) fn of(leaves: &'l [Leaf]) -> Self {
        let mut distinct = HashMap::new();
        for leaf in leaves {
            for (kind, _) in accesses(leaf) {
                *distinct.entry((leaf.path, kind)).or_default() += 1;
            }
        }
        Self { leaves, distinct }
    }

    /// Covers that these words, one node, are `wanted`. Nothing, if they can be so without a true leaf.
    pub(super) fn cover(&self, words: &[u32], wanted: bool) -> Option<Cover> {
        let node = nodes(words).next()?;
        match (node, wanted) {
            (Node::Not(body), _) => self.cover(body, !wanted),
            (Node::And(body), true) | (Node::Or(body), false) => best(parts(body).map(|part| self.cover(part, wanted))),
            (Node::And(body), false) | (Node::Or(body), true) => all(parts(body).map(|part| self.cover(part, wanted))),
            // Also where its terms speak of one element of an array: what is true of an element is true of some element.
            (Node::Object(terms), true) => best(terms.iter().map(|word| self.term(Term::of(*word), true))),
            (Node::Object(terms), false) => all(terms.iter().map(|word| self.term(Term::of(*word), false))),
        }
    }

    fn term(&self, term: Term, wanted: bool) -> Option<Cover> {
        let (chance, _) = (term.negated != wanted).then(|| self.access(term.leaf)).flatten()?;
        Some(Cover { chance, leaves: vec![term.leaf] })
    }

    /// The best way to find a leaf, and how likely an event is thought to have what is looked for.
    pub(super) fn access(&self, leaf: u32) -> Option<(f64, Access<'l>)> {
        let leaf = self.leaves.get(leaf as usize)?;
        let rated = accesses(leaf).into_iter().map(|(kind, access)| (self.chance(leaf.path, kind, access), access));
        rated.min_by(|(one, _), (other, _)| one.total_cmp(other))
    }

    fn chance(&self, path: u32, kind: Kind, access: Access<'_>) -> f64 {
        let distinct = f64::from(self.distinct.get(&(path, kind)).copied().unwrap_or(1));
        // The first is for one use on the path, and they stand in the order of how much they usually tell apart.
        let among_others = |alone: f64| alone / (0.75 + distinct / 4.0);
        match kind {
            Kind::Equals => {
                let listed = if let Access::Equals(listed) = access { listed.len() } else { 1 };
                (among_others(0.3) * listed as f64).min(0.39)
            }
            Kind::Between => among_others(0.4),
            Kind::Start | Kind::End => among_others(0.5),
            Kind::Part => among_others(0.6),
            Kind::Literal => among_others(0.7),
            Kind::OneSided => 0.8,
            Kind::Exists => 0.9,
        }
    }
}

/// Each node of a body, with its head.
fn parts(body: &[u32]) -> impl Iterator<Item = &[u32]> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let mut following = nodes(rest);
        following.next()?;
        let (part, after) = rest.split_at(rest.len() - following.remaining());
        rest = after;
        Some(part)
    })
}

fn best(covers: impl Iterator<Item = Option<Cover>>) -> Option<Cover> {
    covers.flatten().min_by(|one, other| one.chance.total_cmp(&other.chance))
}

fn all(mut covers: impl Iterator<Item = Option<Cover>>) -> Option<Cover> {
    covers.try_fold(Cover { chance: 0.0, leaves: Vec::new() }, |mut sum, cover| {
        let cover = cover?;
        sum.chance += cover.chance;
        sum.leaves.extend(cover.leaves);
        Some(sum)
    })
}

/// Every way in which an index could find the leaf. A regex without a literal has none.
fn accesses(leaf: &Leaf) -> Vec<(Kind, Access<'_>)> {
    let mut accesses = Vec::new();
    let (mut low, mut high) = (Bound::Open, Bound::Open);
    for condition in leaf.test.conditions() {
        match condition {
            Condition::Equals(scalar) => accesses.push((Kind::Equals, Access::Equals(from_ref(scalar)))),
            Condition::In(listed) => accesses.push((Kind::Equals, Access::Equals(listed))),
            Condition::StartsWith(text) => accesses.push((Kind::Start, Access::StartsWith(text))),
            Condition::EndsWith(text) => accesses.push((Kind::End, Access::EndsWith(text))),
            Condition::Contains(text) => accesses.push((Kind::Part, Access::Contains(from_ref(text)))),
            Condition::Regex(search) if search.literals.is_empty() => {}
            Condition::Regex(search) => accesses.push((Kind::Literal, Access::Contains(&search.literals))),
            Condition::Above(number) => low = low.narrowed(Bound::Beyond(*number), |one, other| one < other),
            Condition::AtLeast(number) => low = low.narrowed(Bound::At(*number), |one, other| one < other),
            Condition::Below(number) => high = high.narrowed(Bound::Beyond(*number), |one, other| one > other),
            Condition::AtMost(number) => high = high.narrowed(Bound::At(*number), |one, other| one > other),
        }
    }
    match (low, high) {
        (Bound::Open, Bound::Open) => {}
        (Bound::Open, _) | (_, Bound::Open) => accesses.push((Kind::OneSided, Access::Range(low, high))),
        (Bound::Beyond(_) | Bound::At(_), Bound::Beyond(_) | Bound::At(_)) => accesses.push((Kind::Between, Access::Range(low, high))),
    }
    if matches!(leaf.test, Test::Exists) {
        accesses.push((Kind::Exists, Access::Exists));
    }
    accesses
}

impl Bound {
    pub(super) const fn number(self) -> Option<Number> {
        match self {
            Self::Open => None,
            Self::Beyond(number) | Self::At(number) => Some(number),
        }
    }

    /// The one that lets less through. Of two at one number, that which leaves the number out.
    fn narrowed(self, other: Self, is_wider: impl Fn(Number, Number) -> bool) -> Self {
        match (self.number(), other.number()) {
            (None, _) => other,
            (_, None) => self,
            (Some(one), Some(two)) if one == two => {
                if matches!(self, Self::Beyond(_)) {
                    self
                } else {
                    other
                }
            }
            (Some(one), Some(two)) => {
                if is_wider(one, two) {
                    other
                } else {
                    self
                }
            }
        }
    }
}
