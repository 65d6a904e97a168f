//! What may be set about a source.

use super::super::connections::{self, spaces_of};
use super::super::packages::{blocking, packages_of};
use super::super::{Error, words};
use crate::App;
use crate::limits::SOURCE_TITLE_CHARS_MAX;
use api::source::{EditSourceRequest, NewSourceRequest, VariableRequest};
use countersign_core::limits::{CALL_TIMEOUT_MS, LIST_TIMEOUT_MS, LIST_TIMEOUT_MS_MAX};
use countersign_core::ports::Connections;
use countersign_core::ports::connections::{Connection, Wanted};
use countersign_core::ports::secrets::SecretName;
use countersign_core::ports::sources::{AddedSource, Hints, McpServer, SourceSettings, Variable, VariableValue};
use countersign_core::{ActionId, ConnectionId, Principal, SourceId, SpaceId, Tier, clean};
use sources::limits::{CONNECTION_TEXT_BYTES_MAX, SOURCE_TEXT_BYTES_MAX, SOURCE_VARIABLES_MAX};
use sources::mcp::AllowedProgram;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn name_of(name: &str) -> Result<SourceId, Error> {
    SourceId::parse(name)
        .map_err(|_| Error::invalid("the name of a source has 1 to 32 lower-case letters, digits, `_` or `-`, and begins with a letter"))
}

/// The settings of a source to be added.
pub(super) async fn of_request(
    app: &App,
    by: &Principal,
    id: &SourceId,
    request: NewSourceRequest,
    program: Option<&AllowedProgram>,
) -> Result<SourceSettings, Error> {
    let server = server_of(app, by, &request, program).await?;
    let NewSourceRequest {
        connection,
        title,
        default_tier,
        trust_hints,
        spaces,
        list_timeout_ms,
        call_timeout_ms,
        accept_irreversible,
        ..
    } = request;
    must_mean(default_tier, accept_irreversible, || "the default tier".to_owned())?;
    let spaces = spaces_named(app, by, spaces).await?;
    let connection = connection_of(app, by, connection.as_deref(), &server, spaces.as_ref()).await?;
    Ok(SourceSettings {
        title: title_of(title, id)?,
        server,
        connection,
        default_tier,
        hints: hints_of(trust_hints),
        tiers: BTreeMap::new(),
        spaces,
        list_timeout_ms: timeout_of("list_timeout_ms", list_timeout_ms.unwrap_or(LIST_TIMEOUT_MS), LIST_TIMEOUT_MS_MAX)?,
        call_timeout_ms: timeout_of("call_timeout_ms", call_timeout_ms.unwrap_or(CALL_TIMEOUT_MS), CALL_TIMEOUT_MS)?,
    })
}

/// The settings of a source with a change. What is absent stays as it is.
pub(super) async fn edited(app: &App, by: &Principal, before: &AddedSource, request: EditSourceRequest) -> Result<SourceSettings, Error> {
    let EditSourceRequest { title, default_tier, trust_hints, spaces, connection, list_timeout_ms, call_timeout_ms, tiers, .. } = request;
    let is_meant = request.accept_irreversible;
    let mut settings = before.settings.clone();
    if let Some(title) = title {
        settings.title = title_of(Some(title), &before.id)?;
    }
    if let Some(default_tier) = default_tier {
        if default_tier != settings.default_tier {
            must_mean(default_tier, is_meant, || "the default tier".to_owned())?;
        }
        settings.default_tier = default_tier;
    }
    if let Some(trust_hints) = trust_hints {
        settings.hints = hints_of(trust_hints);
    }
    if let Some(list_timeout_ms) = list_timeout_ms {
        settings.list_timeout_ms = timeout_of("list_timeout_ms", list_timeout_ms, LIST_TIMEOUT_MS_MAX)?;
    }
    if let Some(call_timeout_ms) = call_timeout_ms {
        settings.call_timeout_ms = timeout_of("call_timeout_ms", call_timeout_ms, CALL_TIMEOUT_MS)?;
    }
    for (tool, tier) in tiers {
        let is_name = ActionId::parse(&format!("{}.{tool}", before.id)).is_ok();
        match tier {
            _ if !is_name => return Err(Error::invalid("a key of `tiers` is not the name of a tool")),
            Some(tier) => {
                if settings.tiers.get(&tool) != Some(&tier) {
                    must_mean(Some(tier), is_meant, || format!("`{}.{tool}`", before.id))?;
                }
                settings.tiers.insert(tool, tier);
            }
            None => {
                settings.tiers.remove(&tool);
            }
        }
    }
    let changes_spaces = spaces.is_some();
    if let Some(spaces) = spaces {
        settings.spaces = spaces_named(app, by, spaces).await?;
    }
    match (connection, &settings.connection) {
        (Some(named), _) => {
            settings.connection = connection_of(app, by, named.as_deref(), &settings.server, settings.spaces.as_ref()).await?;
        }
        (None, Some(present)) if changes_spaces => {
            let present = connections::find_any(app, by, present.as_str()).await?;
            must_share_a_space(settings.spaces.as_ref(), &present)?;
        }
        (None, Some(_) | None) => {}
    }
    Ok(settings)
}

