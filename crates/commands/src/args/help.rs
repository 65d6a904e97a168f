//! The layout of help pages. The page of a command shows its description, examples, usage and arguments; the page of the whole program
//! lists all commands in groups.

use super::Cli;
use crate::style::hang;
use clap::{Command, CommandFactory as _};

/// Every command is in exactly one group. Groups and commands are shown in this order.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["demo", "serve", "worker", "doctor", "status", "version", "completions", "man"]),
    ("Identity", &["login", "logout", "whoami", "context", "connect", "mcp", "token", "session", "space", "user", "org"]),
    ("Inbox", &["inbox", "show", "approve", "deny", "snooze", "link", "notification", "channel", "event"]),
    ("Actions", &["action", "actions", "batch", "invocation", "package", "source", "allow", "secret", "connection", "explain"]),
    ("Automations", &["automation", "trigger", "firing", "run", "artifact", "document"]),
    ("Permission", &["mode", "grant", "observe", "policy", "consent", "quarantine", "canary"]),
    ("Receipts", &["receipt", "key"]),
    ("Operate", &["kill-switch", "breaker", "backup", "restore", "openapi", "schema", "help"]),
];

const EXAMPLES: &str = "\
Examples:
  countersign demo                                               see what it does, in five minutes
  countersign serve                                              start, with nothing configured
  countersign action invoke files.write_text path=a text=b       invoke an action; it needs approval
  countersign inbox                                              list pending calls
  countersign approve inv_…                                      approve one, this once
  countersign receipt verify                                     verify the audit log";

const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";
const WHOLE_TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}{after-help}\n\nEverywhere:\n{options}";

/// The widest that help is ever drawn, because longer lines are hard to read.
const COLUMNS_MAX: u16 = 100;
/// The indentation of a remark that is written below its example because there is no room beside it.
const REMARK_INDENT: &str = "      ";
/// The width of the column of names in the list of all commands.
const NAME_CHARS: usize = 16;

/// The whole tree of commands. Its help is as wide as the terminal, if there is one, and at most `COLUMNS_MAX` wide.
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

/// If any remark does not fit beside its example, writes every remark of the page below its example.
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
    use expect_test::expect_file;
    use std::path::Path;

    /// After an intended change, `UPDATE_EXPECT=1 cargo test -p countersign-commands --lib help` writes the files.
    #[test]
    fn help_is_as_committed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help");
        let mut tree = command(None);
        expect_file![folder.join("countersign.txt")].assert_eq(&printed(&mut tree, &[]));
        for (group, names) in GROUPS {
            let pages: String = names.iter().map(|name| pages(&mut tree, &[*name])).collect();
            expect_file![folder.join(format!("{}.txt", group.to_lowercase()))].assert_eq(&pages);
        }
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), GROUPS.len() + 1, "a file of a group that is gone");
    }

    /// What `--help` prints of a command and of those below it. The flags of all commands are on the page of the whole program.
    fn pages(tree: &mut Command, words: &[&str]) -> String {
        let help = printed(tree, words);
        let (own, _) = help.split_once("\nEverywhere:\n").unwrap();
        let command = words.iter().fold(&*tree, |at, word| at.find_subcommand(word).unwrap());
        let below: Vec<_> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
        let below: String = below.iter().map(|name| pages(tree, &[words, &[name.as_str()]].concat())).collect();
        format!("=== countersign {}\n{own}\n{below}", words.join(" "))
    }

    fn printed(tree: &mut Command, words: &[&str]) -> String {
        tree.try_get_matches_from_mut([&["countersign"][..], words, &["--help"]].concat()).unwrap_err().to_string()
    }

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
                // Lines with a command may be too wide: people copy them, so they are never wrapped.
                .filter(|line| line.chars().count() > usize::from(columns) && !line.contains("countersign ") && !line.contains('{'))
                .collect();
            assert!(wide.is_empty(), "{columns}: {wide:#?}");
        }
        let examples = "Examples:\n  countersign inbox            what waits\n  countersign status";
        assert_eq!(narrowed(examples, 30), "Examples:\n  countersign inbox\n      what waits\n  countersign status");
        assert_eq!(narrowed(examples, 60), examples);
    }
}
