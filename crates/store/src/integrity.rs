//! Compares the database with its audit log, while the server runs: whether each entry is filed as what it is, whether the stored tree is
//! the tree of the entries, and whether the rules, people, tokens, secrets, connections, sources, channels, automations and sessions in the tables are those that
//! the log says. Whoever has the database can change a row; here it shows, also if the row cannot be read any more. Signatures are checked
//! elsewhere, by the verifier of an export.

use crate::db::{Columns, Row, Snapshot, Val, vals};
use crate::grants::{read_grant, select_grant};
use crate::policies::{digests_of, read_policies, select_policies};
use crate::{Error, Store, archive};
use countersign_core::automation::AutomationStatus;
use countersign_core::grant::GrantState;
use countersign_core::principal::Role;
use countersign_core::session::{Keeps, Quorum, SelfApproval, SpaceRedaction};
use countersign_core::{Band, Digest, OrgId, PrincipalId, Timestamp, TokenId, UserId};
use receipt::body::{
    Body as _, IdentityBody, IdentityChange, ModeBody, REMOVED, REVOKED, RuleBody, RuleChange, RuleFacts, RuleInForce, SpaceBody, Terms,
    said,
};
use receipt::entry::{Entry, Kind, payload_digest};
use receipt::tree::{self, CompleteTile, Frontier};
use std::collections::{BTreeMap, BTreeSet};

/// How many differences are told.
const DIFFERENCES_MAX: usize = 100;
const ROWS: i64 = 500;

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integrity {
    /// How many entries the log has.
    pub entries: u64,
    /// In which ways the database differs from the log, as sentences; at most a hundred.
    pub differences: Vec<String>,
}

/// What is in force, by kind and name: what the log says of it, or the tables.
type InForce = BTreeMap<(&'static str, String), String>;

impl Store {
    /// Reads the whole audit log of the org, from one moment, and compares the tables with it.
    pub async fn check_integrity(&self, org: &OrgId) -> Result<Integrity, Error> {
        let mut snapshot = self.db.snapshot().await?;
        let mut check = Check { snapshot: &mut snapshot, org, found: Integrity::default() };
        let logged = check.entries().await?;
        let stored = check.tables().await?;
        check.compare(&logged, &stored);
        check.found.differences.truncate(DIFFERENCES_MAX);
        Ok(check.found)
    }
}

struct Check<'a> {
    snapshot: &'a mut Snapshot,
    org: &'a OrgId,
    found: Integrity,
}

