//! Fixtures for tests: some principals, the built-in actions as far as gates see them, and a call to modify.

use crate::facts::{Approval, CallFacts};
use crate::gate;
use crate::{Policies, PolicyTexts};
use countersign_core::action::{Effect, Preview, Repeatability, Reversibility};
use countersign_core::decision::{Drift, Gate, GateVerdict};
use countersign_core::principal::{Permission, Role, Standing};
use countersign_core::session::SelfApproval;
use countersign_core::{
    Action, ActionId, AutomationId, Band, OrgId, Principal, PrincipalId, SessionId, Space, SpaceId, Tier, Timestamp, TokenId, UserId,
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const AT: Timestamp = Timestamp::from_micros(0);

pub(crate) fn action(id: &str, tier: Tier, effects: &[Effect], requires: &[&str]) -> Arc<Action> {
    Arc::new(Action {
        version: "1.0.0".to_owned(),
        title: "x".to_owned(),
        description: "x".to_owned(),
        params_schema: json!({}),
        result_schema: json!({}),
        requires: requires.iter().map(|&permission| permission.to_owned()).collect(),
        effects: effects.to_vec(),
        timeout_ms: 1_000,
        reversibility: Reversibility::Reversible,
        repeatability: Repeatability::Repeatable,
        preview: Preview::Supported,
        ..Action::new(ActionId::parse(id).unwrap(), tier)
    })
}

pub(crate) fn actions() -> Vec<Arc<Action>> {
    vec![
        action("files.list", Tier::R0, &[Effect::FilesystemRead], &["files.read"]),
        action("files.read_text", Tier::R0, &[Effect::FilesystemRead], &["files.read"]),
        action("files.write_text", Tier::R2, &[Effect::FilesystemWrite], &["files.write"]),
        action("files.delete", Tier::R3, &[Effect::FilesystemWrite], &["files.delete"]),
        action("http.get", Tier::R1, &[Effect::NetworkCall], &["http.get"]),
        action("http.request", Tier::R3, &[Effect::NetworkCall], &["http.request"]),
        action("notify.send", Tier::R2, &[Effect::DeviceNotification], &["notify.send"]),
        action("billing.refund.v2", Tier::R3, &[Effect::NetworkCall], &["billing.refund"]),
    ]
}

pub(crate) fn named(id: &str) -> Arc<Action> {
    actions().into_iter().find(|action| action.id.as_str() == id).unwrap()
}

fn principal(id: PrincipalId, role: Option<Role>, scopes: &[Permission]) -> Principal {
    Principal {
        org: OrgId::new(AT, [0; 10]),
        id,
        name: "x".to_owned(),
        role,
        owner: None,
        session: None,
        scopes: scopes.to_vec(),
        token: None,
        device: None,
    }
}

pub(crate) fn user_id() -> UserId {
    UserId::new(AT, [2; 10])
}

pub(crate) fn user(role: Option<Role>) -> Principal {
    principal(PrincipalId::User(user_id()), role, &[])
}

pub(crate) fn agent() -> Principal {
    Principal { owner: Some(user_id()), ..principal(PrincipalId::Agent(SessionId::new(AT, [3; 10])), None, &[]) }
}

pub(crate) fn service(scopes: &[Permission]) -> Principal {
    principal(PrincipalId::Service(TokenId::new(AT, [4; 10])), None, scopes)
}

pub(crate) fn automation() -> Principal {
    principal(PrincipalId::Automation(AutomationId::new(AT, [5; 10])), None, &[])
}

/// One principal of each kind, all of whom may invoke.
pub(crate) fn invokers() -> [Principal; 5] {
    [user(Some(Role::Member)), user(Some(Role::Owner)), agent(), service(&[Permission::Invoke]), automation()]
}

pub(crate) fn approval() -> Approval {
    Approval { by: vec![user_id()], expires: AT.plus_seconds(300) }
}

/// A call that owns its facts: an agent writes a file in a green space at midnight, and people could be asked for approval.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) principal: Principal,
    pub(crate) action: Arc<Action>,
    pub(crate) space: Space,
    pub(crate) params: Value,
    pub(crate) claimed_space: Option<String>,
    pub(crate) max_band: Band,
    /// The role of the person behind the principal; for a user, their own.
    pub(crate) owner_role: Option<Role>,
    pub(crate) now: Timestamp,
    pub(crate) consents: Vec<String>,
    pub(crate) drift: Drift,
    pub(crate) labels: Vec<String>,
    pub(crate) cross_space_listed: bool,
    pub(crate) approval: Option<Approval>,
    pub(crate) obtainable: Option<Approval>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let space = Space {
            id: SpaceId::new(AT, [6; 10]),
            org: OrgId::new(AT, [0; 10]),
            name: "main".to_owned(),
            band: Band::Green,
            self_approval: SelfApproval::Allowed,
            quorum: Default::default(),
            redaction: Default::default(),
            keeps: Default::default(),
            members: None,
            observes: false,
            asks_consent: false,
            defaults: Default::default(),
            created_at: AT,
        };
        Self {
            principal: agent(),
            action: named("files.write_text"),
            space,
            params: json!({}),
            claimed_space: None,
            max_band: Band::Black,
            owner_role: Some(Role::Admin),
            now: AT,
            consents: vec![],
            drift: Drift::None,
            labels: vec![],
            cross_space_listed: false,
            approval: None,
            obtainable: Some(approval()),
        }
    }

    pub(crate) fn by(self, principal: Principal) -> Self {
        Self { principal, ..self }
    }

    pub(crate) fn of(self, action: &str) -> Self {
        Self { action: named(action), ..self }
    }

    pub(crate) fn requiring(mut self, requires: &[&str]) -> Self {
        Arc::make_mut(&mut self.action).requires = requires.iter().map(|&permission| permission.to_owned()).collect();
        self
    }

    fn standing(&self) -> Standing {
        let role = match self.principal.id {
            PrincipalId::User(_) => self.principal.role,
            PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => self.owner_role,
        };
        Standing { role, max_band: self.max_band }
    }

    pub(crate) fn as_call(&self) -> CallFacts<'_> {
        CallFacts {
            principal: &self.principal,
            action: &self.action,
            space: &self.space,
            params: &self.params,
            claimed_space: self.claimed_space.as_deref(),
            standing: self.standing(),
            now: self.now,
            consents: &self.consents,
            drift: self.drift,
            labels: &self.labels,
            cross_space_listed: self.cross_space_listed,
            approval: self.approval.as_ref(),
            obtainable: self.obtainable.as_ref(),
        }
    }

    pub(crate) fn verdicts(&self, policies: Option<&Policies>) -> Vec<GateVerdict> {
        let verdicts = gate(&self.as_call(), policies);
        assert_eq!(verdicts.iter().map(|verdict| verdict.gate).collect::<Vec<_>>(), Gate::ALL);
        verdicts
    }
}

/// Policy texts in which only this gate has policies.
pub(crate) fn only(gate: Gate, text: &str) -> PolicyTexts {
    let text = text.to_owned();
    match gate {
        Gate::Rbac => PolicyTexts { rbac: text, ..PolicyTexts::default() },
        Gate::Abac => PolicyTexts { abac: text, ..PolicyTexts::default() },
        Gate::Consent => PolicyTexts { consent: text, ..PolicyTexts::default() },
        Gate::Space => PolicyTexts { space: text, ..PolicyTexts::default() },
        Gate::Safety | Gate::Redaction => panic!("{gate:?} has no policies"),
    }
}
