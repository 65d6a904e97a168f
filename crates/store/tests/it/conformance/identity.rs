//! Orgs, spaces, people, sessions, tokens and the keys of spaces.

use crate::harness::{BEGUN, Kind, World, everything, on_both_engines};
use countersign_core::keyring::{DoesNotOpen, Keyring};
use countersign_core::mcp::{McpTools, McpWishes};
use countersign_core::ports::{Claims, Invocations, Principals, Rules, Sessions};
use countersign_core::principal::{Permission, Role, Standing};
use countersign_core::session::{Attendance, Band, SelfApproval};
use countersign_core::{AutomationId, Principal, PrincipalId, SessionId, SourceId, SpaceId, TokenId, UserId};
use serde_json::json;
use std::collections::BTreeMap;
use store::{ChangedUser, Error, LinkOpened, NewSession, PageRequest, Refused, Revoked, SpaceChange, Store, TokenKind, User, UserChange};

on_both_engines!(
    a_store_answers_who_and_what_it_is,
    an_org_is_born_whole,
    an_operator_adds_and_disables_orgs,
    spaces_have_names_of_their_own_and_rules,
    people_have_names_of_their_own_and_the_last_owner_stays,
    a_persons_role_and_limit_change_at_once_and_are_signed,
    a_session_is_created_with_its_token_and_ends_with_it,
    a_session_of_another_orgs_space_is_refused,
    a_token_says_who_its_bearer_is,
    the_last_token_of_an_owner_stays,
    a_token_is_refused_when_unknown_expired_revoked_or_inactive,
    who_someone_is_now_is_known_without_their_token,
    a_token_keeps_what_its_clients_get_over_mcp,
    a_login_is_worth_what_its_token_is_and_ends_by_itself,
    a_login_that_is_used_goes_on_up_to_its_longest_time,
    a_link_is_open_in_the_browser_that_opened_it_first,
    a_spaces_key_opens_only_what_it_sealed,
    everything_is_listed_by_page,
    a_store_knows_whether_it_is_alone,
    a_database_of_another_master_key_is_noticed,
);

async fn a_store_answers_who_and_what_it_is(kind: Kind) {
    let world = World::new(kind).await;
    let expected = if kind == Kind::Sqlite { "sqlite" } else { "postgresql" };
    assert_eq!(world.store.engine_name(), expected);
    assert!(Store::schema_version() > 0);
    assert_eq!(world.store.check().await, Ok(()));
    assert_eq!(world.store.now().await, Ok(testkit::clock::START));
    world.clock.advance_seconds(1);
    assert_eq!(Invocations::now(&world.store).await, Ok(testkit::clock::START.plus_seconds(1)));
}

async fn an_org_is_born_whole(kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    assert_eq!(store.list_orgs().await.unwrap(), []);
    let token = store.draw_owner_token();
    assert!(token.expose().starts_with("cs_user_"));
    assert_ne!(store.draw_owner_token().expose(), token.expose());
    assert_eq!(store.authenticate(token.expose()).await.unwrap(), Err(Refused::Unknown), "a drawn token is not valid yet");
    let first = store.create_org("acme", "ada", token.clone()).await.unwrap();
    let principal = store.authenticate(token.expose()).await.unwrap().unwrap();
    let ada = Principal {
        org: first.org.clone(),
        id: PrincipalId::User(first.owner.clone()),
        name: "ada".into(),
        role: Some(Role::Owner),
        owner: Some(first.owner),
        session: None,
        scopes: vec![],
        token: principal.token.clone(),
        device: None,
    };
    assert_eq!(principal, ada);
    assert_eq!(store.find_space_by_name(&first.org, "main").await.unwrap().unwrap().id, first.space);
    // The token's hash is unique: a second org with the same token is refused, and none of its rows is kept.
    let refused = store.create_org("second", "eve", token).await.unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    let orgs = store.list_orgs().await.unwrap();
    assert_eq!(orgs.iter().map(|org| (&org.id, org.name.as_str())).collect::<Vec<_>>(), [(&first.org, "acme")]);
    assert_eq!(world.tenant("third").await.session.title, "agent of third", "the store goes on");
}

