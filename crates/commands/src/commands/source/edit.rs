//! `countersign source edit`: changes what was set about a source. Where its server is stays: that would be another source.

use super::add::{Limits, Trust};
use super::tiers::{Irreversible, MaybeTier, NONE, tier_of_tool, tier_or_none};
use crate::shared::*;
use api::source::{AddedSourceView, EditSourceRequest};
use clap::Args;
use countersign_core::Tier;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign source edit github --tier merge=R4 --tier get_issue=R1
  countersign source edit github --tier merge=none --default-tier none         as if they were never set
  countersign source edit github --trust-hints=false --connection github-ro
  countersign source edit github --space main --space lab                      only calls of these spaces
  countersign source edit github --all-spaces";

#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// Its name
    #[arg(value_name = "NAME")]
    added: String,
    /// What people read
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The tier of actions about which nothing else is known, or `none`
    #[arg(long, value_name = "TIER", value_parser = tier_or_none)]
    default_tier: Option<MaybeTier>,
    #[command(flatten)]
    trust: Trust,
    /// Only calls of this space may use it; may be given several times, and replaces those that were set
    #[arg(long, value_name = "SPACE")]
    space: Vec<String>,
    /// Calls of every space may use it
    #[arg(long, conflicts_with = "space")]
    all_spaces: bool,
    /// The connection whose credential its requests carry, or `none`
    #[arg(long, value_name = "NAME")]
    connection: Option<String>,
    /// The tier of a tool, whatever its server says, or `none` to go by the rules again; may be given several times
    #[arg(long, value_name = "TOOL=TIER", value_parser = tier_of_tool)]
    tier: Vec<(String, Option<Tier>)>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    irreversible: Irreversible,
    /// Refused: other variables make another program
    #[arg(long, hide = true, value_name = "NAME=VALUE", alias = "secret-env")]
    env: Vec<String>,
}

impl Edit {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
        if !self.env.is_empty() {
            let name = clean::line(&self.added);
            return Err(Failure::usage("the variables of a program cannot be changed")
                .hint(format!("countersign source remove {name}, then countersign source add {name} with other variables")));
        }
        let spaces = match (self.all_spaces, self.space.is_empty()) {
            (true, _) => Some(None),
            (false, false) => Some(Some(self.space)),
            (false, true) => None,
        };
        let request = EditSourceRequest {
            title: self.title,
            default_tier: self.default_tier.map(|MaybeTier(tier)| tier),
            trust_hints: self.trust.trust_hints,
            spaces,
            connection: self.connection.map(|name| Some(name).filter(|name| name != NONE)),
            list_timeout_ms: self.limits.list_ms(),
            call_timeout_ms: self.limits.call_ms(),
            tiers: self.tier.into_iter().collect(),
            accept_irreversible: self.irreversible.accept_irreversible,
            version: None,
        };
        let nothing = EditSourceRequest { accept_irreversible: request.accept_irreversible, ..EditSourceRequest::default() };
        if request == nothing {
            return Err(Failure::usage("there is nothing to change").hint("countersign source edit --help"));
        }
        let answer = client.patch::<AddedSourceView>(&["sources", &self.added], &request).await?;
        super::tell(&answer, client, terminal).await
    }
}
