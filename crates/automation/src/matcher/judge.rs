//! Answers which filters of a segment an event satisfies. What it learns of the event it remembers until the next one.

use super::code::{Node, Term, nodes};
use super::leaf::Leaf;
use super::segment::{Inner, PathIndex, Probe, Segment};
use super::trie::Found;
use crate::filter::ScalarRef;
use crate::filter::naive::together;
use crate::limits;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

/// What is remembered, by number. An entry counts only in the generation it was written in, so nothing has to be cleared.
#[derive(Default)]
pub(super) struct Memory {
    generation: u32,
    leaves: Vec<u32>,
    filters: Vec<u32>,
    paths: Vec<(u32, u32)>,
}

/// Beside the generation, what is known of a leaf.
const STATE_BITS: u32 = 3;
const IS_TRUE: u32 = 1;
const HAS_FOUND: u32 = 2;
const IS_EXCEEDED: u32 = 4;

pub(super) struct Judge<'s, 'e, 'w, V> {
    segment: &'s Inner,
    event: &'e Value,
    memory: &'s mut Memory,
    /// What the event has at each of its paths.
    present: Vec<Present>,
    scalars: Vec<ScalarRef<'e>>,
    arrays: Vec<u32>,
    work: &'w Work,
    visit: V,
}

/// What one look at an element of an array costs for one path, beside the tests of what is there.
const ELEMENT_WORK: u64 = 64;
/// What is less than this share of all work is nobody's fault.
const BLAME_MIN: u64 = limits::EVENT_WORK_MAX / 1_000;

/// What may still be done for one event, counted in looks at a byte.
pub(super) struct Work {
    left: Cell<u64>,
    /// Whether the filter that is being judged asks for more than there is.
    is_exceeded: Cell<bool>,
    /// Whether all of it together was more than there is.
    is_used_up: Cell<bool>,
    /// What the dear filters took.
    taken: RefCell<Vec<(u64, Id)>>,
    /// Filters that are not judged: with them, all of it was too much.
    blamed: RefCell<HashSet<Id>>,
}

/// A filter among those of all segments: the place of its segment, and its number there.
type Id = (usize, u32);

/// What became of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Holds,
    /// It was not judged: that is more work than it may be.
    Exceeds,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            left: Cell::new(limits::EVENT_WORK_MAX),
            is_exceeded: Cell::new(false),
            is_used_up: Cell::new(false),
            taken: RefCell::default(),
            blamed: RefCell::default(),
        }
    }
}

impl Work {
    /// Takes so much of what is left; false if one test may not take so much, or if it is not left.
    fn take(&self, work: u64) -> bool {
        if work > limits::FILTER_WORK_MAX {
            self.is_exceeded.set(true);
            return false;
        }
        let left = self.left.get().checked_sub(work);
        self.left.set(left.unwrap_or(0));
        if left.is_none() {
            self.is_exceeded.set(true);
            self.is_used_up.set(true);
        }
        left.is_some()
    }

    /// Notes what the filter took since so much was left.
    fn note(&self, filter: Id, left: u64) {
        let taken = left - self.left.get();
        if taken >= BLAME_MIN {
            self.taken.borrow_mut().push((taken, filter));
        }
    }

    fn is_blamed(&self, filter: Id) -> bool {
        self.blamed.borrow().contains(&filter)
    }

    /// If all of it was too much: blames the filters that took most, until the others took half of it at most, and begins anew without them.
    /// False if there is nothing to begin anew.
    pub(super) fn blame_the_dearest(&self) -> bool {
        if !self.is_used_up.take() {
            return false;
        }
        let mut taken = self.taken.take();
        taken.sort_unstable_by(|one, other| other.cmp(one));
        let mut of_others = limits::EVENT_WORK_MAX;
        let mut blamed = self.blamed.borrow_mut();
        for (work, filter) in taken {
            if of_others <= limits::EVENT_WORK_MAX / 2 {
                break;
            }
            of_others = of_others.saturating_sub(work);
            blamed.insert(filter);
        }
        self.left.set(limits::EVENT_WORK_MAX);
        true
    }
}

