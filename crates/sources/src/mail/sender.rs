//! Whose server a mail goes through, and from which address it comes.

use super::{MailAddress, Route};
use countersign_core::source::{Error, SentAs};
use countersign_core::{Future, OrgId, SpaceId};

/// A mail server, who we are there, and the address that mail comes from.
#[derive(Clone, Debug)]
pub struct Sender {
    pub route: Route,
    pub from: MailAddress,
}

impl Sender {
    /// The address, the server and the user, in words: everything but the password.
    pub fn in_words(&self) -> String {
        let login = self.route.login.as_ref().map_or_else(String::new, |login| format!(" as {}", login.username));
        format!("{} through {}{login}", self.from, self.route.server)
    }
}

/// Finds the sender of an org's mail.
pub trait Senders: Send + Sync {
    /// The sender for what happens in this space; absent: for what belongs to no space. It holds a password, so whoever asks uses it for one
    /// mail and drops it.
    fn sender_of<'a>(&'a self, org: &'a OrgId, space: Option<&'a SpaceId>) -> Future<'a, Result<Sender, Error>>;
    /// As whom that sender sends; `None` if there is none to choose. It is for an approval to be bound to, and holds no password.
    fn sent_as<'a>(&'a self, org: &'a OrgId, space: Option<&'a SpaceId>) -> Future<'a, Result<Option<SentAs>, Error>>;
}

/// The same for everybody.
impl Senders for Sender {
    fn sender_of<'a>(&'a self, _org: &'a OrgId, _space: Option<&'a SpaceId>) -> Future<'a, Result<Sender, Error>> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }

    fn sent_as<'a>(&'a self, _org: &'a OrgId, _space: Option<&'a SpaceId>) -> Future<'a, Result<Option<SentAs>, Error>> {
        Box::pin(std::future::ready(Ok(Some(SentAs::Setting(self.in_words())))))
    }
}
