//! The differences between two definitions as sentences, for a person who has to accept them. Names and values are those of others: each is
//! one short line in which every character is visible.

use super::diff::{Change, Edit, semantic_diff};
use countersign_core::clean;
use serde_json::Value;

/// Where the digest of a definition stands that another server sent. It differs with every change there, also of what we do not read.
const UPSTREAM: &str = "/upstream_sha256";
/// Where the digest of the server itself stands. That it is another one explains nothing of what it sends.
const SERVER: &str = "/server_sha256";

/// Where the digest of the instructions stands that the server gives for all its actions. They are no part of what `UPSTREAM` is about.
const GUIDE: &str = "/guide_sha256";

/// The differences that a person reads, each with its sentence, such as "`merge` now takes `bypass_checks`, optional boolean". The digest of
/// what another server sent is left out where other differences explain it.
pub fn told(before: &Value, after: &Value) -> Vec<(Change, String)> {
    let mut changes = semantic_diff(before, after);
    let explains = |change: &Change| ![UPSTREAM, SERVER, GUIDE].contains(&change.pointer.as_str());
    if changes.iter().any(explains) {
        changes.retain(|change| change.pointer != UPSTREAM);
    }
    let both = Both { before, after };
    let with_sentence = |change: Change| {
        let sentence = both.sentence(&change);
        (change, sentence)
    };
    changes.into_iter().map(with_sentence).collect()
}

/// Both definitions, of which a sentence may need more than the change itself.
struct Both<'a> {
    before: &'a Value,
    after: &'a Value,
}

/// A place inside a schema: the params on the way to it, and what is left of the pointer.
struct Place {
    /// Such as `filter.state` or `labels[]`; empty for the schema as a whole.
    path: String,
    /// The pointer of the schema that holds the last param of the path.
    holder: String,
    /// The last param of the path; empty where the path does not end with one.
    last: String,
    keywords: Vec<String>,
}

impl Place {
    fn of(root: &str, steps: &[String]) -> Self {
        let mut place = Self { path: String::new(), holder: root.to_owned(), last: String::new(), keywords: Vec::new() };
        let (mut pointer, mut rest) = (root.to_owned(), steps);
        loop {
            match rest {
                [keyword, name, more @ ..] if keyword == "properties" => {
                    let dot = if place.path.is_empty() { "" } else { "." };
                    place.path.push_str(&format!("{dot}{name}"));
                    (place.holder, place.last) = (pointer.clone(), name.clone());
                    pointer.push_str(&format!("/properties/{}", crate::scan::pointer_step(name)));
                    rest = more;
                }
                [keyword, more @ ..] if keyword == "items" && !place.path.is_empty() => {
                    place.path.push_str("[]");
                    place.last.clear();
                    pointer.push_str("/items");
                    rest = more;
                }
                more => {
                    place.keywords = more.to_vec();
                    return place;
                }
            }
        }
    }
}

/// Whether a schema is about what the action takes or about what it returns.
#[derive(Clone, Copy)]
enum Side {
    Params,
    Result,
}

impl Side {
    const fn root(self) -> &'static str {
        match self {
            Self::Params => "/params_schema",
            Self::Result => "/result_schema",
        }
    }

    const fn verb(self) -> &'static str {
        match self {
            Self::Params => "takes",
            Self::Result => "returns",
        }
    }

    fn whole(self, name: &str) -> String {
        match self {
            Self::Params => format!("the params of {name}"),
            Self::Result => format!("the result of {name}"),
        }
    }
}

impl Both<'_> {
    fn sentence(&self, change: &Change) -> String {
        let steps: Vec<_> = change.pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        let name = self.name();
        match steps.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => "the whole definition is another one".to_owned(),
            ["params_schema", ..] => self.in_schema(&name, Side::Params, &steps[1..], &change.edit),
            ["result_schema", ..] => self.in_schema(&name, Side::Result, &steps[1..], &change.edit),
            ["upstream_sha256"] => "its server changed something that Countersign does not read".to_owned(),
            ["guide_sha256"] => "its server changed the instructions that agents read".to_owned(),
            ["package_sha256"] => format!("{name} runs other code"),
            ["server_sha256"] => "it is another server, or another connection, than the reviewed one".to_owned(),
            ["description" | "title"] => format!("the {} of {name} changed", steps[0]),
            _ => edited(&format!("{} of {name}", quoted(&steps.join("/"))), &change.edit),
        }
    }

    /// The name of the action without its source.
    fn name(&self) -> String {
        let id = [self.after, self.before].into_iter().find_map(|definition| definition.get("id")?.as_str());
        quoted(id.map_or("the action", |id| id.split_once('.').map_or(id, |(_, name)| name)))
    }

    fn in_schema(&self, name: &str, side: Side, steps: &[String], edit: &Edit) -> String {
        let place = &Place::of(side.root(), steps);
        let keywords: Vec<_> = place.keywords.iter().map(String::as_str).collect();
        // The schema, or the one param, that the keyword belongs to.
        let whose = if place.path.is_empty() { side.whole(name) } else { format!("{} of {name}", quoted(&place.path)) };
        match (keywords.as_slice(), edit) {
            ([], Edit::Added { after }) if !place.last.is_empty() => {
                format!("{name} now {} {}, {}", side.verb(), quoted(&place.path), kind(self.after, place, after))
            }
            ([], Edit::Removed { .. }) if !place.last.is_empty() => format!("{name} no longer {} {}", side.verb(), quoted(&place.path)),
            (["properties"], Edit::Added { after: Value::Object(named) }) if place.path.is_empty() => {
                let names: Vec<_> = named.keys().take(NAMED_MAX).map(|name| quoted(name)).collect();
                format!("{name} now {} {}", side.verb(), names.join(", "))
            }
            (["type"], Edit::Changed { before, after }) => format!("{whose} must be {} now, and was {}", types(after), types(before)),
            (["type"], Edit::Added { after }) => format!("{whose} must be {} now", types(after)),
            (["type"], Edit::Removed { .. }) => format!("{whose} may be of any type now"),
            (["enum"], Edit::Changed { before: Value::Array(before), after: Value::Array(after) }) => {
                differing(&whose, ["can now also be", "can no longer be"], before, after)
            }
            (["enum"], Edit::Added { after: Value::Array(after) }) => format!("{whose} can now only be {}", listed(after.iter())),
            (["enum"], Edit::Removed { .. }) => format!("{whose} is no longer limited to certain values"),
            (["required"], edit) => {
                let (before, after): (&[Value], &[Value]) = match edit {
                    Edit::Added { after } => (&[], items(after)),
                    Edit::Removed { before } => (items(before), &[]),
                    Edit::Changed { before, after } => (items(before), items(after)),
                };
                let within = if place.path.is_empty() { String::new() } else { format!(" in {}", quoted(&place.path)) };
                let sentence = match side {
                    Side::Params => differing(name, ["now needs", "no longer needs"], before, after),
                    Side::Result => differing(&side.whole(name), ["now always has", "no longer always has"], before, after),
                };
                sentence + &within
            }
            (["additionalProperties"], Edit::Added { after: Value::Bool(false) } | Edit::Changed { after: Value::Bool(false), .. }) => {
                format!("{whose} may no longer have members that it does not name")
            }
            (["additionalProperties"], Edit::Removed { before: Value::Bool(false) } | Edit::Changed { before: Value::Bool(false), .. }) => {
                format!("{whose} may now have members that it does not name")
            }
            (["description" | "title" | "examples" | "$comment"], _) => format!("the {} of {whose} changed", quoted_word(keywords[0])),
            ([], _) => edited(&whose, edit),
            _ => edited(&format!("{} of {whose}", quoted(&keywords.join("/"))), edit),
        }
    }
}

