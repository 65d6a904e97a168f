//! What a pending call would change, as text for its page: the same facts as on the card of the command line. Every line is
//! cleaned here; the page escapes them.

use countersign_core::clean;
use serde_json::Value;

/// The lines of what a dry run reports: each file with its warnings and its diff. A report in another form is shown as it is.
pub(super) fn lines(report: &Value) -> Vec<String> {
    let told: Vec<&Value> = match (report.get("changes"), report.get("change")) {
        (Some(Value::Array(changes)), _) => changes.iter().collect(),
        (None, Some(Value::String(_))) => vec![report],
        _ => return json(report),
    };
    let Some(files) = told.into_iter().map(of_file).collect::<Option<Vec<_>>>() else { return json(report) };
    let mut lines = files.concat();
    if lines.is_empty() {
        lines.push("nothing would change".to_owned());
    }
    lines.extend(report.get("untried").and_then(Value::as_str).map(|why| format!("! {}", clean::line(why))));
    if let Some(output) = report.get("output").filter(|output| !output.is_null()) {
        lines.push("it would return".to_owned());
        lines.extend(json(output).into_iter().map(|line| format!("  {line}")));
    }
    lines
}

/// `None` if what happens to the file is not known here.
fn of_file(told: &Value) -> Option<Vec<String>> {
    let (word, is_kept) = match told.get("change")?.as_str()? {
        "would_create" => ("+ would create", false),
        "would_change" => ("~ would change", false),
        "would_delete" => ("− would remove", false),
        "no_change" => ("= would not change", true),
        _ => return None,
    };
    let count = |name: &str, sign: &str| {
        let count = told.get(name).and_then(Value::as_u64).filter(|count| *count > 0 && !is_kept);
        count.map(|count| format!("  {sign}{count}")).unwrap_or_default()
    };
    let path = clean::line(told.get("path")?.as_str()?);
    let mut lines = vec![format!("{word}  {path}{}{}", count("added_lines", "+"), count("removed_lines", "−"))];
    let warnings = told.get("warnings").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    lines.extend(warnings.map(|warning| format!("  ! {}", clean::line(warning))));
    match told.get("diff").filter(|_| !is_kept) {
        Some(Value::String(diff)) => lines.extend(diff.lines().map(|line| format!("  {}", clean::block(line)))),
        Some(_) => lines.push("  not text, or too large to be compared line by line".to_owned()),
        None => {}
    }
    if told.get("diff_truncated") == Some(&Value::Bool(true)) {
        lines.push("  ! the diff is longer than this; the rest of it is not shown".to_owned());
    }
    Some(lines)
}

fn json(value: &Value) -> Vec<String> {
    clean::json(&serde_json::to_string_pretty(value).unwrap_or_default()).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::lines;
    use serde_json::json;

    #[test]
    fn a_file_has_a_heading_its_warnings_and_its_lines_and_none_of_them_passes_for_another() {
        let changes = json!({ "output": { "files": 2 }, "changes": [
            { "path": ".git/hooks/a\n! b\u{202e}", "change": "would_create", "added_lines": 1, "removed_lines": 0,
              "diff": "@@ -0,0 +1 @@\n+\u{1b}x\n", "warnings": ["it is an executable file", "git\u{1b} may run it"] },
            { "path": "picture", "change": "would_change", "diff": null },
            { "path": "gone", "change": "would_delete", "removed_lines": 2, "diff": "-z\n", "diff_truncated": true },
            { "path": "same", "change": "no_change", "diff": null },
        ] });
        let expected = [
            "+ would create  .git/hooks/a\\n! b\\u{202e}  +1",
            "  ! it is an executable file",
            "  ! git\\u{1b} may run it",
            "  @@ -0,0 +1 @@",
            "  +\\u{1b}x",
            "~ would change  picture",
            "  not text, or too large to be compared line by line",
            "− would remove  gone  −2",
            "  -z",
            "  ! the diff is longer than this; the rest of it is not shown",
            "= would not change  same",
            "it would return",
            "  {",
            "    \"files\": 2",
            "  }",
        ];
        assert_eq!(lines(&changes), expected);
    }

    #[test]
    fn what_changes_nothing_and_what_has_another_form_are_told_too() {
        let untried = json!({ "changes": [], "untried": "it was not tried" });
        assert_eq!(lines(&untried), ["nothing would change", "! it was not tried"]);
        assert_eq!(lines(&json!({ "change": "would_create", "path": "a" })), ["+ would create  a"]);
        assert_eq!(lines(&json!({ "changes": [{ "path": "a", "change": "melted" }] }))[0], "{");
        assert_eq!(lines(&json!("a\u{202e}b")), ["\"a\\u202eb\""]);
    }
}
