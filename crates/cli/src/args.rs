//! What can be typed. Each noun's own arguments stand beside its code in `commands/`; here is the tree and the help's shape.
//! Help shows examples first and the commands in groups.

mod help;
mod span;
mod usage;

pub(crate) use help::{command, topic};
pub(crate) use span::Span;
pub(crate) use usage::failure as usage_failure;

use crate::client::Client;
use crate::commands::{
    action::Action, answer, backup, batch::Batch, breaker::Breaker, canary::Canary, completions, consent::Consent as ConsentCommand,
    context, doctor, explain, grant::Grant, help as help_command, inbox, invocation::Invocation, key::Key, kill_switch::KillSwitch, link,
    login, man, mode::Mode, notification::Notification, package::Package, policy::Policy, quarantine::Quarantine, receipt::Receipt, serve,
    session::Session, show, snooze, space::Space, token::Token, user::User,
};
use crate::output::{Consent, Fields, Format, Input, Settings, Syntax, Times};
use clap::{Args, Parser, Subcommand, ValueEnum};
use countersign_core::ActionId;
use countersign_core::limits::PAGE_ROWS_DEFAULT;

#[derive(Debug, Parser)]
#[command(name = "countersign", version, about = "The action control plane for AI agents.", disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// One JSON document on stdout; `--json=id,status` keeps these fields
    #[arg(long, global = true, value_name = "FIELDS", num_args = 0..=1, require_equals = true)]
    json: Option<Option<String>>,
    /// How data is written; a table on a terminal, tab-separated elsewhere
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    output: Option<Output>,
    /// Moments in UTC instead of `3 min ago`
    #[arg(long, global = true)]
    utc: bool,
    /// When to colour; NO_COLOR and CLICOLOR_FORCE are heard, too
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: Color,
    /// Change nothing: show what would be sent; an invoked action says what it would change
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// Never ask anything
    #[arg(long, global = true)]
    no_input: bool,
    /// The server's address; else COUNTERSIGN_URL, else the context's
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The context made by `countersign login`; else COUNTERSIGN_CONTEXT, else the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
    Yaml,
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Global {
    pub(crate) fn settings(&self) -> Settings {
        let format = match (&self.json, self.output) {
            (Some(fields), _) => Format::Document(Syntax::Json, Fields::parse(fields.as_deref())),
            (None, Some(Output::Json)) => Format::Document(Syntax::Json, Fields::All),
            (None, Some(Output::Yaml)) => Format::Document(Syntax::Yaml, Fields::All),
            (None, Some(Output::Table)) => Format::Table,
            (None, Some(Output::Name)) => Format::Name,
            (None, None) => Format::Auto,
        };
        Settings {
            format,
            times: if self.utc { Times::Utc } else { Times::Relative },
            input: if self.no_input { Input::Never } else { Input::Ask },
            color: match self.color {
                Color::Auto => anstream::ColorChoice::Auto,
                Color::Always => anstream::ColorChoice::Always,
                Color::Never => anstream::ColorChoice::Never,
            },
        }
    }
}

/// One page of a list.
#[derive(Debug, Args)]
pub(crate) struct Paging {
    /// Rows of one page, 1 to 100
    #[arg(long, value_name = "N", default_value_t = PAGE_ROWS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Where the page before ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl Paging {
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let after = self.after.iter().map(|after| ("after", after.clone()));
        after.chain([("limit", self.limit.to_string())]).collect()
    }

    /// The flags that ask for the page which begins at `next`.
    pub(crate) fn next(&self, next: &str) -> String {
        let limit = if self.limit == PAGE_ROWS_DEFAULT { String::new() } else { format!(" --limit {}", self.limit) };
        format!("{limit} --after {next}")
    }
}

/// An action by its whole id; a pattern would find nothing, and not say why.
pub(crate) fn action_id(text: &str) -> Result<String, String> {
    let id = ActionId::parse(text).map(|id| id.to_string());
    id.map_err(|_| "an action is named by its whole id, such as files.write_text".to_owned())
}

/// Agreeing beforehand.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Agreed {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Agreed {
    /// Whether a person still has to be asked.
    pub(crate) fn consent(self, client: &Client) -> Consent {
        // Where nothing will be sent there is nothing to agree to.
        if self.yes || client.rehearses() { Consent::Given } else { Consent::Asked }
    }
}

