//! The tree of commands: their order and the shape of help. The arguments of each noun are declared beside its code in `commands/`.

mod help;
mod usage;

pub(crate) use help::command;
pub(crate) use usage::failure as usage_failure;

use crate::commands::{
    action::Action, actions::Actions, allow::Allow, answer, artifact::Artifact, automation::Automation, backup, batch::Batch,
    breaker::Breaker, canary::Canary, channel::Channel, completions, connect, connection::Connection, consent::Consent, context, demo,
    doctor, document::Document, event::Event, explain, firing::Firing, grant::Grant, help as help_command, inbox, invocation::Invocation,
    key::Key, kill_switch::KillSwitch, link, login, man, mcp, mode::Mode, notification::Notification, observe::Observe, org::Org,
    package::Package, policy::Policy, quarantine::Quarantine, receipt::Receipt, runs::RunCommand, schema, secret::Secret, serve,
    session::Session, show, snooze, source::Source, space::Space, token::Token, trigger::Trigger, user::User, worker,
};
use crate::flags::Global;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "countersign", version, about = "The action control plane for AI agents.", disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See what Countersign does, in five minutes, on a server that is deleted afterwards
    #[command(before_help = demo::EXAMPLES)]
    Demo(demo::Demo),
    /// Start the server
    #[command(before_help = serve::EXAMPLES)]
    Serve(serve::Serve),
    /// Work on runs of automations beside the servers of one database
    #[command(before_help = worker::EXAMPLES)]
    Worker(worker::Worker),
    /// Look for problems, and say how to fix them
    #[command(before_help = doctor::EXAMPLES)]
    Doctor(doctor::Doctor),
    /// Show the state of the server
    #[command(before_help = "Examples:\n  countersign status")]
    Status,
    /// Print the version of this binary
    #[command(before_help = "Examples:\n  countersign version")]
    Version,
    /// Print the completions for a shell
    #[command(before_help = completions::EXAMPLES)]
    Completions(completions::Completions),
    /// Write the manual pages
    #[command(before_help = man::EXAMPLES)]
    Man(man::Man),

    /// Log in to a server and remember it as a context
    #[command(before_help = login::EXAMPLES)]
    Login(login::Login),
    /// Forget a context and its token
    #[command(before_help = "Examples:\n  countersign logout work")]
    Logout(login::Logout),
    /// Show whose token this is
    #[command(before_help = "Examples:\n  countersign whoami")]
    Whoami,
    /// Manage the servers you logged in to
    #[command(subcommand)]
    Context(context::Context),
    /// Connect an MCP client, such as a coding agent, to this server
    #[command(before_help = connect::EXAMPLES)]
    Connect(connect::Connect),
    /// Speak MCP on stdin and stdout, for a client that starts programs
    #[command(before_help = mcp::EXAMPLES)]
    Mcp(mcp::Mcp),
    /// Manage tokens of people and services
    #[command(subcommand)]
    Token(Token),
    /// Manage sessions, in which agents work
    #[command(subcommand)]
    Session(Session),
    /// Manage spaces, which hold sessions
    #[command(subcommand)]
    Space(Space),
    /// Manage users
    #[command(subcommand)]
    User(User),
    /// Manage orgs, as an operator
    #[command(subcommand)]
    Org(Org),

    /// List pending calls, the nearest deadline first
    #[command(before_help = inbox::EXAMPLES)]
    Inbox(inbox::Inbox),
    /// Show one call with everything needed to approve or deny it
    #[command(before_help = show::EXAMPLES)]
    Show(show::Show),
    /// Approve pending calls, once or with a grant
    #[command(before_help = answer::APPROVE_EXAMPLES)]
    Approve(answer::Approve),
    /// Deny pending calls
    #[command(before_help = answer::DENY_EXAMPLES)]
    Deny(answer::Deny),
    /// Hide a pending call from your inbox for a while
    #[command(before_help = snooze::EXAMPLES)]
    Snooze(snooze::Snooze),
    /// Create a link that approves or denies one call as you
    #[command(before_help = link::EXAMPLES)]
    Link(link::Link),
    /// Read messages that actions sent to people
    #[command(subcommand)]
    Notification(Notification),
    /// Manage channels: where people are told of calls that wait for them
    #[command(subcommand)]
    Channel(Channel),
    /// Publish and follow events, and manage who consumes them and what was given up
    #[command(subcommand)]
    Event(Event),

    /// List, show and invoke actions
    #[command(subcommand)]
    Action(Action),
    /// List, learn and call actions as an agent, and request grants
    #[command(subcommand)]
    Actions(Actions),
    /// List, watch, revert and settle calls
    #[command(subcommand)]
    Invocation(Invocation),
    /// Manage action packages
    #[command(subcommand)]
    Package(Package),
    /// Manage sources: the MCP servers whose tools are actions
    #[command(subcommand)]
    Source(Source),
    /// Manage what sources may use, as an operator: hosts, networks, and commands that may be MCP servers
    #[command(subcommand)]
    Allow(Allow),
    /// Manage secrets: the credentials with which calls act elsewhere
    #[command(subcommand)]
    Secret(Secret),
    /// Manage connections: the credentials of sources
    #[command(subcommand)]
    Connection(Connection),
    /// Explain why a call was decided as it was, or what would happen to one now
    #[command(before_help = explain::EXAMPLES)]
    Explain(explain::Explain),
    /// Manage modes: whether an action runs, needs approval or is denied
    #[command(subcommand)]
    Mode(Mode),
    /// Manage grants: approval for more than one call, within limits
    #[command(subcommand)]
    Grant(Grant),
    /// Let a space only observe, and see what would have been asked
    #[command(subcommand)]
    Observe(Observe),
    /// Manage the org's policies, in Cedar
    #[command(subcommand)]
    Policy(Policy),
    /// Manage consents
    #[command(subcommand)]
    Consent(Consent),
    /// Manage quarantined calls
    #[command(subcommand)]
    Quarantine(Quarantine),
    /// Run several actions in one request
    #[command(subcommand)]
    Batch(Batch),
    /// Manage circuit breakers of targets that fail
    #[command(subcommand)]
    Breaker(Breaker),
    /// Manage canary tokens
    #[command(subcommand)]
    Canary(Canary),

    /// Manage automations: what runs by itself, on a schedule, a webhook or an event
    #[command(subcommand)]
    Automation(Automation),
    /// Manage the triggers of automations
    #[command(subcommand)]
    Trigger(Trigger),
    /// See what triggers came to: what ran, what did not, and why
    #[command(subcommand)]
    Firing(Firing),
    /// List, follow, cancel and repeat runs of automations
    #[command(subcommand)]
    Run(RunCommand),
    /// List and save what calls and runs made beside their results
    #[command(subcommand)]
    Artifact(Artifact),

    /// List and show documents: the texts that spaces keep
    #[command(subcommand)]
    Document(Document),

    /// Show, verify and export the audit log
    #[command(subcommand)]
    Receipt(Receipt),
    /// Manage the keys that sign the audit log, and the master key
    #[command(subcommand)]
    Key(Key),

    /// Stop all calls, or some, at once
    #[command(subcommand)]
    KillSwitch(KillSwitch),
    /// Write the database to a file; files of the data folder are not included
    #[command(before_help = backup::BACKUP_EXAMPLES)]
    Backup(backup::Backup),
    /// Read a backup into an empty store
    #[command(before_help = backup::RESTORE_EXAMPLES)]
    Restore(backup::Restore),
    /// Print the OpenAPI document
    #[command(before_help = "Examples:\n  countersign openapi > openapi.json")]
    Openapi,
    /// Print a JSON Schema that the server publishes
    #[command(before_help = schema::EXAMPLES)]
    Schema(schema::Schema),
    /// Help for a command, or about exit codes
    #[command(before_help = "Examples:\n  countersign help action invoke\n  countersign help exit-codes")]
    Help(help_command::Help),
}

