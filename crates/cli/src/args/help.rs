//! The shape of help: what it is, examples, usage, arguments; for the whole, its commands in groups.

use super::Cli;
use clap::{Command, CommandFactory as _};

/// Every command in exactly one group, in the order they are shown.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["serve", "doctor", "status", "version", "completions", "man"]),
    ("Identity", &["login", "logout", "whoami", "context", "token", "session", "space", "user"]),
    ("Inbox", &["inbox", "show", "approve", "deny", "snooze", "link", "notification"]),
    ("Actions", &["action", "batch", "invocation", "package", "explain"]),
    ("Permission", &["mode", "grant", "policy", "consent", "quarantine", "canary"]),
    ("Receipts", &["receipt", "key"]),
    ("Operate", &["kill-switch", "breaker", "backup", "restore", "openapi", "help"]),
];

const EXAMPLES: &str = "\
Examples:
  countersign serve                                              start, with nothing configured
  countersign action invoke files.write_text path=a text=b       ask for something; it waits
  countersign inbox                                              see what waits
  countersign approve inv_…                                      let it happen, this once
  countersign receipt verify                                     check every record that was left";

const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";
const WHOLE_TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}{after-help}\n\nEverywhere:\n{options}";

/// The whole tree, with its help.
pub(crate) fn command() -> Command {
    let command = shaped(Cli::command().bin_name("countersign").max_term_width(100));
    let groups = groups(&command);
    command.help_template(WHOLE_TEMPLATE).before_help(EXAMPLES).after_help(groups)
}

/// The help of the command that these words lead to; absent when there is none.
pub(crate) fn topic(words: &[String]) -> Option<clap::builder::StyledStr> {
    let mut command = command();
    command.build();
    let mut at = &mut command;
    for word in words {
        at = at.find_subcommand_mut(word)?;
    }
    Some(at.render_help())
}

fn shaped(command: Command) -> Command {
    command.help_template(TEMPLATE).disable_help_subcommand(true).mut_subcommands(shaped)
}

fn groups(command: &Command) -> String {
    let about = |name: &str| command.find_subcommand(name).and_then(|found| found.get_about()).map(ToString::to_string).unwrap_or_default();
    let group = |(title, names): &(&str, &[&str])| {
        let lines: Vec<_> = names.iter().map(|name| format!("  {name:14}{}", about(name))).collect();
        format!("{title}:\n{}", lines.join("\n"))
    };
    GROUPS.iter().map(group).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_exactly_one_group() {
        let command = command();
        let mut names: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, names);
    }

    #[test]
    fn examples_stand_before_usage() {
        let help = topic(&["action".to_owned(), "invoke".to_owned()]).unwrap().to_string();
        assert!(help.find("Examples:").unwrap() < help.find("Usage:").unwrap(), "{help}");
    }

    #[test]
    fn there_is_no_help_for_what_does_not_exist() {
        assert!(topic(&["nope".to_owned()]).is_none());
    }
}
