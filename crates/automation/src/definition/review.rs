//! What is worth checking before a person saves a definition. It helps reading and decides nothing: what is dangerous is stopped elsewhere.

use super::facts::Facts;
use super::schema::STEP_LISTS;
use super::{Definition, Kind, Step, config, parts};
use crate::Mistake;
use countersign_core::action::{Class, Effect};
use countersign_core::json::escape;

/// Steps from the root of a template's path before it is called deep.
const DEEP: usize = 6;

/// Characters of a template that are repeated where it is named.
const SHOWN_CHARS: usize = 200;

/// In the order of the document.
pub fn review(definition: &Definition, facts: &Facts) -> Vec<Mistake> {
    let mut flags = Vec::new();
    for (index, trigger) in definition.triggers.iter().enumerate() {
        if let Kind::Schedule(schedule) = &trigger.kind {
            let warnings = parts::schedule(&schedule.config()).map(|schedule| schedule.warnings()).unwrap_or_default();
            flags.extend(warnings.into_iter().map(|warning| warning.under(&format!("/triggers/{index}/config"))));
        }
    }
    for (list, all) in STEP_LISTS.into_iter().zip([&definition.plan, &definition.execution.on_failure]) {
        for (index, step) in all.iter().enumerate() {
            flags.extend(review_step(step, facts).into_iter().map(|flag| flag.under(&format!("{list}/{index}"))));
        }
    }
    if definition.execution.on_failure.is_empty() {
        let flag = Mistake::new("no_on_failure", "nobody is told when it fails");
        flags.push(flag.hint("add a step to `execution.on_failure`, such as `notify.send`").under("/execution/on_failure"));
    }
    flags
}

/// Every template of a definition that somebody else wrote, in the order of the document: what it says goes out in the name of whoever saves it.
pub fn templates(definition: &Definition) -> Vec<Mistake> {
    let mut found = Vec::new();
    for (list, all) in STEP_LISTS.into_iter().zip([&definition.plan, &definition.execution.on_failure]) {
        for (index, step) in all.iter().enumerate() {
            let mut texts: Vec<_> = step.when.iter().map(|when| ("/when".to_owned(), when.as_str())).collect();
            for (name, value) in &step.config {
                config::texts(value, format!("/config/{}", escape(name)), &mut texts);
            }
            let is_shown = |(place, text): &(String, &str)| place == "/when" || parts::is_template(text);
            found.extend(texts.into_iter().filter(is_shown).map(|(place, text)| {
                let shown: String = text.chars().take(SHOWN_CHARS).collect();
                let flag = Mistake::new("template_unread", format!("somebody else wrote `{shown}`"));
                flag.hint("check what it reads, and where that goes").under(&format!("{list}/{index}{place}"))
            }));
        }
    }
    found
}

fn review_step(step: &Step, facts: &Facts) -> Vec<Mistake> {
    let mut flags = Vec::new();
    if !facts.used_actions.contains(&step.action) {
        let flag = Mistake::new("action_first_use", format!("no automation of this space has used `{}`", step.action));
        flags.push(flag.hint("try the step once before it runs by itself").under("/action"));
    }
    let changes_outside = facts.actions.get(&step.action).is_some_and(|action| {
        let reaches_out = action.effects.iter().any(|effect| matches!(effect, Effect::NetworkCall | Effect::DeviceNotification));
        action.class != Class::Read && reaches_out
    });
    if changes_outside {
        let flag = Mistake::new("outside_system", format!("`{}` changes something outside, or tells people something", step.action));
        flags.push(flag.hint("check whom it reaches, and what they are told").under("/action"));
    }
    for (name, value) in &step.config {
        let mut texts = Vec::new();
        config::texts(value, format!("/config/{}", escape(name)), &mut texts);
        flags.extend(texts.into_iter().filter_map(|(place, text)| review_text(text).map(|flag| flag.under(&place))));
    }
    flags
}

fn review_text(text: &str) -> Option<Mistake> {
    if parts::is_template(text) {
        let deepest =
            text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '.')).map(|path| path.split('.').count());
        let is_deep = deepest.max().is_some_and(|steps| steps > DEEP);
        let flag = || Mistake::new("deep_path", format!("the template reads more than {DEEP} steps deep into a value"));
        return is_deep.then(|| flag().hint("check that the value really has this form"));
    }
    let is_word = !text.is_empty() && !text.contains(char::is_whitespace);
    let leads_out = text.starts_with('/') || text.starts_with('~') || text.split(['/', '\\']).any(|part| part == "..");
    if is_word && leads_out {
        let flag = Mistake::new("path_unusual", format!("`{text}` leads out of the workspace, or looks like it"));
        return Some(flag.hint("name the file from the root of the workspace"));
    }
    let host = text.strip_prefix("https://").map(|rest| rest.split(['/', ':', '?']).next().unwrap_or_default());
    let names_no_host = host.is_some_and(|host| host.starts_with('[') || host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
    let is_unusual = text.starts_with("http://") || names_no_host;
    (is_word && is_unusual).then(|| {
        let flag = Mistake::new("address_unusual", format!("`{text}` is not encrypted, or names no host"));
        flag.hint("write `https://` and the name of the host")
    })
}
