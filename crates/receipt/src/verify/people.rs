//! Checks who may act, from the log alone: who people are, in which role, with which tokens. Whoever makes somebody or something able to
//! act must have been able to do that at that moment.

use super::{Class, Finding};
use crate::body::{IdentityBody, IdentityChange, IntentBody};
use crate::entry::Header;
use countersign_core::principal::{Permission, Role};
use countersign_core::{AutomationId, Digest, PrincipalId, SessionId, Timestamp, TokenId, UserId};
use std::collections::{BTreeMap, HashMap};

/// A request is permitted when it arrives, and what it changes is written a moment later. Who made it may have lost their role or token
/// in between, so both count for this long after their end. Answers are permitted in the write itself, and need none of this.
const IN_FLIGHT_SECONDS: u64 = 60;

#[derive(Default)]
pub(super) struct People {
    users: HashMap<UserId, Person>,
    tokens: HashMap<TokenId, Token>,
    /// The owner of each agent: the person who made its token, or who answers for the service that made it.
    agents: HashMap<SessionId, UserId>,
    /// Who saved each version of each automation.
    automations: HashMap<AutomationId, BTreeMap<u32, UserId>>,
    /// Until they are redeemed or revoked.
    invitations: HashMap<TokenId, Invitation>,
    /// The person of each issuer and subject, and the position of their first sign-in.
    subjects: HashMap<(String, Digest), (UserId, u64)>,
}

struct Person {
    role: Role,
    /// The position from which their role permits them to approve.
    approves_from: u64,
    is_disabled: bool,
    /// The roles they have lost in the last minute, by a change of role or by being disabled, and when.
    lost: Vec<(Role, Timestamp)>,
    /// The role that somebody gave them last. No sign-in gives a higher one.
    given_role: Role,
    /// The role that their last sign-in gave, until their role is changed.
    signed_in_as: Option<Role>,
}

struct Token {
    holder: PrincipalId,
    /// The position from which its bearer is known to be its holder.
    from: u64,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    /// What a service may do, and the person who answers for it.
    scopes: Vec<Permission>,
    made_by: Option<UserId>,
}

struct Invitation {
    user: UserId,
    expires_at: Timestamp,
}

impl People {
    pub(super) fn change(&mut self, header: &Header, body: IdentityBody) -> Result<(), Finding> {
        let IdentityBody { by, change } = body;
        let (seq, now, by) = (header.seq, header.judged_at(), by.as_ref());
        match change {
            IdentityChange::UserCreated { user, role } => {
                let is_first = by.is_none() && self.users.is_empty() && role == Role::Owner;
                if !is_first {
                    self.manages(now, by, role)?;
                }
                if self.users.insert(user.clone(), Person::new(role, seq)).is_some() {
                    return Err(Finding::new(Class::Duplicate, format!("user `{user}` was created already")));
                }
            }
            IdentityChange::UserDisabled { user } => {
                self.manages(now, by, self.person(&user)?.least(now))?;
                if let Some(person) = self.users.get_mut(&user) {
                    person.lose_role(now);
                    person.is_disabled = true;
                }
            }
            IdentityChange::Invited { invitation, user, expires_at, device: _ } => {
                let role = self.acted_on(now, &user)?;
                if by.is_some() || !self.is_first_to_act(&user) {
                    self.manages(now, by, role)?;
                }
                // A new invitation ends those before it.
                self.invitations.retain(|_, open| open.user != user);
                self.invitations.insert(invitation, Invitation { user, expires_at });
            }
            IdentityChange::InvitationRedeemed { invitation, token, user } => {
                let open = self.invitations.remove(&invitation).filter(|open| open.user == user && now < open.expires_at);
                if open.is_none() || by.is_some() {
                    return Err(unfounded(format!("invitation `{invitation}` was not open for `{user}`")));
                }
                self.add(token, Token::new(PrincipalId::User(user), seq))?;
            }
            IdentityChange::TokenMade { token, holder, scopes, with, expires_at, device: _ } => {
                let (from, made_by) = self.makes(header, by, &token, &holder, &scopes, with.as_ref())?;
                if let (PrincipalId::Agent(session), Some(owner)) = (&holder, &made_by) {
                    self.agents.entry(session.clone()).or_insert_with(|| owner.clone());
                }
                self.add(token, Token { scopes, made_by, expires_at, ..Token::new(holder, from) })?;
            }
            IdentityChange::TokenRevoked { token } => {
                self.revokes(now, by, &token)?;
                self.invitations.remove(&token);
                if let Some(held) = self.tokens.get_mut(&token) {
                    held.revoked_at = Some(now);
                }
            }
            IdentityChange::SignedIn { user, token, role, issuer, subject, expires_at } => {
                let from = self.signs_in(seq, by, &user, role, (issuer, subject))?;
                let holder = PrincipalId::User(user);
                self.add(token, Token { expires_at: Some(expires_at), ..Token::new(holder, from) })?;
            }
            IdentityChange::LinkMade { token, channel, .. } => {
                let held = self.tokens.get(&token).filter(|held| held.was_live(now));
                let holder = held.map(|held| &held.holder).ok_or_else(|| unfounded("its token was not valid then".to_owned()))?;
                self.may(now, Some(holder), Permission::Approve)?;
                // Nobody makes a link in the name of somebody else but the server, which does it for a channel.
                let maker = if channel.is_some() { None } else { Some(holder) };
                if by != maker {
                    return Err(unfounded("it was made by somebody else than the person whose token it has".to_owned()));
                }
            }
            IdentityChange::SecretSet { .. }
            | IdentityChange::SecretRotated { .. }
            | IdentityChange::SecretDeleted { .. }
            | IdentityChange::ConnectionMade { .. }
            | IdentityChange::ConnectionLoggedIn { .. }
            | IdentityChange::ConnectionRemoved { .. } => {
                self.may(now, by, Permission::ManageIdentity)?;
            }
            IdentityChange::MasterKeyReplaced => {
                if by.is_some() {
                    self.may(now, by, Permission::ManageIdentity)?;
                }
            }
        }
        Ok(())
    }

