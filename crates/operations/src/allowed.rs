//! What operators allow the sources of every org: hosts, networks and commands. What the file of settings says is changed there alone.

use super::{Error, orgs};
use crate::App;
use api::allowed::{AllowedCommand, NewAllowedRequest};
use countersign_core::Principal;
use countersign_core::allowed::AllowedList;
use countersign_core::ports::AddedSources;
use countersign_core::ports::sources::McpServer;
use homes::allowed::{AllowLists, Lists, id_of, program_of};
use ipnet::IpNet;
use sources::limits::{SOURCE_TEXT_BYTES_MAX, SOURCE_VARIABLES_MAX};
use sources::mcp::{AllowedProgram, Plan};
use sources::web::HostRule;
use std::net::IpAddr;
use store::limits::ALLOWED_MAX;
use store::{AllowedRow, NewAllowed, SetAllowed};

/// Something that is allowed.
pub struct Entry {
    pub list: AllowedList,
    pub entry: String,
    pub program: Option<AllowedProgram>,
    /// The sources of the operator's org that run it.
    pub used_by: Vec<String>,
    /// Absent if the file of settings says so.
    pub row: Option<AllowedRow>,
}

/// Everything on a list: first what the file of settings fixes.
pub async fn list(app: &App, by: &Principal, list: &str) -> Result<Vec<Entry>, Error> {
    orgs::list(app, by).await?;
    let list = named(list)?;
    let lists = lists_of(app).now().await?;
    entries(app, by, &lists, list).await
}

/// Allows something. What is allowed so already stays as it is.
pub async fn add(app: &App, by: &Principal, list: &str, asked: NewAllowedRequest) -> Result<Entry, Error> {
    orgs::list(app, by).await?;
    let list = named(list)?;
    let new = match (list, asked.entry, asked.command) {
        (AllowedList::Hosts, Some(host), None) => {
            let host = host.parse::<HostRule>().map_err(|error| Error::invalid(error.to_string()))?;
            NewAllowed { list, entry: host.to_string(), terms: None }
        }
        (AllowedList::Networks, Some(network), None) => NewAllowed { list, entry: network_of(&network)?.to_string(), terms: None },
        (AllowedList::Commands, None, Some(command)) => new_command(&checked(&command)?)?,
        (AllowedList::Hosts | AllowedList::Networks, _, _) => return Err(Error::invalid("give `entry`, and no `command`")),
        (AllowedList::Commands, _, _) => return Err(Error::invalid("give `command`, and no `entry`")),
    };
    let lists = lists_of(app).now().await?;
    let fixed = entries(app, by, &lists, list).await?.into_iter().find(|known| known.row.is_none() && known.entry == new.entry);
    if let Some(known) = fixed {
        // A host is allowed or not; a command may have been meant otherwise.
        return if list == AllowedList::Commands { Err(is_fixed(list, &new.entry)) } else { Ok(known) };
    }
    let entry = new.entry.clone();
    match app.store().set_allowed(&by.org, new, &by.id).await? {
        SetAllowed::Done(_) => {}
        SetAllowed::TooMany => return Err(too_many(list)),
    }
    let done = |why: Error| Error::interrupted(&why, format!("`{entry}` is allowed"), format!("allowed/{list}"));
    let lists = follow(app).await.map_err(done)?;
    let found = entries(app, by, &lists, list).await.map_err(done)?.into_iter().find(|known| known.entry == entry);
    found.ok_or_else(|| Error::invalid(format!("`{entry}` was removed again meanwhile")))
}

