//! Redacts the params that a source receives, in spaces that ask for it: tokens replace personal data and secrets. The map back to the
//! originals never leaves the server. A text is exempt if the action's definition names it and somebody has consented.

use super::encoded;
use super::fold::fold;
use super::key::{self, Holds};
use super::phone::{Plans, Region, Says, UnknownRegion};
use super::tokens::{Kind, Replaced, Tokens, is_token, push_step, without_tokens};
use super::unreadable::{Because, Unreadable};
use super::{email, faces, phone, text};
use crate::limits::REDACTION_REPLACED_MAX;
use countersign_core::session::SpaceRedaction;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The kinds a space wants removed before a source sees the params; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redaction {
    pub kinds: BTreeSet<Kind>,
    /// The regions of national telephone numbers. Without a region, only numbers with a plus are found.
    pub regions: Vec<Region>,
}

impl TryFrom<&SpaceRedaction> for Redaction {
    type Error = UnknownRegion;

    fn try_from(space: &SpaceRedaction) -> Result<Self, UnknownRegion> {
        let regions = space.regions.iter().map(|letters| letters.parse()).collect::<Result<_, _>>()?;
        Ok(Self { kinds: space.kinds.clone().unwrap_or_default(), regions })
    }
}

/// The params for the source, and what is needed to restore the originals.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    pub value: Value,
    /// SECURITY: contains the originals. It is stored encrypted under the key of the space, and never logged.
    pub map: Vec<Replaced>,
    /// How many values of each kind were removed, repetitions included.
    pub counts: BTreeMap<Kind, u32>,
    /// Places that could not be checked. If there is any, the call must not go out.
    pub unreadable: Vec<Unreadable>,
}

/// Removes the kinds that `rules` name, except from the texts that `exempt` points to: a text itself, or an array of texts.
///
/// Types, array lengths, the number of members and all values that are not texts stay as they are. A second pass changes nothing more. The
/// function is pure: the same params and rules give the same tokens.
pub fn redact_params(params: &Value, rules: &Redaction, exempt: &[String]) -> Outgoing {
    let mut taking = Taking {
        rules,
        exempt: exempt.iter().map(String::as_str).collect(),
        tokens: Tokens::beside(params),
        plans: Plans::new(&rules.regions),
        pictures: faces::Budget::default(),
        counts: BTreeMap::new(),
        unreadable: Vec::new(),
    };
    let value = taking.walk(params, &Place::root(), &mut String::new());
    let Taking { tokens, plans, counts, mut unreadable, .. } = taking;
    if plans.is_exhausted() || tokens.len() > REDACTION_REPLACED_MAX {
        unreadable.push(Unreadable { pointer: String::new(), because: Because::TooMany });
    }
    let (value, map) = tokens.numbered(value);
    Outgoing { value, map, counts, unreadable }
}

/// What is known about a text from the keys above it.
struct Place {
    /// The pointer with the caller's own keys, to be compared with `exempt`.
    pointer: String,
    holds: Holds,
    says: Says,
    is_exempt: bool,
}

impl Place {
    fn root() -> Self {
        Self { pointer: String::new(), holds: Holds::Anything, says: Says::Nothing, is_exempt: false }
    }

    fn below(&self, step: &str) -> String {
        let mut pointer = self.pointer.clone();
        push_step(&mut pointer, step);
        pointer
    }
}

/// The state while one call is redacted.
struct Taking<'r> {
    rules: &'r Redaction,
    exempt: BTreeSet<&'r str>,
    tokens: Tokens,
    plans: Plans<'r>,
    pictures: faces::Budget,
    counts: BTreeMap<Kind, u32>,
    unreadable: Vec<Unreadable>,
}

