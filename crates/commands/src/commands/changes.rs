//! Draws changes of files as a diff, with a heading for each file: what a call would change, or how a package's code changed. Results in
//! any other form are not drawn.

use crate::shared::*;
use api::rules::CodeChangeView;
use serde_json::Value;

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Created,
    Changed,
    Removed,
    Kept,
}

/// The change of one file.
struct FileChange<'a> {
    fate: Fate,
    /// Whether the change was made; otherwise it would be made.
    is_done: bool,
    path: &'a str,
    told: &'a Value,
}

/// The lines of a dry run's result; `None` if the result has an unknown form.
pub(super) fn foreseen(result: &Value) -> Option<Vec<String>> {
    let told: Vec<&Value> = match (result.get("changes"), result.get("change")) {
        (Some(Value::Array(changes)), _) => changes.iter().collect(),
        (None, Some(Value::String(_))) => vec![result],
        _ => return None,
    };
    let changes = told.into_iter().map(FileChange::read).collect::<Option<Vec<_>>>()?;
    let mut lines: Vec<_> = changes.iter().flat_map(FileChange::lines).collect();
    if lines.is_empty() {
        lines.push(Tone::Muted.paint("nothing would change"));
    }
    lines.extend(result.get("untried").and_then(Value::as_str).map(|why| Tone::Warn.paint(format!("! {}", clean::line(why)))));
    lines.extend(output(result));
    Some(lines)
}

/// The lines that show how a package's code changed.
pub(super) fn of_code(changes: &[CodeChangeView]) -> Vec<String> {
    let told: Vec<_> = changes.iter().map(|change| serde_json::to_value(change).unwrap_or_default()).collect();
    told.iter().filter_map(FileChange::read).flat_map(|change| change.lines()).collect()
}

/// The output that the call would return, if the dry run tells it.
fn output(result: &Value) -> Vec<String> {
    let Some(output) = result.get("output").filter(|output| !output.is_null()) else { return Vec::new() };
    let text = clean::json(&serde_json::to_string_pretty(output).unwrap_or_default());
    let mut lines = vec![Tone::Muted.paint("it would return")];
    lines.extend(text.lines().map(|line| format!("  {line}")));
    lines
}

impl<'a> FileChange<'a> {
    fn read(told: &'a Value) -> Option<Self> {
        let (fate, is_done) = match told.get("change")?.as_str()? {
            "would_create" => (Fate::Created, false),
            "would_change" => (Fate::Changed, false),
            "would_delete" => (Fate::Removed, false),
            "no_change" => (Fate::Kept, false),
            "created" => (Fate::Created, true),
            "changed" => (Fate::Changed, true),
            "removed" => (Fate::Removed, true),
            _ => return None,
        };
        Some(Self { fate, is_done, path: told.get("path")?.as_str()?, told })
    }

    fn lines(&self) -> Vec<String> {
        let (word, tone) = self.fate.look(self.is_done);
        let mut lines = vec![format!("{}  {}{}", tone.paint(word), Tone::Strong.paint(clean::line(self.path)), self.counts())];
        let warnings = self.told.get("warnings").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        lines.extend(warnings.map(|warning| format!("  {}", Tone::Danger.paint(format!("! {}", clean::line(warning))))));
        match (self.fate, self.told.get("diff")) {
            (Fate::Kept, _) | (_, None) => {}
            (fate, Some(Value::String(diff))) => {
                let mut diff = diff.lines().peekable();
                // A new file has no lines before, and a removed file none after, so the `@@` header says nothing useful and is replaced.
                if let Some(whole) = fate.whole_file()
                    && diff.next_if(|line| line.starts_with("@@")).is_some()
                {
                    lines.push(format!("  {}", Tone::Primary.paint(whole)));
                }
                lines.extend(diff.map(diff_line));
            }
            (_, Some(_)) => lines.push(format!("  {}", Tone::Muted.paint("not text, or too large to be compared line by line"))),
        }
        if self.told.get("diff_truncated") == Some(&Value::Bool(true)) {
            lines.push(format!("  {}", Tone::Warn.paint("! the diff is longer than this; the rest of it is not shown")));
        }
        lines
    }

    /// The counts behind the file name: `  +3 −1`.
    fn counts(&self) -> String {
        let count = |name: &str| self.told.get(name).and_then(Value::as_u64).filter(|count| *count > 0);
        let added = count("added_lines").map(|added| format!("  {}", Tone::Ok.paint(format!("+{added}"))));
        let removed = count("removed_lines").map(|removed| format!("  {}", Tone::Danger.paint(format!("−{removed}"))));
        match self.fate {
            Fate::Kept => String::new(),
            Fate::Created | Fate::Changed | Fate::Removed => [added, removed].into_iter().flatten().collect(),
        }
    }
}

