//! `countersign context`: the servers that the user has logged in to.

use crate::context::Contexts;
use crate::shared::*;
use clap::Subcommand;
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(crate) enum Context {
    /// List the servers you logged in to
    #[command(before_help = "Examples:\n  countersign context list")]
    List,
    /// Use this server from now on
    #[command(before_help = "Examples:\n  countersign context use work")]
    Use {
        /// The name it was given at login
        #[arg(value_name = "NAME")]
        known_context: String,
    },
}

impl Context {
    pub(crate) fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        let path = setting.environment.contexts_file()?;
        let mut contexts = Contexts::load(&path)?;
        match self {
            Self::List => {
                let is_current = |name: &String| contexts.current.as_ref() == Some(name);
                let mut table =
                    Table::new([Column::Whole("NAME"), Column::Cut("URL"), Column::Whole("")], "no contexts yet: countersign login");
                let mut items = Vec::new();
                for (name, context) in &contexts.contexts {
                    let current = if is_current(name) { Cell::shown("✓ current", "current").toned(Tone::Ok) } else { Cell::text("") };
                    table.row([Cell::text(name), Cell::text(&context.url), current]);
                    items.push(json!({ "name": name, "url": context.url, "current": is_current(name) }));
                }
                setting.terminal.list(&json!({ "items": items, "next": null }), &table)?;
            }
            Self::Use { known_context: name } => {
                setting.no_dry_run("context use")?;
                contexts.get(&name)?;
                contexts.current = Some(name.clone());
                contexts.save(&path)?;
                setting.terminal.note(format!("{} `{name}`", Tone::Ok.paint("✓ using")));
            }
        }
        Ok(Exit::Ok)
    }
}
