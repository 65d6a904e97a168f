//! Orgs and their spaces. Creating an org also creates its audit log, so an org can never act unrecorded.

use crate::archive::digest_of;
use crate::db::{Columns, Row, Tx, Val, all, only, to_json, vals};
use crate::keys::Purpose;
use crate::limits::INVITATION_SECONDS;
use crate::rule_log::{self, RuleEvent};
use crate::tokens::kind::TokenKind;
use crate::tokens::make::{Maker, NewToken, draw_token, insert_token};
use crate::users::insert_user;
use crate::{Error, Page, PageRequest, Store, page, seal};
use countersign_core::principal::Role;
use countersign_core::session::{Band, Keeps, Quorum, SelfApproval, Space, SpaceRedaction};
use countersign_core::{Digest, LogId, OrgId, Principal, PrincipalId, Secret, SpaceId, Timestamp, UserId, json, random_bytes};
use receipt::body::{Body as _, KeyBody, KeyText, RuleChange, SpaceBody};
use receipt::entry::Kind;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Org {
    pub id: OrgId,
    /// Unique on the server.
    pub name: String,
    pub created_at: Timestamp,
    /// Whether the first start created this org. Its owners are the operators, and it cannot be disabled.
    pub is_first: bool,
    /// Set once the org is disabled: none of its tokens works any more, and its sessions count as ended. What runs still ends, and gets its receipt.
    pub disabled_at: Option<Timestamp>,
}

macro_rules! select_org {
    () => {
        "SELECT org_id, name, created_at, is_first, disabled_at FROM orgs"
    };
}

macro_rules! select_space {
    () => {
        "SELECT org_id, id, name, band, self_approval, quorum, redaction, keeps, members, observes, consent, defaults, created_at \
         FROM spaces WHERE org_id = $1"
    };
}
pub(crate) use select_space;

/// A change of a space. Absent fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceChange {
    pub band: Option<Band>,
    pub self_approval: Option<SelfApproval>,
    pub quorum: Option<Quorum>,
    pub redaction: Option<SpaceRedaction>,
    pub keeps: Option<Keeps>,
    pub members: Option<MembersChange>,
    pub observes: Option<bool>,
    pub asks_consent: Option<bool>,
    pub defaults: Option<BTreeMap<String, Value>>,
}

/// A change of who may act in a space. The first member closes it to everybody else; it stays closed when the last one has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembersChange {
    Add(UserId),
    Remove(UserId),
    /// Everybody in the org may act in it again.
    Open,
}

impl MembersChange {
    fn apply(self, before: Option<&BTreeSet<UserId>>) -> Option<BTreeSet<UserId>> {
        match self {
            Self::Add(user) => Some(before.into_iter().flatten().cloned().chain([user]).collect()),
            Self::Remove(user) => before.map(|members| members.iter().filter(|member| **member != user).cloned().collect()),
            Self::Open => None,
        }
    }
}

/// An org just created.
#[derive(Debug)]
pub struct NewOrg {
    pub org: OrgId,
    pub space: SpaceId,
    pub owner: UserId,
}

impl Store {
    /// Draws the text of a token, to be stored safely before `create_org` makes it valid. A crash in between leaves a useless text, not an
    /// org that nobody can enter.
    pub fn draw_owner_token(&self) -> Secret<String> {
        draw_token(&*self.random, "user")
    }

    /// Creates an org with its space `main`, its owner, the owner's token, its keys and its audit log, all or nothing. `token` is a text
    /// from `draw_owner_token` that the owner has stored already.
    pub async fn create_org(&self, name: &str, owner_name: &str, token: Secret<String>) -> Result<NewOrg, Error> {
        let (store, name, owner_name) = (self.clone(), name.to_owned(), owner_name.to_owned());
        self.db
            .write_unscoped(move |tx| {
                Box::pin(async move {
                    let (_, created) = insert_org(&store, tx, &name, owner_name).await?;
                    let kind = TokenKind::User(created.owner.clone());
                    insert_token(&store, tx, &created.org, kind, "owner", &[], None, token, Maker::default()).await?;
                    Ok(created)
                })
            })
            .await
    }

