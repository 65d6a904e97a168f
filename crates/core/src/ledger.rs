//! All ports of the store that the pipeline uses, as one trait.

pub use crate::ports::Error;
pub use crate::ports::artifacts::NewArtifact;
pub use crate::ports::batches::{EndBatch, NewBatch, OpenedBatch};
pub use crate::ports::definitions::{ArchivedDefinition, NewDrift, Pin, Wording};
pub use crate::ports::events::EventDraft;
pub use crate::ports::invocations::{
    Approval, Approve, Approved, Begin, BeginAgain, Begun, BeyondOnce, Edited, EntryDraft, EntryId, Finish, Finished, GrantUse, Held, Hold,
    KeyFate, NewQuarantine, NewReservation, Reservation, Row, SealedPayload, SignedAnswer, SignedIntent,
};
pub use crate::ports::lines::{AskedAgain, Joined, NewLine};
pub use crate::ports::principals::{LinkMaker, NewLink};
pub use crate::ports::quarantines::{Settled, Settling};
pub use crate::ports::rules::{ModeRow, ModeRows};
use crate::ports::{
    Artifacts, Batches, Breakers, Claims, Definitions, EventFeed, Invocations, Lines, Principals, Quarantines, Rules, Sessions,
};

/// Everything the pipeline asks of the store.
pub trait Ledger:
    Artifacts + Batches + Breakers + Claims + Definitions + EventFeed + Invocations + Lines + Principals + Quarantines + Rules + Sessions
{
}

impl<
    T: Artifacts + Batches + Breakers + Claims + Definitions + EventFeed + Invocations + Lines + Principals + Quarantines + Rules + Sessions,
> Ledger for T
{
}