impl Taking<'_> {
    fn takes(&self, kind: Kind) -> bool {
        self.rules.kinds.contains(&kind)
    }

    fn count(&mut self, kind: Kind, times: usize) {
        if times > 0 {
            let count = self.counts.entry(kind).or_default();
            *count = count.saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
        }
    }

    /// `outgoing` is the pointer to this value in the outgoing params, where keys may have been replaced.
    fn walk(&mut self, value: &Value, place: &Place, outgoing: &mut String) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(if place.is_exempt || self.exempt.contains(place.pointer.as_str()) {
                text.clone()
            } else {
                self.text(text, place, outgoing)
            }),
            Value::Array(items) => {
                let is_exempt = self.exempt.contains(place.pointer.as_str());
                let walked = items.iter().enumerate().map(|(at, item)| {
                    let step = at.to_string();
                    let below = Place { pointer: place.below(&step), is_exempt, ..*place };
                    step_into(&step, outgoing, |outgoing| self.walk(item, &below, outgoing))
                });
                walked.collect()
            }
            Value::Object(members) => Value::Object(self.members(members, place, outgoing)),
        }
    }

    /// No two keys become the same: each token stands for one original, and none for a text that the caller wrote.
    fn members(&mut self, members: &Map<String, Value>, place: &Place, outgoing: &mut String) -> Map<String, Value> {
        let named = self.named(members);
        let mut walked = Map::with_capacity(members.len());
        for (name, value) in members {
            let key = self.plain(name, Says::Nothing);
            let own = match (holds(name, &key), name.as_str()) {
                (Holds::Anything, "value") => named,
                (own, _) => own,
            };
            let holds = if place.holds == Holds::Secrets { Holds::Secrets } else { own };
            let says = Says::of_key(&without_tokens(&key), place.says);
            let below = Place { pointer: place.below(name), holds, says, is_exempt: false };
            let value = step_into(&key, outgoing, |outgoing| self.walk(value, &below, outgoing));
            walked.insert(key, value);
        }
        walked
    }

    /// What the `value` member of a name and value pair holds. The name itself is counted when the walk reaches it.
    fn named(&mut self, members: &Map<String, Value>) -> Holds {
        let name = ["name", "key"].into_iter().find_map(|member| members.get(member)?.as_str());
        let Some(name) = name.filter(|_| members.contains_key("value")) else {
            return Holds::Anything;
        };
        let counts = self.counts.clone();
        let redacted = self.plain(name, Says::Nothing);
        self.counts = counts;
        holds(name, &redacted)
    }

    fn text(&mut self, text: &str, place: &Place, outgoing: &str) -> String {
        let is_secret = match place.holds {
            Holds::Anything => false,
            Holds::Secret | Holds::Secrets => self.takes(Kind::Secret) && !text.is_empty(),
        };
        if is_secret && text != super::MARK && !is_token(text) {
            self.count(Kind::Secret, 1);
            return self.tokens.give(Kind::Secret, text);
        }
        let pictures = if self.takes(Kind::Face) { faces::find(text) } else { Vec::new() };
        let mut redacted = String::new();
        let mut copied = 0;
        for picture in pictures {
            redacted.push_str(&self.plain(&text[copied..picture.range.start], place.says));
            copied = picture.range.end;
            match faces::paint_over(&picture, &mut self.pictures) {
                Ok(painted) => {
                    self.count(Kind::Face, painted.faces);
                    redacted.push_str(&painted.base64);
                }
                Err(because) => {
                    self.unreadable.push(Unreadable { pointer: outgoing.to_owned(), because });
                    redacted.push_str(&text[picture.range]);
                }
            }
        }
        redacted.push_str(&self.plain(&text[copied..], place.says));
        redacted
    }

    /// Redacts a text by its form alone. A removal may uncover more, so the text is scanned again until nothing is found.
    fn plain(&mut self, text: &str, says: Says) -> String {
        let mut redacted = text.to_owned();
        for _ in 0..ROUNDS_MAX {
            if self.tokens.len() > REDACTION_REPLACED_MAX || self.plans.is_exhausted() {
                break;
            }
            match self.once(&redacted, says) {
                Some(text) => redacted = text,
                None => break,
            }
        }
        redacted
    }

    fn once(&mut self, text: &str, says: Says) -> Option<String> {
        let mut redacted = None;
        if self.takes(Kind::Secret) {
            let mut marks = Counted { tokens: &mut self.tokens, times: 0 };
            let taken = text::redact(text, &mut marks).into_owned();
            let times = marks.times;
            self.count(Kind::Secret, times);
            redacted = (times > 0).then_some(taken);
        }
        if !self.takes(Kind::Email) && !self.takes(Kind::Phone) && !may_be_encoded(text) {
            return redacted;
        }
        let current = redacted.as_deref().unwrap_or(text);
        let found = self.find(current, says);
        if found.is_empty() {
            return redacted;
        }
        let mut rewritten = String::with_capacity(current.len());
        let mut copied = 0;
        for (kind, range) in found {
            rewritten.push_str(&current[copied..range.start]);
            rewritten.push_str(&self.tokens.give(kind, &current[range.clone()]));
            copied = range.end;
            self.count(kind, 1);
        }
        rewritten.push_str(&current[copied..]);
        Some(rewritten)
    }

    /// What to remove from a text, in order and without overlap. Of two matches that overlap, the first is kept; the next round may find
    /// the other.
    fn find(&mut self, text: &str, says: Says) -> Vec<(Kind, Range<usize>)> {
        let mut found = Vec::new();
        if may_be_encoded(text) {
            for run in encoded::find(text) {
                found.extend(self.kind_of(&run.text).map(|kind| (kind, run.range)));
            }
        }
        let emails = self.takes(Kind::Email) && may_hold_email(text);
        let phones = self.takes(Kind::Phone) && may_hold_phone(text);
        if emails || phones {
            let folded = fold(text);
            let bytes = |kind: Kind, ranges: Vec<Range<usize>>| ranges.into_iter().map(move |range| (kind, range));
            let emails = if emails { email::find(&folded.chars) } else { Vec::new() };
            let phones = if phones { phone::find(&folded.chars, says, &mut self.plans) } else { Vec::new() };
            let ranges = bytes(Kind::Email, emails).chain(bytes(Kind::Phone, phones));
            found.extend(ranges.map(|(kind, range)| (kind, folded.bytes(&range))));
        }
        found.sort_by_key(|(kind, range)| (range.start, std::cmp::Reverse(range.end), *kind));
        let mut end = 0;
        found.retain(|(_, range)| {
            let is_free = range.start >= end && !range.is_empty();
            end = if is_free { range.end } else { end };
            is_free
        });
        found
    }

    /// The kind for which a decoded text must be removed, if any.
    fn kind_of(&mut self, text: &str) -> Option<Kind> {
        if self.takes(Kind::Secret) && text::is_secret(text) {
            return Some(Kind::Secret);
        }
        let folded = fold(text);
        if self.takes(Kind::Email) && !email::find(&folded.chars).is_empty() {
            return Some(Kind::Email);
        }
        let is_phone = self.takes(Kind::Phone) && !phone::find(&folded.chars, Says::Nothing, &mut self.plans).is_empty();
        is_phone.then_some(Kind::Phone)
    }
}