impl Check<'_> {
    /// Checks each entry against its row and the stored tree; returns what the log says is in force.
    async fn entries(&mut self) -> Result<InForce, Error> {
        let (mut frontier, mut prev, mut logged) = (Frontier::new(), receipt::entry::NO_PREV, Logged::default());
        loop {
            let sql = "SELECT seq, kind, payload, leaf, invocation_id FROM entries WHERE org_id = $1 AND seq >= $2 ORDER BY seq LIMIT $3";
            let rows = self.read(ENTRY, sql, &vals![self.org.as_str(), frontier.size() as i64, ROWS]).await?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let Some(Filed { seq, kind, payload, leaf, invocation }) = self.readable(ENTRY, filed(row))? else {
                    return Ok(logged.in_force);
                };
                let Some(entry) = Entry::parse(&payload).ok().filter(|entry| entry.header.seq == seq && seq == frontier.size()) else {
                    self.differs(format!("entry {seq} of the log cannot be read, or is not where it belongs"));
                    return Ok(logged.in_force);
                };
                if entry.header.kind.as_str() != kind {
                    self.differs(format!("entry {seq} is filed as `{kind}` and is `{}`", entry.header.kind));
                }
                if entry.body.get("invocation_id").and_then(serde_json::Value::as_str) != invocation.as_deref() {
                    self.differs(format!("entry {seq} is filed under an invocation that is not its own"));
                }
                if tree::leaf(&payload).as_bytes().as_slice() != leaf {
                    self.differs(format!("the stored hash of entry {seq} is not its hash"));
                }
                prev = payload_digest(&payload);
                for tile in frontier.append(tree::leaf(&payload)) {
                    self.tile(&tile).await?;
                }
                logged.take(&entry);
            }
        }
        self.found.entries = frontier.size();
        let head = "SELECT size, prev, frontier FROM logs WHERE org_id = $1";
        for row in self.read("head of the log", head, &vals![self.org.as_str()]).await? {
            let stored = self.readable("head of the log", stored_head(row))?;
            if stored.is_some_and(|stored| stored != (frontier.size(), prev.to_string(), frontier.to_bytes())) {
                self.differs("the stored head of the log is not that of its last entry".to_owned());
            }
        }
        Ok(logged.in_force)
    }

    async fn tile(&mut self, tile: &CompleteTile) -> Result<(), Error> {
        let sql = "SELECT hash FROM tree_nodes WHERE org_id = $1 AND level = $2 AND position = $3";
        let params = vals![self.org.as_str(), i64::from(tile.level), tile.position as i64];
        let rows = self.read("node of the stored tree", sql, &params).await?;
        let stored = rows.into_iter().next().and_then(|row| Columns::of(row).bytes().ok());
        if stored.as_deref() != Some(tile.hash.as_bytes().as_slice()) {
            self.differs(format!("node {} of level {} of the stored tree is not that of the entries", tile.position, tile.level));
        }
        Ok(())
    }

    /// What the tables say is in force.
    async fn tables(&mut self) -> Result<InForce, Error> {
        let mut stored = InForce::new();
        for (kind, sql) in TABLES {
            for row in self.read(kind, sql, &vals![self.org.as_str()]).await? {
                if let Some((name, said)) = self.readable(kind, named(row))? {
                    stored.insert((kind, name), said);
                }
            }
        }
        let sql = concat!(select_grant!(), " AND given_at IS NOT NULL");
        for row in self.read("grant", sql, &vals![self.org.as_str()]).await? {
            let Some(grant) = self.readable("grant", read_grant(row))? else { continue };
            let said = said::grant(&Terms::of(&grant.terms), grant.expires_at, &grant.givers);
            let revoked = if grant.state == GrantState::Revoked { REVOKED } else { "" };
            stored.insert(("grant", grant.id.to_string()), said + revoked);
        }
        let sql = concat!(select_policies!(), " ORDER BY version DESC LIMIT 1");
        for row in self.read("policies", sql, &vals![self.org.as_str()]).await? {
            let Some(version) = self.readable("policies", read_policies(row))? else { continue };
            let digests = digests_of(&version.policies.texts);
            stored.insert(("policies", "in force".to_owned()), said::policies(&digests));
        }
        for row in self.read("allowed entry", crate::allowed::SELECT_ALLOWED, &vals![self.org.as_str()]).await? {
            let Some(row) = self.readable("allowed entry", crate::allowed::read_allowed(row))? else { continue };
            let terms = row.terms.as_deref().map(archive::digest_of);
            stored.insert(("allowed entry", format!("{} {}", row.list, row.entry)), said::allowed(row.version, terms));
        }
        let sql = "SELECT id, version, settings, removed_at FROM sources WHERE org_id = $1";
        for row in self.read("source", sql, &vals![self.org.as_str()]).await? {
            if let Some((id, said)) = self.readable("source", stored_source(row))? {
                stored.insert(("source", id), said);
            }
        }
        let sql = "SELECT id, name, terms, removed_at FROM channels WHERE org_id = $1";
        for row in self.read("channel", sql, &vals![self.org.as_str()]).await? {
            if let Some((id, said)) = self.readable("channel", stored_channel(row))? {
                stored.insert(("channel", id), said);
            }
        }
        let sql = "SELECT id, version, definition, status FROM automations WHERE org_id = $1";
        for row in self.read("automation", sql, &vals![self.org.as_str()]).await? {
            if let Some((id, said)) = self.readable("automation", stored_automation(row))? {
                stored.insert(("automation", id), said);
            }
        }
        // Only a space that is older than the question may say that nobody was asked yet whether it asks.
        let sql = "SELECT id, 'before' FROM spaces WHERE org_id = $1 AND consent = 'before'
                   AND created_at >= (SELECT at FROM schema_migrations WHERE version = 3)";
        for row in self.read("space", sql, &vals![self.org.as_str()]).await? {
            if let Some((id, _)) = self.readable("space", named(row))? {
                self.differs(format!("space `{id}` is in the database as if it were older than it is, and asks for no consent"));
            }
        }
        let sql =
            "SELECT id, band, self_approval, quorum, redaction, keeps, members, observes, consent, defaults FROM spaces WHERE org_id = $1";
        for row in self.read("space", sql, &vals![self.org.as_str()]).await? {
            let Some((id, settings)) = self.readable("space", stored_space(row))? else { continue };
            // The space that comes with its org has no entry until it is changed.
            if settings != new_space() {
                stored.insert(("space", id), settings);
            }
        }
        Ok(stored)
    }

    fn compare(&mut self, logged: &InForce, stored: &InForce) {
        for ((kind, name), said) in logged {
            match stored.get(&(*kind, name.clone())) {
                Some(found) if found == said => {}
                Some(found) => self.differs(format!("{kind} `{name}` is `{found}` in the database; the log says `{said}`")),
                // A space that was set back to how spaces begin is not among the stored ones.
                None if *kind == "space" && *said == new_space() => {}
                // The session of a run goes with the run. Any other that is missing is told of as a session.
                None if *kind == SPACE_OF_SESSION => {}
                None => self.differs(format!("{kind} `{name}` is missing in the database; the log says `{said}`")),
            }
        }
        // The log says of a session in which space it is with its first receipt.
        for (kind, name) in stored.keys().filter(|key| !logged.contains_key(*key) && key.0 != SPACE_OF_SESSION) {
            self.differs(format!("{kind} `{name}` is in the database, and the log does not say so"));
        }
    }

    async fn read(&mut self, kind: &str, sql: &str, params: &[Val]) -> Result<Vec<Row>, Error> {
        let rows = self.snapshot.read(sql, params).await;
        Ok(self.readable(kind, rows)?.unwrap_or_default())
    }

    /// What was read; `None` if what is stored cannot be read, which is a difference too.
    fn readable<T>(&mut self, kind: &str, read: Result<T, Error>) -> Result<Option<T>, Error> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(Error::Corrupt { message }) => {
                self.differs(format!("{kind}: a row in the database cannot be read: {message}"));
                Ok(None)
            }
            Err(away) => Err(away),
        }
    }

    fn differs(&mut self, difference: String) {
        if self.found.differences.len() <= DIFFERENCES_MAX {
            self.found.differences.push(difference);
        }
    }
}