    /// Like `create_org`, on behalf of an operator: the owner is invited, and the creation is signed into the audit log of the operator's
    /// org. `None` if the name is taken.
    pub async fn add_org(&self, operator: &Principal, name: &str, owner_name: &str) -> Result<Option<(Org, NewOrg, NewToken)>, Error> {
        let (store, operator, name, owner_name) = (self.clone(), operator.clone(), name.to_owned(), owner_name.to_owned());
        self.db
            .write(operator.org.clone(), move |tx| {
                Box::pin(async move {
                    let taken = tx
                        .query("/* every org: names are unique among all */ SELECT 1 FROM orgs WHERE name = $1", &vals![name.as_str()])
                        .await?;
                    if !taken.is_empty() {
                        return Ok(None);
                    }
                    let (org, added) = insert_org(&store, tx, &name, owner_name).await?;
                    let kind = TokenKind::Invitation(added.owner.clone());
                    let text = draw_token(&*store.random, kind.as_str());
                    let maker = Maker::default();
                    let invitation =
                        insert_token(&store, tx, &added.org, kind, "invitation", &[], Some(INVITATION_SECONDS), text, maker).await?;
                    let told = RuleEvent { name: "org.created", key: added.org.to_string() };
                    let change = RuleChange::OrgCreated { org: added.org.clone(), name };
                    rule_log::record(&store, tx, &operator.org, Some(operator.id), change, told).await?;
                    Ok(Some((org, added, invitation)))
                })
            })
            .await
    }

    /// Disables an org for good and signs that into the audit log of the operator's org. Does nothing for the first org or a disabled one.
    /// Returns the org as it is then, if there is one.
    pub async fn disable_org(&self, operator: &Principal, org: &OrgId) -> Result<Option<Org>, Error> {
        let (store, operator, org) = (self.clone(), operator.clone(), org.clone());
        self.db
            .write(operator.org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "UPDATE orgs SET disabled_at = $1 WHERE org_id = $2 AND is_first = 0 AND disabled_at IS NULL";
                    if tx.exec(sql, &vals![tx.now(), org.as_str()]).await? == 1 {
                        let told = RuleEvent { name: "org.disabled", key: org.to_string() };
                        let change = RuleChange::OrgDisabled { org: org.clone() };
                        rule_log::record(&store, tx, &operator.org, Some(operator.id), change, told).await?;
                    }
                    let sql = concat!(select_org!(), " WHERE org_id = $1");
                    only(tx.query(sql, &vals![org.as_str()]).await?, read_org)
                })
            })
            .await
    }

    /// Every org, disabled ones included, with the first org first and then in the order of their creation.
    pub async fn list_orgs(&self) -> Result<Vec<Org>, Error> {
        let sql = concat!(select_org!(), " ORDER BY is_first DESC, org_id");
        all(self.db.read(sql, &[]).await?, read_org)
    }

    /// Whether the org's people, agents and services may act.
    pub async fn is_enabled(&self, org: &OrgId) -> Result<bool, Error> {
        let sql = "SELECT org_id FROM orgs WHERE org_id = $1 AND disabled_at IS NULL";
        self.db.read_remembered(org, sql, &vals![org.as_str()], |rows| Ok(!rows.is_empty())).await.map(|is_enabled| *is_enabled)
    }

    /// Creates a space; `None` if the name is taken.
    pub async fn create_space(&self, org: &OrgId, name: &str, by: &PrincipalId) -> Result<Option<Space>, Error> {
        let (store, org, name, by) = (self.clone(), org.clone(), name.to_owned(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let taken =
                        tx.query("SELECT id FROM spaces WHERE org_id = $1 AND name = $2", &vals![org.as_str(), name.as_str()]).await?;
                    if !taken.is_empty() {
                        return Ok(None);
                    }
                    let space = insert_space(&store, tx, &org, &name).await?;
                    record_space(&store, tx, &space, by, "space.created").await?;
                    Ok(Some(space))
                })
            })
            .await
    }

    /// Lists spaces, without these.
    pub async fn list_spaces(&self, org: &OrgId, hidden: &BTreeSet<SpaceId>, request: &PageRequest) -> Result<Page<Space>, Error> {
        let after = request.after.as_deref().unwrap_or_default();
        let mut params = vals![org.as_str(), after].to_vec();
        let others = not_among("id", hidden, &mut params);
        params.push(Val::from(i64::from(request.limit) + 1));
        let sql = format!("{} AND id > $2{others} ORDER BY id LIMIT ${}", select_space!(), params.len());
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_space, |space| space.id.to_string())
    }

    pub async fn find_space_by_name(&self, org: &OrgId, name: &str) -> Result<Option<Space>, Error> {
        let rows = self.db.read(concat!(select_space!(), " AND name = $2"), &vals![org.as_str(), name]).await?;
        only(rows, read_space)
    }

    /// Every space that has members, and is closed to everybody else.
    pub async fn list_closed_spaces(&self, org: &OrgId) -> Result<Arc<Vec<Space>>, Error> {
        let sql = concat!(select_space!(), " AND members IS NOT NULL ORDER BY id");
        self.db.read_remembered(org, sql, &vals![org.as_str()], |rows| all(rows, read_space)).await
    }

    /// Changes the band of a space, who may answer in it, and its other settings; `None` if there is no such space.
    pub async fn change_space(&self, org: &OrgId, space: &SpaceId, change: SpaceChange, by: &PrincipalId) -> Result<Option<Space>, Error> {
        let (store, org, space, by) = (self.clone(), org.clone(), space.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = concat!(select_space!(), " AND id = $2");
                    let rows = tx.query_locked(sql, &vals![org.as_str(), space.as_str()]).await?;
                    let Some(before) = only(rows, read_space)? else {
                        return Ok(None);
                    };
                    let after = Space {
                        band: change.band.unwrap_or(before.band),
                        self_approval: change.self_approval.unwrap_or(before.self_approval),
                        quorum: change.quorum.unwrap_or_else(|| before.quorum.clone()),
                        redaction: change.redaction.unwrap_or_else(|| before.redaction.clone()),
                        keeps: change.keeps.unwrap_or(before.keeps),
                        members: match change.members {
                            Some(change) => change.apply(before.members.as_ref()),
                            None => before.members.clone(),
                        },
                        observes: change.observes.unwrap_or(before.observes),
                        asks_consent: change.asks_consent.unwrap_or(before.asks_consent),
                        defaults: change.defaults.unwrap_or_else(|| before.defaults.clone()),
                        ..before.clone()
                    };
                    if after != before {
                        let members = after.members.as_ref().map(to_json).transpose()?;
                        tx.exec(
                            "UPDATE spaces SET band = $1, self_approval = $2, quorum = $3, redaction = $4, keeps = $5, members = $6,
                               observes = $7, consent = $8, defaults = $9
                             WHERE org_id = $10 AND id = $11",
                            &vals![
                                after.band.as_str(),
                                self_approval_word(after.self_approval),
                                to_json(&after.quorum)?,
                                to_json(&after.redaction)?,
                                after.keeps.as_str(),
                                members,
                                i64::from(after.observes),
                                consent_word(after.asks_consent),
                                defaults_text(&after)?,
                                org.as_str(),
                                space.as_str()
                            ],
                        )
                        .await?;
                        record_space(&store, tx, &after, by, "space.changed").await?;
                    }
                    Ok(Some(after))
                })
            })
            .await
    }
}

