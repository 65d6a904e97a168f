//! The tokens that replace what was removed from params, such as `<EMAIL_1>` and `<PHONE_2>`, and the map back. Tokens are numbered by
//! first appearance. A token that the caller wrote is left alone and its number is skipped, so that each token in the map leads to one
//! original.

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::LazyLock;

pub use countersign_core::session::Kind;

/// The word before the number in the tokens of this kind.
const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Email => "EMAIL",
        Kind::Phone => "PHONE",
        Kind::Secret => "SECRET",
        Kind::Face => "FACE",
    }
}

/// One original and its token. SECURITY: the original is what must be hidden. `Debug` does not print it; a map is stored encrypted or not
/// at all.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    pub token: String,
    pub kind: Kind,
    /// The text as it stood in the params, in its encoding.
    pub original: String,
    /// Where the token first stands in the outgoing value. For a token in a key, this is the pointer of the member.
    pub pointer: String,
}

impl fmt::Debug for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, kind, original: _, pointer } = self;
        f.debug_struct("Replaced").field("token", token).field("kind", kind).field("pointer", pointer).finish_non_exhaustive()
    }
}

/// The tokens of one call, numbered in the order in which they were found, until `numbered` sorts them.
pub(super) struct Tokens {
    written: BTreeSet<String>,
    given: Vec<(Kind, String, String)>,
    by_original: HashMap<(Kind, String), usize>,
    by_token: HashMap<String, usize>,
    numbers: BTreeMap<Kind, u32>,
}

impl Tokens {
    /// Skips the numbers of the tokens that `params` already contains.
    pub(super) fn beside(params: &Value) -> Self {
        let mut written = BTreeSet::new();
        each_text(params, &mut |text| written.extend(tokens_in(text).map(|(at, end)| text[at..end].to_owned())));
        Self { written, given: Vec::new(), by_original: HashMap::new(), by_token: HashMap::new(), numbers: BTreeMap::new() }
    }

    /// The token for an original: always the same one.
    pub(super) fn give(&mut self, kind: Kind, found: &str) -> String {
        let original = self.restored(found);
        if let Some(&index) = self.by_original.get(&(kind, original.clone())) {
            return self.given[index].1.clone();
        }
        let token = next(kind, &mut self.numbers, &self.written);
        let index = self.given.len();
        self.by_original.insert((kind, original.clone()), index);
        self.by_token.insert(token.clone(), index);
        self.given.push((kind, token.clone(), original));
        token
    }

    pub(super) fn len(&self) -> usize {
        self.given.len()
    }

    /// Puts the originals back into a found text, because it may contain tokens given earlier and an original must not.
    fn restored(&self, found: &str) -> String {
        replaced(found, |token| self.by_token.get(token).map(|&index| self.given[index].2.as_str()))
    }

    /// Renumbers the tokens by where they first stand in `value`, and lists what each stands for.
    pub(super) fn numbered(self, value: Value) -> (Value, Vec<Replaced>) {
        if self.given.is_empty() {
            return (value, Vec::new());
        }
        let mut order = Order { tokens: &self, numbers: BTreeMap::new(), renamed: HashMap::new(), map: Vec::new() };
        let value = order.walk(value, &mut String::new());
        let map = order.map;
        (value, map)
    }
}

/// Whether a text is one token and nothing else.
pub(super) fn is_token(text: &str) -> bool {
    tokens_in(text).next() == Some((0, text.len()))
}

/// The text with each token replaced by a neutral word: the `SECRET` in a token is not a word of the caller.
pub(super) fn without_tokens(text: &str) -> String {
    replaced(text, |_| Some(" x "))
}

/// Appends one step to a JSON pointer.
pub(super) fn push_step(pointer: &mut String, step: &str) {
    pointer.push('/');
    for character in step.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            character => pointer.push(character),
        }
    }
}