/// An entry as it is filed.
struct Filed {
    seq: u64,
    kind: String,
    payload: String,
    leaf: Vec<u8>,
    invocation: Option<String>,
}

const ENTRY: &str = "entry of the log";
const SPACE_OF_SESSION: &str = "space of session";
/// Above it, the groups of an issuer give nobody a role.
const GIVEN_ROLE: &str = "role given to user";

/// For each table with rules, people, sessions or credentials: the name of a row, and what the log must say of it too.
const TABLES: [(&str, &str); 17] = [
    ("retention", "SELECT 'in force', retention FROM orgs WHERE org_id = $1 AND retention <> '{}'"),
    ("mode", "SELECT scope || ' ' || action, mode || ' ' || lock || ' ' || version FROM modes WHERE org_id = $1"),
    ("kill switch", "SELECT scope, stop FROM switches WHERE org_id = $1"),
    ("review", "SELECT action, structural || ' ' || textual || ' ' || wording FROM pins WHERE org_id = $1"),
    (
        "consent",
        "SELECT id, user_id || ' ' || purpose || coalesce(' in ' || space_id, '') || coalesce(' until ' || expires_at, '')
         FROM consents WHERE org_id = $1 AND withdrawn_at IS NULL",
    ),
    ("crossing", "SELECT action || ' ' || from_space || ' ' || to_space, 'allowed' FROM crossings WHERE org_id = $1"),
    (
        "price",
        "SELECT action, 'version ' || version || ' at ' || usd || coalesce(' of ' || field || ' ' || at_most, '') FROM prices WHERE org_id = $1",
    ),
    ("canary token", "SELECT id, 'added' FROM canaries WHERE org_id = $1"),
    ("secret", "SELECT id, name || ' ' || version FROM secrets WHERE org_id = $1"),
    (
        "connection",
        "SELECT id, name || ' ' || kind || ' ' || url || ' ' || coalesce(secret, '-') || ' ' || coalesce(spaces, '*') ||
           coalesce(' from ' || mail_from, '') || CASE WHEN removed_at IS NULL THEN '' ELSE ' removed' END FROM connections WHERE org_id = $1",
    ),
    ("login of connection", "SELECT id, 'version ' || version FROM connections WHERE org_id = $1"),
    (
        "user",
        "SELECT id, role || ' ' || max_band || CASE WHEN disabled_at IS NULL THEN '' ELSE ' disabled' END FROM users WHERE org_id = $1",
    ),
    (GIVEN_ROLE, "SELECT id, given_role FROM users WHERE org_id = $1"),
    ("subject of", "SELECT user_id, issuer || ' ' || subject FROM identities WHERE org_id = $1"),
    (
        "token",
        "SELECT id, CASE WHEN revoked_at IS NULL THEN 'valid' || coalesce(' until ' || expires_at, '') ELSE 'revoked' END
         FROM tokens WHERE org_id = $1",
    ),
    // The session of a run has no token: only its automation acts in it, and the log has that by itself.
    (
        "session",
        "SELECT id, 'made by ' || created_by || coalesce(' for ' || owner_id, '') FROM sessions WHERE org_id = $1 AND created_by NOT LIKE 'automation:%'",
    ),
    (SPACE_OF_SESSION, "SELECT id, space_id FROM sessions WHERE org_id = $1"),
];