/// The part of a WHERE clause that leaves out these spaces; their ids are added to `params`. The column has a value in every row.
pub(crate) fn not_among(column: &str, hidden: &BTreeSet<SpaceId>, params: &mut Vec<Val>) -> String {
    match places(hidden.iter().map(SpaceId::as_str), params) {
        Some(places) => format!(" AND {column} NOT IN ({places})"),
        None => String::new(),
    }
}

/// Adds texts to `params`, and returns where they are, as `$3, $4`; `None` if there are none.
pub(crate) fn places<'a>(texts: impl Iterator<Item = &'a str>, params: &mut Vec<Val>) -> Option<String> {
    let place = |text: &str| {
        params.push(Val::from(text));
        format!("${}", params.len())
    };
    let places: Vec<_> = texts.map(place).collect();
    (!places.is_empty()).then(|| places.join(", "))
}

/// Inserts an org whose owner cannot act yet.
async fn insert_org(store: &Store, tx: &mut Tx, name: &str, owner_name: String) -> Result<(Org, NewOrg), Error> {
    let created_at = tx.now();
    let org = OrgId::new(created_at, random_bytes(&*store.random));
    let is_first = tx.query("/* every org: whether there is any */ SELECT 1 FROM orgs LIMIT 1", &[]).await?.is_empty();
    tx.exec(
        "INSERT INTO orgs (org_id, name, rules_version, created_at, is_first) VALUES ($1, $2, 0, $3, $4)",
        &vals![org.as_str(), name, created_at, i64::from(is_first)],
    )
    .await?;
    start_log(store, tx, &org).await?;
    let space = insert_space(store, tx, &org, "main").await?;
    let owner = insert_user(store, tx, &org, owner_name, Role::Owner, None).await?.id;
    let stored = Org { id: org.clone(), name: name.to_owned(), created_at, is_first, disabled_at: None };
    Ok((stored, NewOrg { org, space: space.id, owner }))
}

/// Signs the space's current settings into the audit log and publishes the event.
async fn record_space(store: &Store, tx: &mut Tx, space: &Space, by: PrincipalId, event: &'static str) -> Result<(), Error> {
    let version = seal::next_rules_version(tx, &space.org).await?;
    let body = SpaceBody {
        band: space.band,
        by,
        defaults: digest_of_defaults(&defaults_text(space)?),
        keeps: space.keeps,
        members: space.members.clone(),
        name: space.name.clone(),
        observes: space.observes,
        waives_consent: !space.asks_consent,
        quorum: space.quorum.clone(),
        redaction: space.redaction.clone(),
        self_approval: space.self_approval,
        space: space.id.clone(),
        version,
    };
    rule_log::sign(store, tx, &space.org, Kind::Space, version, &body, RuleEvent { name: event, key: space.id.to_string() }).await
}

