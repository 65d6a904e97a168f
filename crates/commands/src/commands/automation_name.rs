//! An automation that is given by name or by id.

use crate::shared::*;
use api::automation::AutomationView;
use countersign_core::AutomationId;

impl Named for AutomationView {
    const PAGES_MAX: usize = 10;

    fn is_id(text: &str) -> bool {
        AutomationId::parse(text).is_ok()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// The id of an automation that is given by name or by id.
pub(super) async fn automation_named(named: &str, client: &Client) -> Result<String, Failure> {
    id_of::<AutomationView>(named, client).await
}
