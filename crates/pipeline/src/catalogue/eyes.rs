//! Whose view of the sources a look-up has. What a session is not connected to does not exist for it.

use countersign_core::source::Source;
use countersign_core::{OrgId, Session};

/// Who looks.
#[derive(Clone, Copy)]
pub enum Eyes<'a> {
    /// Everything that the org has: for its admins, for rules, and for effects that were made before.
    Org(&'a OrgId),
    /// What this session is connected to: by its own choice of sources, and by the spaces that a source is for.
    Session(&'a Session),
}

impl<'a> Eyes<'a> {
    /// Those of the session, if there is one.
    pub fn of(org: &'a OrgId, session: Option<&'a Session>) -> Self {
        session.map_or(Self::Org(org), Self::Session)
    }

    pub(crate) const fn org(self) -> &'a OrgId {
        match self {
            Self::Org(org) => org,
            Self::Session(session) => &session.org,
        }
    }

    pub(super) fn see(self, source: &dyn Source) -> bool {
        match self {
            Self::Org(_) => true,
            Self::Session(session) => session.is_connected_to(source.id()) && source.is_for(&session.space),
        }
    }
}

impl<'a> From<&'a OrgId> for Eyes<'a> {
    fn from(org: &'a OrgId) -> Self {
        Self::Org(org)
    }
}

impl<'a> From<&'a Session> for Eyes<'a> {
    fn from(session: &'a Session) -> Self {
        Self::Session(session)
    }
}
