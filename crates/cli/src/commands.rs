//! What each command does. The files mirror the command line: one noun, one file, its arguments beside its code.
//! A command writes its data, and answers with an exit code or with why it could not be done.

pub(crate) mod action;
pub(crate) mod answer;
pub(crate) mod backup;
pub(crate) mod batch;
pub(crate) mod breaker;
pub(crate) mod canary;
mod changes;
pub(crate) mod completions;
pub(crate) mod consent;
pub(crate) mod context;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod grant;
pub(crate) mod help;
pub(crate) mod inbox;
pub(crate) mod invocation;
pub(crate) mod key;
pub(crate) mod kill_switch;
pub(crate) mod lines;
pub(crate) mod link;
pub(crate) mod login;
pub(crate) mod man;
pub(crate) mod mode;
mod named;
pub(crate) mod notification;
mod outcome;
pub(crate) mod package;
mod part;
mod people;
pub(crate) mod policy;
pub(crate) mod quarantine;
pub(crate) mod receipt;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod show;
pub(crate) mod snooze;
pub(crate) mod space;
mod status;
pub(crate) mod token;
pub(crate) mod user;
mod wait;

use crate::args::{self, Cli, Command, Global, Paging};
use crate::client::{Client, Rehearsal};
use crate::context::{Environment, Origin, Server};
use crate::exit::{Exit, Failure};
use crate::output::{Fields, Format, Input, Settings, Syntax, Terminal, Times};
use clap::FromArgMatches as _;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// The whole of a run: reads the arguments, does what they say, tells what went wrong.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> Exit {
    let arguments: Vec<_> = arguments.collect();
    let parsed = args::command().try_get_matches_from(&arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error, &arguments),
    };
    let mut terminal = Terminal::new(cli.global.settings(), Arc::new(server::SystemClock));
    let ended = start(cli, &mut terminal).and_then(|exit| terminal.flush().map(|()| exit));
    ended.unwrap_or_else(|failure| {
        terminal.failure(&failure);
        failure.exit
    })
}

/// What a command finds around it.
pub(crate) struct Setting<'a> {
    pub(crate) global: &'a Global,
    pub(crate) environment: &'a Environment,
    pub(crate) terminal: &'a mut Terminal,
}

impl Setting<'_> {
    /// A client of the server that is meant.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let server = Server::find(self.global.url.as_deref(), self.global.context.as_deref(), self.environment)?;
        Client::new(server, self.rehearsal())
    }

    /// The same, for who asks where they stand: says so when the token was found rather than given.
    fn client_introduced(&mut self) -> Result<Client, Failure> {
        let server = Server::find(self.global.url.as_deref(), self.global.context.as_deref(), self.environment)?;
        if let Origin::OwnerFile(path) = &server.origin
            && !self.terminal.is_document()
        {
            self.terminal.note(crate::style::Tone::Muted.paint(format!("using the owner's token in {}", path.display())));
        }
        Client::new(server, self.rehearsal())
    }

    pub(crate) const fn rehearsal(&self) -> Rehearsal {
        if self.global.dry_run { Rehearsal::On } else { Rehearsal::Off }
    }
}