/// Allows something no longer. Programs that ran by it end with their last calls, and connections to a host that is not allowed any more.
pub async fn remove(app: &App, by: &Principal, list: &str, entry: &str) -> Result<Entry, Error> {
    orgs::list(app, by).await?;
    let list = named(list)?;
    let lists = lists_of(app).now().await?;
    let known = entries(app, by, &lists, list).await?.into_iter().find(|known| known.entry == entry);
    let absent = || {
        let listed_at = match list {
            AllowedList::Hosts => "allowed/hosts",
            AllowedList::Networks => "allowed/networks",
            AllowedList::Commands => "allowed/commands",
        };
        let shown: String = entry.chars().filter(|character| !character.is_control()).take(80).collect();
        Error::Absent { message: format!("`{shown}` is not on the list of {list}"), listed_at }
    };
    let known = known.ok_or_else(absent)?;
    if known.row.is_none() {
        return Err(is_fixed(list, entry));
    }
    app.store().remove_allowed(&by.org, list, entry, &by.id).await?.ok_or_else(absent)?;
    let done = |why: Error| Error::interrupted(&why, format!("`{entry}` is allowed no longer"), format!("allowed/{list}"));
    follow(app).await.map_err(done)?;
    Ok(known)
}

/// What a command would run: the packages that it names are installed, and nothing is allowed yet.
pub async fn plan(app: &App, by: &Principal, command: &[String]) -> Result<Plan, Error> {
    orgs::list(app, by).await?;
    must_be_short(command)?;
    let folder = app.parts.added.programs_folder().map_err(Error::Source)?.to_owned();
    sources::mcp::plan(command, &folder).await.map_err(Error::Source)
}

/// The operator's part of a source to be added: its command, with what it is allowed, and the write that allows it. The variables that the source
/// sets are among those that it may set.
pub(super) async fn of_source(
    app: &App,
    by: &Principal,
    asked: &AllowedCommand,
    variables: impl Iterator<Item = &String>,
) -> Result<(AllowedProgram, NewAllowed), Error> {
    orgs::list(app, by).await?;
    let mut asked = asked.clone();
    for name in variables {
        if !asked.env.contains(name) {
            asked.env.push(name.clone());
        }
    }
    let program = checked(&asked)?;
    let new = new_command(&program)?;
    let lists = lists_of(app).now().await?;
    let is_fixed_command = lists_of(app).fixed().commands.iter().any(|fixed| fixed.command == program.command);
    if is_fixed_command {
        return Err(is_fixed(AllowedList::Commands, &new.entry));
    }
    if lists.find(&program.command).is_some_and(|known| *known != program) {
        let users = users_of(app, &program.command).await?;
        if !users.is_empty() {
            let message = format!(
                "the same command runs for {} and is allowed otherwise there; remove that source first, or change what the command is \
                 allowed, and add this one without `allow`",
                users.join(", ")
            );
            return Err(Error::invalid(message));
        }
    }
    Ok((program, new))
}

/// Takes a change over at once, here; other servers hear of it. What is not allowed any more ends.
pub(super) async fn follow(app: &App) -> Result<std::sync::Arc<Lists>, Error> {
    let lists = lists_of(app).now().await?;
    for org in app.store().list_orgs().await?.into_iter().filter(|org| org.disabled_at.is_none()) {
        app.parts.added.let_go(&org.id, app.pipeline().catalogue()).await;
    }
    Ok(lists)
}

pub(super) fn too_many(list: AllowedList) -> Error {
    Error::invalid(format!("there are {ALLOWED_MAX} {list} already, which is as many as may be allowed; nothing was changed"))
}

fn lists_of(app: &App) -> &AllowLists {
    app.parts.added.allowed()
}

fn named(list: &str) -> Result<AllowedList, Error> {
    AllowedList::parse(list).ok_or_else(|| Error::not_found("list", list))
}

fn is_fixed(list: AllowedList, entry: &str) -> Error {
    let setting = match list {
        AllowedList::Hosts => "source_allowed_hosts",
        AllowedList::Networks => "source_allowed_networks",
        AllowedList::Commands => "mcp_commands",
    };
    Error::invalid(format!(
        "`{entry}` is fixed by `{setting}` in the settings of the server, and is changed there alone; nothing was changed"
    ))
}