    /// The position from which the issuer is known to know this person: that of their first sign-in, which makes them.
    fn signs_in(&mut self, seq: u64, by: Option<&PrincipalId>, user: &UserId, role: Role, who: (String, Digest)) -> Result<u64, Finding> {
        if by.is_some() {
            return Err(unfounded("a sign-in is made by nobody".to_owned()));
        }
        if !self.subjects.contains_key(&who) && !self.users.contains_key(user) {
            self.users.insert(user.clone(), Person { given_role: Role::OF_GROUPS, ..Person::new(role, seq) });
            self.subjects.insert(who.clone(), (user.clone(), seq));
        }
        let from = self.subjects.get(&who).filter(|(known, _)| known == user).map(|(_, from)| *from);
        let person = self.users.get_mut(user).filter(|person| !person.is_disabled);
        let (Some(from), Some(person)) = (from, person) else {
            return Err(unfounded(format!("`{user}` is not whom the issuer knows by this subject, or is disabled")));
        };
        if role > person.given_role {
            return Err(unfounded(format!("nobody has made `{user}` {}, and a sign-in cannot", role.with_article())));
        }
        person.signed_in_as = Some(role);
        Ok(from)
    }

    /// A person's role from here on. Nobody changes their own. Nobody at all gives the one that a sign-in has just given.
    pub(super) fn change_role(&mut self, header: &Header, by: Option<&PrincipalId>, user: &UserId, role: Role) -> Result<(), Finding> {
        let now = header.judged_at();
        let before = self.acted_on(now, user)?;
        if by.is_some() || self.person(user)?.signed_in_as != Some(role) {
            self.manages(now, by, before.max(role))?;
        }
        if by == Some(&PrincipalId::User(user.clone())) {
            return Err(unfounded(format!("`{user}` changed their own role")));
        }
        if let Some(person) = self.users.get_mut(user) {
            person.lose_role(now);
            if !person.role.may(Permission::Approve) {
                person.approves_from = header.seq;
            }
            person.role = role;
            if by.is_some() {
                person.given_role = role;
            }
            person.signed_in_as = None;
        }
        Ok(())
    }

    /// Remembers who saved a version of an automation. Whoever pauses it later, or has it go on, saves none.
    pub(super) fn save(&mut self, by: Option<&PrincipalId>, automation: &AutomationId, version: u32) {
        if let Some(PrincipalId::User(user)) = by {
            self.automations.entry(automation.clone()).or_default().entry(version).or_insert_with(|| user.clone());
        }
    }

