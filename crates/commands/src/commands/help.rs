//! Help for a command or a topic, the version, and the API's description.

use crate::shared::*;
use clap::{Args, Command};
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A command such as `action invoke`, or `exit-codes`
    #[arg(value_name = "TOPIC")]
    words: Vec<String>,
}

impl Help {
    pub(crate) fn run(self, mut tree: Command, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if self.words == ["exit-codes"] {
            return exit_codes(terminal);
        }
        let unknown = || Failure::usage(format!("there is no help about `{}`", self.words.join(" "))).hint("countersign help");
        tree.build();
        let topic = self.words.iter().try_fold(&mut tree, |at, word| at.find_subcommand_mut(word)).ok_or_else(unknown)?;
        terminal.line(topic.render_help().ansi().to_string().trim_end())?;
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

pub(crate) fn openapi(setting: Setting<'_>) -> Result<Exit, Failure> {
    setting.terminal.bytes(setting.serving.openapi_json().as_bytes())?;
    Ok(Exit::Ok)
}

fn exit_codes(terminal: &mut Terminal) -> Result<Exit, Failure> {
    for (exit, _, meaning) in Exit::ALL {
        terminal.line(format!("{:>3}  {meaning}", exit.code()))?;
    }
    Ok(Exit::Ok)
}
