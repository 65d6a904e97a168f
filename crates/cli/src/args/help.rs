//! The shape of help: what it is, examples, usage, arguments; for the whole, its commands in groups.

use super::Cli;
use crate::style::hang;
use clap::{Command, CommandFactory as _};

/// Every command in exactly one group, in the order they are shown.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["serve", "doctor", "status", "version", "completions", "man"]),
    ("Identity", &["login", "logout", "whoami", "context", "token", "session", "space", "user", "org"]),
    ("Inbox", &["inbox", "show", "approve", "deny", "snooze", "link", "notification"]),
    ("Actions", &["action", "batch", "invocation", "package", "explain"]),
    ("Permission", &["mode", "grant", "policy", "consent", "quarantine", "canary"]),
    ("Receipts", &["receipt", "key"]),
    ("Operate", &["kill-switch", "breaker", "backup", "restore", "openapi", "help"]),
];

const EXAMPLES: &str = "\
Examples:
  countersign serve                                              start, with nothing configured
  countersign action invoke files.write_text path=a text=b       invoke an action; it needs approval
  countersign inbox                                              list pending calls
  countersign approve inv_…                                      approve one, this once
  countersign receipt verify                                     verify the audit log";

const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";
const WHOLE_TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}{after-help}\n\nEverywhere:\n{options}";

/// As wide as help is at most: longer lines are hard to read.
const COLUMNS_MAX: u16 = 100;
/// Before what explains an example that has no room beside it.
const REMARK_INDENT: &str = "      ";
/// The width of a command's name in the list of all.
const NAME_CHARS: usize = 16;

/// The whole tree, with its help as wide as the terminal, where there is one.
pub(crate) fn command(columns: Option<u16>) -> Command {
    command_of(columns.unwrap_or(COLUMNS_MAX).min(COLUMNS_MAX))
}

fn command_of(columns: u16) -> Command {
    let command = shaped(Cli::command().bin_name("countersign").term_width(columns.into()), columns);
    let groups = groups(&command, columns);
    command.help_template(WHOLE_TEMPLATE).before_help(narrowed(EXAMPLES, columns)).after_help(groups)
}

fn shaped(command: Command, columns: u16) -> Command {
    let examples = command.get_before_help().map(|examples| narrowed(&examples.to_string(), columns));
    let command = match examples {
        Some(examples) => command.before_help(examples),
        None => command,
    };
    command.help_template(TEMPLATE).disable_help_subcommand(true).mut_subcommands(|below| shaped(below, columns))
}

/// Where a remark has no room beside its example, all of them stand below theirs.
fn narrowed(examples: &str, columns: u16) -> String {
    let has_remark = |line: &str| line.starts_with("  ") && line.trim_start().contains("  ");
    let is_wide = |line: &str| line.chars().count() > usize::from(columns) && has_remark(line);
    if !examples.lines().any(is_wide) {
        return examples.to_owned();
    }
    let below = |line: &str| match line.trim_start().split_once("  ").filter(|_| line.starts_with("  ")) {
        Some((example, remark)) => format!("  {example}\n{REMARK_INDENT}{}", remark.trim_start()),
        None => line.to_owned(),
    };
    examples.lines().map(below).collect::<Vec<_>>().join("\n")
}

fn groups(command: &Command, columns: u16) -> String {
    let about = |name: &str| command.find_subcommand(name).and_then(|found| found.get_about()).map(ToString::to_string).unwrap_or_default();
    let group = |(title, names): &(&str, &[&str])| {
        let lines: Vec<_> = names.iter().map(|name| format!("  {name:14}{}", hang(&about(name), NAME_CHARS, Some(columns)))).collect();
        format!("{title}:\n{}", lines.join("\n"))
    };
    GROUPS.iter().map(group).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_exactly_one_group() {
        let command = command(None);
        let mut names: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, names);
    }

    #[test]
    fn help_is_no_wider_than_the_terminal() {
        fn pages(command: &mut Command) -> Vec<String> {
            let own = command.render_help().to_string();
            let below = command.get_subcommands_mut().flat_map(pages);
            std::iter::once(own).chain(below).collect()
        }
        for columns in [60, 80, 100] {
            let mut command = command_of(columns);
            command.build();
            let wide: Vec<_> = pages(&mut command)
                .iter()
                .flat_map(|page| page.lines().map(str::to_owned).collect::<Vec<_>>())
                // A command that is copied stays whole.
                .filter(|line| line.chars().count() > usize::from(columns) && !line.contains("countersign ") && !line.contains('{'))
                .collect();
            assert!(wide.is_empty(), "{columns}: {wide:#?}");
        }
        let examples = "Examples:\n  countersign inbox            what waits\n  countersign status";
        assert_eq!(narrowed(examples, 30), "Examples:\n  countersign inbox\n      what waits\n  countersign status");
        assert_eq!(narrowed(examples, 60), examples);
    }
}
