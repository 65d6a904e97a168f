//! `countersign connect`: makes a session for an MCP client, and the entry with which the client reaches it: printed, or written into the
//! client's own settings. Then it does what the client will do, and says what it saw.

mod file;
mod json_file;
mod program;
mod proof;
mod toml_file;

use crate::context::{Context, Contexts, Environment, Server, parse_url};
use crate::shared::*;
use api::Code;
use api::identity::{NewSessionRequest, NewSessionResponse, SessionView};
use clap::Args;
use countersign_core::Secret;
use program::{Entry, NAME, Program};
use proof::Seen;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use url::Url;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign connect claude-code                          print the entry for .mcp.json
  countersign connect codex --write                        write it into ~/.codex/config.toml
  countersign connect cursor --write --space main --source files
  countersign connect vscode --http --write                no program: the address and the token
  countersign connect gemini --write --name laptop         what people read of its session
  countersign connect codex --undo                         take the entry away, and end its session";

#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// The client
    #[arg(value_enum)]
    client: Program,
    /// Write the entry into the client's settings; everything else in them stays, and a copy is kept beside them
    #[arg(long, conflicts_with = "undo")]
    write: bool,
    /// Take the entry away again, and end its session: its token stops working at once
    #[arg(long, conflicts_with_all = ["http", "space", "source", "name", "unattended"])]
    undo: bool,
    /// The client asks the server by itself, with the token in its settings; else it starts `countersign mcp`
    #[arg(long)]
    http: bool,
    /// The client's settings, if they are elsewhere
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The name or the id of the space its session is in
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// A source that it is connected to; may be given several times. Actions of others do not exist for it; all sources when absent
    #[arg(long, value_name = "SOURCE")]
    source: Vec<String>,
    /// What people read of its session; the client's name when absent
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Nobody watches it: approvals may take 24 hours instead of 5 minutes
    #[arg(long)]
    unattended: bool,
}

/// What was made for the client.
struct Made {
    session: String,
    /// The name of the context that has the token.
    context: String,
    entry: Entry,
}