/// Such as `optional boolean`, for a param that was added.
fn kind(definition: &Value, place: &Place, schema: &Value) -> String {
    let required = definition.pointer(&place.holder).and_then(|holder| holder.get("required"));
    let is_required = required.is_some_and(|required| items(required).iter().any(|name| *name == place.last));
    let need = if is_required { "required" } else { "optional" };
    match schema.get("type") {
        Some(of) => format!("{need} {}", types(of)),
        None => format!("{need}, of any type"),
    }
}

/// What became of a value that has no sentence of its own.
fn edited(what: &str, edit: &Edit) -> String {
    match edit {
        Edit::Added { after } if is_plain(after) => format!("{what} is now {}", shown(after)),
        Edit::Removed { before } if is_plain(before) => format!("{what} was {}, and is gone", shown(before)),
        Edit::Changed { before, after } if is_plain(before) && is_plain(after) => {
            format!("{what} is now {}, and was {}", shown(after), shown(before))
        }
        Edit::Changed { before: Value::Array(before), after: Value::Array(after) } if before.iter().chain(after).all(is_plain) => {
            differing(what, ["now has", "no longer has"], before, after)
        }
        Edit::Added { after: Value::Array(after) } if after.iter().all(is_plain) => differing(what, ["now has", ""], &[], after),
        Edit::Removed { before: Value::Array(before) } if before.iter().all(is_plain) => {
            differing(what, ["", "no longer has"], before, &[])
        }
        Edit::Added { .. } => format!("{what} was added"),
        Edit::Removed { .. } => format!("{what} was removed"),
        Edit::Changed { .. } => format!("{what} changed"),
    }
}

/// What a list gained and what it lost.
fn differing(what: &str, [gained, lost]: [&str; 2], before: &[Value], after: &[Value]) -> String {
    let new: Vec<_> = after.iter().filter(|one| !before.contains(one)).collect();
    let gone: Vec<_> = before.iter().filter(|one| !after.contains(one)).collect();
    match (new.is_empty(), gone.is_empty()) {
        (false, true) => format!("{what} {gained} {}", listed(new)),
        (true, false) => format!("{what} {lost} {}", listed(gone)),
        (false, false) => format!("{what} {gained} {}, and {lost} {}", listed(new), listed(gone)),
        (true, true) => format!("{what} changed in order"),
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn is_plain(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// How many values of a list are named.
const NAMED_MAX: usize = 8;

fn listed<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let mut values: Vec<_> = values.into_iter().map(shown).collect();
    let more = values.len().saturating_sub(NAMED_MAX);
    values.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", values.join(", "))
}

/// The types that a schema names: a word, or several.
fn types(of: &Value) -> String {
    match of {
        Value::Array(several) => several.iter().map(types).collect::<Vec<_>>().join(" or "),
        Value::String(one) => quoted_word(one),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => shown(of),
    }
}

/// A keyword or a type as it is, or in quotes where it is none of the words that JSON Schema has.
fn quoted_word(word: &str) -> String {
    let is_word = (1..=20).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'$');
    if is_word { word.to_owned() } else { quoted(word) }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => quoted(&value.to_string()),
    }
}

/// How many characters of a name or a value stand in a sentence.
const QUOTED_CHARS_MAX: usize = 60;

fn quoted(text: &str) -> String {
    let line = clean::line(text);
    let more = if line.chars().nth(QUOTED_CHARS_MAX).is_some() { "…" } else { "" };
    format!("`{}{more}`", line.chars().take(QUOTED_CHARS_MAX).collect::<String>())
}
