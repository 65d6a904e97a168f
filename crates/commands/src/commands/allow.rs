//! `countersign allow`: what operators allow the sources of every org, while the servers run: hosts, networks, and commands that may be MCP servers.

use crate::shared::*;
use api::Page;
use api::allowed::{AllowedCommand, AllowedView, NewAllowedRequest};
use clap::{Args, Subcommand};
use countersign_core::allowed::AllowedList;
use countersign_core::limits::PACKAGE_MEMORY_MB_DEFAULT;

#[derive(Debug, Subcommand)]
pub(crate) enum Allow {
    /// The hosts that MCP servers, connections and channels may be on
    #[command(subcommand)]
    Host(Host),
    /// Networks that are not public and may be reached all the same, such as this machine
    #[command(subcommand)]
    Network(Network),
    /// The commands that may be MCP servers, in the jail
    #[command(subcommand)]
    Command(Command),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Host {
    /// List the allowed hosts, and where each comes from
    #[command(before_help = "Examples:\n  countersign allow host list")]
    List,
    /// Allow hosts, on every server at once
    #[command(before_help = "Examples:
  countersign allow host add mcp.example.com                 https, on port 443
  countersign allow host add '*.example.org' http://127.0.0.1:3001")]
    Add {
        /// Such as api.example.com, '*.example.com' or http://127.0.0.1:3001
        #[arg(value_name = "HOST", required = true)]
        hosts: Vec<String>,
        #[command(flatten)]
        unasked: Unasked,
    },
    /// Allow a host no longer
    #[command(before_help = "Examples:\n  countersign allow host remove mcp.example.com")]
    Remove {
        /// As `allow host list` shows it
        #[arg(value_name = "HOST")]
        host: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Network {
    /// List the allowed networks, and where each comes from
    #[command(before_help = "Examples:\n  countersign allow network list")]
    List,
    /// Allow networks, on every server at once
    #[command(before_help = "Examples:\n  countersign allow network add 127.0.0.1/32             hosts on the server's own machine")]
    Add {
        /// Such as 127.0.0.1/32 or 10.1.0.0/16
        #[arg(value_name = "NETWORK", required = true)]
        networks: Vec<String>,
        #[command(flatten)]
        unasked: Unasked,
    },
    /// Allow a network no longer
    #[command(before_help = "Examples:\n  countersign allow network remove 127.0.0.1/32")]
    Remove {
        /// As `allow network list` shows it
        #[arg(value_name = "NETWORK")]
        network: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the allowed commands, what each may use, and which sources run it
    #[command(before_help = "Examples:\n  countersign allow command list")]
    List,
    /// Allow a command, word by word: the admins of every org can add it as a source
    #[command(before_help = "Examples:
  countersign allow command add --readable /opt/mcp -- node /opt/mcp/index.js
  countersign allow command add --variable API_TOKEN --allow-host api.example.com -- /opt/mcp/crm")]
    Add {
        #[command(flatten)]
        terms: Terms,
        /// A variable that a source may set; may be given several times
        #[arg(long, value_name = "NAME")]
        variable: Vec<String>,
        /// The program and its words, after --
        #[arg(last = true, value_name = "COMMAND", required = true)]
        command: Vec<String>,
        #[command(flatten)]
        unasked: Unasked,
    },
    /// Allow a command no longer: programs that run by it end with their last call
    #[command(before_help = "Examples:\n  countersign allow command remove 5f0c2a9d11e47b60      its id in `allow command list`")]
    Remove {
        /// Its id, as `allow command list` shows it
        #[arg(value_name = "COMMAND-ID")]
        allowed: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

/// What a program may use beside what it needs to run.
#[derive(Debug, Args)]
pub(crate) struct Terms {
    /// A host that the program may reach; may be given several times. Without it, it has no network
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// A folder of the server's machine that it sees, read-only; may be given several times
    #[arg(long, value_name = "FOLDER")]
    pub(crate) readable: Vec<String>,
    /// Show it the org's shared workspace, read-only, at /workspace
    #[arg(long)]
    pub(crate) workspace: bool,
    /// How much memory it may use
    #[arg(long, value_name = "MB")]
    pub(crate) memory: Option<u64>,
    /// How many files it may have open
    #[arg(long, value_name = "N")]
    pub(crate) open_files: Option<u64>,
    /// Give it a folder that it may write and that is kept, of this size
    #[arg(long, value_name = "MB")]
    pub(crate) folder: Option<u64>,
    /// How long it may take until it speaks MCP; 60 when absent
    #[arg(long, value_name = "SECONDS")]
    pub(crate) start_timeout: Option<u64>,
}

impl Terms {
    pub(crate) fn of(self, command: Vec<String>, env: Vec<String>) -> AllowedCommand {
        AllowedCommand {
            command,
            readable: self.readable.into_iter().map(|folder| standing(&folder)).collect(),
            env,
            hosts: self.allow_host,
            workspace: self.workspace,
            memory_mb: self.memory,
            open_files: self.open_files,
            folder_mb: self.folder,
            start_seconds: self.start_timeout,
        }
    }

    /// Whether nothing of it was said.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { allow_host, readable, workspace, memory, open_files, folder, start_timeout } = self;
        let numbers = [memory, open_files, folder, start_timeout];
        allow_host.is_empty() && readable.is_empty() && !workspace && numbers.iter().all(|number| number.is_none())
    }
}

impl Allow {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Host(Host::List) => list(AllowedList::Hosts, client, terminal).await?,
            Self::Network(Network::List) => list(AllowedList::Networks, client, terminal).await?,
            Self::Command(Command::List) => list(AllowedList::Commands, client, terminal).await?,
            Self::Host(Host::Add { hosts, unasked: _ }) => add_all(AllowedList::Hosts, hosts, client, terminal).await?,
            Self::Network(Network::Add { networks, unasked: _ }) => add_all(AllowedList::Networks, networks, client, terminal).await?,
            Self::Command(Command::Add { terms, variable, command, unasked: _ }) => {
                let request = NewAllowedRequest { entry: None, command: Some(terms.of(command, variable)) };
                let answer = client.post::<AllowedView>(&["allowed", AllowedList::Commands.as_str()], &request).await?;
                terminal.done("allowed", &answer.read.entry, &answer.raw)?;
                let words = answer.read.command.map(|command| words(&command.command)).unwrap_or_default();
                terminal.next(format!("countersign source add NAME --mcp-stdio -- {words}"));
            }
            Self::Host(Host::Remove { host, agreed }) => remove(AllowedList::Hosts, &host, agreed, client, terminal).await?,
            Self::Network(Network::Remove { network, agreed }) => remove(AllowedList::Networks, &network, agreed, client, terminal).await?,
            Self::Command(Command::Remove { allowed, agreed }) => remove(AllowedList::Commands, &allowed, agreed, client, terminal).await?,
        }
        Ok(Exit::Ok)
    }
}

/// The path of a folder from everywhere.
fn standing(folder: &str) -> String {
    let path = std::path::absolute(folder).ok().and_then(|path| path.into_os_string().into_string().ok());
    path.map_or_else(|| folder.to_owned(), |path| path.trim_end_matches('/').to_owned())
}

/// The words of a command as they can be typed.
pub(crate) fn words(command: &[String]) -> String {
    let is_plain =
        |word: &str| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./@:=+,%".contains(letter));
    let quoted = |word: &String| if is_plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) };
    clean::line(&command.iter().map(quoted).collect::<Vec<_>>().join(" "))
}

async fn list(list: AllowedList, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let answer = client.get::<Page<AllowedView>>(&["allowed", list.as_str()], &[]).await?;
    let from = |entry: &AllowedView| match entry.fixed {
        true => Cell::shown("the server's settings", "settings"),
        false => Cell::shown("an operator", "operator"),
    };
    let since = |entry: &AllowedView, terminal: &Terminal| entry.set_at.map_or_else(Cell::missing, |at| terminal.past(at));
    let table = match list {
        AllowedList::Hosts | AllowedList::Networks => {
            let columns = [Column::Whole("ENTRY"), Column::Whole("FROM"), Column::Whole("SINCE")];
            let mut table = Table::new(columns, format!("no {list} are allowed"));
            for entry in &answer.read.items {
                table.row([Cell::text(&entry.entry), from(entry), since(entry, terminal)]);
            }
            table
        }
        AllowedList::Commands => {
            let columns = [
                Column::Whole("ID"),
                Column::Below("COMMAND"),
                Column::Whole("REACHES"),
                Column::Whole("MEMORY"),
                Column::Whole("USED BY"),
                Column::Whole("FROM"),
                Column::Whole("SINCE"),
            ];
            let mut table = Table::new(columns, "no commands are allowed: countersign source add NAME -- COMMAND");
            for entry in &answer.read.items {
                let command = entry.command.clone().unwrap_or_default();
                table.row([
                    Cell::text(&entry.entry),
                    Cell::text(words(&command.command)),
                    Cell::text(reaches(&command)),
                    Cell::text(format!("{} MB", command.memory_mb.unwrap_or(PACKAGE_MEMORY_MB_DEFAULT))),
                    if entry.used_by.is_empty() { Cell::missing() } else { Cell::text(entry.used_by.join(" ")) },
                    from(entry),
                    since(entry, terminal),
                ]);
            }
            table
        }
    };
    terminal.list(&answer.raw, &table)
}

/// The hosts that a program may reach.
pub(crate) fn reaches(command: &AllowedCommand) -> String {
    if command.hosts.is_empty() { "no host".to_owned() } else { clean::line(&command.hosts.join(" ")) }
}

async fn add_all(list: AllowedList, entries: Vec<String>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    for entry in entries {
        let request = NewAllowedRequest { entry: Some(entry), command: None };
        let answer = client.post::<AllowedView>(&["allowed", list.as_str()], &request).await?;
        terminal.done("allowed", &answer.read.entry, &answer.raw)?;
    }
    Ok(())
}

async fn remove(list: AllowedList, entry: &str, agreed: Agreed, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let what = match list {
        AllowedList::Hosts => "Connections to it end, and sources on it cannot be reached",
        AllowedList::Networks => "Hosts in it cannot be reached",
        AllowedList::Commands => "Its programs end with their last calls, and are not started again",
    };
    terminal.consent(&format!("Allow `{}` no longer? {what}, on every server.", clean::line(entry)), agreed.consent(client)).await?;
    let answer = client.delete::<AllowedView>(&["allowed", list.as_str(), entry]).await?;
    terminal.done("removed", entry, &answer.raw)?;
    for source in &answer.read.used_by {
        terminal
            .remark(Tone::Warn.paint(format!("! source `{}` runs by this command, and cannot be called any more", clean::line(source))));
    }
    if let Some(source) = answer.read.used_by.first() {
        terminal.next(format!("countersign source remove {}", clean::line(source)));
    }
    Ok(())
}