async fn start_log(store: &Store, tx: &mut Tx, org: &OrgId) -> Result<(), Error> {
    let log = LogId::new(tx.now(), random_bytes(&*store.random));
    let receipt_key = store.keychain.create_signing_key(tx, org, Purpose::Receipt, 0).await?;
    let checkpoint_key = store.keychain.create_signing_key(tx, org, Purpose::Checkpoint, 0).await?;
    seal::create_log(tx, org, &log, receipt_key.key_id(), checkpoint_key.key_id()).await?;
    let body = KeyBody {
        receipt_key: KeyText::new(&receipt_key),
        checkpoint_key: KeyText::new(&checkpoint_key),
        replaces: None,
        starts_at_seq: "0".into(),
        revoked: Vec::new(),
    };
    let body = body.to_canonical().map_err(|error| Error::Corrupt { message: error.to_string() })?;
    let id = format!("key_{}", receipt_key.key_id());
    seal::append(tx, org, seal::Draft { kind: Kind::Key, id: &id, invocation: None, body: &body }).await?;
    Ok(())
}

/// Creates the space with band green, where calls of class HIGH need a consent. Both are assumed of a space that no entry of the audit log
/// describes.
async fn insert_space(store: &Store, tx: &mut Tx, org: &OrgId, name: &str) -> Result<Space, Error> {
    let created_at = tx.now();
    let id = SpaceId::new(created_at, random_bytes(&*store.random));
    let space = Space {
        id,
        org: org.clone(),
        name: name.to_owned(),
        band: Band::Green,
        self_approval: SelfApproval::Allowed,
        quorum: Quorum::default(),
        redaction: SpaceRedaction::default(),
        keeps: Keeps::default(),
        members: None,
        observes: false,
        asks_consent: true,
        defaults: BTreeMap::new(),
        created_at,
    };
    let sealed_key = store.keychain.new_space_key(tx, &space.id).await?;
    tx.exec(
        "INSERT INTO spaces (org_id, id, name, band, self_approval, consent, sealed_key, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &vals![
            org.as_str(),
            space.id.as_str(),
            name,
            space.band.as_str(),
            self_approval_word(space.self_approval),
            consent_word(space.asks_consent),
            sealed_key,
            created_at
        ],
    )
    .await?;
    Ok(space)
}

fn read_org(row: Row) -> Result<Org, Error> {
    let mut columns = Columns::of(row);
    Ok(Org {
        id: columns.id()?,
        name: columns.text()?,
        created_at: columns.time()?,
        is_first: columns.int()? == 1,
        disabled_at: columns.time_or_null()?,
    })
}

pub(crate) fn read_space(row: Row) -> Result<Space, Error> {
    let mut columns = Columns::of(row);
    Ok(Space {
        org: columns.id()?,
        id: columns.id()?,
        name: columns.text()?,
        band: columns.parsed(Band::parse)?,
        self_approval: columns.parsed(parse_self_approval)?,
        quorum: columns.json()?,
        redaction: columns.json()?,
        keeps: columns.parsed(Keeps::parse)?,
        members: columns.parsed_or_null(|text| serde_json::from_str(text).ok())?,
        observes: columns.int()? == 1,
        asks_consent: columns.text()? == CONSENT_ASKED,
        defaults: columns.json()?,
        created_at: columns.time()?,
    })
}

/// The canonical JSON of a space's defaults, which the audit log has the digest of.
fn defaults_text(space: &Space) -> Result<String, Error> {
    json::canonical_exact(&space.defaults).map_err(|error| Error::Corrupt { message: error.to_string() })
}

/// The digest of defaults, as the audit log holds it; none if there are none.
pub(crate) fn digest_of_defaults(text: &str) -> Option<Digest> {
    (text != "{}").then(|| digest_of(text))
}

const CONSENT_ASKED: &str = "asked";
pub(crate) const CONSENT_WAIVED: &str = "waived";

const fn consent_word(is_asked: bool) -> &'static str {
    if is_asked { CONSENT_ASKED } else { CONSENT_WAIVED }
}

pub(crate) const fn self_approval_word(rule: SelfApproval) -> &'static str {
    match rule {
        SelfApproval::Allowed => "allowed",
        SelfApproval::Refused => "refused",
    }
}

pub(crate) fn parse_self_approval(text: &str) -> Option<SelfApproval> {
    [SelfApproval::Allowed, SelfApproval::Refused].into_iter().find(|rule| self_approval_word(*rule) == text)
}