fn start(cli: Cli, terminal: &mut Terminal) -> Result<Exit, Failure> {
    if cli.global.dry_run
        && let Some(name) = cli.command.changes_this_machine()
    {
        return Err(Failure::usage(format!("`{name}` cannot be rehearsed: what it changes is on this machine")));
    }
    // Serving is work for every core; asking is not.
    let mut builder = if matches!(cli.command, Command::Serve(_)) {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder.enable_all().build().map_err(|error| Failure::failed(format!("the runtime cannot start: {error}")))?;
    let environment = Environment::read(|name| std::env::var(name).ok());
    let ended = runtime.block_on(async {
        if let Command::Serve(serve) = cli.command {
            // A server hears interrupts itself, and ends what runs first.
            return serve.run(terminal).await;
        }
        // Heard from the start, so that no interrupt leaves a terminal silent or a file half written.
        let interrupts = signal(SignalKind::interrupt());
        let mut interrupts = interrupts.map_err(|error| Failure::failed(format!("interrupts cannot be heard: {error}")))?;
        tokio::select! {
            // A command that can say more about being interrupted gets to say it.
            biased;
            ended = run(cli.command, Setting { global: &cli.global, environment: &environment, terminal }) => ended,
            _ = interrupts.recv() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    });
    // A thread may still wait for a line of stdin: nobody will type it.
    runtime.shutdown_background();
    ended
}

async fn run(command: Command, mut setting: Setting<'_>) -> Result<Exit, Failure> {
    match command {
        Command::Serve(serve) => serve.run(setting.terminal).await,
        Command::Doctor(doctor) => doctor.run(setting).await,
        Command::Status => status::status(&setting.client_introduced()?, setting.terminal).await,
        Command::Version => help::version(setting.terminal),
        Command::Completions(completions) => completions.run(setting.terminal),
        Command::Man(man) => man.run(setting.terminal),
        Command::Login(login) => login.run(setting).await,
        Command::Logout(logout) => logout.run(setting),
        Command::Whoami => status::whoami(&setting.client_introduced()?, setting.terminal).await,
        Command::Context(context) => context.run(setting),
        Command::Token(token) => token.run(&setting.client()?, setting.terminal).await,
        Command::Session(session) => session.run(&setting.client()?, setting.terminal).await,
        Command::Space(space) => space.run(&setting.client()?, setting.terminal).await,
        Command::User(user) => user.run(&setting.client()?, setting.terminal).await,
        Command::Inbox(inbox) => inbox.run(&setting.client()?, setting.terminal).await,
        Command::Show(show) => show.run(&setting.client()?, setting.terminal).await,
        Command::Approve(approve) => approve.run(&setting.client()?, setting.terminal).await,
        Command::Deny(deny) => deny.run(&setting.client()?, setting.terminal).await,
        Command::Snooze(snooze) => snooze.run(&setting.client()?, setting.terminal).await,
        Command::Link(link) => link.run(&setting.client()?, setting.terminal).await,
        Command::Notification(notification) => notification.run(&setting.client()?, setting.terminal).await,
        Command::Action(action) => action.run(&setting.client()?, setting.terminal).await,
        Command::Invocation(invocation) => invocation.run(&setting.client()?, setting.terminal).await,
        Command::Explain(explain) => explain.run(&setting.client()?, setting.terminal).await,
        Command::Mode(mode) => mode.run(&setting.client()?, setting.terminal).await,
        Command::Grant(grant) => grant.run(&setting.client()?, setting.terminal).await,
        Command::Policy(policy) => policy.run(&setting.client()?, setting.terminal).await,
        Command::Consent(consent) => consent.run(&setting.client()?, setting.terminal).await,
        Command::Quarantine(quarantine) => quarantine.run(&setting.client()?, setting.terminal).await,
        Command::Batch(batch) => batch.run(&setting.client()?, setting.terminal).await,
        Command::Breaker(breaker) => breaker.run(&setting.client()?, setting.terminal).await,
        Command::Canary(canary) => canary.run(&setting.client()?, setting.terminal).await,
        Command::Package(package) => package.run(setting).await,
        Command::Receipt(receipt) => receipt.run(setting).await,
        Command::Key(key) => key.run(&setting.client()?, setting.terminal).await,
        Command::KillSwitch(kill_switch) => kill_switch.run(&setting.client()?, setting.terminal).await,
        Command::Backup(backup) => backup.run(setting.terminal).await,
        Command::Restore(restore) => restore.run(setting.terminal).await,
        Command::Openapi => help::openapi(setting.terminal),
        Command::Help(topic) => topic.run(setting.terminal),
    }
}

/// After a list that goes on: the command for the rest of it.
fn more(terminal: &mut Terminal, paging: &Paging, next: Option<&str>, command: &str) {
    if let Some(next) = next {
        terminal.next(format!("{command}{}", paging.next(next)));
    }
}

/// Help and version are answers; everything else is an error in three lines.
fn not_parsed(error: &clap::Error, arguments: &[OsString]) -> Exit {
    let asked = [
        (ErrorKind::DisplayHelp, Exit::Ok),
        (ErrorKind::DisplayVersion, Exit::Ok),
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, Exit::Usage),
    ];
    let asked = asked.into_iter().find_map(|(kind, exit)| (kind == error.kind()).then_some(exit));
    if let Some(exit) = asked {
        // Written by clap itself, to stdout or stderr as fits; a closed pipe is nobody's loss.
        let _closed = error.print();
        return exit;
    }
    let is_json = |argument: &OsString| argument == "--json" || argument.to_str().is_some_and(|text| text.starts_with("--json="));
    let format = if arguments.iter().any(is_json) { Format::Document(Syntax::Json, Fields::All) } else { Format::Auto };
    let settings = Settings { format, times: Times::Relative, input: Input::Never, color: anstream::ColorChoice::Auto };
    let failure = args::usage_failure(error, arguments);
    Terminal::new(settings, Arc::new(server::SystemClock)).failure(&failure);
    failure.exit
}
