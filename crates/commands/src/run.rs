//! One run of the command line: parses the arguments, runs the command and reports failures.

use crate::args::{self, Cli, Command};
use crate::commands::{help, status};
use crate::context::Environment;
use crate::exit::{Exit, Failure};
use crate::output::{Fields, Format, Input, Settings, Syntax, Terminal, Times};
use crate::serving::Serving;
use crate::setting::Setting;
use crate::world::World;
use clap::FromArgMatches as _;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Runs one command line with these variables and streams, and with this server to start; returns its exit code.
pub fn run(arguments: impl Iterator<Item = OsString>, world: World, serving: &'static dyn Serving) -> u8 {
    let arguments: Vec<_> = arguments.collect();
    let columns = world.stdout.columns;
    let parsed = args::command(columns).try_get_matches_from(&arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let environment = Environment::new(world.variables.clone());
    let exit = match parsed {
        Ok(cli) => {
            let mut terminal = Terminal::new(cli.global.settings(), Arc::new(host::SystemClock), world);
            let ended = start(cli, environment, &mut terminal, serving).and_then(|exit| terminal.flush().map(|()| exit));
            ended.unwrap_or_else(|failure| {
                terminal.failure(&failure);
                failure.exit
            })
        }
        Err(error) => not_parsed(&error, &arguments, world),
    };
    exit.code()
}

/// The stack of each thread of a server. Only what is used of it costs memory.
const STACK_BYTES: usize = 8 * 1024 * 1024;

fn start(cli: Cli, environment: Environment, terminal: &mut Terminal, serving: &'static dyn Serving) -> Result<Exit, Failure> {
    let Cli { global, command } = cli;
    let serves = matches!(command, Command::Serve(_) | Command::Worker(_) | Command::Demo(_));
    // A server uses every core; a client needs only one thread.
    let mut builder = if serves { tokio::runtime::Builder::new_multi_thread() } else { tokio::runtime::Builder::new_current_thread() };
    // A call over MCP is many calls deep, above all in a build with checks.
    builder.thread_stack_size(STACK_BYTES);
    let runtime = builder.enable_all().build().map_err(|error| Failure::failed(format!("the runtime cannot start: {error}")))?;
    let setting = Setting { global: &global, environment: &environment, terminal, serving };
    let ended = runtime.block_on(async {
        if serves {
            // A server handles interrupts itself, and first finishes the calls that are running. So does the demo.
            return perform(command, setting).await;
        }
        // Interrupts are handled from the start, so that none leaves the terminal without echo or a file half written.
        let interrupts = signal(SignalKind::interrupt());
        let mut interrupts = interrupts.map_err(|error| Failure::failed(format!("interrupts cannot be handled: {error}")))?;
        tokio::select! {
            // The command is polled first: if it handles the interrupt itself, its own message is used.
            biased;
            ended = perform(command, setting) => ended,
            _ = interrupts.recv() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    });
    // A thread may still be reading stdin. Waiting for it would block until the user types a line.
    runtime.shutdown_background();
    ended
}

async fn perform(command: Command, mut setting: Setting<'_>) -> Result<Exit, Failure> {
    match command {
        Command::Demo(demo) => demo.run(setting).await,
        Command::Serve(serve) => serve.run(setting).await,
        Command::Worker(worker) => worker.run(setting).await,
        Command::Doctor(doctor) => doctor.run(setting).await,
        Command::Status => status::status(&setting.client_introduced()?, setting.terminal).await,
        Command::Version => help::version(setting.terminal),
        Command::Completions(completions) => completions.run(setting.terminal),
        Command::Man(man) => man.run(args::command(None), setting),
        Command::Login(login) => login.run(setting).await,
        Command::Logout(logout) => logout.run(setting),
        Command::Whoami => status::whoami(&setting.client_introduced()?, setting.terminal).await,
        Command::Context(context) => context.run(setting),
        Command::Connect(connect) => connect.run(setting).await,
        Command::Mcp(mcp) => mcp.run(setting).await,
        Command::Token(token) => token.run(&setting.client()?, setting.terminal).await,
        Command::Session(session) => session.run(&setting.client()?, setting.terminal).await,
        Command::Space(space) => space.run(&setting.client()?, setting.terminal).await,
        Command::Org(org) => org.run(&setting.client()?, setting.terminal).await,
        Command::User(user) => user.run(&setting.client()?, setting.terminal).await,
        Command::Inbox(inbox) => inbox.run(&setting.client()?, setting.terminal).await,
        Command::Show(show) => show.run(&setting.client()?, setting.terminal).await,
        Command::Approve(approve) => approve.run(&setting.client()?, setting.terminal).await,
        Command::Deny(deny) => deny.run(&setting.client()?, setting.terminal).await,
        Command::Snooze(snooze) => snooze.run(&setting.client()?, setting.terminal).await,
        Command::Link(link) => link.run(&setting.client()?, setting.terminal).await,
        Command::Notification(notification) => notification.run(&setting.client()?, setting.terminal).await,
        Command::Channel(channel) => channel.run(&setting.client()?, setting.terminal).await,
        Command::Event(event) => event.run(&setting.client()?, setting.terminal).await,
        Command::Action(action) => action.run(&setting.client()?, setting.terminal).await,
        Command::Actions(actions) => actions.run(&setting.client()?, setting.terminal).await,
        Command::Invocation(invocation) => invocation.run(&setting.client()?, setting.terminal).await,
        Command::Explain(explain) => explain.run(&setting.client()?, setting.terminal).await,
        Command::Mode(mode) => mode.run(setting).await,
        Command::Grant(grant) => grant.run(&setting.client()?, setting.terminal).await,
        Command::Observe(observe) => observe.run(&setting.client()?, setting.terminal).await,
        Command::Policy(policy) => policy.run(&setting.client()?, setting.terminal).await,
        Command::Consent(consent) => consent.run(&setting.client()?, setting.terminal).await,
        Command::Quarantine(quarantine) => quarantine.run(&setting.client()?, setting.terminal).await,
        Command::Batch(batch) => batch.run(&setting.client()?, setting.terminal).await,
        Command::Breaker(breaker) => breaker.run(&setting.client()?, setting.terminal).await,
        Command::Canary(canary) => canary.run(&setting.client()?, setting.terminal).await,
        Command::Package(package) => package.run(setting).await,
        Command::Source(source) => source.run(&setting.client()?, setting.terminal).await,
        Command::Allow(allow) => allow.run(&setting.client()?, setting.terminal).await,
        Command::Secret(secret) => secret.run(&setting.client()?, setting.terminal).await,
        Command::Connection(connection) => connection.run(&setting.client()?, setting.terminal).await,
        Command::Automation(automation) => automation.run(&setting.client()?, setting.terminal).await,
        Command::Trigger(trigger) => trigger.run(&setting.client()?, setting.terminal).await,
        Command::Firing(firing) => firing.run(&setting.client()?, setting.terminal).await,
        Command::Run(run) => run.run(&setting.client()?, setting.terminal).await,
        Command::Document(document) => document.run(&setting.client()?, setting.terminal).await,
        Command::Artifact(artifact) => artifact.run(&setting.client()?, setting.terminal).await,
        Command::Receipt(receipt) => receipt.run(setting).await,
        Command::Key(key) => key.run(setting).await,
        Command::KillSwitch(kill_switch) => kill_switch.run(&setting.client()?, setting.terminal).await,
        Command::Backup(backup) => backup.run(setting).await,
        Command::Restore(restore) => restore.run(setting).await,
        Command::Openapi => help::openapi(setting),
        Command::Schema(schema) => schema.run(&setting.client()?, setting.terminal).await,
        Command::Help(topic) => topic.run(args::command(setting.terminal.columns()), setting.terminal),
    }
}

/// Help and version are printed; every other parse error is reported in three lines.
fn not_parsed(error: &clap::Error, arguments: &[OsString], world: World) -> Exit {
    let is_json = |argument: &OsString| argument == "--json" || argument.to_str().is_some_and(|text| text.starts_with("--json="));
    let format = if arguments.iter().any(is_json) { Format::Document(Syntax::Json, Fields::All) } else { Format::Auto };
    let settings = Settings { format, times: Times::Relative, input: Input::Never, colours: None };
    let mut terminal = Terminal::new(settings, Arc::new(host::SystemClock), world);
    let asked = [
        (ErrorKind::DisplayHelp, Exit::Ok),
        (ErrorKind::DisplayVersion, Exit::Ok),
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, Exit::Usage),
    ];
    if let Some((_, exit)) = asked.into_iter().find(|(kind, _)| *kind == error.kind()) {
        let text = error.render().ansi().to_string();
        if error.use_stderr() {
            terminal.note(text.trim_end());
        } else {
            // A closed pipe is ignored.
            let _closed = terminal.line(text.trim_end());
        }
        return exit;
    }
    let failure = args::usage_failure(error, arguments);
    terminal.failure(&failure);
    failure.exit
}
