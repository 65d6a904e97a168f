//! The MCP server of an installed package. Its program stays in the jail for many calls, and sees exactly the files that were read and hashed
//! together.

use super::language::Language;
use super::ports::PackagePorts;
use super::run::{CODE, WORKSPACE, inputs_of};
use super::server_manifest::{FILE, LoadedServer, ServerManifest};
use crate::egress::WayOut;
use crate::program::{Program, libraries, system_libraries};
use crate::words::{refused, shown};
use countersign_core::egress::Egress;
use countersign_core::jail::Input;
use countersign_core::ports::sources::Variable;
use countersign_core::source::Error;
use countersign_core::{Digest, SourceId};
use std::path::PathBuf;
use std::sync::Arc;

/// The MCP server of an installed package, as it was at one moment: whatever happens on the disk later, these are the files that run.
pub struct PackageServer {
    pub(super) loaded: Arc<LoadedServer>,
    pub(super) ports: Arc<PackagePorts>,
}

/// The program of such a server, and what it is given in the jail.
pub(crate) struct ServerProgram {
    pub(crate) program: Program,
    pub(crate) args: Vec<String>,
    pub(crate) read_only: Vec<(PathBuf, PathBuf)>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) memory_bytes: u64,
}

impl PackageServer {
    pub fn manifest(&self) -> &ServerManifest {
        &self.loaded.manifest
    }

    /// Covers all files of the package.
    pub fn digest(&self) -> Digest {
        self.loaded.digest
    }

    /// Checks that the package declares all these variables.
    pub fn check_variables(&self, env: &[Variable]) -> Result<(), Error> {
        let LoadedServer { package, manifest, .. } = &*self.loaded;
        match env.iter().find(|variable| !manifest.env.contains(&variable.name)) {
            None => Ok(()),
            Some(Variable { name, .. }) => {
                let message = format!("package `{package}` does not name the variable `{}` in `env` of its `{FILE}`", shown(name));
                Err(refused("package_invalid", message))
            }
        }
    }

    /// Why it cannot run on this server now.
    pub async fn cannot_run(&self) -> Option<String> {
        self.program().await.err().map(|error| error.to_string())
    }

    /// The program and everything it is given, if it may run on this server.
    pub(crate) async fn program(&self) -> Result<ServerProgram, Error> {
        self.check_allowed()?;
        let LoadedServer { package, manifest, files, folder, .. } = &*self.loaded;
        let invalid = || refused("package_invalid", format!("the program of package `{package}` is none of its files"));
        let (name, words) = manifest.command.split_first().ok_or_else(invalid)?;
        let memory_bytes = manifest.memory_bytes();
        let (program, mut args, mut read_only) = match Language::named(name) {
            Some(language) => {
                let program = self.ports.runner.programs.find(language.command()).await.ok_or_else(|| language.missing())?;
                let read_only = libraries(&program.path);
                (program, language.args(memory_bytes), read_only)
            }
            None => {
                let digest = blake3::hash(&files.get(name).ok_or_else(invalid)?.bytes).into();
                (Program { path: folder.join(name), digest }, Vec::new(), system_libraries())
            }
        };
        args.extend(words.iter().map(|word| if files.contains_key(word) { format!("{CODE}/{word}") } else { word.clone() }));
        if manifest.sees_workspace() {
            // SECURITY: it answers several spaces for as long as it runs, so it must not see the workspace of a space with members.
            read_only.push((self.ports.places.shared().folder().to_owned(), WORKSPACE.into()));
        }
        Ok(ServerProgram { program, args, read_only, inputs: inputs_of(files), memory_bytes })
    }

    fn check_allowed(&self) -> Result<(), Error> {
        let LoadedServer { package, manifest, .. } = &*self.loaded;
        if !self.ports.may_run_code {
            let message = format!(
                "package `{package}` is code, and this server runs no code of packages: set `allow_plugin_code_execution = true` to let it"
            );
            return Err(refused("package_code_disabled", message));
        }
        match self.ports.network.first_missing(&manifest.hosts) {
            None => Ok(()),
            Some(host) => {
                let message =
                    format!("package `{package}` asks `{host}`, which packages may not: an operator can add it to `package_allowed_hosts`");
                Err(refused("package_network_not_allowed", message))
            }
        }
    }

    /// Its way to the network; `None` if it names no hosts.
    pub(crate) fn way_out(&self, source: &SourceId) -> Option<Arc<dyn Egress>> {
        let hosts = &self.loaded.manifest.hosts;
        (!hosts.is_empty()).then(|| Arc::new(WayOut::of_source(&self.ports.network, source).only(hosts)) as Arc<dyn Egress>)
    }
}
