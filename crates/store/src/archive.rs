//! Texts that are kept under their digest, for verifiers and for whoever reads later what was in force.

use crate::Error;
use crate::db::{Tx, vals};
use countersign_core::ports::definitions::ArchivedDefinition;
use countersign_core::{Digest, OrgId};
use sha2::{Digest as _, Sha256};

/// Keeps a text under its digest.
pub(crate) async fn archive_in(tx: &mut Tx, org: &OrgId, definition: ArchivedDefinition) -> Result<(), Error> {
    let sql = "INSERT INTO definitions (org_id, digest, body, archived_at) VALUES ($1, $2, $3, $4) ON CONFLICT (org_id, digest) DO NOTHING";
    let ArchivedDefinition { digest, body } = definition;
    tx.exec(sql, &vals![org.as_str(), digest.to_string(), body, tx.now()]).await.map(|_| ())
}

/// The digest of a text, as the audit log holds it.
pub(crate) fn digest_of(text: &str) -> Digest {
    Digest::new(Sha256::digest(text).into())
}