/// The place in `scalars` of what is at a path, through all arrays.
struct Present {
    path: u32,
    begin: u32,
    end: u32,
}

impl<K> Segment<K> {
    /// Visits the key of every filter that the event satisfies, and of every one that asks for too much work.
    pub(super) fn matching(&self, event: &Value, memory: &mut Memory, work: &Work, mut visit: impl FnMut(&K, Judged)) {
        Judge::answer(&self.inner, event, memory, work, |filter, judged| {
            if let Some(key) = self.keys.get(filter as usize) {
                visit(key, judged);
            }
        });
    }
}

impl<'s, 'e, 'w, V: FnMut(u32, Judged)> Judge<'s, 'e, 'w, V> {
    /// Visits every filter that the event satisfies, and every one that asks for too much work.
    pub(super) fn answer(segment: &'s Inner, event: &'e Value, memory: &'s mut Memory, work: &'w Work, visit: V) {
        memory.begin(segment);
        let Found { mut values, arrays } = segment.trie.read(event);
        if !arrays.is_empty() {
            values.sort_by_key(|(path, _)| *path);
        }
        let mut judge = Self { segment, event, memory, present: Vec::new(), scalars: Vec::new(), arrays, work, visit };
        judge.remember(&values);
        judge.look_up();
        judge.judge_the_rest();
    }

