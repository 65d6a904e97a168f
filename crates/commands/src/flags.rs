//! Flags that several commands share: the global ones, paging, confirmation in advance, and times.

mod span;

pub(crate) use span::Span;

use crate::client::Client;
use crate::output::{Consent, Fields, Format, Input, Settings, Syntax, Times};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use countersign_core::ActionId;
use countersign_core::limits::{MCP_HOLD_SECONDS_MAX, PAGE_ROWS_DEFAULT};
use countersign_core::mcp::{McpTools, McpWishes};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// One JSON document on stdout; `--json=id,status` keeps these fields
    #[arg(long, global = true, value_name = "FIELDS", num_args = 0..=1, require_equals = true)]
    json: Option<Option<String>>,
    /// How data is written; a table on a terminal, tab-separated elsewhere
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    output: Option<Output>,
    /// Show times in UTC instead of `3 min ago`
    #[arg(long, global = true)]
    utc: bool,
    /// When to use colour; NO_COLOR and CLICOLOR_FORCE are respected, too
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: Color,
    /// Change nothing: show the request that would be sent; an invoked action says what it would change
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// Never ask anything
    #[arg(long, global = true)]
    no_input: bool,
    /// The server's address; else COUNTERSIGN_URL, else the context's
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The context made by `countersign login`; else COUNTERSIGN_CONTEXT, else the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Trust only the CAs whose certificates are in this file, in PEM; else COUNTERSIGN_CA_CERT, else the context's
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
    Yaml,
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Global {
    pub(crate) fn settings(&self) -> Settings {
        let format = match (&self.json, self.output) {
            (Some(fields), _) => Format::Document(Syntax::Json, Fields::parse(fields.as_deref())),
            (None, Some(Output::Json)) => Format::Document(Syntax::Json, Fields::All),
            (None, Some(Output::Yaml)) => Format::Document(Syntax::Yaml, Fields::All),
            (None, Some(Output::Table)) => Format::Table,
            (None, Some(Output::Name)) => Format::Name,
            (None, None) => Format::Auto,
        };
        Settings {
            format,
            times: if self.utc { Times::Utc } else { Times::Relative },
            input: if self.no_input { Input::Never } else { Input::Ask },
            colours: match self.color {
                Color::Auto => None,
                Color::Always => Some(true),
                Color::Never => Some(false),
            },
        }
    }
}

/// One page of a list.
#[derive(Debug, Args)]
pub(crate) struct Paging {
    /// Rows of one page, 1 to 100
    #[arg(long, value_name = "N", default_value_t = PAGE_ROWS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Where the page before ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl Paging {
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let after = self.after.iter().map(|after| ("after", after.clone()));
        after.chain([("limit", self.limit.to_string())]).collect()
    }

    /// The flags for the next page, which starts at `next`.
    pub(crate) fn next(&self, next: &str) -> String {
        let limit = if self.limit == PAGE_ROWS_DEFAULT { String::new() } else { format!(" --limit {}", self.limit) };
        format!("{limit} --after {next}")
    }
}

/// Parses a whole action id. A pattern is refused here, because it would match nothing and the server would not say why.
pub(crate) fn action_id(text: &str) -> Result<String, String> {
    let id = ActionId::parse(text).map(|id| id.to_string());
    id.map_err(|_| "an action is named by its whole id, such as files.write_text".to_owned())
}

/// Takes one of the words of a closed set.
pub(crate) fn one_of<T, const N: usize>(all: [T; N], word: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let find = move |typed: String| all.into_iter().find(|one| word(*one) == typed).ok_or("it is none of these words");
    PossibleValuesParser::new(all.map(word)).try_map(find)
}

/// What the clients of a token get over MCP, where their URL says nothing.
#[derive(Debug, Args)]
pub(crate) struct OverMcp {
    /// Over MCP, a tool for each action (catalogue) or three that find and call them (meta); by how many there are when absent
    #[arg(long, value_name = "WHICH", value_parser = PossibleValuesParser::new(MCP_TOOLS), hide_possible_values = true)]
    mcp_tools: Option<String>,
    /// Over MCP, how many seconds the client waits for an answer, 1 to 600; by its name when absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MCP_HOLD_SECONDS_MAX))]
    hold_seconds: Option<u64>,
}

const MCP_TOOLS: [&str; 2] = [McpTools::Catalogue.as_str(), McpTools::Meta.as_str()];

impl OverMcp {
    pub(crate) fn wishes(&self) -> Option<McpWishes> {
        let wishes = McpWishes { tools: self.mcp_tools.as_deref().and_then(McpTools::parse), hold_seconds: self.hold_seconds };
        Some(wishes).filter(|wishes| *wishes != McpWishes::default())
    }
}

/// Agreeing beforehand.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Agreed {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Agreed {
    /// Whether the user still has to confirm. Under `--dry-run` nothing is sent, so there is nothing to confirm.
    pub(crate) fn consent(self, client: &Client) -> Consent {
        if self.yes || client.rehearses() { Consent::Given } else { Consent::Asked }
    }
}

/// Agreeing beforehand where nothing is asked: a script need not know which of two neighbours asks.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Unasked {
    /// Has no effect: this command never asks for a confirmation
    #[arg(long = "yes")]
    _yes: bool,
}
