//! The nouns of Countersign, the legal changes of their state, its limits, and the ports that the other crates implement.
//! This crate has no IO, no clock and no randomness: code that needs them gets a port.
//! Start with `invocation`, then `decision`, then the ports: `source`, and `ports` for the store.

pub mod action;
pub mod allowed;
pub mod amount;
pub mod artifact;
pub mod automation;
pub mod batch;
pub mod breaker;
pub mod call;
pub mod changed_file;
pub mod channel;
pub mod checks;
pub mod clean;
pub mod consent;
pub mod decision;
pub mod digest;
pub mod effect;
pub mod egress;
pub mod energy;
pub mod fault;
pub mod file_version;
pub mod grant;
pub mod id;
pub mod invocation;
pub mod jail;
pub mod json;
pub mod keyring;
pub mod ledger;
pub mod limiter;
pub mod limits;
pub mod mcp;
pub mod mode;
pub mod nearest;
pub mod network;
pub mod notification;
pub mod observe;
pub mod part_of;
pub mod policies;
pub mod ports;
pub mod price;
pub mod principal;
pub mod quarantine;
pub mod resident;
pub mod retention;
pub mod retry;
pub mod run;
pub mod secret;
pub mod session;
pub mod source;
pub mod sse;
pub mod switch;
pub mod time;
mod words;

pub use action::{Action, ActionId, SourceId, Tier};
pub use amount::Amount;
pub use automation::Automation;
pub use batch::Batch;
pub use call::Call;
pub use decision::Decision;
pub use digest::Digest;
pub use grant::Grant;
pub use id::{
    ApprovalId, ArtifactId, AutomationId, BatchId, CanaryId, ChannelId, ConnectionId, ConsentId, DeadLetterId, DeliveryId, DocumentId,
    DraftId, EventId, FiringId, GrantId, IntentId, InvocationId, LogId, NotificationId, OrgId, PrincipalId, ReceiptId, RunId, SecretId,
    ServerId, SessionId, SpaceId, TokenId, UserId,
};
pub use invocation::{Invocation, Status};
pub use mode::Mode;
pub use principal::Principal;
pub use run::Run;
pub use secret::Secret;
pub use session::{Band, Session, Space};
pub use time::Timestamp;

/// The future that a port method returns: boxed, so that the port can be used as `dyn`.
pub type Future<'a, T> = futures_util::future::BoxFuture<'a, T>;

/// The source of time. Only the server's start-up code reads the system's clock; tests have their own.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The source of randomness for ids, nonces, tokens and jitter. It must be unpredictable outside tests.
pub trait Random: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}

/// Draws a fixed number of random bytes.
pub fn random_bytes<const N: usize>(random: &dyn Random) -> [u8; N] {
    let mut bytes = [0; N];
    random.fill(&mut bytes);
    bytes
}