/// What the log has said so far.
#[derive(Default)]
struct Logged {
    in_force: InForce,
    /// The last invitation of each person: a new one ends it.
    invitations: BTreeMap<UserId, TokenId>,
    /// The person who answers for each service.
    services: BTreeMap<TokenId, UserId>,
}

impl Logged {
    fn take(&mut self, entry: &Entry) {
        match entry.header.kind {
            Kind::Mode => {
                if let Ok(ModeBody { action, lock, mode, scope, version, by: _ }) = ModeBody::read(&entry.body) {
                    let said = mode.map(|mode| format!("{mode} {} {version}", crate::modes::lock_word(lock)));
                    self.set("mode", format!("{scope} {action}"), said);
                }
            }
            Kind::Space => {
                if let Ok(body) = SpaceBody::read(&entry.body) {
                    let (keeps, members) = (body.keeps, body.members.as_ref());
                    let said = space(body.band, body.self_approval, &body.quorum, &body.redaction, keeps, members, body.observes);
                    let said = said + waiving(body.waives_consent);
                    self.set("space", body.space.to_string(), Some(said + &defaulting(body.defaults)));
                }
            }
            Kind::Rule => {
                if let Ok(body) = RuleBody::read(&entry.body) {
                    self.rule(&body);
                }
            }
            Kind::Identity => {
                if let Ok(body) = IdentityBody::read(&entry.body) {
                    self.identity(body);
                }
            }
            Kind::Receipt => {
                let text = |field| entry.body.get(field).and_then(serde_json::Value::as_str);
                if let (Some(session), Some(space)) = (text("session"), text("space")) {
                    self.in_force.entry((SPACE_OF_SESSION, session.to_owned())).or_insert_with(|| space.to_owned());
                }
            }
            Kind::Key | Kind::Answer | Kind::Intent | Kind::Batch => {}
        }
    }

    fn rule(&mut self, body: &RuleBody) {
        let RuleFacts { subject: (kind, name), in_force, .. } = body.about();
        match in_force {
            RuleInForce::As(said) => self.set(kind, name, Some(said)),
            RuleInForce::Marked(mark) => {
                let said = self.in_force.get(&(kind, name.clone())).map(|said| format!("{said}{mark}"));
                self.set(kind, name, said);
            }
            RuleInForce::Nothing => self.set(kind, name, None),
            RuleInForce::Unchanged => {}
            RuleInForce::OfPerson => self.person_by(body),
        }
    }

    fn person_by(&mut self, body: &RuleBody) {
        if let RuleChange::BandLimited { user, max_band } = &body.change {
            self.person(user, |(_, band, _)| *band = *max_band);
        } else if let RuleChange::RoleChanged { user, role } = &body.change {
            self.person(user, |(known, _, _)| *known = *role);
            // Without somebody, a sign-in gave it.
            if body.by.is_some() {
                self.set(GIVEN_ROLE, user.to_string(), Some(role.as_str().to_owned()));
            }
        }
    }

