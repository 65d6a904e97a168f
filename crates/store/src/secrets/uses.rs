//! What uses a secret. Everything that can name a secret has a row in `USES`: nothing else is asked, so a kind without a row would let a
//! secret be deleted under it.

use crate::Error;
use crate::db::{Columns, Row};

/// Something that uses a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretUse {
    /// The kind of thing, such as `connection`.
    pub kind: &'static str,
    pub id: String,
    pub name: String,
}

/// A kind of thing, and the query for the id and the name of each one of org `$1` that uses the secret named `$2`.
pub(super) type Query = (&'static str, &'static str);

/// Every kind of thing that can use a secret.
pub(super) const USES: &[Query] = &[
    ("connection", "SELECT id, name FROM connections WHERE org_id = $1 AND secret = $2 AND removed_at IS NULL ORDER BY id"),
    // `LIKE` would take the `_` of a name for any character; of the functions that find a text as it is, both engines have `replace` alone.
    (
        "source",
        "SELECT id, id FROM sources WHERE org_id = $1 AND replace(secrets, '\"' || CAST($2 AS TEXT) || '\"', '') <> secrets
         AND removed_at IS NULL ORDER BY id",
    ),
    (
        "channel",
        "SELECT id, name FROM channels WHERE org_id = $1 AND replace(secrets, '\"' || CAST($2 AS TEXT) || '\"', '') <> secrets
         AND removed_at IS NULL ORDER BY id",
    ),
    (
        "webhook",
        "SELECT triggers.automation_id, triggers.id FROM triggers
         JOIN automations ON automations.org_id = triggers.org_id AND automations.id = triggers.automation_id AND automations.status <> 'archived'
         WHERE triggers.org_id = $1 AND triggers.signed_by = $2 ORDER BY triggers.automation_id, triggers.id",
    ),
];

impl SecretUse {
    pub(super) fn read(kind: &'static str, row: Row) -> Result<Self, Error> {
        let mut columns = Columns::of(row);
        Ok(Self { kind, id: columns.text()?, name: columns.text()? })
    }
}
