//! `mcp.json`: the MCP server that a package may have beside its actions, or instead of them.

use super::fields::{self, Fields};
use super::folder::{self, PackageFiles};
use super::language::Language;
use super::manifest::{self, Filesystem};
use super::mistake::{Mistake, one_of};
use crate::limits::{SOURCE_TEXT_BYTES_MAX, SOURCE_VARIABLES_MAX};
use crate::program::{is_program, is_variable};
use crate::web::HostRule;
use crate::words::shown;
use countersign_core::Digest;
use countersign_core::limits::PACKAGE_MEMORY_MB_DEFAULT;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The file of a package that says it.
pub(super) const FILE: &str = "mcp.json";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerManifest {
    /// An interpreter and a script of the package, or a program of the package; then arguments.
    pub command: Vec<String>,
    /// The variables that a source may set.
    pub env: Vec<String>,
    /// The hosts that it may reach, if the operator allows them to packages. None: it has no network.
    pub hosts: Vec<HostRule>,
    filesystem: Filesystem,
    pub memory_mb: u64,
}

impl ServerManifest {
    /// Reads the manifest, if the package has one. Every broken rule is added to `mistakes`; with any mistake the result is `None`.
    pub(super) fn read(files: &PackageFiles, mistakes: &mut Vec<Mistake>) -> Option<Self> {
        let before = mistakes.len();
        let value = fields::parse(&files.get(FILE)?.bytes, FILE, mistakes)?;
        let manifest = fields::read(&value, FILE, mistakes, |fields| {
            let manifest = Self::of(fields);
            manifest.check(files, fields);
            manifest
        });
        (mistakes.len() == before).then_some(manifest)
    }

    fn of(fields: &mut Fields<'_, '_>) -> Self {
        let memory_mb = fields.number("memoryMb");
        manifest::check_memory(memory_mb, fields);
        Self {
            command: fields.texts("command"),
            env: fields.texts("env"),
            hosts: manifest::hosts_of(fields),
            filesystem: manifest::filesystem_of(fields),
            memory_mb: memory_mb.unwrap_or(PACKAGE_MEMORY_MB_DEFAULT),
        }
    }

    fn check(&self, files: &PackageFiles, fields: &mut Fields<'_, '_>) {
        fields.required("command", "\"command\": [\"node\", \"server.mjs\"]");
        self.check_command(files, fields);
        self.check_env(fields);
        manifest::check_hosts(&self.hosts, fields);
    }

    fn check_command(&self, files: &PackageFiles, fields: &mut Fields<'_, '_>) {
        let Some((program, words)) = self.command.split_first() else {
            // Whatever else is wrong with the field is a mistake already.
            if fields.value("command").and_then(Value::as_array).is_some_and(Vec::is_empty) {
                fields.wrong("command", "it names no program", "write an interpreter and a script, such as `[\"node\", \"server.mjs\"]`");
            }
            return;
        };
        if self.command.len() > SOURCE_VARIABLES_MAX || self.command.iter().any(|word| !is_word(word)) {
            let message =
                format!("it has more than {SOURCE_VARIABLES_MAX} words, one of more than {SOURCE_TEXT_BYTES_MAX} bytes, or a NUL");
            fields.wrong("command", message, "put what is long into a file of the package");
        }
        let begin = || format!("begin with an interpreter: {}", one_of(program, &Language::ALL.map(Language::command)));
        match (Language::named(program), words.first(), files.get(program)) {
            (Some(_), Some(script), _) if files.contains_key(script) => {}
            (Some(_), Some(script), _) => {
                let hint = format!("name the script right after `{program}`, by its path in the package");
                fields.wrong("command", format!("`{}` is no file of the package", shown(script)), hint);
            }
            (Some(_), None, _) => fields.wrong("command", "it names no script", format!("name it after `{program}`")),
            (None, _, Some(file)) if file.is_executable && is_program(&file.bytes) => {}
            (None, _, Some(_)) => fields.wrong("command", format!("`{}` is not an executable program", shown(program)), begin()),
            (None, _, None) => {
                let message = format!("`{}` is neither an interpreter that packages have nor a file of the package", shown(program));
                fields.wrong("command", message, begin());
            }
        }
    }

    fn check_env(&self, fields: &mut Fields<'_, '_>) {
        if self.env.len() > SOURCE_VARIABLES_MAX {
            fields.wrong("env", format!("it names more than {SOURCE_VARIABLES_MAX} variables"), "name fewer");
            return;
        }
        for (at, name) in self.env.iter().enumerate() {
            if !is_variable(name) {
                let hint = "use letters, digits and `_`; names that begin with `LD_` or `COUNTERSIGN_` are taken";
                fields.wrong("env", format!("`{}` is not the name of a variable that a source may set", shown(name)), hint);
            } else if self.env[..at].contains(name) {
                fields.wrong("env", format!("it names `{name}` twice"), "name it once");
            }
        }
    }

    pub fn sees_workspace(&self) -> bool {
        self.filesystem == Filesystem::Workspace
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_mb * 1024 * 1024
    }
}

fn is_word(text: &str) -> bool {
    text.len() <= SOURCE_TEXT_BYTES_MAX && !text.contains('\0')
}

/// An MCP server as read from disk, with all files of its package.
pub(super) struct LoadedServer {
    pub(super) package: String,
    pub(super) manifest: ServerManifest,
    pub(super) files: PackageFiles,
    pub(super) folder: PathBuf,
    /// Covers all files of the package.
    pub(super) digest: Digest,
}