    /// The person whose call is about to start, as far as the log says.
    pub(super) fn owner_of<'a>(&'a self, intent: &'a IntentBody) -> Result<Option<&'a UserId>, Finding> {
        let (PrincipalId::Automation(automation), Some(owner)) = (&intent.principal, &intent.owner) else {
            return Ok(self.owner(&intent.principal));
        };
        if self.automations.get(automation).is_some_and(|saved| saved.values().any(|by| by == owner)) {
            return Ok(Some(owner));
        }
        Err(unfounded(format!("it acts for `{owner}`, who saved no version of `{automation}`")))
    }

    /// The person whose calls these are, as far as the log says. An automation's, if they do not say it themselves, are those of whoever saved
    /// its last version.
    pub(super) fn owner<'a>(&'a self, principal: &'a PrincipalId) -> Option<&'a UserId> {
        match principal {
            PrincipalId::User(user) => Some(user),
            PrincipalId::Agent(session) => self.agents.get(session),
            PrincipalId::Service(token) => self.tokens.get(token).and_then(|held| held.made_by.as_ref()),
            PrincipalId::Automation(automation) => self.automations.get(automation).and_then(|saved| saved.values().next_back()),
        }
    }

    /// The position from which this person could approve, and with this token, if they can answer now.
    pub(super) fn answers(&self, now: Timestamp, user: &UserId, role: Role, token: &TokenId) -> Result<u64, Finding> {
        let person = self.person(user)?;
        if person.is_disabled || person.role != role || !role.may(Permission::Approve) {
            return Err(unfounded(format!("`{user}` could not answer as {} then", role.with_article())));
        }
        let held = self.held(now, Some(&PrincipalId::User(user.clone())), Some(token))?;
        Ok(person.approves_from.max(held.from))
    }

    /// Checks that this principal had the permission; returns the role of a person.
    pub(super) fn may(&self, now: Timestamp, by: Option<&PrincipalId>, needs: Permission) -> Result<Option<Role>, Finding> {
        let by = by.ok_or_else(|| unfounded("it does not say by whom".to_owned()))?;
        let role = match by {
            PrincipalId::User(user) => self.acts(now, user).ok().filter(|role| role.may(needs)).map(Some),
            PrincipalId::Service(token) => {
                let held = self.tokens.get(token).filter(|held| held.was_live(now) && held.scopes.contains(&needs));
                held.filter(|held| held.made_by.as_ref().is_none_or(|maker| self.acts(now, maker).is_ok())).map(|_| None)
            }
            PrincipalId::Agent(_) | PrincipalId::Automation(_) => None,
        };
        role.ok_or_else(|| unfounded(format!("`{by}` did not have the permission `{needs}` then")))
    }

    /// Checks that this principal could act on somebody with this role: a person not above their own, a service on nobody who may approve.
    pub(super) fn manages(&self, now: Timestamp, by: Option<&PrincipalId>, role: Role) -> Result<(), Finding> {
        let own = self.may(now, by, Permission::ManageIdentity)?;
        if own.map_or(!role.may(Permission::Approve), |own| own >= role) {
            return Ok(());
        }
        Err(unfounded(format!("who made it could not act on {} then", role.with_article())))
    }

    /// The highest role that a person may have had when their request arrived.
    fn acts(&self, now: Timestamp, user: &UserId) -> Result<Role, Finding> {
        let person = self.person(user)?;
        let role = person.in_flight(now).chain((!person.is_disabled).then_some(person.role)).max();
        role.ok_or_else(|| unfounded(format!("`{user}` was disabled")))
    }

    /// The lowest role that an active person may have had when a request about them arrived.
    pub(super) fn acted_on(&self, now: Timestamp, user: &UserId) -> Result<Role, Finding> {
        self.acts(now, user)?;
        Ok(self.person(user)?.least(now))
    }

    fn person(&self, user: &UserId) -> Result<&Person, Finding> {
        self.users.get(user).ok_or_else(|| unfounded(format!("the log does not know user `{user}`")))
    }

    /// Whether this is the first owner, before anybody could act.
    fn is_first_to_act(&self, user: &UserId) -> bool {
        let is_persons = |held: &Token| matches!(held.holder, PrincipalId::User(_));
        self.users.len() == 1 && self.users.contains_key(user) && !self.tokens.values().any(is_persons)
    }

    /// The token, if it was this principal's and valid.
    fn held(&self, now: Timestamp, by: Option<&PrincipalId>, token: Option<&TokenId>) -> Result<&Token, Finding> {
        let held = token.and_then(|token| self.tokens.get(token)).filter(|held| Some(&held.holder) == by && held.is_live(now));
        held.ok_or_else(|| unfounded("it was made with a token that was not theirs, or not valid then".to_owned()))
    }

