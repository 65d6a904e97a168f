//! `countersign action review`: shows the present definition of an action and what changed since its last review, and marks it as reviewed.

use crate::commands::changes;
use crate::shared::*;
use api::action::ActionView;
use api::finding::CaughtView;
use api::rules::{DefinitionChange, ReviewRequest, ReviewView, WeightName};
use clap::Args;
use countersign_core::decision::Drift;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign action review files.write_text
  countersign action review files.write_text --dry-run      look, and mark nothing";

#[derive(Debug, Args)]
pub(crate) struct Review {
    /// Such as files.write_text
    action: String,
    /// Do not ask again when only its wording changes
    #[arg(long)]
    ignore_wording: bool,
    #[command(flatten)]
    agreed: Agreed,
}

impl Resource for ReviewView {
    const NOUN: &'static str = "review";
    const LIST: &'static str = "action reviews";
    const PATH: &'static [&'static str] = &["reviews"];
    const EMPTY: &'static str = "no action was reviewed yet: countersign action review ACTION";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("action", Column::Whole, |one, _| text(&one.action)),
        Field::both("drift", Column::Whole, |one, _| {
            Some(match one.textual {
                Some(_) => drift_cell(one.drift),
                None => Cell::shown("✗ gone", "gone").toned(Tone::Danger),
            })
        }),
        Field::both("what changed", Column::Cut, |one, _| {
            let changes: Vec<_> = one.changes.iter().map(|change| change.summary.as_str()).collect();
            (!changes.is_empty()).then(|| Cell::text(changes.join(", ")))
        }),
        Field::both("wording", Column::Extra, |one, _| {
            one.reviewed_by.as_ref()?;
            text(if one.ignores_wording { "ignored" } else { "reviewed" })
        }),
        Field::both("reviewed by", Column::Extra, |one, view| view.who(one.reviewed_by.as_ref()?)),
        Field::both("reviewed", Column::Whole, |one, view| view.past(one.reviewed_at?)),
        Field::column("suspicious", Column::Extra, |one, _| {
            let found: Vec<_> = one.findings.iter().map(|found| format!("{} {}: {}", found.rule, found.pointer, found.message)).collect();
            (!found.is_empty()).then(|| Cell::text(found.join("; ")))
        }),
        Field::column("diff", Column::Extra, |one, _| {
            let diff = diff(one);
            (!diff.is_empty()).then(|| Cell::text(diff.join("; ")))
        }),
    ];

    fn id(&self) -> &str {
        &self.action
    }

    fn next_of(items: &[Self]) -> Option<String> {
        let drifted = items.iter().find(|review| review.drift.is_some_and(|drift| drift != Drift::None))?;
        Some(format!("countersign action review {}", drifted.action))
    }
}

impl Review {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let path = ["reviews", self.action.as_str()];
        let shown = client.get::<ReviewView>(&path, &[]).await?.read;
        let Some(textual) = &shown.textual else {
            return Err(Failure::new(Exit::NotFound, format!("`{}` is gone: there is nothing left to review", self.action)));
        };
        if terminal.is_for_words() {
            look(&shown, client, terminal).await?;
        }
        let question = format!("Mark `{}` as reviewed?", clean::line(&self.action));
        terminal.consent(&question, self.agreed.consent(client)).await?;
        let request = ReviewRequest { textual: Some(textual.clone()), ignore_wording: self.ignore_wording };
        let answer = client.post::<ReviewView>(&path, &request).await?;
        if terminal.is_for_words() {
            terminal.note(format!("{} `{}`", Tone::Ok.paint("✓ reviewed"), clean::line(&self.action)));
            return Ok(Exit::Ok);
        }
        terminal.record(&answer.raw, &Record::new(&self.action))?;
        Ok(Exit::Ok)
    }
}

/// Shows who reviewed the action and when, and how its definition changed since; for a first review, the definition itself.
pub(in crate::commands) async fn look(review: &ReviewView, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let names = Names::load(client, terminal).await;
    let action = client.get::<ActionView>(&["actions", &review.action], &[]).await.ok().map(|answer| answer.read);
    let record = Record::new(&review.action)
        .with("action", Cell::text(&review.action).toned(Tone::Strong))
        .with("reviewed by", review.reviewed_by.as_ref().map_or_else(|| Cell::shown("nobody yet", ""), |by| names.whole(by)))
        .with_some("reviewed", review.reviewed_at.map(|at| terminal.past(at)))
        .with_some("drift", review.drift.map(|drift| drift_cell(Some(drift))))
        .with_some("drifted", review.drifted_at.map(|at| terminal.past(at)))
        .with_some("wording", review.ignores_wording.then(|| Cell::text("changes of wording are ignored")))
        .with_some("tier", action.as_ref().map(|action| Cell::tier(action.tier).and(format!(" {}", action.class))))
        .with_some("title", action.as_ref().map(|action| Cell::text(&action.title)))
        .with_some("what it does", action.as_ref().map(|action| Cell::text(&action.description)))
        .with_some("definition", review.structural.as_ref().map(Cell::text))
        .with_some("with wording", review.textual.as_ref().map(Cell::text));
    terminal.record(&serde_json::Value::Null, &record)?;
    told(review).into_iter().try_for_each(|line| terminal.line(line))?;
    if review.reviewed_by.is_none() {
        terminal.note(Tone::Muted.paint(format!("its params: countersign action show {}", clean::line(&review.action))));
    }
    Ok(())
}

