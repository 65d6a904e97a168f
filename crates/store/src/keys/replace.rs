//! Replaces the master key, while no server runs: everything that it seals is sealed under the new one, in one transaction. So the whole
//! database belongs to one of the two keys at every moment, and a run that was interrupted can be repeated.

use super::{Keychain, MasterKey, PEPPER};
use crate::db::{Columns, Tx, vals};
use crate::{Config, Error, Store, migrate};
use countersign_core::{Random, Secret};
use std::sync::Arc;

/// Everything that the master key seals: the query for the org, the id, the context and the sealed value of each, and the statement that
/// replaces the value. What is not here would be lost with the old key.
const SEALED: [(&str, &str); 5] = [
    (
        "/* every org: they share the master key */ SELECT org_id, key_id, 'signing:' || key_id, sealed_secret FROM keys",
        "UPDATE keys SET sealed_secret = $1 WHERE org_id = $2 AND key_id = $3",
    ),
    (
        "/* every org: they share the master key */ SELECT org_id, id, 'space:' || id, sealed_key FROM spaces",
        "UPDATE spaces SET sealed_key = $1 WHERE org_id = $2 AND id = $3",
    ),
    (
        "/* every org: they share the master key */ SELECT org_id, id, 'secret:' || org_id || ':' || id || ':' || version, sealed_value FROM secrets",
        "UPDATE secrets SET sealed_value = $1 WHERE org_id = $2 AND id = $3",
    ),
    (
        "/* every org: they share the master key */ SELECT org_id, id, 'connection:' || org_id || ':' || id || ':' || version || ':' || kind || ':' || coalesce(spaces, '*') || ':' || url, sealed_credential
         FROM connections WHERE sealed_credential IS NOT NULL",
        "UPDATE connections SET sealed_credential = $1 WHERE org_id = $2 AND id = $3",
    ),
    (
        "/* every org: they share the master key */ SELECT org_id, connection_id, 'login:' || org_id || ':' || connection_id || ':' || state_hash, sealed_login
         FROM connection_logins WHERE sealed_login IS NOT NULL",
        "UPDATE connection_logins SET sealed_login = $1 WHERE org_id = $2 AND connection_id = $3",
    ),
];

impl Store {
    /// Seals under `new` what is sealed under the master key in `config`: all of it, or nothing. Returns how many values were sealed anew;
    /// what is sealed under `new` already stays as it is. Servers that work on the database must be stopped first: they have the old key.
    pub async fn replace_master_key(config: Config, new: MasterKey) -> Result<u64, Error> {
        let store = Self::connect(config).await?;
        migrate::migrate(&store.db).await?;
        if !store.db.is_alone().await? {
            return Err(Error::Unavailable { message: "a server works on this database, or did until a moment ago".into() });
        }
        let keychain = Arc::clone(&store.keychain);
        store.db.write_unscoped(move |tx| Box::pin(async move { reseal(tx, &keychain, &new).await })).await
    }
}

async fn reseal(tx: &mut Tx, keychain: &Keychain, new: &MasterKey) -> Result<u64, Error> {
    let (old, random) = (keychain.master(), keychain.random());
    let mut resealed = 0;
    for (select, update) in SEALED {
        for row in tx.query(select, &[]).await? {
            let mut columns = Columns::of(row);
            let (org, id, context) = (columns.text()?, columns.text()?, columns.text()?);
            if let Some(sealed) = moved(old, new, random, &context, &columns.bytes()?)? {
                tx.exec(update, &vals![sealed, org, id]).await?;
                resealed += 1;
            }
        }
    }
    let kept = tx.query("/* every org: their tokens are hashed with it */ SELECT sealed FROM pepper", &[]).await?;
    match kept.into_iter().next() {
        Some(row) => {
            if let Some(sealed) = moved(old, new, random, PEPPER, &Columns::of(row).bytes()?)? {
                tx.exec("/* every org: their tokens are hashed with it */ UPDATE pepper SET sealed = $1", &vals![sealed]).await?;
            }
        }
        // Hashes of tokens cannot be made anew without their texts, so what they were made with outlives its master key.
        None if resealed > 0 => {
            let sealed = new.seal_seed(random, PEPPER, &old.pepper);
            tx.exec("/* every org: their tokens are hashed with it */ INSERT INTO pepper (id, sealed) VALUES (1, $1)", &vals![sealed])
                .await?;
        }
        None => {}
    }
    Ok(resealed)
}

/// The value sealed under `new`; `None` if it is already.
fn moved(old: &MasterKey, new: &MasterKey, random: &dyn Random, context: &str, sealed: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    if new.open(context, sealed).map(Secret::new).is_ok() {
        return Ok(None);
    }
    let plain = Secret::new(old.open(context, sealed)?);
    Ok(Some(new.seal(random, context, plain.expose())))
}