/// What a key holds, judged both as written and as sent; the stronger statement counts. So a reader of the outgoing key cannot conclude
/// more than we did.
fn holds(key: &str, redacted: &str) -> Holds {
    key::holds(&without_tokens(key)).max(key::holds(&without_tokens(redacted)))
}

/// One removal can uncover a match for another rule, so a text is scanned up to this many times.
const ROUNDS_MAX: u32 = 6;

/// Whether a text is long enough to contain base64.
fn may_be_encoded(text: &str) -> bool {
    text.len() >= 16
}

/// Whether a text has an `@`, or a character that can encode one.
fn may_hold_email(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'@' | b'%' | b'&' | b'=' | b'\\' | b'[' | b'(' | b'{') || !byte.is_ascii())
}

/// Whether a text has enough digits for the shortest number, or characters that can encode digits.
fn may_hold_phone(text: &str) -> bool {
    text.bytes().filter(|byte| byte.is_ascii_digit() || !byte.is_ascii()).take(7).count() == 7
}

fn step_into<T>(step: &str, pointer: &mut String, walk: impl FnOnce(&mut String) -> T) -> T {
    let length = pointer.len();
    push_step(pointer, step);
    let walked = walk(pointer);
    pointer.truncate(length);
    walked
}

/// Gives tokens for secrets, and counts them.
struct Counted<'t> {
    tokens: &'t mut Tokens,
    times: usize,
}

impl super::Marks for Counted<'_> {
    fn is_mark(&self, text: &str) -> bool {
        text == super::MARK || is_token(text)
    }

    fn mark(&mut self, _: &'static str, secret: &str) -> String {
        self.times += 1;
        self.tokens.give(Kind::Secret, secret)
    }
}

#[cfg(test)]
#[path = "params_tests.rs"]
mod tests;