    fn identity(&mut self, body: IdentityBody) {
        match body.change {
            IdentityChange::UserCreated { user, role } => {
                self.set("user", user.to_string(), Some(person((role, Band::Black, false))));
                self.set(GIVEN_ROLE, user.to_string(), Some(role.as_str().to_owned()));
            }
            IdentityChange::UserDisabled { user } => self.person(&user, |(_, _, is_disabled)| *is_disabled = true),
            IdentityChange::Invited { invitation, user, expires_at, .. } => {
                if let Some(earlier) = self.invitations.insert(user, invitation.clone()) {
                    self.set("token", earlier.to_string(), Some("revoked".to_owned()));
                }
                self.set("token", invitation.to_string(), Some(valid(Some(expires_at))));
            }
            IdentityChange::InvitationRedeemed { invitation, token, user: _ } => {
                self.set("token", invitation.to_string(), Some("revoked".to_owned()));
                self.set("token", token.to_string(), Some(valid(None)));
            }
            IdentityChange::TokenMade { token, holder, expires_at, .. } => {
                self.set("token", token.to_string(), Some(valid(expires_at)));
                self.holder(&holder, body.by.as_ref());
            }
            IdentityChange::SignedIn { user, token, role, issuer, subject, expires_at } => {
                self.set("token", token.to_string(), Some(valid(Some(expires_at))));
                self.set("subject of", user.to_string(), Some(format!("{issuer} {subject}")));
                // The first sign-in makes the person; another role is a rule.
                let said = || person((role, Band::Black, false));
                self.in_force.entry(("user", user.to_string())).or_insert_with(said);
                self.in_force.entry((GIVEN_ROLE, user.to_string())).or_insert_with(|| Role::OF_GROUPS.as_str().to_owned());
            }
            IdentityChange::TokenRevoked { token } => self.set("token", token.to_string(), Some("revoked".to_owned())),
            IdentityChange::SecretSet { secret, name, version } | IdentityChange::SecretRotated { secret, name, version } => {
                self.set("secret", secret.to_string(), Some(format!("{name} {version}")));
            }
            IdentityChange::SecretDeleted { secret, .. } => self.set("secret", secret.to_string(), None),
            IdentityChange::ConnectionMade { connection, name, kind, url, from, secret, spaces, version } => {
                let spaces = spaces.and_then(|spaces| serde_json::to_string(&spaces).ok()).unwrap_or_else(|| "*".to_owned());
                let from = from.map(|from| format!(" from {from}")).unwrap_or_default();
                let said = format!("{name} {} {url} {} {spaces}{from}", kind.as_str(), secret.as_deref().unwrap_or("-"));
                self.set("connection", connection.to_string(), Some(said));
                self.set("login of connection", connection.to_string(), Some(format!("version {version}")));
            }
            IdentityChange::ConnectionLoggedIn { connection, version, .. } => {
                self.set("login of connection", connection.to_string(), Some(format!("version {version}")));
            }
            IdentityChange::ConnectionRemoved { connection, .. } => {
                let said = self.in_force.get(&("connection", connection.to_string())).map(|said| format!("{said} removed"));
                self.set("connection", connection.to_string(), said);
            }
            IdentityChange::LinkMade { .. } | IdentityChange::MasterKeyReplaced => {}
        }
    }

    /// Whoever made a token answers for its service, or owns its agent.
    fn holder(&mut self, holder: &PrincipalId, by: Option<&PrincipalId>) {
        let owner = match by {
            Some(PrincipalId::User(user)) => Some(user.clone()),
            Some(PrincipalId::Service(token)) => self.services.get(token).cloned(),
            Some(PrincipalId::Agent(_) | PrincipalId::Automation(_)) | None => None,
        };
        match (holder, by, owner) {
            (PrincipalId::Service(token), _, Some(owner)) => drop(self.services.insert(token.clone(), owner)),
            (PrincipalId::Agent(session), Some(by), owner) => {
                let owned = owner.map_or_else(String::new, |owner| format!(" for {owner}"));
                self.set("session", session.to_string(), Some(format!("made by {by}{owned}")));
            }
            (PrincipalId::User(_) | PrincipalId::Service(_) | PrincipalId::Agent(_) | PrincipalId::Automation(_), _, _) => {}
        }
    }

    fn set(&mut self, kind: &'static str, name: String, said: Option<String>) {
        match said {
            Some(said) => drop(self.in_force.insert((kind, name), said)),
            None => drop(self.in_force.remove(&(kind, name))),
        }
    }

    fn person(&mut self, user: &UserId, change: impl FnOnce(&mut (Role, Band, bool))) {
        let key = ("user", user.to_string());
        let known = self.in_force.get(&key).and_then(|said| {
            let mut words = said.split(' ');
            Some((Role::parse(words.next()?)?, Band::parse(words.next()?)?, words.next().is_some()))
        });
        if let Some(mut known) = known {
            change(&mut known);
            self.in_force.insert(key, person(known));
        }
    }
}

