//! People and their standing.

use crate::db::{Columns, Row, vals};
use crate::rules::{self, Told};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::principal::Role;
use countersign_core::{Band, OrgId, PrincipalId, Timestamp, UserId, random_bytes};
use receipt::body::RuleChange;
use std::sync::Arc;

/// A person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    /// Unique in the org.
    pub name: String,
    pub role: Role,
    pub created_at: Timestamp,
    /// The most dangerous band they, and whoever acts for them, may act in.
    pub max_band: Band,
    /// From then on none of their tokens works.
    pub disabled_at: Option<Timestamp>,
}

impl Store {
    /// `None` when the name is taken.
    pub async fn create_user(&self, org: &OrgId, name: &str, role: Role) -> Result<Option<User>, Error> {
        let (org, name, random) = (org.clone(), name.to_owned(), std::sync::Arc::clone(&self.random));
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let created_at = tx.now();
                    let user = User { id: UserId::new(created_at, random_bytes(&*random)), name, role, created_at, max_band: Band::Black, disabled_at: None };
                    let inserted = tx
                        .exec(
                            "INSERT INTO users (org_id, id, name, role, created_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (org_id, name) DO NOTHING",
                            &vals![org.as_str(), user.id.as_str(), user.name.as_str(), role.as_str(), created_at],
                        )
                        .await?;
                    Ok((inserted == 1).then_some(user))
                })
            })
            .await
    }

    pub async fn find_user(&self, org: &OrgId, user: &UserId) -> Result<Option<User>, Error> {
        let rows = self.db.read(&format!("{SELECT_USER} AND id = $2"), &vals![org.as_str(), user.as_str()]).await?;
        rows.into_iter().next().map(read_user).transpose()
    }

    pub async fn list_users(&self, org: &OrgId, request: &PageRequest) -> Result<Page<User>, Error> {
        let rows = self
            .db
            .read(
                &format!("{SELECT_USER} AND id > $2 ORDER BY id LIMIT $3"),
                &vals![org.as_str(), request.after.as_deref().unwrap_or_default(), i64::from(request.limit) + 1],
            )
            .await?;
        let users = rows.into_iter().map(read_user).collect::<Result<Vec<_>, _>>()?;
        Ok(page(users, request.limit, |user| user.id.to_string()))
    }

    /// Says how dangerous a space this person may act in; `None` when there is no such person.
    pub async fn limit_user(&self, org: &OrgId, user: &UserId, max_band: Band, by: &PrincipalId) -> Result<Option<User>, Error> {
        let (store, owned_org, owned_user, by) = (self.clone(), org.clone(), user.clone(), by.clone());
        let changed = self
            .db
            .write(move |tx| {
                Box::pin(async move {
                    let sql = "UPDATE users SET max_band = $1 WHERE org_id = $2 AND id = $3 AND max_band <> $1";
                    let changed = tx.exec(sql, &vals![max_band.as_str(), owned_org.as_str(), owned_user.as_str()]).await?;
                    if changed == 1 {
                        let told = Told { name: "user.limited", key: owned_user.to_string() };
                        let change = RuleChange::BandLimited { user: owned_user, max_band };
                        rules::record(&store, tx, &owned_org, Some(by), change, told).await?;
                    }
                    Ok(changed)
                })
            })
            .await;
        changed?;
        self.find_user(org, user).await
    }

    /// The most dangerous band this person may act in.
    pub(crate) async fn max_band_of(&self, org: &OrgId, user: &UserId) -> Result<Band, Error> {
        let sql = "SELECT max_band FROM users WHERE org_id = $1 AND id = $2";
        // Who does not exist may act nowhere that matters; their tokens work no more either.
        let parse = |rows: Vec<Row>| rows.into_iter().next().map_or(Ok(Band::Green), |row| Columns::of(row).parsed(Band::parse));
        self.db.read_remembered(sql, &vals![org.as_str(), user.as_str()], parse).await.map(|band| *band)
    }

    /// Everyone who may say yes.
    pub(crate) async fn approvers(&self, org: &OrgId) -> Result<Arc<Vec<UserId>>, Error> {
        let sql = "SELECT id FROM users WHERE org_id = $1 AND role IN ('admin', 'owner') AND disabled_at IS NULL ORDER BY id";
        let read = |row| Columns::of(row).parsed(|text| UserId::parse(text).ok());
        self.db.read_remembered(sql, &vals![org.as_str()], |rows: Vec<Row>| rows.into_iter().map(read).collect()).await
    }

    /// Disables a person at once. The last owner cannot be disabled; `None` when there is no such active person.
    pub async fn disable_user(&self, org: &OrgId, user: &UserId) -> Result<Option<Disabled>, Error> {
        let (org, user) = (org.clone(), user.clone());
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let owners = tx
                        .query_locked(
                            "SELECT id FROM users WHERE org_id = $1 AND role = 'owner' AND disabled_at IS NULL",
                            &vals![org.as_str()],
                        )
                        .await?;
                    if owners.len() == 1 && owners == [vals![user.as_str()].to_vec()] {
                        return Ok(Some(Disabled::LastOwner));
                    }
                    let changed = tx
                        .exec(
                            "UPDATE users SET disabled_at = $1 WHERE org_id = $2 AND id = $3 AND disabled_at IS NULL",
                            &vals![tx.now(), org.as_str(), user.as_str()],
                        )
                        .await?;
                    Ok((changed == 1).then_some(Disabled::Done))
                })
            })
            .await
    }
}

/// What became of disabling a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disabled {
    Done,
    /// An org without an owner could not be administered by anyone.
    LastOwner,
}

const SELECT_USER: &str = "SELECT id, name, role, created_at, max_band, disabled_at FROM users WHERE org_id = $1";

fn read_user(row: Row) -> Result<User, Error> {
    let mut columns = Columns::of(row);
    Ok(User {
        id: columns.parsed(|text| UserId::parse(text).ok())?,
        name: columns.text()?,
        role: columns.parsed(Role::parse)?,
        created_at: columns.time()?,
        max_band: columns.parsed(Band::parse)?,
        disabled_at: columns.time_or_null()?,
    })
}
