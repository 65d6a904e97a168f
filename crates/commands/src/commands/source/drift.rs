//! `countersign source drift`: what changed in the definitions of a source since they were reviewed, in plain words.

use crate::commands::action::review::{drift_cell, told};
use crate::shared::*;
use api::Page;
use api::rules::ReviewView;
use api::source::AddedSourceView;
use serde_json::{Value, json};

/// The actions of a source that are not as they were reviewed, those that appeared or are gone among them.
pub(super) async fn of(name: &str, client: &Client) -> Result<Answer<Page<ReviewView>>, Failure> {
    client.get(&["sources", name, "drift"], &[]).await
}

pub(super) async fn run(named: Option<&str>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let names = match named {
        Some(name) => vec![name.to_owned()],
        None => {
            let all = client.pages::<AddedSourceView>(AddedSourceView::PATH, &[]).all().await?;
            all.into_iter().map(|(source, _)| source.id).collect()
        }
    };
    let (mut reviews, mut raw, mut first) = (Vec::new(), Vec::new(), None);
    for name in names {
        let answer = of(&name, client).await?;
        raw.extend(answer.raw.get("items").and_then(Value::as_array).cloned().unwrap_or_default());
        let can_be_reviewed = answer.read.items.iter().any(|review| review.textual.is_some());
        first = first.or(can_be_reviewed.then_some(name));
        reviews.extend(answer.read.items);
    }
    if terminal.is_for_people() && !reviews.is_empty() {
        for (at, review) in reviews.iter().enumerate() {
            if at > 0 {
                terminal.line("")?;
            }
            lines(review).into_iter().try_for_each(|line| terminal.line(line))?;
        }
    } else {
        let empty = "nothing changed since it was reviewed".to_owned();
        resource::write(&reviews, &json!({ "items": raw, "next": null }), empty, client, terminal).await?;
    }
    if let Some(name) = first {
        terminal.next(format!("countersign source review {}", clean::line(&name)));
    }
    Ok(())
}

/// Says of each action that is not reviewed why that is so. If that cannot be read, the review shows it.
pub(super) async fn why_not_reviewed(name: &str, client: &Client, terminal: &mut Terminal) {
    let Ok(answer) = of(name, client).await else { return };
    for review in answer.read.items.iter().filter(|review| review.textual.is_some()) {
        let found: Vec<_> = review.findings.iter().map(|found| format!("{} ({})", found.message, found.rule)).collect();
        let why = if found.is_empty() { "nobody has looked at its definition".to_owned() } else { found.join("; ") };
        let line = format!("! `{}` needs approval until it is reviewed: {why}", review.action);
        terminal.remark(Tone::Warn.paint(clean::line(&line)));
    }
}

/// One action: how it stands, and below that every change, whole.
fn lines(review: &ReviewView) -> Vec<String> {
    let how = if review.textual.is_some() { drift_cell(review.drift) } else { Cell::text("✗ gone") };
    let head = format!("{}  {}", Tone::Strong.paint(clean::line(&review.action)), Tone::Warn.paint(how.as_shown()));
    std::iter::once(head).chain(told(review)).collect()
}
