//! `countersign observe`: spaces that only observe. Their calls run without asking anybody, and the report says what would have been asked.

use crate::shared::*;
use api::identity::{ChangeSpaceRequest, SpaceView};
use api::observe::{AskedForView, ObserveReport};
use api::rules::NewGrantRequest;
use clap::Subcommand;
use countersign_core::limits::OBSERVED_OFTEN;
use countersign_core::observe::Observed;

const MAIN: &str = "main";

#[derive(Debug, Subcommand)]
pub(crate) enum Observe {
    /// Let a space only observe: calls that need approval run, and are noted
    #[command(before_help = "\
Denied calls stay denied, kill switches stop calls, and R4 needs approval as ever.

Examples:
  countersign observe on lab")]
    On {
        /// Its name or its id
        space: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Let a space ask again
    #[command(before_help = "Examples:\n  countersign observe off lab")]
    Off {
        /// Its name or its id
        space: String,
    },
    /// Show what would have been asked, by whom and how often, and the rules that this suggests
    #[command(before_help = "Examples:
  countersign observe report                                of the space main, in the last 24 hours
  countersign observe report --space lab --since 7d")]
    Report {
        /// Its name or its id; main when absent
        #[arg(long, value_name = "SPACE")]
        space: Option<String>,
        /// Only calls since then: a time, or how long ago, such as 7d; 24h when absent
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
    },
}

impl Observe {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let (space, observes) = match self {
            Self::On { space, agreed } => {
                let question = format!("Let every call of space `{}` below R4 run without asking anybody?", clean::line(&space));
                terminal.consent(&question, agreed.consent(client)).await?;
                (space, true)
            }
            Self::Off { space } => (space, false),
            Self::Report { space, since } => return report(space.as_deref().unwrap_or(MAIN), since, client, terminal).await,
        };
        let id = id_of::<SpaceView>(&space, client).await?;
        let change = ChangeSpaceRequest { observes: Some(observes), ..ChangeSpaceRequest::default() };
        let answer = client.patch::<SpaceView>(&["spaces", &id], &change).await?;
        resource::tell(&answer, client, terminal).await?;
        Ok(Exit::Ok)
    }
}

/// The spaces that only observe; none if the list cannot be read.
pub(super) async fn observing(client: &Client) -> Vec<SpaceView> {
    let spaces = client.pages::<SpaceView>(SpaceView::PATH, &[]).all().await.unwrap_or_default();
    spaces.into_iter().map(|(space, _)| space).filter(|space| space.observes).collect()
}

async fn report(space: &str, since: Option<String>, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let id = id_of::<SpaceView>(space, client).await?;
    let query: Vec<_> = since.into_iter().map(|since| ("since", since)).collect();
    let answer = client.get::<ObserveReport>(&["spaces", &id, "observed"], &query).await?;
    let report = &answer.read;
    let columns =
        [Column::Whole("action"), Column::Whole("tier"), Column::Number("calls"), Column::Whole("could be spared by"), Column::Cut("by")];
    let empty = if report.observes {
        "nobody would have been asked anything".to_owned()
    } else {
        format!("space `{}` does not observe: people are asked, and there is nothing to report", clean::line(space))
    };
    let mut table = Table::new(columns, empty);
    for row in &report.rows {
        let calls = Cell::text(row.calls.to_string());
        table.row([Cell::text(&row.action), Cell::tier(row.tier), calls, spared_by(row.observed), by(row)]);
    }
    terminal.list(&answer.raw, &table)?;
    if report.rows.is_empty() {
        if !report.observes {
            terminal.next(format!("countersign observe on {}", clean::line(space)));
        }
        return Ok(Exit::Ok);
    }
    let asked = counted(report.asked, "question", "questions");
    if report.modes.is_empty() && report.grants.is_empty() {
        terminal.remark(format!("{asked}, and nothing to suggest: a rule needs {OBSERVED_OFTEN} about one action that it could answer"));
    } else {
        terminal.remark(format!("{asked}, and {} with what is suggested:", report.still_asked));
    }
    for one in &report.modes {
        terminal.remark(format!("  countersign mode set {} {}", clean::line(&one.action), one.mode));
    }
    for one in &report.grants {
        terminal.remark(format!("  {}", to_give(&one.grant, space)));
    }
    if report.cut {
        terminal.remark(Tone::Warn.paint("! there is more; ask for a shorter time with --since"));
    }
    Ok(Exit::Ok)
}

fn by(row: &AskedForView) -> Cell {
    match row.session_title.as_deref().filter(|title| !title.trim().is_empty()) {
        Some(title) => Cell::shown(title, &row.session_id),
        None => Cell::text(&row.session_id),
    }
}

fn spared_by(observed: Observed) -> Cell {
    match observed {
        Observed::Mode => Cell::shown("a mode", observed.as_str()),
        Observed::Grant => Cell::shown("a grant", observed.as_str()),
        Observed::Person => Cell::shown("nothing", observed.as_str()),
        Observed::Held => Cell::shown("nothing, it was held", observed.as_str()),
    }
}

/// The command that gives a suggested grant.
fn to_give(grant: &NewGrantRequest, space: &str) -> String {
    let calls = grant.calls_max.map(|calls| format!(" --calls {calls}")).unwrap_or_default();
    let expires = grant.expires_in.as_ref().map(|expires| format!(" --expires {expires}")).unwrap_or_default();
    clean::line(&format!("countersign grant give {} --org --space {space}{calls}{expires}", grant.covers))
}
