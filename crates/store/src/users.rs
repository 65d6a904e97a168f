//! People: their role, the strictest band they may act in, and whether they are disabled.

use crate::db::{Columns, Row, Tx, only, vals};
use crate::limits::INVITATION_SECONDS;
use crate::rule_log::{self, RuleEvent};
use crate::tokens::kind::TokenKind;
use crate::tokens::make::{Maker, NewToken, draw_token, insert_token};
use crate::{Error, Page, PageRequest, Store, page, seal};
use countersign_core::principal::{Permission, Role};
use countersign_core::{Band, OrgId, Principal, PrincipalId, Timestamp, UserId, random_bytes};
use receipt::body::{IdentityChange, RuleChange};

macro_rules! select_user {
    () => {
        "SELECT id, name, role, created_at, max_band, disabled_at, given_role FROM users WHERE org_id = $1"
    };
}

/// A person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    /// Unique in the org.
    pub name: String,
    pub role: Role,
    pub created_at: Timestamp,
    /// The strictest band in which this person, and every principal acting for them, may act.
    pub max_band: Band,
    /// When the person was disabled. From then on none of their tokens works.
    pub disabled_at: Option<Timestamp>,
    /// The role that somebody here gave them last, above which the groups of an issuer give none. Whom a sign-in made has `Role::OF_GROUPS`.
    pub given_role: Role,
}

impl Store {
    /// Creates a person and invites them, both or neither: a name that is taken by somebody without an invitation helps nobody. `None` if
    /// the name is taken.
    pub async fn create_user(&self, by: &Principal, name: &str, role: Role) -> Result<Option<(User, NewToken)>, Error> {
        let (store, by, name) = (self.clone(), by.clone(), name.to_owned());
        self.db
            .write(by.org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "SELECT id FROM users WHERE org_id = $1 AND name = $2";
                    if !tx.query(sql, &vals![by.org.as_str(), name.as_str()]).await?.is_empty() {
                        return Ok(None);
                    }
                    let user = insert_user(&store, tx, &by.org, name, role, Some(by.id.clone())).await?;
                    let kind = TokenKind::Invitation(user.id.clone());
                    let text = draw_token(&*store.random, kind.as_str());
                    let maker = Maker { by: Some(by.id), with: by.token, ..Maker::default() };
                    let invitation =
                        insert_token(&store, tx, &by.org, kind, "invitation", &[], Some(INVITATION_SECONDS), text, maker).await?;
                    Ok(Some((user, invitation)))
                })
            })
            .await
    }

    pub async fn find_user(&self, org: &OrgId, user: &UserId) -> Result<Option<User>, Error> {
        let rows = self.db.read(concat!(select_user!(), " AND id = $2"), &vals![org.as_str(), user.as_str()]).await?;
        only(rows, read_user)
    }

    /// The person with this id or name, unless they are disabled.
    pub async fn find_active_user(&self, org: &OrgId, person: &str) -> Result<Option<User>, Error> {
        let sql = concat!(select_user!(), " AND (id = $2 OR name = $2) AND disabled_at IS NULL ORDER BY id LIMIT 1");
        only(self.db.read(sql, &vals![org.as_str(), person]).await?, read_user)
    }

    pub async fn list_users(&self, org: &OrgId, request: &PageRequest) -> Result<Page<User>, Error> {
        let rows = self
            .db
            .read(
                concat!(select_user!(), " AND id > $2 ORDER BY id LIMIT $3"),
                &vals![org.as_str(), request.after.as_deref().unwrap_or_default(), i64::from(request.limit) + 1],
            )
            .await?;
        page(rows, request.limit, read_user, |user| user.id.to_string())
    }

    /// Changes a person's role and strictest band, all or nothing; `None` if there is no such person.
    pub async fn change_user(
        &self,
        org: &OrgId,
        user: &UserId,
        change: UserChange,
        by: &PrincipalId,
    ) -> Result<Option<ChangedUser>, Error> {
        let (store, org, user, by) = (self.clone(), org.clone(), user.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let owners = lock_owners(tx, &org).await?;
                    let Some(before) = lock_user(tx, &org, &user).await? else {
                        return Ok(None);
                    };
                    let after = User {
                        role: change.role.unwrap_or(before.role),
                        max_band: change.max_band.unwrap_or(before.max_band),
                        given_role: change.role.unwrap_or(before.given_role),
                        ..before.clone()
                    };
                    if after.role != Role::Owner && owners == [before.id.clone()] {
                        return Ok(Some(ChangedUser::LastOwner));
                    }
                    if (after.role, after.given_role) != (before.role, before.given_role) {
                        set_role(&store, tx, &org, &before, after.role, Some(by.clone())).await?;
                    }
                    if after.max_band != before.max_band {
                        let sql = "UPDATE users SET max_band = $1 WHERE org_id = $2 AND id = $3";
                        tx.exec(sql, &vals![after.max_band.as_str(), org.as_str(), user.as_str()]).await?;
                        let told = RuleEvent { name: "user.limited", key: user.to_string() };
                        let change = RuleChange::BandLimited { user, max_band: after.max_band };
                        rule_log::record(&store, tx, &org, Some(by), change, told).await?;
                    }
                    Ok(Some(ChangedUser::Done(after)))
                })
            })
            .await
    }

    /// Disables a person at once. The last owner cannot be disabled. `None` if there is no such active person.
    pub async fn disable_user(&self, org: &OrgId, user: &UserId, by: &PrincipalId) -> Result<Option<ChangedUser>, Error> {
        let (store, org, user, by) = (self.clone(), org.clone(), user.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    if lock_owners(tx, &org).await? == [user.clone()] {
                        return Ok(Some(ChangedUser::LastOwner));
                    }
                    let sql = concat!(select_user!(), " AND id = $2 AND disabled_at IS NULL");
                    let rows = tx.query_locked(sql, &vals![org.as_str(), user.as_str()]).await?;
                    let Some(before) = only(rows, read_user)? else {
                        return Ok(None);
                    };
                    let disabled_at = tx.now();
                    let sql = "UPDATE users SET disabled_at = $1 WHERE org_id = $2 AND id = $3";
                    tx.exec(sql, &vals![disabled_at, org.as_str(), user.as_str()]).await?;
                    let told = RuleEvent { name: "user.disabled", key: user.to_string() };
                    rule_log::record_identity(&store, tx, &org, Some(by), IdentityChange::UserDisabled { user }, told).await?;
                    Ok(Some(ChangedUser::Done(User { disabled_at: Some(disabled_at), ..before })))
                })
            })
            .await
    }
}