async fn an_operator_adds_and_disables_orgs(kind: Kind) {
    let world = World::new(kind).await;
    let (store, first) = (&world.store, world.tenant("acme").await);
    let operator = store.authenticate(&first.owner_token).await.unwrap().unwrap();
    let (org, added, invitation) = store.add_org(&operator, "second", "eve").await.unwrap().unwrap();
    assert_eq!(store.list_orgs().await.unwrap()[1], org, "what is returned is what is stored");
    assert!(store.add_org(&operator, "second", "eve").await.unwrap().is_none(), "the name is taken");
    assert_eq!(store.authenticate(invitation.text.expose()).await.unwrap(), Err(Refused::Unknown), "an invitation is no token");
    let (_, token) = store.redeem(invitation.text.expose(), "laptop").await.unwrap().unwrap();
    assert_eq!(store.redeem(invitation.text.expose(), "laptop").await.unwrap().unwrap_err(), Refused::Revoked, "it works once");
    let token = token.text;
    let orgs = async || {
        let orgs = store.list_orgs().await.unwrap();
        orgs.into_iter().map(|org| (org.name, org.is_first, org.disabled_at.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(orgs().await, [("acme".to_owned(), true, false), ("second".to_owned(), false, false)]);
    let eve = PrincipalId::User(added.owner);
    assert!(store.authenticate(token.expose()).await.unwrap().is_ok());
    assert!(store.find_principal(&added.org, &eve).await.unwrap().is_some());
    assert_eq!(Claims::list_orgs(store).await, Ok(vec![first.org.clone(), added.org.clone()]));

    // The first stays, whoever asks; another is out at once.
    assert_eq!(store.disable_org(&operator, &first.org).await.unwrap().unwrap().disabled_at, None);
    let disabled = store.disable_org(&operator, &added.org).await.unwrap();
    assert_eq!(disabled.as_ref(), store.list_orgs().await.unwrap().get(1), "as it is then");
    assert_eq!(store.disable_org(&operator, &added.org).await, Ok(disabled), "twice changes nothing");
    assert_eq!(orgs().await, [("acme".to_owned(), true, false), ("second".to_owned(), false, true)]);
    assert_eq!(store.authenticate(token.expose()).await.unwrap(), Err(Refused::OrgDisabled));
    assert_eq!(store.find_principal(&added.org, &eve).await, Ok(None));
    assert_eq!(Claims::list_orgs(store).await, Ok(vec![first.org.clone(), added.org.clone()]), "what it was running still has to end");
    assert!(store.authenticate(&first.owner_token).await.unwrap().is_ok());
}

async fn spaces_have_names_of_their_own_and_rules(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let space = store.create_space(&tenant.org, "ops", &tenant.person()).await.unwrap().unwrap();
    assert_eq!((space.band, space.self_approval, space.org.clone()), (Band::Green, SelfApproval::Allowed, tenant.org.clone()));
    assert_eq!(store.create_space(&tenant.org, "ops", &tenant.person()).await, Ok(None));
    assert_eq!(store.find_space(&tenant.org, &space.id).await, Ok(Some(space.clone())));
    assert_eq!(Rules::find_space(store, &tenant.org, &space.id).await, Ok(Some(space.clone())));
    assert_eq!(store.find_space_by_name(&tenant.org, "ops").await, Ok(Some(space.clone())));
    assert_eq!(store.find_space_by_name(&tenant.org, "none").await, Ok(None));
    let refused = SpaceChange { self_approval: Some(SelfApproval::Refused), ..SpaceChange::default() };
    let changed = store.change_space(&tenant.org, &space.id, refused.clone(), &tenant.person()).await.unwrap().unwrap();
    assert_eq!(changed.self_approval, SelfApproval::Refused);
    assert_eq!(store.find_space(&tenant.org, &space.id).await, Ok(Some(changed.clone())));
    let size = store.log_size(&tenant.org).await.unwrap();
    for band in [Band::Red, Band::Red] {
        let to = SpaceChange { band: Some(band), ..SpaceChange::default() };
        let banded = store.change_space(&tenant.org, &space.id, to, &tenant.person()).await.unwrap().unwrap();
        assert_eq!((banded.band, banded.self_approval), (Band::Red, SelfApproval::Refused));
        assert_eq!(store.find_space(&tenant.org, &space.id).await, Ok(Some(banded)), "what is remembered is the change");
    }
    assert_eq!(store.log_size(&tenant.org).await, Ok(size + 1), "a change is signed, and what changes nothing is none");
    assert_eq!(store.change_space(&tenant.org, &tenant.draw(SpaceId::new), refused, &tenant.person()).await, Ok(None));
    let defaults = BTreeMap::from([("team".to_owned(), json!("ops")), ("limit".to_owned(), json!({ "b": 1, "a": [1.5, null] }))]);
    for _ in 0..2 {
        let change = SpaceChange { defaults: Some(defaults.clone()), ..SpaceChange::default() };
        let changed = store.change_space(&tenant.org, &space.id, change, &tenant.person()).await.unwrap().unwrap();
        assert_eq!((&changed.defaults, changed.band), (&defaults, Band::Red));
        assert_eq!(store.find_space(&tenant.org, &space.id).await, Ok(Some(changed)));
    }
    assert_eq!(store.log_size(&tenant.org).await, Ok(size + 2), "defaults are signed too");
}

async fn people_have_names_of_their_own_and_the_last_owner_stays(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (ada, _) = store.create_user(&tenant.as_owner, "ada", Role::Owner).await.unwrap().unwrap();
    assert!(store.create_user(&tenant.as_owner, "ada", Role::Member).await.unwrap().is_none());
    assert_eq!(store.find_user(&tenant.org, &ada.id).await, Ok(Some(ada.clone())));
    assert_eq!(store.find_user(&tenant.org, &tenant.draw(UserId::new)).await, Ok(None));
    let done = store.disable_user(&tenant.org, &tenant.owner, &tenant.person()).await.unwrap().unwrap();
    let disabled = store.find_user(&tenant.org, &tenant.owner).await.unwrap().unwrap();
    assert!(disabled.disabled_at.is_some());
    assert_eq!(done, ChangedUser::Done(disabled), "what is returned is what is stored");
    assert_eq!(store.disable_user(&tenant.org, &tenant.owner, &tenant.person()).await, Ok(None), "once is enough");
    assert_eq!(store.disable_user(&tenant.org, &ada.id, &tenant.person()).await, Ok(Some(ChangedUser::LastOwner)));
    assert_eq!(store.disable_user(&tenant.org, &tenant.draw(UserId::new), &tenant.person()).await, Ok(None));
    // If two owners disable each other at once, one of them stays.
    let (eve, _) = store.create_user(&tenant.as_owner, "eve", Role::Owner).await.unwrap().unwrap();
    let by = tenant.person();
    let (one, two) = tokio::join!(store.disable_user(&tenant.org, &ada.id, &by), store.disable_user(&tenant.org, &eve.id, &by));
    let mut outcomes = [one.unwrap(), two.unwrap()];
    outcomes.sort_by_key(|outcome| *outcome == Some(ChangedUser::LastOwner));
    assert!(matches!(outcomes, [Some(ChangedUser::Done(_)), Some(ChangedUser::LastOwner)]), "{outcomes:?}");
}

async fn a_persons_role_and_limit_change_at_once_and_are_signed(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let by = tenant.person();
    let (eve, _) = store.create_user(&tenant.as_owner, "eve", Role::Member).await.unwrap().unwrap();
    let token = store
        .create_token(&tenant.as_owner, TokenKind::User(eve.id.clone()), "laptop", &[], None, McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap()
        .text;
    let known = async || {
        let person = store.authenticate(token.expose()).await.unwrap().unwrap();
        assert_eq!(store.find_bearer(&tenant.org, person.token.as_ref().unwrap()).await, Ok(Some(person.clone())));
        (person.role, store.find_standing(&tenant.org, &eve.id).await.unwrap())
    };
    let all = |role, max_band| (Some(role), Standing { role: Some(role), max_band });
    assert_eq!(known().await, all(Role::Member, Band::Black));
    let size = store.log_size(&tenant.org).await.unwrap();
    let change = UserChange { role: Some(Role::Owner), max_band: Some(Band::Amber) };
    let changed = User { role: Role::Owner, given_role: Role::Owner, max_band: Band::Amber, ..eve.clone() };
    for _ in 0..2 {
        let done = store.change_user(&tenant.org, &eve.id, change, &by).await;
        assert_eq!(done, Ok(Some(ChangedUser::Done(changed.clone()))));
    }
    assert_eq!(store.find_user(&tenant.org, &eve.id).await, Ok(Some(changed)));
    assert_eq!(store.log_size(&tenant.org).await, Ok(size + 2), "each change is signed, and what changes nothing is none");
    assert_eq!(known().await, all(Role::Owner, Band::Amber));
    assert!(store.list_approvers(&tenant.org).await.unwrap().contains(&eve.id));
    let nobody = tenant.draw(UserId::new);
    assert_eq!(store.change_user(&tenant.org, &nobody, change, &by).await, Ok(None));
    assert_eq!(store.find_standing(&tenant.org, &nobody).await, Ok(Standing { role: None, max_band: Band::Green }));
    // If two owners demote each other at once, one of them stays.
    let demoted = UserChange { role: Some(Role::Member), ..UserChange::default() };
    let (one, two) =
        tokio::join!(store.change_user(&tenant.org, &eve.id, demoted, &by), store.change_user(&tenant.org, &tenant.owner, demoted, &by));
    let last = [one.unwrap(), two.unwrap()].iter().filter(|changed| **changed == Some(ChangedUser::LastOwner)).count();
    assert_eq!((last, store.list_approvers(&tenant.org).await.unwrap().len()), (1, 1));
    // The last owner's other limits can still be changed, and a disabled owner does not count as an owner.
    let last = store.list_approvers(&tenant.org).await.unwrap()[0].clone();
    let limited = UserChange { max_band: Some(Band::Green), ..UserChange::default() };
    assert!(matches!(store.change_user(&tenant.org, &last, limited, &by).await, Ok(Some(ChangedUser::Done(_)))));
    let (gone, _) = store.create_user(&tenant.as_owner, "gone", Role::Owner).await.unwrap().unwrap();
    store.disable_user(&tenant.org, &gone.id, &tenant.person()).await.unwrap();
    assert_eq!(store.change_user(&tenant.org, &last, demoted, &by).await, Ok(Some(ChangedUser::LastOwner)));
}

async fn a_session_is_created_with_its_token_and_ends_with_it(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let new = NewSession {
        space: tenant.space.clone(),
        created_by: PrincipalId::User(tenant.owner.clone()),
        owner: None,
        title: "nightly".into(),
        attendance: Attendance::Unattended,
        automation: Some(tenant.draw(AutomationId::new)),
        sources: Some(["files", "crm"].map(|name| SourceId::parse(name).unwrap()).into()),
        device: None,
        token_lifetime_seconds: Some(60),
        mcp: McpWishes::default(),
    };
    let (session, token) = store.create_session(&tenant.org, new.clone()).await.unwrap();
    assert_eq!((&session.automation, session.attendance, &session.owner), (&new.automation, Attendance::Unattended, &None));
    assert_eq!(session.sources, new.sources);
    assert_eq!(store.find_session(&tenant.org, &session.id).await, Ok(Some(session.clone())));
    assert_eq!(Sessions::find_session(store, &tenant.org, &session.id).await, Ok(Some(session.clone())));
    assert_eq!(store.find_session(&tenant.org, &tenant.draw(SessionId::new)).await, Ok(None));
    let agent = store.authenticate(token.text.expose()).await.unwrap().unwrap();
    assert_eq!((agent.id, agent.session, agent.role), (PrincipalId::Agent(session.id.clone()), Some(session.id.clone()), None));
    world.clock.advance_seconds(10);
    let ended = store.end_session(&tenant.org, &session.id).await.unwrap().unwrap();
    assert_eq!(ended.ended_at, Some(store.now().await.unwrap()));
    assert_eq!(store.authenticate(token.text.expose()).await, Ok(Err(Refused::Inactive)));
    world.clock.advance_seconds(10);
    assert_eq!(store.end_session(&tenant.org, &session.id).await, Ok(Some(ended)), "ending twice changes nothing");
    assert_eq!(store.end_session(&tenant.org, &tenant.draw(SessionId::new)).await, Ok(None));
}

async fn a_session_of_another_orgs_space_is_refused(kind: Kind) {
    let world = World::new(kind).await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let new = NewSession {
        space: theirs.space,
        created_by: PrincipalId::User(ours.owner.clone()),
        owner: None,
        title: "stray".into(),
        attendance: Attendance::Interactive,
        automation: None,
        sources: None,
        device: None,
        token_lifetime_seconds: None,
        mcp: McpWishes::default(),
    };
    let refused = world.store.create_session(&ours.org, new).await.unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert_eq!(world.store.list_sessions(&ours.org, &Default::default(), &everything()).await.unwrap().items, [ours.session]);
}

fn made_by(user: &UserId) -> TokenKind {
    TokenKind::Service { made_by: Some(user.clone()) }
}

async fn a_token_says_who_its_bearer_is(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let scopes = [Permission::CreateSession, Permission::Read];
    let service = store
        .create_token(&tenant.as_owner, made_by(&tenant.owner), "ci", &scopes, None, McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap();
    assert!(service.text.expose().starts_with("cs_service_"));
    let principal = store.authenticate(service.text.expose()).await.unwrap().unwrap();
    assert_eq!((principal.id, principal.name.as_str()), (PrincipalId::Service(service.id.clone()), "ci"));
    assert_eq!((principal.owner.as_ref(), &principal.scopes[..]), (Some(&tenant.owner), &scopes[..]));
    assert_eq!(store.find_token(&tenant.org, &service.id).await.unwrap().unwrap().kind, made_by(&tenant.owner));
    let user = store
        .create_token(&tenant.as_owner, TokenKind::User(tenant.owner.clone()), "laptop", &[], Some(60), McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap();
    let principal = store.authenticate(user.text.expose()).await.unwrap().unwrap();
    assert_eq!((principal.id, principal.role), (PrincipalId::User(tenant.owner.clone()), Some(Role::Owner)));
    let listed = store.find_token(&tenant.org, &user.id).await.unwrap().unwrap();
    assert_eq!((&listed.kind, listed.name.as_str()), (&TokenKind::User(tenant.owner.clone()), "laptop"));
    assert_eq!(listed.expires_at, Some(listed.created_at.plus_seconds(60)));
    let agent = store.authenticate(&tenant.agent_token).await.unwrap().unwrap();
    assert_eq!((agent.id, agent.owner), (PrincipalId::Agent(tenant.session.id.clone()), Some(tenant.owner.clone())));
}

async fn a_token_is_refused_when_unknown_expired_revoked_or_inactive(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for unknown in ["", "cs_user_", &tenant.owner_token[1..], &format!("{}x", tenant.owner_token)] {
        assert_eq!(store.authenticate(unknown).await, Ok(Err(Refused::Unknown)), "{unknown}");
    }
    let short = store
        .create_token(&tenant.as_owner, made_by(&tenant.owner), "short", &[], Some(60), McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap();
    world.clock.advance_seconds(59);
    assert!(store.authenticate(short.text.expose()).await.unwrap().is_ok());
    world.clock.advance_seconds(1);
    assert_eq!(store.authenticate(short.text.expose()).await, Ok(Err(Refused::Expired)));
    let revoked = store.revoke_token(&tenant.org, &tenant.agent_token_id, &tenant.person()).await.unwrap().unwrap();
    assert!(matches!(&revoked, Revoked::Done(token) if token.revoked_at.is_some()), "{revoked:?}");
    assert_eq!(store.authenticate(&tenant.agent_token).await, Ok(Err(Refused::Revoked)));
    world.clock.advance_seconds(1);
    assert_eq!(store.revoke_token(&tenant.org, &tenant.agent_token_id, &tenant.person()).await, Ok(Some(revoked)), "twice changes nothing");
    assert_eq!(store.revoke_token(&tenant.org, &tenant.draw(TokenId::new), &tenant.person()).await, Ok(None));
    store.create_user(&tenant.as_owner, "second", Role::Owner).await.unwrap();
    store.disable_user(&tenant.org, &tenant.owner, &tenant.person()).await.unwrap();
    assert_eq!(store.authenticate(&tenant.owner_token).await, Ok(Err(Refused::Inactive)));
    let other = world.tenant("other").await;
    store.create_user(&other.as_owner, "second", Role::Owner).await.unwrap();
    store.disable_user(&other.org, &other.owner, &other.person()).await.unwrap();
    assert_eq!(store.authenticate(&other.agent_token).await, Ok(Err(Refused::Inactive)), "an agent stops with whom it works for");
}

async fn a_token_keeps_what_its_clients_get_over_mcp(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let wishes = McpWishes { tools: Some(McpTools::Meta), hold_seconds: Some(120) };
    let token = store.create_token(&tenant.as_owner, made_by(&tenant.owner), "ci", &[], None, wishes, None).await.unwrap().unwrap();
    assert_eq!(store.find_mcp_wishes(&tenant.org, &token.id).await, Ok(Some(wishes)));
    assert_eq!(store.find_token(&tenant.org, &token.id).await.unwrap().unwrap().mcp, wishes);
    assert_eq!(store.find_mcp_wishes(&tenant.org, &tenant.agent_token_id).await, Ok(Some(McpWishes::default())));
    assert_eq!(store.find_mcp_wishes(&world.tenant("other").await.org, &token.id).await, Ok(None));
    assert!(store.authenticate(token.text.expose()).await.unwrap().is_ok(), "they are no part of what its row is signed for");
}

async fn a_login_is_worth_what_its_token_is_and_ends_by_itself(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let by = &tenant.as_owner;
    let login = store.log_in(by).await.unwrap().unwrap();
    assert!(login.expose().starts_with("cs_login_"));
    assert_eq!(store.find_logged_in(login.expose()).await, Ok(Some(by.clone())));
    assert_eq!(store.find_logged_in("cs_login_x").await, Ok(None));
    assert_eq!(store.authenticate(login.expose()).await.unwrap(), Err(Refused::Unknown), "it is no token");
    assert_eq!(store.find_logged_in(&tenant.owner_token).await, Ok(None), "nor is a token a login");
    let other = store.log_in(by).await.unwrap().unwrap();
    store.log_out(login.expose()).await.unwrap();
    store.log_out(login.expose()).await.unwrap();
    assert_eq!(store.find_logged_in(login.expose()).await, Ok(None));
    assert_eq!(store.find_logged_in(other.expose()).await, Ok(Some(by.clone())));
    // With too many browsers, the first ones are logged out.
    for _ in 0..store::limits::LOGINS_PER_TOKEN_MAX {
        world.clock.advance_seconds(1);
        store.log_in(by).await.unwrap().unwrap();
    }
    assert_eq!(store.find_logged_in(other.expose()).await, Ok(None));
    let last = store.log_in(by).await.unwrap().unwrap();
    world.clock.advance_seconds(store::limits::LOGGED_IN_SECONDS - 1);
    assert_eq!(store.find_logged_in(last.expose()).await, Ok(Some(by.clone())));
    world.clock.advance_seconds(1);
    assert_eq!(store.find_logged_in(last.expose()).await, Ok(None));
    // A token that has ended logs nobody in, and takes its logins with it.
    let short = store
        .create_token(by, TokenKind::User(tenant.owner.clone()), "phone", &[], Some(60), McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap();
    let bearer = store.authenticate(short.text.expose()).await.unwrap().unwrap();
    let login = store.log_in(&bearer).await.unwrap().unwrap();
    assert_eq!(store.find_logged_in(login.expose()).await, Ok(Some(bearer.clone())));
    world.clock.advance_seconds(60);
    assert_eq!(store.find_logged_in(login.expose()).await, Ok(None));
    assert!(store.log_in(&bearer).await.unwrap().is_none());
}

async fn a_login_that_is_used_goes_on_up_to_its_longest_time(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let by = &tenant.as_owner;
    let (login, other) = (store.log_in(by).await.unwrap().unwrap(), store.log_in(by).await.unwrap().unwrap());
    let half = store::limits::LOGGED_IN_SECONDS / 2;
    world.clock.advance_seconds(half - 1);
    assert_eq!(store.extend_login(login.expose()).await, Ok(false), "half of its time is not over");
    world.clock.advance_seconds(1);
    for _ in 0..store::limits::LOGGED_IN_SECONDS_MAX / half - 2 {
        assert_eq!(store.extend_login(login.expose()).await, Ok(true));
        assert_eq!(store.extend_login(login.expose()).await, Ok(false), "once is enough");
        world.clock.advance_seconds(half);
    }
    assert_eq!(store.extend_login(login.expose()).await, Ok(false), "it has its longest time");
    world.clock.advance_seconds(half - 1);
    assert_eq!(store.find_logged_in(login.expose()).await, Ok(Some(by.clone())));
    world.clock.advance_seconds(1);
    assert_eq!(store.find_logged_in(login.expose()).await, Ok(None));
    // What has ended does not go on.
    for ended in [login.expose(), other.expose(), "cs_login_x"] {
        assert_eq!(store.extend_login(ended).await, Ok(false));
        assert_eq!(store.find_logged_in(ended).await, Ok(None));
    }
}

async fn a_link_is_open_in_the_browser_that_opened_it_first(kind: Kind) {
    let world = World::new(kind).await;
    let (store, org) = (&world.store, world.tenant("acme").await.org);
    let until = store.now().await.unwrap().plus_seconds(60);
    assert_eq!(store.find_opened_link(&org, "link", "mine").await, Ok(LinkOpened::Nowhere));
    assert_eq!(store.bind_link(&org, "link", "mine", until).await, Ok(true));
    assert_eq!(store.bind_link(&org, "link", "other", until).await, Ok(false));
    assert_eq!(store.bind_link(&org, "link", "mine", until).await, Ok(true), "again");
    assert_eq!(store.find_opened_link(&org, "link", "mine").await, Ok(LinkOpened::Here));
    assert_eq!(store.find_opened_link(&org, "link", "other").await, Ok(LinkOpened::Elsewhere));
    assert_eq!(store.bind_link(&org, "another link", "other", until).await, Ok(true));
}

async fn who_someone_is_now_is_known_without_their_token(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let service = store
        .create_token(&tenant.as_owner, made_by(&tenant.owner), "ci", &[Permission::Read], Some(60), McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap();
    let user = PrincipalId::User(tenant.owner.clone());
    let agent = PrincipalId::Agent(tenant.session.id.clone());
    let ci = PrincipalId::Service(service.id.clone());
    for (id, text) in [(&user, &tenant.owner_token), (&agent, &tenant.agent_token), (&ci, service.text.expose())] {
        let shown = store.authenticate(text).await.unwrap().unwrap();
        assert_eq!(store.find_bearer(&tenant.org, shown.token.as_ref().unwrap()).await, Ok(Some(shown.clone())));
        let now = store.find_principal(&tenant.org, id).await.unwrap().unwrap();
        assert_eq!(now, Principal { token: None, ..shown }, "the same as its token says");
    }
    world.clock.advance_seconds(60);
    store.revoke_token(&tenant.org, &tenant.agent_token_id, &tenant.person()).await.unwrap();
    store.create_user(&tenant.as_owner, "second", Role::Owner).await.unwrap();
    store.disable_user(&tenant.org, &tenant.owner, &tenant.person()).await.unwrap();
    let automation = PrincipalId::Automation(tenant.draw(AutomationId::new));
    for token in [&service.id, &tenant.agent_token_id] {
        assert_eq!(store.find_bearer(&tenant.org, token).await, Ok(None), "one has expired, one was revoked");
    }
    for gone in [user, agent, ci, automation, PrincipalId::User(tenant.draw(UserId::new))] {
        assert_eq!(store.find_principal(&tenant.org, &gone).await, Ok(None), "{gone}");
    }
    let other = world.tenant("other").await;
    store.end_session(&other.org, &other.session.id).await.unwrap();
    assert_eq!(store.find_principal(&other.org, &PrincipalId::Agent(other.session.id)).await, Ok(None));
}

async fn a_spaces_key_opens_only_what_it_sealed(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let other = store.create_space(&tenant.org, "ops", &tenant.person()).await.unwrap().unwrap();
    let key = store.space_key(&tenant.org, &tenant.space).await.unwrap();
    let other = store.space_key(&tenant.org, &other.id).await.unwrap();
    let sealed = key.seal("params", b"secret");
    assert_ne!(key.seal("params", b"secret"), sealed, "every sealing has its own nonce");
    assert_eq!(key.open("params", &sealed).unwrap(), b"secret");
    assert_eq!(key.open("result", &sealed), Err(DoesNotOpen));
    assert_eq!(other.open("params", &sealed), Err(DoesNotOpen));
    let mut touched = sealed.clone();
    *touched.last_mut().unwrap() ^= 1;
    for damaged in [&touched[..], &sealed[..sealed.len() - 1], &sealed[..10], &[]] {
        assert_eq!(key.open("params", damaged), Err(DoesNotOpen));
    }
    assert_eq!(key.digest("raw", b"x"), key.digest("raw", b"x"));
    assert_ne!(key.digest("ab", b"c"), key.digest("a", b"bc"));
    assert_ne!(key.digest("raw", b"x"), other.digest("raw", b"x"));
    // A store opened later has the same keys.
    let again = world.another_store().await.space_key(&tenant.org, &tenant.space).await.unwrap();
    assert_eq!(again.open("params", &sealed).unwrap(), b"secret");
    assert_eq!(again.digest("raw", b"x"), key.digest("raw", b"x"));
    assert!(store.space_key(&tenant.org, &tenant.draw(SpaceId::new)).await.is_err());
}

async fn everything_is_listed_by_page(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for n in 0..4 {
        world.clock.advance_ms(1);
        store.create_user(&tenant.as_owner, &format!("u{n}"), Role::Member).await.unwrap().unwrap();
        store.create_space(&tenant.org, &format!("s{n}"), &tenant.person()).await.unwrap().unwrap();
        store
            .create_token(&tenant.as_owner, made_by(&tenant.owner), &format!("t{n}"), &[], None, McpWishes::default(), None)
            .await
            .unwrap()
            .unwrap();
        let new = NewSession {
            space: tenant.space.clone(),
            created_by: PrincipalId::User(tenant.owner.clone()),
            owner: None,
            title: format!("n{n}"),
            attendance: Attendance::Interactive,
            automation: None,
            sources: None,
            device: None,
            token_lifetime_seconds: None,
            mcp: McpWishes::default(),
        };
        store.create_session(&tenant.org, new).await.unwrap();
    }
    macro_rules! check {
        ($list:ident, $rows:expr $(, $hidden:expr)?) => {
            let all = store.$list(&tenant.org, $($hidden,)? &everything()).await.unwrap();
            assert_eq!((all.items.len(), all.next), ($rows, None));
            let (mut paged, mut after) = (Vec::new(), None);
            loop {
                let page = store.$list(&tenant.org, $($hidden,)? &PageRequest { limit: 2, after }).await.unwrap();
                assert!(page.items.len() <= 2);
                paged.extend(page.items);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(paged, all.items);
        };
    }
    check!(list_users, 5);
    check!(list_spaces, 5, &Default::default());
    check!(list_sessions, 5, &Default::default());
    check!(list_tokens, 14);
    let sessions = store.list_sessions(&tenant.org, &Default::default(), &everything()).await.unwrap().items;
    assert_eq!(sessions.iter().map(|session| session.title.as_str()).collect::<Vec<_>>(), ["n3", "n2", "n1", "n0", "agent of acme"]);
}

async fn a_store_knows_whether_it_is_alone(kind: Kind) {
    let world = World::new(kind).await;
    assert_eq!(world.store.join().await, Ok(true));
    if kind == Kind::Postgres {
        let second = world.another_store().await;
        assert_eq!(second.join().await, Ok(false));
        assert_eq!(world.another_store().await.join().await, Ok(false));
    }
}

async fn a_database_of_another_master_key_is_noticed(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let open = || {
        Store::open(store::Config {
            patience: store::Patience::default(),
            engine: world.home.engine.clone(),
            master: store::MasterKey::new(&countersign_core::Secret::new([8; 32])),
            next_master: None,
            time: store::TimeSource::Fixed(std::sync::Arc::new(world.clock.clone())),
            random: std::sync::Arc::new(world.random.clone()),
        })
    };
    let refused = open().await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("another master key"), "{refused}");
    // Whoever removes the name of the key, too, comes no further.
    world.home.tamper("DELETE FROM master_key").await;
    let stranger = open().await.unwrap();
    assert_eq!(stranger.authenticate(&tenant.owner_token).await, Ok(Err(Refused::Unknown)));
    let refused = stranger.space_key(&tenant.org, &tenant.space).await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("another master key"), "{refused}");
    let finish = tenant.finish(&tenant.reading(), countersign_core::ledger::Row::Insert, countersign_core::Status::Succeeded);
    let refused = stranger.finish(finish.into()).await.unwrap_err();
    assert!(refused.to_string().contains("another master key"), "{refused}");
    assert_eq!(world.verify(&tenant).await.entries, BEGUN);
}

async fn the_last_token_of_an_owner_stays(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let all = PageRequest { limit: 10, after: None };
    let tokens = store.list_tokens(&tenant.org, &all).await.unwrap().items;
    let first = tokens.into_iter().find(|token| token.kind == TokenKind::User(tenant.owner.clone())).unwrap().id;
    // A member's token, an expired one, and one of a disabled owner do not count as other tokens of an owner.
    let member = store.create_user(&tenant.as_owner, "member", Role::Member).await.unwrap().unwrap().0.id;
    let second = store.create_user(&tenant.as_owner, "second", Role::Owner).await.unwrap().unwrap().0.id;
    store.create_token(&tenant.as_owner, TokenKind::User(member), "m", &[], None, McpWishes::default(), None).await.unwrap().unwrap();
    store
        .create_token(&tenant.as_owner, TokenKind::User(tenant.owner.clone()), "short", &[], Some(60), McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap();
    let theirs = store
        .create_token(&tenant.as_owner, TokenKind::User(second.clone()), "s", &[], None, McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap();
    world.clock.advance_seconds(60);
    store.disable_user(&tenant.org, &second, &tenant.person()).await.unwrap();
    assert_eq!(store.revoke_token(&tenant.org, &first, &tenant.person()).await, Ok(Some(Revoked::LastOwner)));
    assert!(store.authenticate(&tenant.owner_token).await.unwrap().is_ok(), "nothing was changed");
    assert!(
        matches!(store.revoke_token(&tenant.org, &theirs.id, &tenant.person()).await, Ok(Some(Revoked::Done(_)))),
        "what is not the last one goes"
    );

    let another = store
        .create_token(&tenant.as_owner, TokenKind::User(tenant.owner.clone()), "another", &[], None, McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(store.revoke_token(&tenant.org, &first, &tenant.person()).await, Ok(Some(Revoked::Done(_)))));
    assert_eq!(store.revoke_token(&tenant.org, &another.id, &tenant.person()).await, Ok(Some(Revoked::LastOwner)));
}
