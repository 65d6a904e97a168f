//! Reports a command line that does not parse, in the same three lines as every other error.

use crate::exit::Failure;
use clap::error::{ContextKind, ContextValue};
use std::ffi::OsString;

/// Says what is wrong with the command line, what its usage is, and what the user probably meant.
pub(crate) fn failure(error: &clap::Error, arguments: &[OsString]) -> Failure {
    let text = error.render().to_string();
    let first: Vec<_> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let message = first.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    // The possible values are moved to the hint, because that is where people look for what to do.
    let message = message.split(" [possible values:").next().unwrap_or(message);
    let find = |prefix: &str| text.lines().find_map(|line| line.trim().strip_prefix(prefix)).map(str::trim).map(str::to_owned);
    let failure = Failure::usage(message);
    let failure = match find("Usage: ") {
        Some(usage) => failure.cause(format!("usage is `{usage}`")),
        None => failure,
    };
    let values = values(error);
    let hint = match (find("tip: "), values) {
        (Some(tip), Some(values)) => format!("{tip}; {values}"),
        (Some(tip), None) => tip,
        (None, Some(values)) => values,
        (None, None) => format!("{} --help", command_of(arguments)),
    };
    failure.hint(hint)
}

/// The values that an argument accepts, if it accepts only a fixed set.
fn values(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if !values.is_empty() => Some(format!("it is one of {}", values.join(", "))),
        _ => None,
    }
}

/// The words up to and including the innermost command that the arguments name.
fn command_of(arguments: &[OsString]) -> String {
    let tree = super::command(None);
    let mut words = vec!["countersign"];
    let mut at = &tree;
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()) {
        if let Some(below) = at.find_subcommand(word) {
            words.push(below.get_name());
            at = below;
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use crate::args::command;
    use std::ffi::OsString;

    #[track_caller]
    fn check(line: &str, message: &str, hint: &str) {
        let arguments: Vec<_> = line.split(' ').map(OsString::from).collect();
        let error = command(None).try_get_matches_from(&arguments).unwrap_err();
        let failure = super::failure(&error, &arguments);
        assert_eq!(failure.message, message);
        assert_eq!(failure.hint.as_deref(), Some(hint));
    }

    #[test]
    fn a_typo_is_answered_with_what_was_probably_meant() {
        check("countersign inbx", "unrecognized subcommand 'inbx'", "a similar subcommand exists: 'inbox'");
        check("countersign status --jsn", "unexpected argument '--jsn' found", "a similar argument exists: '--json'");
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_explains_it() {
        let missing = "the following required arguments were not provided: ";
        check("countersign approve", &format!("{missing}<INVOCATION>..."), "countersign approve --help");
        check("countersign kill-switch on org", &format!("{missing}--reason <TEXT>"), "countersign kill-switch on --help");
    }

    #[test]
    fn a_value_that_is_none_is_answered_with_those_there_are() {
        check(
            "countersign user create x --role king",
            "invalid value 'king' for '--role <ROLE>'",
            "it is one of viewer, member, approver, admin, owner",
        );
        check("countersign space band main purple", "invalid value 'purple' for '<BAND>'", "it is one of green, amber, red, black");
        check(
            "countersign mode set files.list alow",
            "invalid value 'alow' for '<MODE>'",
            "a similar value exists: 'allow'; it is one of allow, require_approval, deny",
        );
        check(
            "countersign token create ci --scope nonsense",
            "invalid value 'nonsense' for '--scope <SCOPE>'",
            "it is one of invoke, read_session, read, create_session, manage_policy, manage_identity",
        );
    }
}