impl Connect {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        let path = self.file.clone().or_else(|| self.client.file(setting.environment));
        if self.undo {
            return self.undo(path, setting).await;
        }
        let wanted = if self.write { Some(must_be_named(path.clone())?) } else { None };
        // What cannot be written is known before anything is made.
        wanted.as_deref().map_or(Ok(()), |path| self.free(path).map(drop))?;
        let client = setting.client()?;
        let made = self.make(&client, &setting).await?;
        let value = self.client.value(&made.entry);
        let entered = connected(&made.context, &setting).and_then(|server| Ok((server, self.enter(wanted, &value)?)));
        let (server, written) = match entered {
            Ok(entered) => entered,
            Err(failure) => return Err(unmake(&made.session, Some(&made.context), &client, setting.environment, failure).await),
        };
        let seen = proof::prove(&made.entry, server).await;
        self.tell(&made, &value, written.as_ref(), path.as_deref(), seen, setting.terminal)
    }

    /// Writes the entry, if it shall be written. The settings are read anew: the client may have written to them since they were looked at.
    fn enter(&self, wanted: Option<PathBuf>, value: &Value) -> Result<Option<(PathBuf, Option<PathBuf>)>, Failure> {
        let Some(path) = wanted else { return Ok(None) };
        let before = self.free(&path)?;
        let backup = file::replace(&path, &before, &self.client.insert(&before, value, &path)?)?;
        Ok(Some((path, backup)))
    }

    /// The content of the settings, if there is room for the entry.
    fn free(&self, path: &Path) -> Result<String, Failure> {
        let text = file::read(path)?;
        if self.client.find(&text, path)?.is_some() {
            return Err(Failure::new(Exit::Conflict, format!("`{}` has an entry `{NAME}` already", path.display()))
                .hint(format!("countersign connect {} --undo", self.client.as_str())));
        }
        self.client.must_know(&text, path)?;
        // The value does not matter: only whether one can be put there.
        self.client.insert(&text, &json!({ "command": NAME }), path).map(|_| text)
    }

    /// Makes the session, and keeps its token in a context of its own. If that fails, the session is ended.
    async fn make(&self, client: &Client, setting: &Setting<'_>) -> Result<Made, Failure> {
        // Contexts that cannot be read are known before anything is made.
        Contexts::load(&setting.environment.contexts_file()?)?;
        let request = NewSessionRequest {
            space: self.space.clone(),
            title: Some(self.name.clone().unwrap_or_else(|| self.client.as_str().to_owned())),
            unattended: self.unattended,
            automation_id: None,
            sources: Some(self.source.clone()).filter(|sources| !sources.is_empty()),
            mcp: None,
        };
        let created = client.post::<NewSessionResponse>(&["sessions"], &request).await?.read;
        let session = created.id.clone();
        match self.keep(created, client, setting) {
            Ok(made) => Ok(made),
            Err(failure) => Err(unmake(&session, None, client, setting.environment, failure).await),
        }
    }

    /// Keeps the token of a new session in a context, and makes the entry that leads to it.
    fn keep(&self, created: NewSessionResponse, client: &Client, setting: &Setting<'_>) -> Result<Made, Failure> {
        let command = if self.http { None } else { Some(own_path()?) };
        let path = setting.environment.contexts_file()?;
        let mut contexts = Contexts::load(&path)?;
        let (token, name) = (Secret::new(created.token), free_name(self.client.as_str(), &contexts));
        let ca_cert = setting.server()?.ca_cert.map(|file| std::path::absolute(&file).unwrap_or(file));
        let mut context = Context::new(client.url(), &token);
        (context.ca_cert, context.session) = (ca_cert, Some(created.id.clone()));
        contexts.contexts.insert(name.clone(), context);
        contexts.save(&path)?;
        let hold = self.client.hold();
        let entry = match command {
            None => Entry::Http { url: mcp_url(client.url()), hold, token: token.expose().clone() },
            Some(command) => {
                let hold = hold.into_iter().flat_map(|seconds| ["--hold".to_owned(), seconds.to_string()]);
                let args = ["mcp", "--context", &name].into_iter().map(str::to_owned).chain(hold).collect();
                Entry::Stdio { command, args, env: found_by(setting.environment) }
            }
        };
        Ok(Made { session: created.id, context: name, entry })
    }

    /// Says what was made and what a client sees. If it sees nothing, that is the failure, and what was made stays.
    fn tell(
        &self,
        made: &Made,
        value: &Value,
        written: Option<&(PathBuf, Option<PathBuf>)>,
        path: Option<&Path>,
        seen: Result<Seen, Failure>,
        terminal: &mut Terminal,
    ) -> Result<Exit, Failure> {
        let text = self.client.insert("", value, Path::new(NAME))?;
        if terminal.is_document() {
            terminal.document(&json!({
                "client": self.client.as_str(),
                "session_id": made.session,
                "context": made.context,
                "file": path.map(|path| path.display().to_string()),
                "is_written": written.is_some(),
                "backup": written.and_then(|(_, backup)| backup.as_ref()).map(|backup| backup.display().to_string()),
                "entry": value,
                "config": text,
                "seen": seen.as_ref().ok().map(Seen::to_json),
            }))?;
        } else if written.is_none() {
            terminal.line(text.trim_end())?;
        }
        match written {
            Some((path, backup)) => {
                let kept = backup.as_ref().map(|backup| format!("; what was there is kept in `{}`", backup.display())).unwrap_or_default();
                terminal.remark(format!("{} `{}`{kept}", Tone::Ok.paint("✓ wrote the entry into"), path.display()));
                self.tell_reload(terminal);
            }
            None => self.tell_where(path, value, terminal),
        }
        if self.http {
            terminal.remark(Tone::Warn.paint("! the settings hold the token: whoever reads them acts as this agent; do not share them"));
        }
        match seen {
            Ok(seen) => {
                terminal.remark(format!("{} {}", Tone::Ok.paint("✓ tried it:"), seen.words()));
                terminal.next(format!("countersign inbox (session {})", made.session));
                Ok(Exit::Ok)
            }
            Err(failure) => {
                let undo = match written {
                    Some(_) => format!("countersign connect {} --undo", self.client.as_str()),
                    None => format!("countersign session end {} --yes", made.session),
                };
                let why = [Some(failure.message), failure.cause, failure.hint].into_iter().flatten().collect::<Vec<_>>().join("; ");
                Err(Failure::new(failure.exit, "the entry was made, and does not work").cause(why).hint(undo))
            }
        }
    }

    /// A client that is open does not notice by itself.
    fn tell_reload(&self, terminal: &mut Terminal) {
        if let Some(reload) = self.client.reload() {
            terminal.remark(Tone::Warn.paint(format!("! {reload}")));
        }
    }

    /// Where to put what was printed.
    fn tell_where(&self, path: Option<&Path>, value: &Value, terminal: &mut Terminal) {
        let place = path.map_or_else(|| "the client's settings".to_owned(), |path| format!("`{}`", path.display()));
        terminal.remark(format!("put it into {place}; with --write this is done for you"));
        // SECURITY: never with a token, which would be in the list of processes and in the shell's history.
        if self.client == Program::ClaudeCode && !self.http {
            let text = value.to_string().replace('\'', r"'\''");
            terminal.remark(Tone::Muted.paint(format!("or run: claude mcp add-json {NAME} '{text}'")));
        }
    }

    async fn undo(&self, path: Option<PathBuf>, setting: Setting<'_>) -> Result<Exit, Failure> {
        let path = must_be_named(path)?;
        let text = file::read(&path)?;
        let value = self.client.find(&text, &path)?.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("`{}` has no entry `{NAME}`", path.display()))
                .hint("name the file with --file; a session is ended with `countersign session end`")
        })?;
        let contexts_file = setting.environment.contexts_file()?;
        let mut contexts = Contexts::load(&contexts_file)?;
        let (name, session) = made_for(&value, &contexts).ok_or_else(|| {
            Failure::new(Exit::Conflict, format!("the entry `{NAME}` in `{}` was not made by `countersign connect` here", path.display()))
                .hint("take it away by hand, and end its session with `countersign session end`")
        })?;
        self.client.remove(&text, &path)?;
        let client = setting.client()?;
        let url = parse_url(&contexts.get(&name)?.url)?;
        if url != *client.url() {
            return Err(
                Failure::usage(format!("its session is on `{url}`, and this is `{}`", client.url())).hint("name that server with --url")
            );
        }
        let ended = end(&session, &client).await?;
        // The client may have written to them meanwhile.
        let text = file::read(&path)?;
        let removed = self.client.remove(&text, &path)?;
        // What was there before is there again, to the letter, if nobody wrote to the settings since: also where the entry was the first one.
        let is_before = |copy: &String| self.client.insert(copy, &value, &path).is_ok_and(|made| made == text);
        let copies = file::copies(&path);
        let left = match copies.iter().find(|copy| is_before(copy)) {
            Some(before) => before.clone(),
            // The section was made with the entry; a client that wrote to its settings since would keep it for ever.
            None => self.client.tidy(&removed, copies.first().map_or("", String::as_str), &path)?,
        };
        // What is left of a file that was made for the entry.
        let empty = self.client.insert("", &value, &path).and_then(|made| self.client.remove(&made, &path));
        let empty = empty.and_then(|left| self.client.tidy(&left, "", &path));
        let is_removed = empty.is_ok_and(|empty| empty == left) && file::remove_made(&path, &text)?;
        let backup = if is_removed { None } else { file::replace(&path, &text, &left)? };
        contexts.contexts.remove(&name);
        contexts.save(&contexts_file)?;
        let kept = backup.map(|backup| format!("; what was there is kept in `{}`", backup.display())).unwrap_or_default();
        let terminal = setting.terminal;
        if terminal.is_document() {
            let file = path.display().to_string();
            terminal.document(&json!({ "client": self.client.as_str(), "session_id": session, "file": file, "is_ended": ended }))?;
        }
        let done = if is_removed { "✓ removed, as it was made for the entry and has nothing else:" } else { "✓ took the entry out of" };
        terminal.remark(format!("{} `{}`{kept}", Tone::Ok.paint(done), path.display()));
        self.tell_reload(terminal);
        terminal.remark(format!("{} `{session}`; its token no longer works", Tone::Ok.paint("✓ ended")));
        Ok(Exit::Ok)
    }
}

