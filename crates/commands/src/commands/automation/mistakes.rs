//! What is wrong with a definition, or worth a look: one line each, with its place and what to try.

use crate::shared::*;
use api::automation::MistakeView;

/// Writes each as a line for people, a warning with its mark. Programs have them in the document.
pub(super) fn tell(mistakes: &[MistakeView], tone: Tone, terminal: &mut Terminal) {
    if terminal.is_document() {
        return;
    }
    let mark = if tone == Tone::Warn { "! " } else { "" };
    for mistake in mistakes {
        terminal.note(tone.paint(format!("{mark}{}", line(mistake))));
    }
}

fn line(mistake: &MistakeView) -> String {
    let MistakeView { pointer, code, message, hint } = mistake;
    let place = match pointer.as_str() {
        // Its message speaks of the inputs.
        "" if code == "inputs_invalid" => String::new(),
        "" => "the definition ".to_owned(),
        pointer => format!("{} ", clean::line(pointer)),
    };
    let hint = hint.as_ref().map(|hint| format!("; {}", clean::line(hint))).unwrap_or_default();
    format!("{place}{}: {}{hint}", clean::line(code), clean::line(message))
}

/// Tells all that a refused definition has wrong, and leaves for the failure only how many they are.
pub(super) fn refused(mut failure: Failure, terminal: &mut Terminal) -> Failure {
    let mistakes = failure.problem().map(|problem| problem.mistakes).unwrap_or_default();
    if mistakes.is_empty() || terminal.is_document() {
        return failure;
    }
    tell(&mistakes, Tone::Danger, terminal);
    failure.cause = None;
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_one_line_with_its_place_and_what_to_try() {
        let mistake = |pointer: &str, hint: Option<&str>| MistakeView {
            pointer: pointer.to_owned(),
            code: "cron_invalid".to_owned(),
            message: "there is no minute 61".to_owned(),
            hint: hint.map(str::to_owned),
        };
        assert_eq!(line(&mistake("/triggers/0", Some("write 0 to 59"))), "/triggers/0 cron_invalid: there is no minute 61; write 0 to 59");
        assert_eq!(line(&mistake("", None)), "the definition cron_invalid: there is no minute 61");
        let of_inputs = MistakeView { code: "inputs_invalid".to_owned(), ..mistake("", None) };
        assert_eq!(line(&of_inputs), "inputs_invalid: there is no minute 61");
    }
}
