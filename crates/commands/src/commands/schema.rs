//! `countersign schema`: the JSON Schemas that the server publishes.

use crate::shared::*;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign schema automation > automation.schema.json        for an editor, or for a model that writes them
  countersign schema filter                                     the filters of event triggers";

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// What it describes
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(["automation", "filter"]))]
    name: String,
}

impl Schema {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let answer = client.get::<Value>(&["schemas", &self.name], &[]).await?;
        terminal.document(&answer.raw)?;
        Ok(Exit::Ok)
    }
}