/// R2 runs without a person because what it did can be taken back. Nothing that an MCP server does can, unless somebody says so knowingly.
fn must_mean(tier: Option<Tier>, is_meant: bool, what: impl FnOnce() -> String) -> Result<(), Error> {
    if tier == Some(Tier::R2) && !is_meant { Err(Error::NoRollback { what: what() }) } else { Ok(()) }
}

/// Whether the actions that the source lists may be others with the new settings. Then it is asked for them before anything is changed.
pub(super) fn changes_actions(before: &SourceSettings, after: &SourceSettings) -> bool {
    let actions = |settings: &SourceSettings| {
        (settings.tiers.clone(), settings.hints, settings.default_tier, settings.call_timeout_ms, settings.connection.clone())
    };
    actions(before) != actions(after)
}

async fn server_of(app: &App, by: &Principal, request: &NewSourceRequest, program: Option<&AllowedProgram>) -> Result<McpServer, Error> {
    // Connections hear of what operators have just allowed.
    let lists = app.parts.added.allowed().now().await?;
    match (&request.url, &request.command, &request.package) {
        (Some(_), None, None) if !request.env.is_empty() => Err(Error::invalid("`env` is for a `command` or a `package`")),
        (None, Some(_), None) | (None, None, Some(_)) if request.connection.is_some() => {
            Err(Error::invalid("`connection` is for a `url`; a program gets its credentials as secrets in `env`"))
        }
        (Some(url), None, None) => {
            if url.len() > CONNECTION_TEXT_BYTES_MAX {
                return Err(Error::invalid(format!("`url` has at most {CONNECTION_TEXT_BYTES_MAX} bytes")));
            }
            app.parts.connections.check_url(url).map_err(Error::Source)?;
            Ok(McpServer::Http { url: url.clone() })
        }
        (None, Some(command), None) => {
            must_be_short(command, &request.env)?;
            let env = variables_of(app, by, &request.env).await?;
            // The program that is added with it may have the variables that it was given.
            if program.is_none() {
                lists.programs.check(command, &env).map_err(Error::Source)?;
            }
            Ok(McpServer::Program { command: command.clone(), env })
        }
        (None, None, Some(package)) => {
            must_be_short(&[], &request.env)?;
            let env = variables_of(app, by, &request.env).await?;
            let package = package_of(app, by, package, &env).await?;
            Ok(McpServer::Package { package, env })
        }
        (Some(_), Some(_), Some(_) | None) | (None, Some(_), Some(_)) | (Some(_), None, Some(_)) | (None, None, None) => {
            Err(Error::invalid("give one of `url`, `command` and `package`"))
        }
    }
}

/// The package that is named, if it is installed and its MCP server may have these variables.
async fn package_of(app: &App, by: &Principal, named: &str, env: &[Variable]) -> Result<SourceId, Error> {
    let unknown = || Error::not_found("package", named);
    let package = SourceId::parse(named).map_err(|_| unknown())?;
    let (packages, name) = (packages_of(app, &by.org)?, package.clone());
    let server = blocking(move || packages.server(&name)).await?;
    let checked = server.and_then(|server| server.check_variables(env));
    match checked {
        Ok(()) => Ok(package),
        Err(error) if error.code() == "package_missing" => Err(unknown()),
        Err(error) => Err(Error::invalid(error.without_conclusion())),
    }
}