fn must_be_named(path: Option<PathBuf>) -> Result<PathBuf, Failure> {
    path.ok_or_else(|| Failure::usage("it is not known where this client keeps its settings").hint("name the file with --file"))
}

/// The first of `claude-code`, `claude-code-2` and so on that is no context yet.
fn free_name(wanted: &str, contexts: &Contexts) -> String {
    let numbered = (2..).map(|number: u32| format!("{wanted}-{number}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
    names.find(|name| !contexts.contexts.contains_key(name)).unwrap_or_else(|| wanted.to_owned())
}

/// The context and the session that an entry was made with.
fn made_for(value: &Value, contexts: &Contexts) -> Option<(String, String)> {
    let words: Vec<_> =
        ["command", "args"].into_iter().filter_map(|words| value[words].as_array()).flatten().filter_map(Value::as_str).collect();
    let named = words.iter().skip_while(|word| **word != "--context").nth(1).map(|name| (*name).to_owned());
    let header = ["headers", "http_headers"].into_iter().find_map(|headers| value[headers]["Authorization"].as_str());
    let token = header.and_then(|header| header.strip_prefix("Bearer "));
    let of_token =
        || token.and_then(|token| contexts.contexts.iter().find(|(_, context)| context.has_token(token))).map(|(name, _)| name.clone());
    let name = named.or_else(of_token)?;
    let session = contexts.contexts.get(&name)?.session.clone()?;
    Some((name, session))
}

/// Whether the session was there to be ended.
async fn end(session: &str, client: &Client) -> Result<bool, Failure> {
    match client.post_empty::<SessionView>(&["sessions", session, "end"]).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.is(Code::UnknownSession) || failure.is(Code::NotFound) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Takes back what was made for an entry that could not be finished: its session, and the context that has the token.
async fn unmake(session: &str, context: Option<&str>, client: &Client, environment: &Environment, failure: Failure) -> Failure {
    let forget = || -> Result<(), Failure> {
        let Some(context) = context else { return Ok(()) };
        let path = environment.contexts_file()?;
        let mut contexts = Contexts::load(&path)?;
        contexts.contexts.remove(context);
        contexts.save(&path)
    };
    match end(session, client).await.and_then(|_| forget()) {
        Ok(()) => failure,
        Err(_) => failure.hint(format!("countersign session end {session} --yes")),
    }
}

/// The server with the token of the new context, whatever the variables say.
fn connected(context: &str, setting: &Setting<'_>) -> Result<Server, Failure> {
    let environment = Environment { url: None, token: None, token_is_empty: false, ..setting.environment.clone() };
    Server::find(None, Some(context), &environment)
}

fn mcp_url(base: &Url) -> String {
    format!("{}/mcp", base.as_str().trim_end_matches('/'))
}

/// The path of this binary: a client that was started from a desktop does not know the shell's folders.
fn own_path() -> Result<String, Failure> {
    let path = std::env::current_exe().map_err(|error| Failure::failed(format!("the path of this program is not known: {error}")))?;
    path.to_str().map(str::to_owned).ok_or_else(|| Failure::failed("the path of this program is no text"))
}

/// The variable that leads to the contexts, if they are not where every program finds them.
fn found_by(environment: &Environment) -> Vec<(String, String)> {
    let is_set = |name: &str| environment.variables.get(name).is_some_and(|value| !value.is_empty());
    let folder = environment.config.as_ref().filter(|_| is_set("COUNTERSIGN_CONFIG_HOME") || is_set("XDG_CONFIG_HOME"));
    let folder = folder.map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.clone()));
    folder.map(|folder| ("COUNTERSIGN_CONFIG_HOME".to_owned(), folder.display().to_string())).into_iter().collect()
}
