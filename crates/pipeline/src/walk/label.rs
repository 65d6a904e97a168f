//! Labels a session that has read private data or untrusted content. A session that holds both and can send data out can leak, so the
//! labels are set before the next call is decided.

use crate::error::Error;
use crate::walk::admit::Admitted;
use crate::walk::gate::Gated;
use crate::walk::ground::Walk;
use countersign_core::action::Effect;
use countersign_core::{InvocationId, OrgId, SessionId};

const PRIVATE_DATA: &str = "private_data";
const UNTRUSTED_CONTENT: &str = "untrusted_content";

impl Walk {
    /// Before the call: the declared effects of its action say what it brings into the session.
    pub(crate) async fn label_before(&self, gated: &Gated) -> Result<(), Error> {
        let resolved = &gated.validated.resolved;
        let Admitted { id, session, .. } = &*resolved.admitted;
        for effect in &resolved.action().effects {
            match effect {
                // A recording holds what people said and did.
                Effect::FilesystemRead | Effect::Camera | Effect::Microphone => {
                    self.label(&session.org, &session.id, PRIVATE_DATA, id).await?;
                }
                Effect::NetworkCall => self.label(&session.org, &session.id, UNTRUSTED_CONTENT, id).await?,
                Effect::FilesystemWrite | Effect::DeviceNotification | Effect::UserVisible => {}
            }
        }
        Ok(())
    }

    /// After the call: its answer contained text that addresses the agent.
    pub(crate) async fn label_untrusted(&self, org: &OrgId, session: &SessionId, by: &InvocationId) {
        if let Err(error) = self.label(org, session, UNTRUSTED_CONTENT, by).await {
            tracing::error!(%error, %session, "a session could not be labelled as holding untrusted content");
        }
    }

    async fn label(&self, org: &OrgId, session: &SessionId, label: &'static str, by: &InvocationId) -> Result<(), Error> {
        let known = self.ledger().find_labels(org, session).await?;
        if !known.iter().any(|known| known == label) {
            self.ledger().label_session(org, session, label, by).await?;
        }
        Ok(())
    }
}