/// Everything that changed in a definition and in its code, and what is suspicious about it. Nothing is cut, because a person reviews it.
pub(in crate::commands) fn told(review: &ReviewView) -> Vec<String> {
    let changes = review.changes.iter().flat_map(change);
    changes.chain(review.findings.iter().flat_map(finding)).chain(code(review)).collect()
}

/// Every change with what was and what is, and every file of changed code, each as one text.
fn diff(review: &ReviewView) -> Vec<String> {
    let of_definition = review.changes.iter().map(|change| {
        let was = change.before.as_ref().map(|text| format!(" - {text}")).unwrap_or_default();
        let is = change.after.as_ref().map(|text| format!(" + {text}")).unwrap_or_default();
        format!("{}{was}{is}", change.pointer)
    });
    let of_code = review.code.iter().map(|file| format!("{} {}", file.path, file.diff.as_deref().unwrap_or("is no text")));
    of_definition.chain(of_code).collect()
}

/// What a safety check found in a definition.
fn finding(found: &CaughtView) -> Vec<String> {
    let place = Tone::Muted.paint(format!("{}  {}", clean::line(&found.pointer), clean::line(&found.rule)));
    vec![String::new(), format!("{} {}  {place}", Tone::Danger.paint("suspicious:"), clean::line(&found.message))]
}

/// How the code of a package's action differs from the reviewed code.
pub(in crate::commands) fn code(review: &ReviewView) -> Vec<String> {
    let is_other_code = review.changes.iter().any(|change| change.pointer == "/package_sha256");
    let lines = changes::of_code(&review.code);
    if is_other_code && lines.is_empty() {
        return vec![String::new(), Tone::Warn.paint("! the reviewed code was not kept, so what changed in it cannot be shown")];
    }
    if lines.is_empty() { lines } else { [vec![String::new(), Tone::Muted.paint("Code")], lines].concat() }
}

/// Shows one change of a definition.
fn change(change: &DefinitionChange) -> Vec<String> {
    let tone = match change.weight {
        WeightName::Textual => Tone::Warn,
        WeightName::Structural | WeightName::Risk => Tone::Danger,
    };
    let mut lines = vec![
        String::new(),
        format!(
            "{} {}  {}",
            tone.paint(format!("{}:", word(change.weight))),
            clean::line(&change.summary),
            Tone::Muted.paint(clean::line(&change.pointer))
        ),
    ];
    lines.extend(change.before.as_ref().map(|text| format!("  {} {}", Tone::Danger.paint("-"), clean::line(text))));
    lines.extend(change.after.as_ref().map(|text| format!("  {} {}", Tone::Ok.paint("+"), clean::line(text))));
    lines
}

/// How a drift is shown. An action without one gets a dash.
pub(in crate::commands) fn drift_cell(drift: Option<Drift>) -> Cell {
    match drift {
        None | Some(Drift::None) => Cell::shown("–", "none").toned(Tone::Muted),
        Some(Drift::Textual) => Cell::shown("! wording changed", "textual").toned(Tone::Warn),
        Some(Drift::Structural) => Cell::shown("! changed", "structural").toned(Tone::Danger),
        Some(Drift::Appeared) => Cell::shown("! new, not reviewed", "appeared").toned(Tone::Danger),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_drift_has_its_own_words() {
        let shown = |drift| drift_cell(Some(drift)).as_shown().to_owned();
        assert_eq!(Drift::ALL.map(shown), ["–", "! wording changed", "! changed", "! new, not reviewed"]);
    }

    #[test]
    fn a_change_is_told_whole_and_cannot_touch_the_terminal() {
        let long = "x".repeat(500);
        let told = change(&DefinitionChange {
            pointer: "/description".into(),
            summary: "description changed".into(),
            weight: WeightName::Textual,
            before: Some("reads a file".into()),
            after: Some(format!("{long}\u{1b}[2J")),
        });
        let told: Vec<_> = told.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        let after = format!("  + {long}\\u{{1b}}[2J");
        assert_eq!(told, ["", "textual: description changed  /description", "  - reads a file", after.as_str()]);
    }
}