impl Fate {
    /// The text that replaces the `@@` header if the diff shows the whole file.
    const fn whole_file(self) -> Option<&'static str> {
        match self {
            Self::Created => Some("new file"),
            Self::Removed => Some("the whole file"),
            Self::Changed | Self::Kept => None,
        }
    }

    const fn look(self, is_done: bool) -> (&'static str, Tone) {
        match (self, is_done) {
            (Self::Created, false) => ("+ would create", Tone::Ok),
            (Self::Changed, false) => ("~ would change", Tone::Warn),
            (Self::Removed, false) => ("− would remove", Tone::Danger),
            (Self::Created, true) => ("+ created", Tone::Ok),
            (Self::Changed, true) => ("~ changed", Tone::Warn),
            (Self::Removed, true) => ("− removed", Tone::Danger),
            (Self::Kept, _) => ("= would not change", Tone::Muted),
        }
    }
}

/// One line of a diff. The sign is kept, so that colour is not the only signal.
fn diff_line(line: &str) -> String {
    let tone = match line.chars().next() {
        Some('+') => Tone::Ok,
        Some('-') => Tone::Danger,
        Some('@') => Tone::Primary,
        Some('\\') => Tone::Muted,
        _ => Tone::Plain,
    };
    format!("  {}", tone.paint(clean::block(line)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plain(result: &Value) -> Option<Vec<String>> {
        let strip = |line: String| anstream::adapter::strip_str(&line).to_string();
        Some(foreseen(result)?.into_iter().map(strip).collect())
    }

    #[test]
    fn a_file_has_a_heading_and_its_lines() {
        let diff = "@@ -1 +1 @@\n one\n-two\n+2\n\\ no newline at the end\n";
        let changed = json!({ "path": "a.txt", "change": "would_change", "added_lines": 1, "removed_lines": 1, "diff": diff });
        let expected = ["~ would change  a.txt  +1  −1", "  @@ -1 +1 @@", "   one", "  -two", "  +2", "  \\ no newline at the end"];
        assert_eq!(plain(&changed).unwrap(), expected);
        let coloured = foreseen(&changed).unwrap();
        assert!(coloured[3].contains("\u{1b}[31m-two") && coloured[4].contains("\u{1b}[32m+2"), "{coloured:?}");
    }

    #[test]
    fn a_file_that_comes_or_goes_is_said_to_instead_of_where_its_lines_begin() {
        let change = |change: &str, diff: &str| plain(&json!({ "path": "a", "change": change, "diff": diff })).unwrap();
        assert_eq!(change("would_create", "@@ -1 +1 @@\n+@@\n"), ["+ would create  a", "  new file", "  +@@"]);
        assert_eq!(change("would_delete", "@@ -1 +1 @@\n-x\n"), ["− would remove  a", "  the whole file", "  -x"]);
        assert_eq!(change("would_create", ""), ["+ would create  a"]);
    }

    #[test]
    fn several_files_have_a_heading_each() {
        let result = json!({ "output": { "files": 2 }, "changes": [
            { "path": "new", "change": "would_create", "new_sha256": "b", "added_lines": 1, "removed_lines": 0, "diff": "+x\n" },
            { "path": "picture", "change": "would_change", "previous_sha256": "c", "new_sha256": "d", "diff": null },
            { "path": "gone", "change": "would_delete", "previous_sha256": "e", "new_sha256": null, "removed_lines": 2, "diff": "-z\n" },
        ] });
        let expected = [
            "+ would create  new  +1",
            "  +x",
            "~ would change  picture",
            "  not text, or too large to be compared line by line",
            "− would remove  gone  −2",
            "  -z",
            "it would return",
            "  {",
            "    \"files\": 2",
            "  }",
        ];
        assert_eq!(plain(&result).unwrap(), expected);
    }

    #[test]
    fn what_deserves_a_second_look_stands_right_below_its_file() {
        let warnings = ["it is an executable file", "git\u{1b} may run it"];
        let hook = json!({ "path": ".git/hooks/a", "change": "would_create", "warnings": warnings, "diff": "@@ -1 +1 @@\n+x\n" });
        let expected = ["+ would create  .git/hooks/a", "  ! it is an executable file", "  ! git\\u{1b} may run it", "  new file", "  +x"];
        assert_eq!(plain(&hook).unwrap(), expected);
    }

    #[test]
    fn what_is_cut_what_stays_and_what_deceives_are_all_seen() {
        let cut = json!({ "path": "a\u{202e}b", "change": "would_change", "diff": "+\u{1b}[2J\n", "diff_truncated": true });
        let lines = plain(&cut).unwrap();
        assert_eq!(lines[0], "~ would change  a\\u{202e}b");
        assert_eq!(lines[1], "  +\\u{1b}[2J");
        assert!(lines[2].contains("not shown"), "{lines:?}");
        assert_eq!(plain(&json!({ "path": "a", "change": "no_change", "diff": "" })).unwrap(), ["= would not change  a"]);
        assert_eq!(plain(&json!({ "changes": [] })).unwrap(), ["nothing would change"]);
    }

    #[test]
    fn another_form_is_left_to_whoever_knows_it() {
        for other in [json!({}), json!(3), json!({ "changes": [{ "path": "a", "change": "melted" }] }), json!({ "change": 3 })] {
            assert_eq!(foreseen(&other), None, "{other}");
        }
    }
}