/// Inserts a person whose name is free. `by` is absent for the first owner of an org.
pub(crate) async fn insert_user(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    name: String,
    role: Role,
    by: Option<PrincipalId>,
) -> Result<User, Error> {
    let created_at = tx.now();
    let id = UserId::new(created_at, random_bytes(&*store.random));
    let told = RuleEvent { name: "user.created", key: id.to_string() };
    let change = IdentityChange::UserCreated { user: id.clone(), role };
    let from = rule_log::record_identity(store, tx, org, by, change, told).await?;
    insert_row(tx, org, &id, &name, role, role, from as i64).await?;
    Ok(User { id, name, role, created_at, max_band: Band::Black, disabled_at: None, given_role: role })
}

/// Inserts the row of a person, whom the entry of the audit log at this position makes.
pub(crate) async fn insert_row(
    tx: &mut Tx,
    org: &OrgId,
    user: &UserId,
    name: &str,
    role: Role,
    given_role: Role,
    from: i64,
) -> Result<(), Error> {
    tx.exec(
        "INSERT INTO users (org_id, id, name, role, created_at, approves_from, given_role) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &vals![org.as_str(), user.as_str(), name, role.as_str(), tx.now(), from, given_role.as_str()],
    )
    .await
    .map(|_| ())
}

pub(crate) async fn lock_user(tx: &mut Tx, org: &OrgId, user: &UserId) -> Result<Option<User>, Error> {
    let rows = tx.query_locked(concat!(select_user!(), " AND id = $2"), &vals![org.as_str(), user.as_str()]).await?;
    only(rows, read_user)
}

/// Gives a person another role. `by` is absent where an issuer gave it, whose sign-in the audit log has just before.
pub(crate) async fn set_role(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    before: &User,
    role: Role,
    by: Option<PrincipalId>,
) -> Result<(), Error> {
    let user = &before.id;
    let given_role = if by.is_some() { role } else { before.given_role };
    let sql = "UPDATE users SET role = $1, given_role = $2 WHERE org_id = $3 AND id = $4";
    tx.exec(sql, &vals![role.as_str(), given_role.as_str(), org.as_str(), user.as_str()]).await?;
    if !before.role.may(Permission::Approve) {
        let from = seal::size(tx, org).await? as i64;
        let sql = "UPDATE users SET approves_from = $1 WHERE org_id = $2 AND id = $3";
        tx.exec(sql, &vals![from, org.as_str(), user.as_str()]).await?;
    }
    let told = RuleEvent { name: "user.role_changed", key: user.to_string() };
    rule_log::record(store, tx, org, by, RuleChange::RoleChanged { user: user.clone(), role }, told).await.map(|_| ())
}

/// A change of a person. Absent fields stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserChange {
    pub role: Option<Role>,
    pub max_band: Option<Band>,
}

/// The result of changing or disabling a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedUser {
    Done(User),
    /// Not changed: an org without an owner could not be administered by anyone.
    LastOwner,
}

/// Every owner who is not disabled. They stay locked: if two owners leave at once, the second write sees that it concerns the last.
pub(crate) async fn lock_owners(tx: &mut Tx, org: &OrgId) -> Result<Vec<UserId>, Error> {
    let sql = "SELECT id FROM users WHERE org_id = $1 AND role = 'owner' AND disabled_at IS NULL ORDER BY id";
    let rows = tx.query_locked(sql, &vals![org.as_str()]).await?;
    rows.into_iter().map(|row| Columns::of(row).parsed(|text| UserId::parse(text).ok())).collect()
}

fn read_user(row: Row) -> Result<User, Error> {
    let mut columns = Columns::of(row);
    Ok(User {
        id: columns.id()?,
        name: columns.text()?,
        role: columns.parsed(Role::parse)?,
        created_at: columns.time()?,
        max_band: columns.parsed(Band::parse)?,
        disabled_at: columns.time_or_null()?,
        given_role: columns.parsed(Role::parse)?,
    })
}
