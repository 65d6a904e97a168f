//! Orgs and their spaces. Creating an org creates its log: there is no moment in which an org could act unrecorded.

use crate::db::{Columns, Row, Tx, vals};
use crate::events::insert_event;
use crate::keys::Purpose;
use crate::tokens::{TokenKind, draw_token, insert_token};
use crate::{Error, Page, PageRequest, Store, page, seal};
use countersign_core::ledger::EventDraft;
use countersign_core::principal::Role;
use countersign_core::session::{Band, SelfApproval, Space};
use countersign_core::{EventId, LogId, OrgId, Secret, SpaceId, Timestamp, UserId, random_bytes};
use receipt::body::{KeyBody, KeyText};
use receipt::entry::Kind;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Org {
    pub id: OrgId,
    pub name: String,
    pub created_at: Timestamp,
}

/// What the first start creates.
#[derive(Debug)]
pub struct FirstOrg {
    pub org: OrgId,
    pub space: SpaceId,
    pub owner: UserId,
}

impl Store {
    /// A token's text, to be kept safe before it is made valid: a crash in between leaves a useless text, not a lost org.
    pub fn draw_owner_token(&self) -> Secret<String> {
        draw_token(&*self.random, "user")
    }

    /// Creates an org with its space `main`, its owner, the owner's token, its keys and its log, all or nothing.
    /// `token` is a text from `draw_owner_token` that its bearer already holds.
    pub async fn create_org(&self, name: &str, owner_name: &str, token: Secret<String>) -> Result<FirstOrg, Error> {
        let store = self.clone();
        let (name, owner_name) = (name.to_owned(), owner_name.to_owned());
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let now = tx.now();
                    let org = OrgId::new(now, random_bytes(&*store.random));
                    tx.exec(
                        "INSERT INTO orgs (org_id, name, modes_version, created_at) VALUES ($1, $2, 0, $3)",
                        &vals![org.as_str(), name, now],
                    )
                    .await?;
                    start_log(&store, tx, &org).await?;
                    let space = insert_space(&store, tx, &org, "main").await?;
                    let owner = UserId::new(now, random_bytes(&*store.random));
                    tx.exec(
                        "INSERT INTO users (org_id, id, name, role, created_at) VALUES ($1, $2, $3, $4, $5)",
                        &vals![org.as_str(), owner.as_str(), owner_name, Role::Owner.as_str(), now],
                    )
                    .await?;
                    let kind = TokenKind::User(owner.clone());
                    insert_token(&store, tx, &org, kind, "owner", &[], None, token).await?;
                    Ok(FirstOrg { org, space: space.id, owner })
                })
            })
            .await
    }

    pub async fn list_orgs(&self) -> Result<Vec<Org>, Error> {
        let rows = self.db.read("SELECT org_id, name, created_at FROM orgs ORDER BY org_id", &[]).await?;
        rows.into_iter().map(read_org).collect()
    }

    /// `None` when the name is taken.
    pub async fn create_space(&self, org: &OrgId, name: &str) -> Result<Option<Space>, Error> {
        let (store, org, name) = (self.clone(), org.clone(), name.to_owned());
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let taken =
                        tx.query("SELECT id FROM spaces WHERE org_id = $1 AND name = $2", &vals![org.as_str(), name.as_str()]).await?;
                    if taken.is_empty() { insert_space(&store, tx, &org, &name).await.map(Some) } else { Ok(None) }
                })
            })
            .await
    }

    pub async fn list_spaces(&self, org: &OrgId, request: &PageRequest) -> Result<Page<Space>, Error> {
        let rows = self
            .db
            .read(
                &format!("{SELECT_SPACE} AND id > $2 ORDER BY id LIMIT $3"),
                &vals![org.as_str(), request.after.as_deref().unwrap_or_default(), i64::from(request.limit) + 1],
            )
            .await?;
        let spaces = rows.into_iter().map(read_space).collect::<Result<Vec<_>, _>>()?;
        Ok(page(spaces, request.limit, |space| space.id.to_string()))
    }

    pub async fn find_space(&self, org: &OrgId, space: &SpaceId) -> Result<Option<Space>, Error> {
        let rows = self.db.read(&format!("{SELECT_SPACE} AND id = $2"), &vals![org.as_str(), space.as_str()]).await?;
        rows.into_iter().next().map(read_space).transpose()
    }

    pub async fn find_space_by_name(&self, org: &OrgId, name: &str) -> Result<Option<Space>, Error> {
        let rows = self.db.read(&format!("{SELECT_SPACE} AND name = $2"), &vals![org.as_str(), name]).await?;
        rows.into_iter().next().map(read_space).transpose()
    }

    /// Turns separation of duties on or off for a space; `None` when there is no such space.
    pub async fn set_self_approval(&self, org: &OrgId, space: &SpaceId, rule: SelfApproval) -> Result<Option<Space>, Error> {
        let (owned_org, owned_space, random) = (org.clone(), space.clone(), std::sync::Arc::clone(&self.random));
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let changed = tx
                        .exec(
                            "UPDATE spaces SET self_approval = $1 WHERE org_id = $2 AND id = $3",
                            &vals![self_approval_word(rule), owned_org.as_str(), owned_space.as_str()],
                        )
                        .await?;
                    if changed == 1 {
                        let id = EventId::new(tx.now(), random_bytes(&*random));
                        let body = serde_json::json!({ "space_id": owned_space, "self_approval": self_approval_word(rule) }).to_string();
                        let event = EventDraft { id, name: "space.changed", key: owned_space.to_string(), body };
                        insert_event(tx, &owned_org, &event, None);
                    }
                    Ok(())
                })
            })
            .await?;
        self.find_space(org, space).await
    }
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

async fn insert_space(store: &Store, tx: &mut Tx, org: &OrgId, name: &str) -> Result<Space, Error> {
    let created_at = tx.now();
    let id = SpaceId::new(created_at, random_bytes(&*store.random));
    let space = Space { id, org: org.clone(), name: name.to_owned(), band: Band::Green, self_approval: SelfApproval::Allowed, created_at };
    tx.exec(
        "INSERT INTO spaces (org_id, id, name, band, self_approval, sealed_key, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &vals![
            org.as_str(),
            space.id.as_str(),
            name,
            space.band.as_str(),
            self_approval_word(space.self_approval),
            store.keychain.new_space_key(&space.id),
            created_at
        ],
    )
    .await?;
    Ok(space)
}

const SELECT_SPACE: &str = "SELECT org_id, id, name, band, self_approval, created_at FROM spaces WHERE org_id = $1";

fn read_org(row: Row) -> Result<Org, Error> {
    let mut columns = Columns::of(row);
    Ok(Org { id: columns.parsed(|text| OrgId::parse(text).ok())?, name: columns.text()?, created_at: columns.time()? })
}

fn read_space(row: Row) -> Result<Space, Error> {
    let mut columns = Columns::of(row);
    Ok(Space {
        org: columns.parsed(|text| OrgId::parse(text).ok())?,
        id: columns.parsed(|text| SpaceId::parse(text).ok())?,
        name: columns.text()?,
        band: columns.parsed(Band::parse)?,
        self_approval: columns.parsed(parse_self_approval)?,
        created_at: columns.time()?,
    })
}

const fn self_approval_word(rule: SelfApproval) -> &'static str {
    match rule {
        SelfApproval::Allowed => "allowed",
        SelfApproval::Refused => "refused",
    }
}

fn parse_self_approval(text: &str) -> Option<SelfApproval> {
    [SelfApproval::Allowed, SelfApproval::Refused].into_iter().find(|rule| self_approval_word(*rule) == text)
}
