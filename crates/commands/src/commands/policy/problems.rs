//! Shows problems of policies with their place: `policies.toml:5:10: abac: message`, the line, and a caret below the column. If the place
//! in the file is not certain, the place in the gate's text is shown instead: `abac:3:10: message`.

use super::place::{Place, Places};
use super::text_of;
use crate::shared::*;
use api::Code;
use api::gates::PoliciesFile;
use api::problem::FieldError;
use std::path::Path;

/// Shows every problem, and removes from the failure the parts that are now shown already.
pub(super) fn tell(mut failure: Failure, policies: &PoliciesFile, path: &Path, terminal: &mut Terminal) -> Failure {
    if !failure.is(Code::InvalidPolicy) || terminal.is_document() {
        return failure;
    }
    let places = Places::read(path);
    for error in failure.problem().map(|problem| problem.errors).unwrap_or_default() {
        lines(&error, policies, &places).into_iter().for_each(|line| terminal.note(line));
    }
    failure.cause = None;
    failure
}

fn lines(error: &FieldError, policies: &PoliciesFile, places: &Places) -> Vec<String> {
    let gate = error.pointer.trim_start_matches('/');
    let (Some(line), Some(column)) = (error.line, error.column) else {
        return vec![format!("{}: {}", clean::line(gate), clean::line(&error.message))];
    };
    let found = (line as usize).checked_sub(1).and_then(|index| text_of(policies, gate).lines().nth(index));
    let place = found.and_then(|text| places.find(gate, line as usize, text));
    let (file, line, column) = match &place {
        Some(Place { file, line, before }) => (file.as_str(), *line, column as usize + before),
        None => (gate, line as usize, column as usize),
    };
    // A file holds the texts of several gates, so the message names the gate.
    let about = if place.is_some() { format!("{}: ", clean::line(gate)) } else { String::new() };
    let head = Tone::Strong.paint(format!("{}:{line}:{column}:", clean::line(file)));
    let mut lines = vec![format!("{head} {about}{}", clean::line(&error.message))];
    let before = place.as_ref().map_or(0, |place| place.before);
    if let Some(text) = found.filter(|text| !text.trim().is_empty()) {
        // The caret's indentation counts the characters as they are shown, after invisible ones are replaced by escapes.
        let before: String = text.chars().take((column - before).saturating_sub(1)).collect();
        let indent = " ".repeat(clean::line(&before).chars().count());
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        lines.push(format!("  {} {}", Tone::Muted.paint(format!("{number} │")), clean::line(text)));
        lines.push(format!("  {} {indent}{}", Tone::Muted.paint(format!("{margin} │")), Tone::Danger.paint("^")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_stands_under_the_place() {
        let policies = PoliciesFile { abac: "permit (\n\tprincipal, actoin, resource\n);".into(), ..PoliciesFile::default() };
        let error = FieldError { pointer: "/abac".into(), message: "no".into(), line: Some(2), column: Some(13), ..FieldError::default() };
        let drawn: Vec<_> =
            lines(&error, &policies, &Places::default()).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(drawn, ["abac:2:13: no", "  2 │ \\tprincipal, actoin, resource", "    │              ^"]);
        let nowhere = FieldError { pointer: "/abac".into(), message: "no".into(), line: Some(9), column: Some(1), ..FieldError::default() };
        let places = Places::default();
        assert_eq!(lines(&nowhere, &policies, &places).len(), 1);
        assert_eq!(lines(&FieldError::new("/abac", "no"), &policies, &places), ["abac: no"]);
    }
}
