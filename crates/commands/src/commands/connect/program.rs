//! The MCP clients that are known: where each keeps its servers, in which form, and how long it waits for one. `docs/guides/agents.md` says
//! the same in words.

use super::{json_file, toml_file};
use crate::context::Environment;
use crate::shared::*;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The name of the entry.
pub(super) const NAME: &str = "countersign";
/// How long a client shall wait for a call, where it can be told: longer than a person has to answer and the call to run.
const PATIENCE_SECONDS: u64 = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    ClaudeCode,
    Codex,
    Cursor,
    Vscode,
    Gemini,
    Opencode,
    Generic,
}

/// How a client reaches the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It starts a program, which has the token in a context.
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)> },
    /// It asks by itself, and has the token in its settings.
    Http { url: String, hold: Option<u64>, token: String },
}

impl Program {
    /// As it is typed, and as its session is called.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Generic => "generic",
        }
    }

    /// Where it keeps its servers: for this folder, or for all of a person where it knows no other.
    pub(super) fn file(self, environment: &Environment) -> Option<PathBuf> {
        let variable = |name: &str| environment.variables.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        match self {
            Self::ClaudeCode => Some(".mcp.json".into()),
            Self::Codex => variable("CODEX_HOME").or_else(|| Some(variable("HOME")?.join(".codex"))).map(|home| home.join("config.toml")),
            Self::Cursor => Some(".cursor/mcp.json".into()),
            Self::Vscode => Some(".vscode/mcp.json".into()),
            Self::Gemini => Some(".gemini/settings.json".into()),
            // It reads both. A second file beside one that is there would only confuse.
            Self::Opencode if Path::new("opencode.jsonc").exists() && !Path::new("opencode.json").exists() => Some("opencode.jsonc".into()),
            Self::Opencode => Some("opencode.json".into()),
            Self::Generic => None,
        }
    }

    /// How long it waits, where that is known for certain: then the server holds a call as long. Otherwise the server knows it by its name.
    pub(super) const fn hold(self) -> Option<u64> {
        match self {
            Self::Codex | Self::Gemini | Self::Opencode => Some(PATIENCE_SECONDS),
            Self::ClaudeCode | Self::Cursor | Self::Vscode | Self::Generic => None,
        }
    }

    /// What makes it read its settings again, where it does not do so when it starts its next conversation.
    pub(super) const fn reload(self) -> Option<&'static str> {
        match self {
            Self::Vscode => {
                Some("VS Code that is open has to reload: `Developer: Reload Window`, or `MCP: List Servers` and start it there")
            }
            Self::Cursor => Some("Cursor that is open has to reload: `Developer: Reload Window`, or turn it on under Settings, MCP"),
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Opencode => {
                Some("a conversation that is open goes on without the change: start a new one")
            }
            Self::Generic => None,
        }
    }

    const fn section(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::Cursor | Self::Gemini | Self::Generic => "mcpServers",
            Self::Opencode => "mcp",
            Self::Codex => "mcp_servers",
            Self::Vscode => "servers",
        }
    }

    /// The entry in the form of this client, with its timeout where it has one.
    pub(super) fn value(self, entry: &Entry) -> Value {
        let mut value = match (self, entry) {
            (Self::Codex | Self::Cursor | Self::Gemini | Self::Generic, Entry::Stdio { command, args, .. }) => {
                json!({ "command": command, "args": args })
            }
            (Self::Opencode, Entry::Stdio { command, args, .. }) => {
                let words: Vec<_> = std::iter::once(command).chain(args).collect();
                json!({ "type": "local", "command": words })
            }
            (Self::Opencode, Entry::Http { url, hold, token }) => {
                json!({ "type": "remote", "url": held(url, *hold), "headers": { "Authorization": bearer(token) } })
            }
            (Self::Gemini, Entry::Http { url, hold, token }) => {
                json!({ "httpUrl": held(url, *hold), "headers": { "Authorization": bearer(token) } })
            }
            (Self::ClaudeCode | Self::Vscode, Entry::Stdio { command, args, .. }) => {
                json!({ "type": "stdio", "command": command, "args": args })
            }
            (Self::Codex, Entry::Http { url, hold, token }) => {
                json!({ "url": held(url, *hold), "http_headers": { "Authorization": bearer(token) } })
            }
            (Self::Cursor, Entry::Http { url, hold, token }) => {
                json!({ "url": held(url, *hold), "headers": { "Authorization": bearer(token) } })
            }
            (Self::ClaudeCode | Self::Vscode | Self::Generic, Entry::Http { url, hold, token }) => {
                json!({ "type": "http", "url": held(url, *hold), "headers": { "Authorization": bearer(token) } })
            }
        };
        if let Entry::Stdio { env, .. } = entry
            && !env.is_empty()
        {
            value[self.variables()] =
                env.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>().into();
        }
        match self {
            Self::ClaudeCode | Self::Gemini | Self::Opencode => value["timeout"] = json!(PATIENCE_SECONDS * 1_000),
            Self::Codex => value["tool_timeout_sec"] = json!(PATIENCE_SECONDS),
            Self::Cursor | Self::Vscode | Self::Generic => {}
        }
        value
    }

    /// The member of an entry that has the variables of its program.
    const fn variables(self) -> &'static str {
        match self {
            Self::Opencode => "environment",
            Self::ClaudeCode | Self::Codex | Self::Cursor | Self::Vscode | Self::Gemini | Self::Generic => "env",
        }
    }

    /// Whether these settings are of a form that is known: every client that has a name here is known by it. Of any other, only a file that
    /// has servers under the usual name is, and one that has nothing yet.
    pub(super) fn must_know(self, text: &str, path: &Path) -> Result<(), Failure> {
        let members = if self == Self::Generic { json_file::names(text).map_err(|why| unreadable(path, &why))? } else { Vec::new() };
        if members.is_empty() || members.iter().any(|name| name == self.section()) {
            return Ok(());
        }
        let has = members.iter().map(|name| format!("`{}`", clean::line(name))).collect::<Vec<_>>().join(", ");
        Err(Failure::new(
            Exit::Invalid,
            format!("`{}` is not changed: it has no `{}`, so its form is not known", path.display(), self.section()),
        )
        .cause(format!("it has {has}"))
        .hint("name its client instead of `generic`; or put the entry there by hand: without --write it is only printed"))
    }

    pub(super) fn find(self, text: &str, path: &Path) -> Result<Option<Value>, Failure> {
        let found =
            if self == Self::Codex { toml_file::find(text, self.section(), NAME) } else { json_file::find(text, self.section(), NAME) };
        found.map_err(|why| unreadable(path, &why))
    }

    /// The file with the entry in it.
    pub(super) fn insert(self, text: &str, value: &Value, path: &Path) -> Result<String, Failure> {
        let (section, insert) = (self.section(), if self == Self::Codex { toml_file::insert } else { json_file::insert });
        insert(text, section, NAME, value).map_err(|why| unreadable(path, &why))
    }

    /// The file without the section of servers, if nothing is in it and it was not there before.
    pub(super) fn tidy(self, text: &str, before: &str, path: &Path) -> Result<String, Failure> {
        let had = self == Self::Codex || json_file::names(before).is_ok_and(|names| names.iter().any(|name| name == self.section()));
        if had { Ok(text.to_owned()) } else { json_file::remove_empty(text, self.section()).map_err(|why| unreadable(path, &why)) }
    }

    /// The file without the entry, and with everything else as it was.
    pub(super) fn remove(self, text: &str, path: &Path) -> Result<String, Failure> {
        let (section, remove) = (self.section(), if self == Self::Codex { toml_file::remove } else { json_file::remove });
        remove(text, section, NAME).map_err(|why| unreadable(path, &why))
    }
}

