//! Help for a command or a topic, the version, and the API's description.

use crate::args;
use crate::exit::{Exit, Failure};
use crate::output::Terminal;
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A command such as `action invoke`, or `exit-codes`
    #[arg(value_name = "TOPIC")]
    words: Vec<String>,
}

impl Help {
    pub(crate) fn run(self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if self.words == ["exit-codes"] {
            return exit_codes(terminal);
        }
        let unknown = || Failure::usage(format!("there is no help about `{}`", self.words.join(" "))).hint("countersign help");
        let help = args::topic(&self.words).ok_or_else(unknown)?;
        terminal.line(help.ansi().to_string().trim_end())?;
        Ok(Exit::Ok)
    }
}

pub(crate) fn version(terminal: &mut Terminal) -> Result<Exit, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    if terminal.is_document() {
        terminal.document(&json!({ "version": version }))?;
    } else {
        terminal.line(format!("countersign {version}"))?;
    }
    Ok(Exit::Ok)
}

pub(crate) fn openapi(terminal: &mut Terminal) -> Result<Exit, Failure> {
    terminal.bytes(server::openapi_json().as_bytes())?;
    Ok(Exit::Ok)
}

fn exit_codes(terminal: &mut Terminal) -> Result<Exit, Failure> {
    for exit in Exit::ALL {
        terminal.line(format!("{:>3}  {}", exit.code(), exit.meaning()))?;
    }
    Ok(Exit::Ok)
}
