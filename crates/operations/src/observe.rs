//! Spaces that only observe: what people would have been asked there.

use super::{Error, must, spaces};
use crate::App;
use crate::limits::OBSERVED_ROWS_MAX;
use countersign_core::observe::AskedFor;
use countersign_core::principal::Permission;
use countersign_core::{Principal, Space, Timestamp};
use pipeline::Suggestions;

/// What was noted in a space since a moment, and the rules it suggests.
pub struct Report {
    pub space: Space,
    pub until: Timestamp,
    pub asked: Vec<AskedFor>,
    pub suggestions: Suggestions,
    /// There was more than is told.
    pub is_cut: bool,
}

pub async fn report(app: &App, by: &Principal, space: &str, since: Timestamp) -> Result<Report, Error> {
    must(by, Permission::Read)?;
    let space = spaces::find(app, by, space).await?;
    let mut asked = app.store().list_asked_for(&by.org, &space.id, since, OBSERVED_ROWS_MAX + 1).await?;
    let is_cut = asked.len() > OBSERVED_ROWS_MAX;
    asked.truncate(OBSERVED_ROWS_MAX);
    Ok(Report { space, until: app.parts.clock.now(), suggestions: pipeline::suggest(&asked), asked, is_cut })
}