fn held(url: &str, hold: Option<u64>) -> String {
    hold.map_or_else(|| url.to_owned(), |seconds| format!("{url}?hold={seconds}"))
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn unreadable(path: &Path, why: &str) -> Failure {
    Failure::new(Exit::Invalid, format!("`{}` is not changed: it cannot be read, or not be changed safely", path.display()))
        .cause(why)
        .hint("put the entry there by hand: without --write it is only printed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_gets_its_own_form_and_its_timeout() {
        let stdio = Entry::Stdio { command: "/bin/countersign".into(), args: vec!["mcp".into()], env: vec![("A".into(), "b".into())] };
        let http = Entry::Http { url: "https://cs.example/mcp".into(), hold: None, token: "cs_agent_1".into() };
        let stdio_of = |program: Program| program.value(&stdio);
        assert_eq!(
            stdio_of(Program::ClaudeCode),
            json!({ "type": "stdio", "command": "/bin/countersign", "args": ["mcp"], "env": { "A": "b" }, "timeout": 600_000 })
        );
        assert_eq!(
            stdio_of(Program::Codex),
            json!({ "command": "/bin/countersign", "args": ["mcp"], "env": { "A": "b" }, "tool_timeout_sec": 600 })
        );
        assert_eq!(stdio_of(Program::Cursor), stdio_of(Program::Generic));
        assert_eq!(stdio_of(Program::Vscode)["type"], "stdio");
        assert_eq!(
            stdio_of(Program::Gemini),
            json!({ "command": "/bin/countersign", "args": ["mcp"], "env": { "A": "b" }, "timeout": 600_000 })
        );
        assert_eq!(
            stdio_of(Program::Opencode),
            json!({ "type": "local", "command": ["/bin/countersign", "mcp"], "environment": { "A": "b" }, "timeout": 600_000 })
        );
        assert_eq!(Program::Opencode.value(&http)["type"], "remote");
        let gemini = Program::Gemini.value(&http);
        assert_eq!(
            (&gemini["httpUrl"], &gemini["headers"]["Authorization"]),
            (&json!("https://cs.example/mcp"), &json!("Bearer cs_agent_1"))
        );
        assert_eq!(http_header(&Program::Codex.value(&http), "http_headers"), "Bearer cs_agent_1");
        for program in [Program::ClaudeCode, Program::Cursor, Program::Vscode, Program::Opencode, Program::Generic] {
            assert_eq!(http_header(&program.value(&http), "headers"), "Bearer cs_agent_1", "{program:?}");
        }
    }

    fn http_header(value: &Value, headers: &str) -> String {
        assert_eq!(value["url"], "https://cs.example/mcp");
        value[headers]["Authorization"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_file_of_an_unknown_form_is_refused() {
        let path = Path::new("settings.json");
        for known in ["", "{}", "{ \"mcpServers\": {} }", "{ \"theme\": 1, \"mcpServers\": {} }"] {
            assert!(Program::Generic.must_know(known, path).is_ok(), "{known}");
        }
        for unknown in ["{ \"mcp\": {} }", "{ \"servers\": {} }", "{ \"context_servers\": {} } // of another", "{"] {
            assert!(Program::Generic.must_know(unknown, path).is_err(), "{unknown}");
        }
        assert!(Program::Opencode.must_know("{ \"model\": 1 }", path).is_ok());
    }

    #[test]
    fn what_is_written_is_found_again_in_every_form() {
        for program in Program::value_variants() {
            let value = program.value(&Entry::Http { url: "u".into(), hold: program.hold(), token: "t".into() });
            let path = Path::new("x");
            let text = program.insert("", &value, path).unwrap();
            assert_eq!(program.find(&text, path).unwrap(), Some(value), "{text}");
            assert_eq!(program.find(&program.remove(&text, path).unwrap(), path).unwrap(), None);
        }
    }
}
