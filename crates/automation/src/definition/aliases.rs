//! The words of an older form of definitions, and the only place that knows them: its short names of actions, its names of params, and the
//! prefix of its editor hints. (The envelopes of older contracts for calls are in `api/compat.rs`, which definitions never pass.)
//! Whatever exists under the older word itself is meant itself.

use super::facts::Facts;
use super::schema::STEP_LISTS;
use crate::Mistake;
use countersign_core::json::escape;
use serde_json::{Map, Value};

struct Alias {
    /// The older names of the action.
    names: &'static [&'static str],
    action: &'static str,
    /// The older names of its params, and ours.
    params: &'static [(&'static str, &'static str)],
}

const ALIASES: [Alias; 8] = [
    Alias { names: &["agent_task"], action: "builtin.agent_task", params: &[] },
    Alias { names: &["transform_data"], action: "builtin.transform_data", params: &[] },
    Alias {
        names: &["slack_post", "slack.post_message"],
        action: "slack.send_message",
        params: &[("channel_id", "channel"), ("message_template", "text")],
    },
    Alias {
        names: &["send_email"],
        action: "email.send",
        params: &[("subject_template", "subject"), ("body_template", "text"), ("message_template", "text")],
    },
    Alias {
        names: &["notification"],
        action: "notify.send",
        params: &[("title_template", "title"), ("body_template", "body"), ("message_template", "body")],
    },
    Alias {
        names: &["linear_create_issue"],
        action: "linear.create_issue",
        params: &[("title_template", "title"), ("description_template", "description")],
    },
    Alias { names: &["search_space.query"], action: "documents.search", params: &[] },
    Alias { names: &["search_space.fetch_document"], action: "documents.fetch", params: &[] },
];

const OLDER_HINT: &str = "x-surfsense-";
const HINT: &str = "x-countersign-";

/// A definition in our words.
pub(super) struct Imported {
    pub(super) value: Value,
    pub(super) mistakes: Vec<Mistake>,
    /// Pointers to what has another name now, each with the pointer its author knows.
    renamed: Vec<(String, String)>,
}

impl Imported {
    /// The mistake at the place that the author wrote.
    pub(super) fn as_written(&self, mistake: Mistake) -> Mistake {
        let written = self.renamed.iter().find_map(|(ours, theirs)| {
            let below = mistake.pointer.strip_prefix(ours.as_str())?;
            (below.is_empty() || below.starts_with('/')).then(|| format!("{theirs}{below}"))
        });
        match written {
            Some(pointer) => Mistake { pointer, ..mistake },
            None => mistake,
        }
    }
}

pub(super) fn import(written: &Value, facts: &Facts) -> Imported {
    let mut imported = Imported { value: written.clone(), mistakes: Vec::new(), renamed: Vec::new() };
    let mut value = std::mem::take(&mut imported.value);
    if let Some(schema) = value.pointer_mut("/inputs/schema") {
        rename_hints(schema);
    }
    for list in STEP_LISTS {
        for (index, step) in value.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            import_step(step, &format!("{list}/{index}"), facts, &mut imported);
        }
    }
    Imported { value, ..imported }
}

/// The action that an older name means; `None` where the name is an action itself, or no older name.
pub(super) fn action(name: &str, facts: &Facts) -> Option<&'static str> {
    let is_older = |alias: &&Alias| alias.names.contains(&name) && !facts.actions.contains_key(name);
    ALIASES.iter().find(is_older).map(|alias| alias.action)
}

/// The older names of actions that are there, for who looks for a name.
pub(super) fn names(facts: &Facts) -> impl Iterator<Item = &str> {
    ALIASES.iter().filter(|alias| facts.actions.contains_key(alias.action)).flat_map(|alias| alias.names.iter().copied())
}

fn import_step(step: &mut Value, pointer: &str, facts: &Facts, imported: &mut Imported) {
    let Some(step) = step.as_object_mut() else { return };
    let Some(Value::String(named)) = step.get_mut("action") else { return };
    if let Some(action) = action(named, facts) {
        *named = action.to_owned();
    }
    let Some(alias) = ALIASES.iter().find(|alias| alias.action == named) else { return };
    let params = facts.actions.get(alias.action).and_then(|action| action.params_schema.get("properties")?.as_object());
    let Some(config) = step.get_mut("config").and_then(Value::as_object_mut) else { return };
    for (theirs, ours) in alias.params {
        if !config.contains_key(*theirs) || params.is_some_and(|params| params.contains_key(*theirs)) {
            continue;
        }
        let place = |name: &str| format!("{pointer}/config/{}", escape(name));
        if config.contains_key(*ours) {
            let message = format!("`{theirs}` is an older name of `{ours}`, and both are there");
            imported.mistakes.push(Mistake::new("config_invalid", message).hint(format!("keep `{ours}`")).under(&place(theirs)));
            config.shift_remove(*theirs);
            continue;
        }
        let members = std::mem::take(config).into_iter();
        *config = members.map(|(name, value)| if name == *theirs { ((*ours).to_owned(), value) } else { (name, value) }).collect();
        imported.renamed.push((place(ours), place(theirs)));
    }
}

fn rename_hints(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let ours = |name: String| name.strip_prefix(OLDER_HINT).map(|rest| format!("{HINT}{rest}")).unwrap_or(name);
            let renamed: Map<_, _> = std::mem::take(members).into_iter().map(|(name, value)| (ours(name), value)).collect();
            *members = renamed;
            members.values_mut().for_each(rename_hints);
        }
        Value::Array(items) => items.iter_mut().for_each(rename_hints),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
