//! What changed in an action's definition since somebody reviewed it, for the page of a pending call: the same facts as in a review. Every line
//! is cleaned here; the page escapes them.

use crate::html::escaped;
use crate::problem::Refusal;
use api::rules::ReviewView;
use countersign_core::clean;
use countersign_core::decision::Drift;

/// Empty if nothing has drifted. If that is not known, it says so: a page without it would look as if nothing had changed.
pub(super) fn told(review: &Result<ReviewView, Refusal>) -> String {
    let review = match review {
        Ok(review) => review,
        Err(Refusal(problem)) => {
            let why = escaped(&problem.detail);
            return format!("<p>Whether its definition changed since it was reviewed could not be found out: {why}</p>");
        }
    };
    let what = match review.drift {
        None | Some(Drift::None) => return String::new(),
        Some(Drift::Appeared) => "Nobody has reviewed it since it appeared.",
        Some(Drift::Textual | Drift::Structural) => "Its definition differs from what was reviewed.",
    };
    let changes = lines(review).join("\n");
    let changes = if changes.is_empty() { changes } else { format!("<pre>{}</pre>", escaped(&changes)) };
    format!("<h2>Definition</h2><p><b>{what}</b></p>{changes}")
}

/// What is odd about it, each change with what was and what is, and each file of changed code.
fn lines(review: &ReviewView) -> Vec<String> {
    let odd = |message: &str, rule: &str| format!("! {} ({})", clean::line(message), clean::line(rule));
    let mut lines: Vec<_> = review.findings.iter().map(|found| odd(&found.message, &found.rule)).collect();
    for change in &review.changes {
        lines.push(clean::line(&change.summary));
        lines.extend(change.before.as_ref().map(|text| format!("  - {}", clean::line(text))));
        lines.extend(change.after.as_ref().map(|text| format!("  + {}", clean::line(text))));
    }
    for file in &review.code {
        lines.push(format!("{} {}  +{}  −{}", file.change.as_str(), clean::line(&file.path), file.added_lines, file.removed_lines));
        lines.extend(file.diff.iter().flat_map(|diff| diff.lines()).map(|line| format!("  {}", clean::block(line))));
        if file.diff_truncated {
            lines.push("  ! the diff is longer than this; the rest of it is not shown".to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::told;
    use crate::problem::Refusal;
    use api::Code;
    use api::rules::ReviewView;
    use serde_json::{Value, json};

    fn page(more: Value) -> String {
        let mut review = json!({ "action": "fake.write", "ignores_wording": false, "changes": [] });
        review.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        told(&Ok(serde_json::from_value::<ReviewView>(review).unwrap()))
    }

    #[test]
    fn what_has_drifted_is_told_whole_and_no_line_passes_for_another() {
        let review = json!({
            "drift": "structural",
            "findings": [{ "rule": "definition.hidden", "pointer": "/title", "message": "it hides\n+ text" }],
            "changes": [{ "pointer": "/title", "summary": "the title changed", "weight": "textual", "before": "<b>", "after": "a\n\u{202e}" }],
            "code": [
                { "path": "run.py", "change": "changed", "diff": "-a\n+b\n", "added_lines": 1, "removed_lines": 1, "diff_truncated": true },
                { "path": "logo", "change": "created", "diff": null, "added_lines": 0, "removed_lines": 0, "diff_truncated": false },
            ],
        });
        let lines = [
            "! it hides\\n+ text (definition.hidden)",
            "the title changed",
            "  - &lt;b&gt;",
            "  + a\\n\\u{202e}",
            "changed run.py  +1  −1",
            "  -a",
            "  +b",
            "  ! the diff is longer than this; the rest of it is not shown",
            "created logo  +0  −0",
        ];
        let whole =
            format!("<h2>Definition</h2><p><b>Its definition differs from what was reviewed.</b></p><pre>{}</pre>", lines.join("\n"));
        assert_eq!(page(review), whole);
    }

    #[test]
    fn nothing_is_told_where_nothing_drifted_and_what_is_not_known_is() {
        for drift in [json!({ "drift": null }), json!({ "drift": "none" })] {
            assert_eq!(page(drift), "");
        }
        assert_eq!(page(json!({ "drift": "appeared" })), "<h2>Definition</h2><p><b>Nobody has reviewed it since it appeared.</b></p>");
        let unknown = told(&Err(Refusal::new(Code::SourceUnavailable, "`fake` is <away>")));
        assert!(unknown.ends_with("could not be found out: `fake` is &lt;away&gt;</p>"), "{unknown}");
    }
}
