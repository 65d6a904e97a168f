//! People and their standing.

use crate::db::{Columns, Row, vals};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::principal::Role;
use countersign_core::{OrgId, Timestamp, UserId, random_bytes};

/// A person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    /// Unique in the org.
    pub name: String,
    pub role: Role,
    pub created_at: Timestamp,
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
                    let user = User { id: UserId::new(created_at, random_bytes(&*random)), name, role, created_at, disabled_at: None };
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

const SELECT_USER: &str = "SELECT id, name, role, created_at, disabled_at FROM users WHERE org_id = $1";

fn read_user(row: Row) -> Result<User, Error> {
    let mut columns = Columns::of(row);
    Ok(User {
        id: columns.parsed(|text| UserId::parse(text).ok())?,
        name: columns.text()?,
        role: columns.parsed(Role::parse)?,
        created_at: columns.time()?,
        disabled_at: columns.time_or_null()?,
    })
}
