//! Checks where the params come from: content that an agent has read must not decide who is addressed, which files are touched or which
//! command runs. Also checks for the three conditions that together let data be stolen: private data, untrusted content and a way out.

use super::findings::{Findings, Rule, Severity};
use super::reach;
use super::text::{Path, Step};
use super::words::{self, Sink};
use super::{Provenance, SessionLabel};
use countersign_core::Action;
use countersign_core::call::Label;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

pub(super) const TAINTED_RECIPIENT: Rule = Rule {
    id: "safety.tainted_recipient",
    severity: Severity::Asks,
    message: "who or what this goes to comes from content that was read, not from a person",
};
pub(super) const TAINTED_PATH: Rule =
    Rule { id: "safety.tainted_path", severity: Severity::Asks, message: "the path comes from content that was read, not from a person" };
pub(super) const TAINTED_COMMAND: Rule = Rule {
    id: "safety.tainted_command",
    severity: Severity::Asks,
    message: "the command comes from content that was read, not from a person",
};
/// The id of the rule that depends on what the session has read.
pub const TRIFECTA_ID: &str = "safety.trifecta";
pub(super) const TRIFECTA: Rule = Rule {
    id: TRIFECTA_ID,
    severity: Severity::Asks,
    message: "the session has read private data and untrusted content, and this action sends something away",
};

pub(super) fn scan(action: &Action, params: &Value, provenance: &Provenance, findings: &mut Findings) {
    let tree = Tree::of(&provenance.labels);
    walk(params, Some(&tree), Known { label: Label::User, sink: None }, &mut Path::default(), &mut |path, known| {
        if let Some(rule) = broken(action, known) {
            findings.add(rule, || path.pointer());
        }
    });
    if provenance.session.contains(&SessionLabel::PrivateData)
        && provenance.session.contains(&SessionLabel::UntrustedContent)
        && reach::leaves(action)
    {
        findings.add(&TRIFECTA, String::new);
    }
}

/// What the labels and the keys above a value say about it.
#[derive(Clone, Copy)]
struct Known {
    label: Label,
    sink: Option<Sink>,
}

fn broken(action: &Action, known: Known) -> Option<&'static Rule> {
    let reaches_out = reach::may_leave(action) || reach::is_shown(action);
    match (known.label, known.sink?) {
        (Label::User, _) => None,
        // Listing files and then reading one of them is normal use.
        (Label::ActionOutput, Sink::Path) if reach::only_reads_here(action) => None,
        (Label::ActionOutput | Label::Web, Sink::Recipient | Sink::Address) => reaches_out.then_some(&TAINTED_RECIPIENT),
        (Label::ActionOutput | Label::Web, Sink::Path) => reach::touches_files(action).then_some(&TAINTED_PATH),
        // An action that runs a command can reach anything, whatever its effects say.
        (Label::ActionOutput | Label::Web, Sink::Command) => Some(&TAINTED_COMMAND),
    }
}

/// The labels as a tree of the steps of their pointers, so that one walk over the params finds them all.
#[derive(Default)]
struct Tree {
    label: Option<Label>,
    below: HashMap<String, Tree>,
}

impl Tree {
    fn of(labels: &BTreeMap<String, Label>) -> Self {
        let mut tree = Self::default();
        for (pointer, label) in labels {
            let steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
            let end = steps.fold(&mut tree, |tree, step| tree.below.entry(step).or_default());
            end.label = Some(*label);
        }
        tree
    }
}

/// Visits every value that contains no others. A label or a key applies to everything below it that has none of its own.
fn walk<'v>(value: &'v Value, tree: Option<&Tree>, above: Known, path: &mut Path<'v>, visit: &mut dyn FnMut(&Path<'v>, Known)) {
    let known = Known { label: tree.and_then(|tree| tree.label).unwrap_or(above.label), ..above };
    let below = |step: &str| tree.and_then(|tree| tree.below.get(step));
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => visit(path, known),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.within(Step::Index(index), |path| walk(item, below(&index.to_string()), known, path, visit));
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let known = Known { sink: words::sink(key).or(known.sink), ..known };
                path.within(Step::Key(key), |path| walk(member, below(key), known, path, visit));
            }
        }
    }
}