    /// The position from which a new token counts, and the person who answers for it, if it could be made.
    fn makes(
        &self,
        header: &Header,
        by: Option<&PrincipalId>,
        token: &TokenId,
        holder: &PrincipalId,
        scopes: &[Permission],
        with: Option<&TokenId>,
    ) -> Result<(u64, Option<UserId>), Finding> {
        let now = header.judged_at();
        match holder {
            PrincipalId::User(user) if by.is_none() && with.is_none() && self.is_first_to_act(user) => Ok((header.seq, None)),
            // People make tokens for themselves only.
            PrincipalId::User(user) if by == Some(holder) => {
                self.acts(now, user)?;
                Ok((self.held(now, by, with)?.from, None))
            }
            PrincipalId::Service(own) if own == token && !scopes.contains(&Permission::Approve) => {
                // Nobody gives away what they do not have.
                for needs in scopes.iter().chain([&Permission::ManageIdentity]) {
                    self.may(now, by, *needs)?;
                }
                let held = self.held(now, by, with)?;
                Ok((header.seq, self.owner(&held.holder).cloned()))
            }
            PrincipalId::Agent(_) => {
                self.may(now, by, Permission::CreateSession)?;
                Ok((header.seq, by.and_then(|by| self.owner(by)).cloned()))
            }
            PrincipalId::User(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => {
                Err(unfounded(format!("token `{token}` was made for somebody else")))
            }
        }
    }

    /// Checks that this principal could revoke the token or the invitation. Whoever redeems an invitation is nobody yet, and ends the
    /// tokens that its person had.
    fn revokes(&self, now: Timestamp, by: Option<&PrincipalId>, token: &TokenId) -> Result<(), Finding> {
        let held = self.tokens.get(token).filter(|held| held.revoked_at.is_none());
        let user = match (self.invitations.get(token), held.map(|held| &held.holder)) {
            (Some(open), _) => &open.user,
            (None, Some(PrincipalId::User(user))) => user,
            (None, Some(_)) => return self.may(now, by, Permission::ManageIdentity).map(|_| ()),
            (None, None) => return Err(unfounded(format!("token `{token}` was not valid"))),
        };
        if by.is_none() && held.is_some() && self.invitations.values().any(|open| open.user == *user) {
            return Ok(());
        }
        if by == Some(&PrincipalId::User(user.clone())) {
            return self.acts(now, user).map(|_| ());
        }
        self.manages(now, by, self.person(user)?.least(now))
    }

    fn add(&mut self, token: TokenId, made: Token) -> Result<(), Finding> {
        let told = format!("token `{token}` was made already");
        match self.tokens.insert(token, made) {
            Some(_) => Err(Finding::new(Class::Duplicate, told)),
            None => Ok(()),
        }
    }
}

impl Person {
    const fn new(role: Role, approves_from: u64) -> Self {
        Self { role, approves_from, is_disabled: false, lost: Vec::new(), given_role: role, signed_in_as: None }
    }

    /// Remembers the role that they are about to lose.
    fn lose_role(&mut self, now: Timestamp) {
        self.lost.retain(|(_, end)| is_under_way(*end, now));
        self.lost.push((self.role, now));
    }

    /// The roles that were lost so recently that a request made in them may still be under way.
    fn in_flight(&self, now: Timestamp) -> impl Iterator<Item = Role> {
        self.lost.iter().filter(move |(_, end)| is_under_way(*end, now)).map(|(role, _)| *role)
    }

    fn least(&self, now: Timestamp) -> Role {
        self.in_flight(now).fold(self.role, Ord::min)
    }
}

impl Token {
    const fn new(holder: PrincipalId, from: u64) -> Self {
        Self { holder, from, expires_at: None, revoked_at: None, scopes: Vec::new(), made_by: None }
    }

    fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }

    /// Whether a request made with it may still be under way.
    fn was_live(&self, now: Timestamp) -> bool {
        [self.revoked_at, self.expires_at].into_iter().flatten().all(|end| is_under_way(end, now))
    }
}

/// Whether a request that was permitted until `end` may be written only now.
fn is_under_way(end: Timestamp, now: Timestamp) -> bool {
    now < end.plus_seconds(IN_FLIGHT_SECONDS)
}

pub(super) fn unfounded(reason: String) -> Finding {
    Finding::new(Class::EffectDespiteDenial, reason)
}