#[cfg(test)]
#[path = "args/told_tests.rs"]
mod told_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Fields, Format, Settings, Syntax};

    fn settings(arguments: &[&str]) -> Settings {
        let arguments = ["countersign", "status"].iter().chain(arguments);
        Cli::try_parse_from(arguments).unwrap().global.settings()
    }

    /// Every command of the tree, each with the words that are typed to reach it.
    fn all(tree: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
        let words = format!("{words} {}", tree.get_name()).trim().to_owned();
        let below: Vec<_> = tree.get_subcommands().flat_map(|below| all(below, &words)).collect();
        std::iter::once((words, tree.clone())).chain(below).collect()
    }

    #[test]
    fn the_tree_is_consistent() {
        command(None).debug_assert();
    }

    #[test]
    fn every_command_and_every_argument_has_help_and_every_last_command_has_an_example() {
        let mut missing = Vec::new();
        for (words, command) in all(&command(None), "") {
            missing.extend(command.get_about().is_none().then(|| words.clone()));
            let is_last = !command.has_subcommands();
            let has_example = command.get_before_help().is_some_and(|help| help.to_string().contains("Examples:\n"));
            missing.extend((is_last && !has_example).then(|| format!("{words}: no example")));
            let silent = command.get_arguments().filter(|argument| argument.get_help().is_none());
            missing.extend(silent.map(|argument| format!("{words} {}", argument.get_id())));
        }
        assert!(missing.is_empty(), "{missing:#?}");
    }

    #[test]
    fn what_the_server_lists_is_offered_for_arguments_that_there_are() {
        let tree = all(&command(None), "");
        let there: Vec<_> =
            tree.iter().flat_map(|(_, command)| command.get_arguments().map(|argument| argument.get_id().as_str())).collect();
        let gone: Vec<_> = completions::offered_names().filter(|name| !there.contains(name)).collect();
        assert!(gone.is_empty(), "there are no such arguments: {gone:?}");
        assert!(!there.contains(&"id") && !there.contains(&"ids"), "an argument is named by what it names, so that a shell can offer it");
    }

    #[test]
    fn json_takes_fields_and_never_swallows_the_next_word() {
        assert_eq!(settings(&[]).format, Format::Auto);
        assert_eq!(settings(&["--json"]).format, Format::Document(Syntax::Json, Fields::All));
        assert_eq!(settings(&["-o", "json"]).format, Format::Document(Syntax::Json, Fields::All));
        assert_eq!(settings(&["-o", "yaml"]).format, Format::Document(Syntax::Yaml, Fields::All));
        assert_eq!(settings(&["-o", "name"]).format, Format::Name);
        assert_eq!(
            settings(&["--json=id,status"]).format,
            Format::Document(Syntax::Json, Fields::Some(vec!["id".into(), "status".into()]))
        );
        let Command::Show(_) = Cli::try_parse_from(["countersign", "show", "--json", "inv_1"]).unwrap().command else {
            panic!("the id was taken for a list of fields");
        };
        assert!(Cli::try_parse_from(["countersign", "status", "--json", "-o", "table"]).is_err());
    }
}
