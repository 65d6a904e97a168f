//! Requests of Slack, each of which is used once, and the tokens with which people agree to answer there.

use crate::harness::{Kind, World, on_both_engines};
use countersign_core::channel::slack_consent;
use countersign_core::mcp::McpWishes;
use countersign_core::ports::{Invocations, Principals};
use countersign_core::principal::{Device, Role};
use countersign_core::{ChannelId, Timestamp};
use store::{LetIn, SignedIn, TokenKind};

on_both_engines!(
    a_request_is_used_once_while_it_is_young,
    a_token_is_found_by_its_name_and_nobody_renames_it,
    a_link_stands_on_no_agreement_and_on_no_device,
    nobody_gets_links_for_a_name_that_an_issuer_told,
);

async fn a_request_is_used_once_while_it_is_young(kind: Kind) {
    let world = World::new(kind).await;
    let (store, acme, other) = (&world.store, world.tenant("acme").await, world.tenant("other").await);
    let until = store.now().await.unwrap().plus_seconds(10);
    let used = futures_util::future::join_all((0..8).map(|_| store.use_slack_request(&acme.org, b"a", until))).await;
    assert_eq!(used.iter().filter(|used| **used == Ok(true)).count(), 1, "{used:?}");
    assert_eq!(store.use_slack_request(&acme.org, b"b", until).await, Ok(true));
    assert_eq!(store.use_slack_request(&other.org, b"a", until).await, Ok(true), "each org has its own");
    world.clock.advance_seconds(9);
    assert_eq!(store.use_slack_request(&acme.org, b"a", until.plus_seconds(10)).await, Ok(false));
    // What is too old to be taken is not kept.
    world.clock.advance_seconds(1);
    assert_eq!(store.use_slack_request(&acme.org, b"a", until.plus_seconds(10)).await, Ok(true));
}

async fn a_token_is_found_by_its_name_and_nobody_renames_it(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (org, owner) = (&tenant.org, tenant.owner.as_str());
    let name = store.find_user(org, &tenant.owner).await.unwrap().unwrap().name;
    let made = async |name: &str| {
        let kind = TokenKind::User(tenant.owner.clone());
        store.create_token(&tenant.as_owner, kind, name, &[], Some(60), McpWishes::default(), None).await.unwrap().unwrap().id
    };
    let token = made("slack U1").await;
    for person in [owner, name.as_str()] {
        assert_eq!(store.find_token_named(org, person, "slack U1").await, Ok(Some(token.clone())));
        assert_eq!(store.find_token_named(org, person, "slack U2").await, Ok(None));
    }
    assert_eq!(store.find_token_named(org, "nobody", "slack U1").await, Ok(None));
    assert!(store.find_bearer(org, &token).await.unwrap().is_some());
    world.clock.advance_ms(1);
    let newer = made("slack U1").await;
    assert_eq!(store.find_token_named(org, owner, "slack U1").await, Ok(Some(newer.clone())));
    // Whoever has the database can rename a token, and it is one no longer.
    world.home.tamper("UPDATE tokens SET name = 'slack U2' WHERE name = 'slack U1'").await;
    assert_eq!(store.find_token_named(org, owner, "slack U2").await, Ok(Some(newer.clone())));
    assert_eq!(store.find_bearer(org, &newer).await, Ok(None));
    world.home.tamper("UPDATE tokens SET name = 'slack U1' WHERE name = 'slack U2'").await;
    assert!(store.find_bearer(org, &newer).await.unwrap().is_some());
    world.clock.advance_seconds(60);
    assert_eq!(store.find_token_named(org, owner, "slack U1").await, Ok(None));
}

async fn a_link_stands_on_no_agreement_and_on_no_device(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let name = store.find_user(&tenant.org, &tenant.owner).await.unwrap().unwrap().name;
    let made = async |name: &str, device: Option<Device>| {
        world.clock.advance_ms(1);
        let kind = TokenKind::User(tenant.owner.clone());
        store.create_token(&tenant.as_owner, kind, name, &[], Some(60), McpWishes::default(), device).await.unwrap().unwrap().id
    };
    let own = made("laptop", None).await;
    let agreed = made(&slack_consent(&ChannelId::new(Timestamp::default(), [1; 10]), "U1"), None).await;
    let phone = made("phone", Some(Device { name: "phone".to_owned(), class: "phone".to_owned() })).await;
    assert_eq!(store.find_token_of(&tenant.org, &name).await, Ok(Some(own.clone())), "neither {agreed} nor {phone}");
    for text in [name.as_str(), tenant.owner.as_str()] {
        assert_eq!(store.find_active_user(&tenant.org, text).await.unwrap().map(|user| user.id), Some(tenant.owner.clone()));
    }
    assert_eq!(store.find_active_user(&tenant.org, "nobody").await, Ok(None));
    // With the token that it stands on, a link ends; the next stands on an older one.
    store.revoke_token(&tenant.org, &own, &tenant.person()).await.unwrap();
    let next = store.find_token_of(&tenant.org, &name).await.unwrap().unwrap();
    assert!(next != own && next != agreed && next != phone, "{next}");
}

async fn nobody_gets_links_for_a_name_that_an_issuer_told(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (issuer, subject, name) = ("https://login.example.com".to_owned(), "eve".to_owned(), "cfo@example.com".to_owned());
    let let_in = LetIn { issuer, subject, name: name.clone(), role: Role::Member };
    let Ok(SignedIn::Done(token)) = store.sign_in(&tenant.org, let_in).await else { panic!("they sign in") };
    let eve = store.find_bearer(&tenant.org, &token).await.unwrap().unwrap();
    assert_eq!(eve.name, name);
    assert_eq!(store.find_token_of(&tenant.org, &name).await, Ok(None), "it ends within the hour");
    let kind = TokenKind::User(eve.owner.clone().unwrap());
    store.create_token(&eve, kind, "laptop", &[], None, McpWishes::default(), None).await.unwrap().unwrap();
    assert_eq!(store.find_token_of(&tenant.org, &name).await, Ok(None), "the address is another's");
}