fn must_be_short(command: &[String], env: &[VariableRequest]) -> Result<(), Error> {
    let mut texts = command.iter().chain(env.iter().flat_map(|variable| variable.value.iter().chain([&variable.name])));
    let is_long = command.len() > SOURCE_VARIABLES_MAX || env.len() > SOURCE_VARIABLES_MAX;
    if !is_long && texts.all(|text| text.len() <= SOURCE_TEXT_BYTES_MAX && !text.contains('\0')) {
        return Ok(());
    }
    let message = "words and variables of a program, each of at most";
    Err(Error::invalid(format!("there are at most {SOURCE_VARIABLES_MAX} {message} {SOURCE_TEXT_BYTES_MAX} bytes, and none has U+0000")))
}

async fn variables_of(app: &App, by: &Principal, requested: &[VariableRequest]) -> Result<Vec<Variable>, Error> {
    let mut variables: Vec<Variable> = Vec::with_capacity(requested.len());
    for VariableRequest { name, value, secret } in requested {
        if variables.iter().any(|other| other.name == *name) {
            return Err(Error::invalid("a variable of `env` is there twice"));
        }
        let value = match (value, secret) {
            (Some(value), None) => VariableValue::Value(value.clone()),
            (None, Some(secret)) => {
                let unknown = || Error::not_found("secret", secret);
                let parsed = SecretName::parse(secret).ok_or_else(unknown)?;
                app.store().find_secret(&by.org, &parsed).await?.ok_or_else(unknown)?;
                VariableValue::Secret(secret.clone())
            }
            (Some(_), Some(_)) | (None, None) => return Err(Error::invalid("a variable of `env` has either `value` or `secret`")),
        };
        variables.push(Variable { name: name.clone(), value });
    }
    Ok(variables)
}

/// The connection that is named, if its credential can be had now and is for the address of the source.
async fn connection_of(
    app: &App,
    by: &Principal,
    named: Option<&str>,
    server: &McpServer,
    spaces: Option<&BTreeSet<SpaceId>>,
) -> Result<Option<ConnectionId>, Error> {
    let (named, url) = match (named, server) {
        (None, _) => return Ok(None),
        (Some(named), McpServer::Http { url }) => (named, url),
        (Some(_), McpServer::Program { .. } | McpServer::Package { .. }) => {
            return Err(Error::invalid("`connection` is for a source with a `url`"));
        }
    };
    let found = connections::find_any(app, by, named).await?;
    if found.removed_at.is_some() {
        return Err(Error::not_found("connection", named));
    }
    must_share_a_space(spaces, &found)?;
    let wanted = Wanted { org: &by.org, connection: &found.id, space: None, url };
    app.parts.connections.resolve_connection(wanted).await.map_err(Error::Source)?;
    Ok(Some(found.id))
}

fn must_share_a_space(spaces: Option<&BTreeSet<SpaceId>>, connection: &Connection) -> Result<(), Error> {
    match (spaces, &connection.spaces) {
        (Some(spaces), Some(others)) if !others.iter().any(|space| spaces.contains(space)) => {
            Err(Error::invalid(format!("connection `{}` is for none of the spaces that the source is for", connection.name)))
        }
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

async fn spaces_named(app: &App, by: &Principal, named: Option<Vec<String>>) -> Result<Option<BTreeSet<SpaceId>>, Error> {
    match named {
        Some(named) => Ok(Some(spaces_of(app, by, &named).await?.into_iter().collect())),
        None => Ok(None),
    }
}

fn title_of(given: Option<String>, id: &SourceId) -> Result<String, Error> {
    let title = words("title", given.as_deref())?.unwrap_or_else(|| id.to_string());
    let fits = (1..=SOURCE_TITLE_CHARS_MAX).contains(&title.chars().count()) && title.trim() == title && clean::line(&title) == title;
    if fits {
        return Ok(title);
    }
    let message = format!("`title` has 1 to {SOURCE_TITLE_CHARS_MAX} characters that show, and no space at its ends");
    Err(Error::invalid(message))
}

const fn hints_of(trust_hints: bool) -> Hints {
    if trust_hints { Hints::Trusted } else { Hints::Untrusted }
}

fn timeout_of(field: &str, timeout_ms: u64, max: u64) -> Result<u64, Error> {
    if (1..=max).contains(&timeout_ms) { Ok(timeout_ms) } else { Err(Error::invalid(format!("`{field}` must be 1 to {max}"))) }
}