fn network_of(text: &str) -> Result<IpNet, Error> {
    if let Ok(address) = text.parse::<IpAddr>() {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        return Err(Error::invalid(format!("`{text}` is an address and no network: write `{text}/{bits}`")));
    }
    let shown: String = text.chars().filter(|character| !character.is_control()).take(80).collect();
    let network = text.parse::<IpNet>().map_err(|_| Error::invalid(format!("`{shown}` is not a network, such as `127.0.0.1/32`")))?;
    Ok(network.trunc())
}

/// Reads a command as the file of settings does.
fn checked(asked: &AllowedCommand) -> Result<AllowedProgram, Error> {
    must_be_short(&asked.command)?;
    let lists = [&asked.readable, &asked.env, &asked.hosts];
    if lists.iter().any(|list| list.len() > SOURCE_VARIABLES_MAX || list.iter().any(|text| text.len() > SOURCE_TEXT_BYTES_MAX)) {
        return Err(too_long());
    }
    let read = serde_json::to_value(asked).and_then(serde_json::from_value::<AllowedProgram>);
    let program = read.map_err(|error| Error::invalid(error.to_string()))?;
    match program.mistake() {
        Some(mistake) => Err(Error::invalid(mistake)),
        None => Ok(program),
    }
}

fn must_be_short(words: &[String]) -> Result<(), Error> {
    let fits = words.len() <= SOURCE_VARIABLES_MAX && words.iter().all(|word| word.len() <= SOURCE_TEXT_BYTES_MAX && !word.contains('\0'));
    if fits { Ok(()) } else { Err(too_long()) }
}

fn too_long() -> Error {
    Error::invalid(format!(
        "a command has at most {SOURCE_VARIABLES_MAX} words, folders, variables and hosts, each of at most {SOURCE_TEXT_BYTES_MAX} bytes"
    ))
}

fn new_command(program: &AllowedProgram) -> Result<NewAllowed, Error> {
    let terms = countersign_core::json::canonical_exact(program).map_err(|error| Error::invalid(error.to_string()))?;
    Ok(NewAllowed { list: AllowedList::Commands, entry: id_of(&program.command), terms: Some(terms) })
}

async fn entries(app: &App, by: &Principal, lists: &Lists, list: AllowedList) -> Result<Vec<Entry>, Error> {
    let fixed = lists_of(app).fixed();
    let plain = |entry: String| Entry { list, entry, program: None, used_by: Vec::new(), row: None };
    let mut entries: Vec<Entry> = match list {
        AllowedList::Hosts => fixed.hosts.iter().map(|host| plain(host.to_string())).collect(),
        AllowedList::Networks => fixed.networks.iter().map(|network| plain(network.to_string())).collect(),
        AllowedList::Commands => {
            let of = |program: &AllowedProgram| Entry { program: Some(program.clone()), ..plain(id_of(&program.command)) };
            fixed.commands.iter().map(of).collect()
        }
    };
    for row in lists.rows.iter().filter(|row| row.list == list) {
        if entries.iter().any(|known| known.entry == row.entry) {
            continue;
        }
        let program = if list == AllowedList::Commands { program_of(row).ok() } else { None };
        entries.push(Entry { program, row: Some(row.clone()), ..plain(row.entry.clone()) });
    }
    if list == AllowedList::Commands {
        let added = app.store().added_sources(&by.org).await?;
        for entry in &mut entries {
            let runs = |server: &McpServer| matches!((server, &entry.program), (McpServer::Program { command, .. }, Some(program)) if *command == program.command);
            entry.used_by = added.iter().filter(|source| runs(&source.settings.server)).map(|source| source.id.to_string()).collect();
        }
    }
    Ok(entries)
}

/// The sources of any org that run a command, by name.
async fn users_of(app: &App, command: &[String]) -> Result<Vec<String>, Error> {
    let mut users = Vec::new();
    for org in app.store().list_orgs().await?.into_iter().filter(|org| org.disabled_at.is_none()) {
        let runs = |server: &McpServer| matches!(server, McpServer::Program { command: words, .. } if words == command);
        let added = app.store().added_sources(&org.id).await?;
        users.extend(added.iter().filter(|source| runs(&source.settings.server)).map(|source| format!("source `{}`", source.id)));
    }
    Ok(users)
}
