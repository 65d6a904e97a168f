//! Shows every problem of a package as `actions/act/execute.js:3:8: message`, with what to do about it below. Also shows findings: a
//! package with findings breaks no rule, but a person has to read them.

use crate::shared::*;
use crate::style::hang;
use api::Code;
use api::package::PackageFindingView;
use api::problem::FieldError;
use countersign_core::json::path_of;

/// Shows every problem, and removes from the failure the parts that are now shown already.
pub(super) fn tell(mut failure: Failure, terminal: &mut Terminal) -> Failure {
    let is_unread = failure.is(Code::PackageFindings);
    if !(is_unread || failure.is(Code::PackageInvalid)) || terminal.is_document() {
        return failure;
    }
    let errors = failure.problem().map(|problem| problem.errors).unwrap_or_default();
    let columns = terminal.note_columns();
    for line in errors.iter().flat_map(|error| lines(error, columns)) {
        terminal.note(line);
    }
    if is_unread {
        failure.cause = None;
    } else if !errors.is_empty() {
        let count = errors.len();
        let about = failure.message.split(" is refused: ").next().unwrap_or_default();
        failure.message = format!("{about} is refused: {} wrong with it", counted(count as u64, "thing is", "things are"));
        failure.cause = None;
    }
    failure
}

/// Shows the findings of a package that breaks no rule. A person has to read them.
pub(super) fn tell_findings(findings: &[PackageFindingView], terminal: &mut Terminal) {
    let columns = terminal.note_columns();
    for found in findings {
        let message = format!("{} (`{}` of `{}`)", found.message, found.rule, found.action);
        let error = FieldError { file: Some(found.file.clone()), ..FieldError::new(&found.pointer, message) };
        for line in lines(&error, columns) {
            terminal.remark(line);
        }
    }
}

/// The problem, and below it what to do about it, if there is a hint.
fn lines(error: &FieldError, columns: Option<u16>) -> Vec<String> {
    let place = match (&error.file, error.line, error.column) {
        (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}: "),
        (Some(file), _, _) => format!("{file}: "),
        (None, _, _) => String::new(),
    };
    let field = if error.pointer.is_empty() { String::new() } else { format!("{}: ", path_of(&error.pointer)) };
    let head = Tone::Strong.paint(clean::line(&place));
    let hint = Tone::Primary.paint("hint:");
    let problem = format!("{head}{}{}", clean::line(&field), clean::line(&error.message));
    let to_do = error.hint.as_deref().map(|said| hang(&format!("  {hint} {}", clean::line(said)), 8, columns));
    [Some(hang(&problem, 2, columns)), to_do].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(error: &FieldError, columns: Option<u16>) -> Vec<String> {
        lines(error, columns).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn a_problem_says_where_what_and_what_to_do_and_nothing_is_cut() {
        let error = FieldError {
            file: Some("actions/act/action.json".to_owned()),
            hint: Some("write one of `R0`, `R1`".to_owned()),
            ..FieldError::new("/riskTier", "`R9` is not a `riskTier`")
        };
        assert_eq!(plain(&error, None), ["actions/act/action.json: riskTier: `R9` is not a `riskTier`", "  hint: write one of `R0`, `R1`"]);
        let text =
            FieldError { file: Some("tests/a.json".to_owned()), line: Some(3), column: Some(7), ..FieldError::new("", "it is not JSON") };
        assert_eq!(plain(&text, None)[0], "tests/a.json:3:7: it is not JSON");
        let long = FieldError { hint: Some("word ".repeat(30)), ..FieldError::new("", "word ".repeat(30)) };
        for line in plain(&long, Some(80)).iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert_eq!(plain(&long, Some(80)).join(" ").matches("word").count(), 60);
    }
}