struct Order<'t> {
    tokens: &'t Tokens,
    numbers: BTreeMap<Kind, u32>,
    renamed: HashMap<String, String>,
    map: Vec<Replaced>,
}

impl Order<'_> {
    fn walk(&mut self, value: Value, pointer: &mut String) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
            Value::String(text) => Value::String(self.rename(text, pointer)),
            Value::Array(items) => {
                let items = items.into_iter().enumerate();
                items.map(|(at, item)| self.step(&at.to_string(), pointer, |order, pointer| order.walk(item, pointer))).collect()
            }
            Value::Object(members) => {
                let mut walked = Map::with_capacity(members.len());
                for (key, value) in members {
                    let renamed = self.rename_key(key, pointer);
                    let value = self.step(&renamed, pointer, |order, pointer| order.walk(value, pointer));
                    walked.insert(renamed, value);
                }
                Value::Object(walked)
            }
        }
    }

    fn step<T>(&mut self, step: &str, pointer: &mut String, walk: impl FnOnce(&mut Self, &mut String) -> T) -> T {
        let length = pointer.len();
        push_step(pointer, step);
        let walked = walk(self, pointer);
        pointer.truncate(length);
        walked
    }

    /// Renames the tokens in a key. The pointer ends with the key itself, so it is set only when all tokens of the key are renamed.
    fn rename_key(&mut self, key: String, pointer: &mut String) -> String {
        let mapped = self.map.len();
        let renamed = self.rename(key, pointer);
        let length = pointer.len();
        if self.map.len() > mapped {
            push_step(pointer, &renamed);
            for replaced in &mut self.map[mapped..] {
                replaced.pointer.clone_from(pointer);
            }
            pointer.truncate(length);
        }
        renamed
    }

    fn rename(&mut self, text: String, pointer: &str) -> String {
        if !text.contains('<') {
            return text;
        }
        let tokens = self.tokens;
        let (numbers, renamed, map) = (&mut self.numbers, &mut self.renamed, &mut self.map);
        replaced(&text, |token| {
            if let Some(name) = renamed.get(token) {
                return Some(name.clone());
            }
            let (kind, _, original) = &tokens.given[*tokens.by_token.get(token)?];
            let name = next(*kind, numbers, &tokens.written);
            renamed.insert(token.to_owned(), name.clone());
            map.push(Replaced { token: name.clone(), kind: *kind, original: original.clone(), pointer: pointer.to_owned() });
            Some(name)
        })
    }
}

/// The next token of a kind that the caller has not written.
fn next(kind: Kind, numbers: &mut BTreeMap<Kind, u32>, written: &BTreeSet<String>) -> String {
    let number = numbers.entry(kind).or_insert(0);
    loop {
        *number += 1;
        let token = format!("<{}_{number}>", word(kind));
        if !written.contains(&token) {
            return token;
        }
    }
}

/// The text with each token replaced by what `with` returns; tokens for which it returns `None` stay.
fn replaced<T: AsRef<str>>(text: &str, mut with: impl FnMut(&str) -> Option<T>) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut copied = 0;
    for (at, end) in tokens_in(text) {
        if let Some(with) = with(&text[at..end]) {
            replaced.push_str(&text[copied..at]);
            replaced.push_str(with.as_ref());
            copied = end;
        }
    }
    replaced.push_str(&text[copied..]);
    replaced
}

static TOKEN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("<(?:EMAIL|PHONE|SECRET)_[1-9][0-9]{0,9}>").ok());

/// The places of tokens in a text, ours or the caller's.
fn tokens_in(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let pattern = TOKEN.as_ref().filter(|_| text.contains('<'));
    pattern.into_iter().flat_map(move |pattern| pattern.find_iter(text).map(|token| (token.start(), token.end())))
}

fn each_text(value: &Value, with: &mut impl FnMut(&str)) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => with(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, with)),
        Value::Object(members) => {
            for (key, value) in members {
                with(key);
                each_text(value, with);
            }
        }
    }
}