impl LoadedServer {
    /// `None` if the package has none, or with mistakes, which are added to `mistakes`.
    pub(super) fn read(package: &str, folder: &Path, files: &PackageFiles, mistakes: &mut Vec<Mistake>) -> Option<Self> {
        let manifest = ServerManifest::read(files, mistakes)?;
        let (files, digest) = (files.clone(), folder::digest(files, ""));
        Some(Self { package: package.to_owned(), manifest, files, folder: folder.to_owned(), digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::folder::PackageFile;
    use crate::package::mistake::Place;
    use serde_json::json;

    fn files(manifest: &[u8]) -> PackageFiles {
        let file = |bytes: &[u8], is_executable| PackageFile { bytes: bytes.into(), is_executable };
        [
            (FILE, file(manifest, false)),
            ("server.mjs", file(b"", false)),
            ("lib/data.json", file(b"{}", false)),
            ("bin/serve", file(b"\x7fELF", true)),
            ("bin/script", file(b"#!/bin/sh", true)),
            ("bin/plain", file(b"\x7fELF", false)),
        ]
        .map(|(path, file)| (path.to_owned(), file))
        .into()
    }

    fn read(manifest: &Value) -> Result<ServerManifest, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        ServerManifest::read(&files(manifest.to_string().as_bytes()), &mut mistakes).ok_or(mistakes)
    }

    #[test]
    fn what_a_package_may_say_of_its_server_reads_as_it_is() {
        let whole = read(&json!({
            "command": ["node", "server.mjs", "--data", "lib/data.json"], "env": ["API_TOKEN"], "hosts": ["https://api.example.com"],
            "filesystem": "workspace", "memoryMb": 256,
        }));
        let whole = whole.unwrap();
        assert_eq!((whole.env, whole.hosts.len()), (vec!["API_TOKEN".to_owned()], 1));
        assert_eq!((whole.filesystem, whole.memory_mb), (Filesystem::Workspace, 256));
        for command in [json!(["python3", "server.mjs"]), json!(["bin/serve"]), json!(["bin/serve", "--quiet"])] {
            let least = read(&json!({ "command": command })).unwrap();
            assert_eq!((least.sees_workspace(), least.memory_mb), (false, PACKAGE_MEMORY_MB_DEFAULT));
            assert!(least.env.is_empty() && least.hosts.is_empty());
        }
        let mut mistakes = Vec::new();
        assert_eq!(ServerManifest::read(&PackageFiles::new(), &mut mistakes), None);
        assert_eq!(mistakes, []);
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        let with = |key: &str, value: Value| {
            let mut manifest = json!({ "command": ["node", "server.mjs"] });
            manifest[key] = value;
            manifest
        };
        for (manifest, pointer, expected) in [
            (json!({}), "/command", "it is missing"),
            (json!([]), "", "it must be an object"),
            (with("command", json!([])), "/command", "it names no program"),
            (with("command", json!("node server.mjs")), "/command", "it must be a list of texts"),
            (with("command", json!(["node"])), "/command", "it names no script"),
            (with("command", json!(["node", "--inspect", "server.mjs"])), "/command", "`--inspect` is no file of the package"),
            (with("command", json!(["node", "../server.mjs"])), "/command", "is no file of the package"),
            (with("command", json!(["npx", "server"])), "/command", "`npx` is neither an interpreter"),
            (with("command", json!(["/bin/sh"])), "/command", "is neither an interpreter"),
            (with("command", json!(["bin/script"])), "/command", "`bin/script` is not an executable program"),
            (with("command", json!(["bin/plain"])), "/command", "is not an executable program"),
            (with("command", json!(["node", "server.mjs", "a\0b"])), "/command", "or a NUL"),
            (with("env", json!(["LD_PRELOAD"])), "/env", "`LD_PRELOAD` is not the name"),
            (with("env", json!(["A=B"])), "/env", "is not the name of a variable"),
            (with("env", json!(["A", "A"])), "/env", "names `A` twice"),
            (with("env", json!({ "A": "B" })), "/env", "it must be a list of texts"),
            (with("hosts", json!(["https://example.com/path"])), "/hosts", "is not a host rule"),
            (with("hosts", json!(["example.com", "example.com"])), "/hosts", "twice"),
            (with("filesystem", json!("root")), "/filesystem", "`root` is not a `filesystem`"),
            (with("memoryMb", json!(1)), "/memoryMb", "out of bounds"),
            (with("comand", json!([])), "/comand", "there is no field `comand` here"),
        ] {
            let mistakes = read(&manifest).unwrap_err();
            let mistake = &mistakes[0];
            let place = Place::Field(pointer.to_owned());
            assert_eq!((mistakes.len(), mistake.file.as_str(), &mistake.place), (1, FILE, &place), "{mistakes:?}");
            assert!(mistake.message.contains(expected) && !mistake.hint.is_empty(), "{mistake:?}");
        }
        let several = read(&json!({ "command": ["npx"], "env": ["1"], "memoryMb": 0, "network": true })).unwrap_err();
        assert_eq!(several.len(), 4, "{several:#?}");
        let mut mistakes = Vec::new();
        assert_eq!(ServerManifest::read(&files(b"{"), &mut mistakes), None);
        assert_eq!(mistakes.len(), 1);
    }
}
