//! What can go wrong when an automation is fired or a run is worked on.

use automation::Mistake;
use countersign_core::automation::Firing;
use countersign_core::{AutomationId, Digest, ports};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no automation `{automation}`")]
    UnknownAutomation { automation: AutomationId },
    #[error("the automation `{automation}` is archived")]
    Archived { automation: AutomationId },
    #[error("the automation `{automation}` is paused")]
    Paused { automation: AutomationId },
    #[error("the trigger `{trigger}` is disabled")]
    Disabled { trigger: String },
    #[error("the automation has no trigger `{trigger}`")]
    UnknownTrigger { trigger: String },
    #[error("the inputs do not fit")]
    InputsInvalid { mistakes: Vec<Mistake> },
    #[error("the idempotency key was used for another request, which came to firing `{}`", firing.id)]
    KeyReused { firing: Box<Firing> },
    #[error("the trigger fires too often")]
    RateLimited { retry_after_seconds: u32 },
    #[error("step `{step}` of the run may still be in doubt")]
    RerunInDoubt { step: String },
    #[error("the run has no step `{step}` that could be run again")]
    RerunImpossible { step: String, why: String },
    #[error("the run cannot be run again with the payload of its trigger: {why}")]
    PayloadUnusable { why: &'static str },
    /// What was saved cannot be read any more. It is a defect of ours, or the database was changed by somebody else.
    #[error("the definition `{digest}` cannot be run: {message}")]
    Unreadable { digest: Digest, message: String },
    #[error(transparent)]
    Store(#[from] ports::Error),
}

impl Error {
    /// Whether the same may go well later without anybody's doing.
    pub(crate) const fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_transient())
    }
}