fn valid(expires_at: Option<Timestamp>) -> String {
    format!("valid{}", said::until(expires_at))
}

fn person((role, band, is_disabled): (Role, Band, bool)) -> String {
    format!("{} {}{}", role.as_str(), band.as_str(), if is_disabled { " disabled" } else { "" })
}

fn space(
    band: Band,
    self_approval: SelfApproval,
    quorum: &Quorum,
    redaction: &SpaceRedaction,
    keeps: Keeps,
    members: Option<&BTreeSet<UserId>>,
    observes: bool,
) -> String {
    let json = |value: Result<serde_json::Value, _>| value.map_or_else(|_: serde_json::Error| String::new(), |value| value.to_string());
    let (quorum, redaction) = (json(serde_json::to_value(quorum)), json(serde_json::to_value(redaction)));
    let members = members.map_or_else(String::new, |members| format!(" {}", json(serde_json::to_value(members))));
    let observes = if observes { " observes" } else { "" };
    let (self_approval, keeps) = (crate::orgs::self_approval_word(self_approval), keeps.as_str());
    format!("{} {self_approval} {quorum} {redaction} {keeps}{members}{observes}", band.as_str())
}

const fn waiving(waives_consent: bool) -> &'static str {
    if waives_consent { " waives consent" } else { "" }
}

fn defaulting(defaults: Option<Digest>) -> String {
    defaults.map_or_else(String::new, |digest| format!(" defaults {digest}"))
}

/// The settings of a space just created.
fn new_space() -> String {
    space(Band::Green, SelfApproval::Allowed, &Quorum::default(), &SpaceRedaction::default(), Keeps::default(), None, false)
}

fn filed(row: Row) -> Result<Filed, Error> {
    let mut columns = Columns::of(row);
    let (seq, kind, payload) = (columns.int()? as u64, columns.text()?, columns.text()?);
    Ok(Filed { seq, kind, payload, leaf: columns.bytes()?, invocation: columns.text_or_null()? })
}

fn stored_head(row: Row) -> Result<(u64, String, Vec<u8>), Error> {
    let mut columns = Columns::of(row);
    Ok((columns.int()? as u64, columns.text()?, columns.bytes()?))
}

fn named(row: Row) -> Result<(String, String), Error> {
    let mut columns = Columns::of(row);
    Ok((columns.text()?, columns.text()?))
}

fn stored_source(row: Row) -> Result<(String, String), Error> {
    let mut columns = Columns::of(row);
    let (id, version, settings) = (columns.text()?, columns.int()?, columns.text()?);
    let removed = if columns.int_or_null()?.is_some() { REMOVED } else { "" };
    Ok((id, said::source(version, archive::digest_of(&settings)) + removed))
}

fn stored_channel(row: Row) -> Result<(String, String), Error> {
    let mut columns = Columns::of(row);
    let (id, name, terms) = (columns.text()?, columns.text()?, columns.text()?);
    let removed = if columns.int_or_null()?.is_some() { REMOVED } else { "" };
    Ok((id, said::channel(&name, archive::digest_of(&terms)) + removed))
}

fn stored_automation(row: Row) -> Result<(String, String), Error> {
    let mut columns = Columns::of(row);
    let (id, version) = (columns.text()?, columns.int()?);
    let (definition, status) = (columns.parsed(Digest::parse)?, columns.parsed(AutomationStatus::parse)?);
    Ok((id, said::automation(u32::try_from(version).unwrap_or_default(), definition, status)))
}

fn stored_space(row: Row) -> Result<(String, String), Error> {
    let mut columns = Columns::of(row);
    let (id, band) = (columns.text()?, columns.parsed(Band::parse)?);
    let self_approval = columns.parsed(crate::orgs::parse_self_approval)?;
    let (quorum, redaction): (Quorum, SpaceRedaction) = (columns.json()?, columns.json()?);
    let keeps = columns.parsed(Keeps::parse)?;
    let members: Option<BTreeSet<UserId>> = columns.parsed_or_null(|text| serde_json::from_str(text).ok())?;
    let observes = columns.int()? == 1;
    let waives_consent = columns.text()? == crate::orgs::CONSENT_WAIVED;
    let defaults = crate::orgs::digest_of_defaults(&columns.text()?);
    Ok((
        id,
        space(band, self_approval, &quorum, &redaction, keeps, members.as_ref(), observes)
            + waiving(waives_consent)
            + &defaulting(defaults),
    ))
}
