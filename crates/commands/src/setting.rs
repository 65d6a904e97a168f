//! Everything around a command: the global flags, the environment and the terminal.

use crate::client::{Client, Rehearsal};
use crate::context::{Environment, Origin, Server};
use crate::exit::Failure;
use crate::flags::Global;
use crate::output::Terminal;
use crate::serving::Serving;
use crate::style::Tone;

pub(crate) struct Setting<'a> {
    pub(crate) global: &'a Global,
    pub(crate) environment: &'a Environment,
    pub(crate) terminal: &'a mut Terminal,
    /// The server in this binary, for the commands that start one.
    pub(crate) serving: &'static dyn Serving,
}

impl Setting<'_> {
    /// A client for the server that the flags and the environment name.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::new(self.server()?, self.rehearsal())
    }

    /// Like `client`, for commands that show who the user is. It also tells the user if the token came from the owner's token file.
    pub(crate) fn client_introduced(&mut self) -> Result<Client, Failure> {
        let server = self.server()?;
        if let Origin::OwnerFile(path) = &server.origin {
            self.terminal.remark(Tone::Muted.paint(format!("using the owner's token in {}", path.display())));
        }
        Client::new(server, self.rehearsal())
    }

    /// Refuses `--dry-run` for a command that changes files on this machine instead of asking a server.
    pub(crate) fn no_dry_run(&self, name: &str) -> Result<(), Failure> {
        if self.global.dry_run {
            return Err(Failure::usage(format!("`{name}` has no dry run: it changes files on this machine")));
        }
        Ok(())
    }

    /// The server that the flags and the environment name.
    pub(crate) fn server(&self) -> Result<Server, Failure> {
        let server = Server::find(self.global.url.as_deref(), self.global.context.as_deref(), self.environment)?;
        let ca_cert = self.global.ca_cert.clone().or(server.ca_cert);
        Ok(Server { ca_cert, ..server })
    }

    const fn rehearsal(&self) -> Rehearsal {
        if self.global.dry_run { Rehearsal::On } else { Rehearsal::Off }
    }
}
