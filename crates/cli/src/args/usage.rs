//! What does not parse, told in the same three lines as every other error.

use crate::exit::Failure;

/// What is wrong with the command line, how it is used, and what was probably meant.
pub(crate) fn failure(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let first: Vec<_> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let message = first.join(" ");
    let find = |prefix: &str| text.lines().find_map(|line| line.trim().strip_prefix(prefix)).map(str::trim).map(str::to_owned);
    let failure = Failure::usage(message.strip_prefix("error: ").unwrap_or(&message));
    let usage = find("Usage: ");
    // The words before the first placeholder are the command.
    let command = usage.as_deref().and_then(|usage| usage.split(['[', '<', '-']).next()).map_or("countersign", str::trim).to_owned();
    let failure = match usage {
        Some(usage) => failure.cause(format!("usage is `{usage}`")),
        None => failure,
    };
    failure.hint(find("tip: ").unwrap_or_else(|| format!("{command} --help")))
}

#[cfg(test)]
mod tests {
    use crate::args::command;

    fn check(arguments: &[&str], message: &str, hint: &str) {
        let error = command().try_get_matches_from(arguments).unwrap_err();
        let failure = super::failure(&error);
        assert_eq!(failure.message, message);
        assert_eq!(failure.hint.as_deref(), Some(hint));
    }

    #[test]
    fn a_typo_is_answered_with_what_was_probably_meant() {
        check(&["countersign", "inbx"], "unrecognized subcommand 'inbx'", "a similar subcommand exists: 'inbox'");
        check(&["countersign", "status", "--jsn"], "unexpected argument '--jsn' found", "a similar argument exists: '--json'");
    }

    #[test]
    fn what_is_missing_is_named() {
        check(&["countersign", "approve"], "the following required arguments were not provided: <ID>...", "countersign approve --help");
    }
}
