//! A secret that something uses stays. Spaces stand in for what can use one: a space uses the secret that has its name.

use super::*;
use crate::fixture::{postgres, sqlite};

const SPACES: &[uses::Query] = &[("space", "SELECT id, name FROM spaces WHERE org_id = $1 AND name = $2")];

#[tokio::test]
async fn a_secret_in_use_is_not_deleted() {
    for opened in [sqlite().await, postgres().await] {
        let store = Store::clone(&opened);
        let made = store.create_org("acme", "owner", store.draw_owner_token()).await.unwrap();
        let (org, by) = (made.org, PrincipalId::User(made.owner));
        for name in ["main", "other"] {
            let (name, value) = (SecretName::parse(name).unwrap(), SecretValue::new(Secret::new("x".to_owned())).unwrap());
            store.set_secret(&org, NewSecret { name, value, description: None, replaces: None }, &by).await.unwrap();
        }
        let delete_unused = async |name: &str| {
            let (db, store, org, by) = (store.db.clone(), store.clone(), org.clone(), by.clone());
            let name = SecretName::parse(name).unwrap();
            let deleted = db.write(org.clone(), move |tx| Box::pin(async move { delete(&store, tx, &org, &name, by, SPACES).await }));
            deleted.await.unwrap()
        };
        let used_by = SecretUse { kind: "space", id: made.space.to_string(), name: "main".to_owned() };
        assert_eq!(delete_unused("main").await, Some(DeletedSecret::InUse(vec![used_by])));
        assert!(store.find_secret(&org, &SecretName::parse("main").unwrap()).await.unwrap().is_some());
        assert_eq!(delete_unused("other").await, Some(DeletedSecret::Done));
        assert_eq!(delete_unused("other").await, None);
    }
}