    fn remember(&mut self, values: &[(u32, &'e Value)]) {
        self.present.reserve(values.len());
        self.scalars.reserve(values.len());
        for (path, value) in values {
            let begin = self.scalars.len() as u32;
            flatten(value, &mut self.scalars);
            let end = self.scalars.len() as u32;
            match self.present.last_mut() {
                Some(last) if last.path == *path => last.end = end,
                Some(_) | None => {
                    self.memory.found(*path, self.present.len());
                    self.present.push(Present { path: *path, begin, end });
                }
            }
        }
    }

    fn look_up(&mut self) {
        let index = &self.segment.index;
        for place in 0..self.present.len() {
            let Some(&Present { path, begin, end }) = self.present.get(place) else { continue };
            let Some(of_path) = index.paths.get(path as usize) else { continue };
            if of_path.exists {
                index.look_up(path, &Probe::Exists).iter().for_each(|leaf| self.found(*leaf));
            }
            for scalar in begin..end {
                if let Some(&scalar) = self.scalars.get(scalar as usize) {
                    self.look_up_scalar(path, of_path, scalar);
                }
            }
        }
    }

    fn look_up_scalar(&mut self, path: u32, of_path: &'s PathIndex, scalar: ScalarRef<'e>) {
        let index = &self.segment.index;
        if of_path.equals {
            index.look_up(path, &Probe::whole(scalar)).iter().for_each(|leaf| self.found(*leaf));
        }
        match scalar {
            ScalarRef::Text(text) => {
                for length in &of_path.starts {
                    let Some(start) = text.as_bytes().get(..usize::from(*length)) else { break };
                    index.look_up(path, &Probe::Start(start)).iter().for_each(|leaf| self.found(*leaf));
                }
                for length in &of_path.ends {
                    let Some(begin) = text.len().checked_sub(usize::from(*length)) else { break };
                    let end = text.as_bytes().get(begin..).unwrap_or_default();
                    index.look_up(path, &Probe::End(end)).iter().for_each(|leaf| self.found(*leaf));
                }
                if let Some(texts) = &of_path.texts {
                    texts.each_in(text, |leaf| self.found(leaf));
                }
            }
            ScalarRef::Number(number) => {
                if let Some(ranges) = &of_path.ranges {
                    ranges.each_with(number, |leaf| self.found(leaf));
                }
            }
            ScalarRef::Null | ScalarRef::Bool(_) => {}
        }
    }

    /// The index has found a leaf. What it finds by hash is not yet true, nor is a leaf of which only one condition is in the index.
    fn found(&mut self, leaf: u32) {
        let segment = self.segment;
        if self.memory.leaf(leaf).is_none() && segment.found_by(leaf).iter().all(|filter| self.work.is_blamed(self.id(*filter))) {
            self.memory.learn(leaf, IS_EXCEEDED);
        }
        // If it asks for too much, all filters that it finds do.
        self.work.is_exceeded.set(false);
        let left = self.work.left.get();
        let holds = self.leaf(leaf);
        if !(holds || self.work.is_exceeded.get()) || !self.memory.first_time(leaf) {
            return;
        }
        for &filter in segment.found_by(leaf) {
            self.work.note(self.id(filter), left);
        }
        for &filter in segment.found_by(leaf) {
            if self.memory.is_settled(filter) {
                continue;
            }
            let judged = self.judge(filter);
            if filter < segment.open.start {
                self.memory.settle(filter);
                judged.into_iter().for_each(|judged| (self.visit)(filter, judged));
            } else if judged != Some(Judged::Holds) {
                self.memory.settle(filter);
                judged.into_iter().for_each(|judged| (self.visit)(filter, judged));
            }
        }
    }

    fn judge_the_rest(&mut self) {
        let segment = self.segment;
        for filter in segment.open.clone() {
            if !self.memory.is_settled(filter) {
                (self.visit)(filter, Judged::Holds);
            }
        }
        for filter in segment.open.end..segment.begins.len().saturating_sub(1) as u32 {
            if let Some(judged) = self.judge(filter) {
                (self.visit)(filter, judged);
            }
        }
    }

    /// `None` if the event does not satisfy it.
    fn judge(&mut self, filter: u32) -> Option<Judged> {
        let (id, left) = (self.id(filter), self.work.left.get());
        if self.work.is_used_up.get() || self.work.is_blamed(id) {
            return Some(Judged::Exceeds);
        }
        self.work.is_exceeded.set(false);
        let holds = self.holds(self.segment.words_of(filter));
        self.work.note(id, left);
        match (self.work.is_exceeded.get(), holds) {
            (true, _) => Some(Judged::Exceeds),
            (false, true) => Some(Judged::Holds),
            (false, false) => None,
        }
    }

    fn id(&self, filter: u32) -> Id {
        (std::ptr::from_ref(self.segment).addr(), filter)
    }

    fn holds(&mut self, words: &'s [u32]) -> bool {
        nodes(words).all(|node| self.node(node))
    }

    fn node(&mut self, node: Node<'s>) -> bool {
        match node {
            Node::Object(terms) => self.object(terms),
            Node::And(body) => self.holds(body),
            Node::Or(body) => nodes(body).any(|node| self.node(node)),
            Node::Not(body) => !self.holds(body),
        }
    }

    fn object(&mut self, terms: &'s [u32]) -> bool {
        if self.share_an_array(terms) {
            return self.of_one_element(terms);
        }
        terms.iter().map(|word| Term::of(*word)).all(|term| self.leaf(term.leaf) != term.negated)
    }

    /// Whether several paths of the object go on through an array of the event.
    fn share_an_array(&self, terms: &[u32]) -> bool {
        self.arrays.iter().any(|array| {
            let mut through = terms.chunk_by(|one, other| self.path(*one) == self.path(*other)).filter(|terms| {
                let names = terms.first().and_then(|word| self.path(*word)).and_then(|path| self.segment.paths.get(path as usize));
                names.is_some_and(|names| self.segment.trie.through(*array, names))
            });
            through.next().is_some() && through.next().is_some()
        })
    }

    fn of_one_element(&self, terms: &'s [u32]) -> bool {
        let conditions: Vec<_> = terms
            .chunk_by(|one, other| self.path(*one) == self.path(*other))
            .filter_map(|terms| {
                let path = terms.first().and_then(|word| self.path(*word))?;
                Some((&**self.segment.paths.get(path as usize)?, terms))
            })
            .collect();
        together(Some(self.event), &conditions, &|value, (names, terms): (&[Box<str>], &[u32])| {
            let (mut exists, mut scalars) = (false, Vec::new());
            if !self.work.take(ELEMENT_WORK) {
                return false;
            }
            if let Some(value) = value {
                read(value, names, &mut exists, &mut scalars);
            }
            terms.iter().map(|word| Term::of(*word)).all(|term| {
                let leaf = self.segment.leaves.get(term.leaf as usize);
                leaf.is_some_and(|leaf| self.work.take(leaf.test.work(&scalars)) && leaf.test.holds(exists, &scalars) != term.negated)
            })
        })
    }

    fn path(&self, word: u32) -> Option<u32> {
        self.segment.leaves.get(Term::of(word).leaf as usize).map(|leaf| leaf.path)
    }

    fn leaf(&mut self, leaf: u32) -> bool {
        if let Some(known) = self.memory.leaf(leaf) {
            if known & IS_EXCEEDED != 0 {
                self.work.is_exceeded.set(true);
            }
            return known & IS_TRUE != 0;
        }
        let Some(Leaf { path, test }) = self.segment.leaves.get(leaf as usize) else { return false };
        let present = self.memory.present(*path).and_then(|place| self.present.get(place));
        let scalars = present.and_then(|present| self.scalars.get(present.begin as usize..present.end as usize)).unwrap_or_default();
        if !self.work.take(test.work(scalars)) {
            self.memory.learn(leaf, IS_EXCEEDED);
            return false;
        }
        let holds = test.holds(present.is_some(), scalars);
        self.memory.learn(leaf, if holds { IS_TRUE } else { 0 });
        holds
    }
}

impl Memory {
    fn begin(&mut self, segment: &Inner) {
        self.generation += 1;
        if self.generation > u32::MAX >> STATE_BITS {
            *self = Self { generation: 1, ..Self::default() };
        }
        let grow = |entries: &mut Vec<u32>, count: usize| {
            if entries.len() < count {
                entries.resize(count, 0);
            }
        };
        grow(&mut self.leaves, segment.leaves.len());
        grow(&mut self.filters, segment.begins.len());
        if self.paths.len() < segment.paths.len() {
            self.paths.resize(segment.paths.len(), (0, 0));
        }
    }

    /// What is known of it.
    fn leaf(&self, leaf: u32) -> Option<u32> {
        self.leaves.get(leaf as usize).copied().filter(|entry| entry >> STATE_BITS == self.generation)
    }

    fn learn(&mut self, leaf: u32, known: u32) {
        if let Some(entry) = self.leaves.get_mut(leaf as usize) {
            *entry = self.generation << STATE_BITS | known;
        }
    }

    /// Whether a leaf of which something is known finds its filters now, and has not before.
    fn first_time(&mut self, leaf: u32) -> bool {
        let Some(entry) = self.leaves.get_mut(leaf as usize) else { return false };
        let first = *entry & HAS_FOUND == 0;
        *entry |= HAS_FOUND;
        first
    }

    fn is_settled(&self, filter: u32) -> bool {
        self.filters.get(filter as usize) == Some(&self.generation)
    }

    fn settle(&mut self, filter: u32) {
        if let Some(entry) = self.filters.get_mut(filter as usize) {
            *entry = self.generation;
        }
    }

    fn found(&mut self, path: u32, place: usize) {
        if let Some(entry) = self.paths.get_mut(path as usize) {
            *entry = (self.generation, place as u32);
        }
    }

    fn present(&self, path: u32) -> Option<usize> {
        let (generation, place) = self.paths.get(path as usize)?;
        (*generation == self.generation).then_some(*place as usize)
    }
}

fn flatten<'e>(value: &'e Value, scalars: &mut Vec<ScalarRef<'e>>) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| flatten(element, scalars)),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => scalars.extend(ScalarRef::of(value)),
    }
}

fn read<'e>(value: &'e Value, names: &[Box<str>], exists: &mut bool, scalars: &mut Vec<ScalarRef<'e>>) {
    match (value, names) {
        (_, []) => {
            *exists = true;
            flatten(value, scalars);
        }
        (Value::Array(elements), _) => elements.iter().for_each(|element| read(element, names, exists, scalars)),
        (_, [name, rest @ ..]) => value.get(&**name).into_iter().for_each(|value| read(value, rest, exists, scalars)),
    }
}