/// Agreeing beforehand where nothing is asked: a script need not know which of two neighbours asks.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Unasked {
    /// Taken and not needed: nothing is asked
    #[arg(long = "yes")]
    _yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    #[command(before_help = serve::EXAMPLES)]
    Serve(serve::Serve),
    /// Look for what is wrong, and say what mends it
    #[command(before_help = doctor::EXAMPLES)]
    Doctor(doctor::Doctor),
    /// How the server is doing
    Status,
    /// The version of this binary
    Version,
    /// Write the completions for a shell
    #[command(before_help = completions::EXAMPLES)]
    Completions(completions::Completions),
    /// Write the manual pages
    #[command(before_help = man::EXAMPLES)]
    Man(man::Man),

    /// Log in to a server and remember it as a context
    #[command(before_help = login::EXAMPLES)]
    Login(login::Login),
    /// Forget a context and its token
    Logout(login::Logout),
    /// Who the token stands for
    Whoami,
    /// Servers you logged in to
    #[command(subcommand)]
    Context(context::Context),
    /// Tokens of people and services
    #[command(subcommand)]
    Token(Token),
    /// Sessions, in which agents work
    #[command(subcommand)]
    Session(Session),
    /// Spaces, in which sessions live
    #[command(subcommand)]
    Space(Space),
    /// People
    #[command(subcommand)]
    User(User),

    /// What waits for a person, the nearest deadline first
    #[command(before_help = inbox::EXAMPLES)]
    Inbox(inbox::Inbox),
    /// One invocation with everything an answer rests on
    #[command(before_help = show::EXAMPLES)]
    Show(show::Show),
    /// Approve what waits: once, or within bounds that are said before
    #[command(before_help = answer::APPROVE_EXAMPLES)]
    Approve(answer::Approve),
    /// Deny what waits
    #[command(before_help = answer::DENY_EXAMPLES)]
    Deny(answer::Deny),
    /// Hide what waits from your inbox for a while
    #[command(before_help = snooze::EXAMPLES)]
    Snooze(snooze::Snooze),
    /// Make a link that answers one invocation as you
    #[command(before_help = link::EXAMPLES)]
    Link(link::Link),
    /// Messages that actions sent to people
    #[command(subcommand)]
    Notification(Notification),

    /// What can be done, and doing it
    #[command(subcommand)]
    Action(Action),
    /// What was asked for, and what became of it
    #[command(subcommand)]
    Invocation(Invocation),
    /// Actions whose code others wrote
    #[command(subcommand)]
    Package(Package),
    /// Why an invocation was decided as it was, or what would happen to a call now
    #[command(before_help = explain::EXAMPLES)]
    Explain(explain::Explain),
    /// Whether an action runs, waits for a person or is refused
    #[command(subcommand)]
    Mode(Mode),
    /// A yes to more than one call, within bounds
    #[command(subcommand)]
    Grant(Grant),
    /// The org's own rules, in Cedar
    #[command(subcommand)]
    Policy(Policy),
    /// People's own leave for a purpose
    #[command(subcommand)]
    Consent(ConsentCommand),
    /// What was too dangerous to run
    #[command(subcommand)]
    Quarantine(Quarantine),
    /// Several actions in one request: run, list, show
    #[command(subcommand)]
    Batch(Batch),
    /// Targets that fail again and again: list, close
    #[command(subcommand)]
    Breaker(Breaker),
    /// Texts laid out to be stolen
    #[command(subcommand)]
    Canary(Canary),

    /// The signed records, and their proof
    #[command(subcommand)]
    Receipt(Receipt),
    /// The keys that sign the records
    #[command(subcommand)]
    Key(Key),

    /// Stop everything, or a part of it, at once
    #[command(subcommand)]
    KillSwitch(KillSwitch),
    /// Write everything in the database to a file; files of the data folder are not in it
    #[command(before_help = backup::BACKUP_EXAMPLES)]
    Backup(backup::Backup),
    /// Read a backup into an empty store
    #[command(before_help = backup::RESTORE_EXAMPLES)]
    Restore(backup::Restore),
    /// The API's description
    Openapi,
    /// Help for a command, or about exit codes
    Help(help_command::Help),
}

impl Command {
    /// The commands that work on files here and not through a server; their names.
    pub(crate) fn changes_this_machine(&self) -> Option<&'static str> {
        match self {
            Self::Serve(_) => Some("serve"),
            Self::Login(_) => Some("login"),
            Self::Logout(_) => Some("logout"),
            Self::Context(_) => Some("context"),
            Self::Backup(_) => Some("backup"),
            Self::Restore(_) => Some("restore"),
            Self::Man(_) => Some("man"),
            Self::Receipt(receipt) => receipt.writes_a_file(),
            Self::Package(package) => package.changes_this_machine(),
            Self::Mode(Mode::Export { .. }) => Some("mode export"),
            Self::Doctor(_)
            | Self::Status
            | Self::Version
            | Self::Completions(_)
            | Self::Whoami
            | Self::Token(_)
            | Self::Session(_)
            | Self::Space(_)
            | Self::User(_)
            | Self::Inbox(_)
            | Self::Show(_)
            | Self::Approve(_)
            | Self::Deny(_)
            | Self::Snooze(_)
            | Self::Link(_)
            | Self::Notification(_)
            | Self::Action(_)
            | Self::Invocation(_)
            | Self::Explain(_)
            | Self::Mode(_)
            | Self::Grant(_)
            | Self::Policy(_)
            | Self::Consent(_)
            | Self::Quarantine(_)
            | Self::Batch(_)
            | Self::Breaker(_)
            | Self::Canary(_)
            | Self::KillSwitch(_)
            | Self::Key(_)
            | Self::Openapi
            | Self::Help(_) => None,
        }
    }
}

#[cfg(test)]
#[path = "args/told_tests.rs"]
mod told_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(arguments: &[&str]) -> Settings {
        let arguments = ["countersign", "status"].iter().chain(arguments);
        Cli::try_parse_from(arguments).unwrap().global.settings()
    }

    #[test]
    fn the_tree_is_consistent() {
        command().debug_assert();
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
