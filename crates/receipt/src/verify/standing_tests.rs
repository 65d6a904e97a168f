//! Logs whose key holder lets grants allow more than they said, or starts effects that were stopped.

use super::*;
use crate::body::{AnswerBody, ApprovalBody, IdentityBody, IdentityChange, IntentBody, RuleBody, RuleChange, SpaceBody, Terms};
use crate::story::{FIRST_KEY, Story, answer, intent, key, owner, receipt, second};
use countersign_core::decision::{Drift, Gate, ModeSource, Reason, Verdict};
use countersign_core::grant::{Covers, GrantScope, GrantedDefinition, SumMax};
use countersign_core::principal::Role;
use countersign_core::session::{Quorum, SelfApproval};
use countersign_core::switch::{Stop, SwitchScope};
use countersign_core::{
    ActionId, Amount, Band, Decision, GrantId, IntentId, InvocationId, Mode, PrincipalId, ReceiptId, SessionId, SpaceId, Status, Tier,
    Timestamp, TokenId, UserId,
};
use std::convert::Infallible;

const SEND: &str = "http.request";

/// The story continued after its end, with ten seconds between two entries.
struct Sequel {
    story: Story,
    version: i64,
}

impl Sequel {
    fn new() -> Self {
        Self { story: Story::new(), version: 10 }
    }

    fn now(&self) -> Timestamp {
        second(self.story.drafts.len() as u64 * 10)
    }

    fn tell(mut self, kind: Kind, body: &impl serde::Serialize) -> Self {
        let now = self.now();
        self.story = self.story.and(kind, body).retimed(now);
        self
    }

    fn rule(mut self, change: RuleChange) -> Self {
        self.version += 1;
        let body = RuleBody { by: Some(PrincipalId::User(owner())), change, version: self.version };
        self.tell(Kind::Rule, &body)
    }

    fn given(self, change: impl FnOnce(&mut Terms)) -> Self {
        let expires_at = self.now().plus_seconds(1_000);
        self.given_until(expires_at, change)
    }

    fn given_until(self, expires_at: Timestamp, change: impl FnOnce(&mut Terms)) -> Self {
        let covers = Covers::only(&ActionId::parse(SEND).unwrap());
        let mut terms =
            Terms { calls_max: None, condition: None, covers, definition: None, scope: GrantScope::Org, space: None, sum_max: None };
        change(&mut terms);
        let (terms, givers) = (Box::new(terms), Vec::new());
        self.rule(RuleChange::GrantGiven { grant: grant(), terms, expires_at, givers, invocation_id: None, requested_by: None })
    }

    /// Adds a grant for everything, with its givers; `by` is the person who recorded it.
    fn given_by(self, by: u8, givers: &[u8], came_with: Option<&ReceiptBody>) -> Self {
        let mut sequel = self.known(&user(by));
        let covers = Covers::parse("*").unwrap();
        let terms =
            Terms { calls_max: None, condition: None, covers, definition: None, scope: GrantScope::Org, space: None, sum_max: None };
        let change = RuleChange::GrantGiven {
            grant: grant(),
            terms: Box::new(terms),
            expires_at: sequel.now().plus_seconds(1_000),
            givers: givers.iter().map(|number| user(*number)).collect(),
            invocation_id: came_with.map(|call| call.invocation_id.clone()),
            requested_by: None,
        };
        sequel.version += 1;
        let body = RuleBody { by: Some(PrincipalId::User(user(by))), change, version: sequel.version };
        sequel.tell(Kind::Rule, &body)
    }

    /// From here on a call with the tier of these calls needs this many people in their space.
    fn quorum(mut self, people: u32) -> Self {
        self.version += 1;
        let body = SpaceBody {
            band: Band::Green,
            by: PrincipalId::User(owner()),
            name: "main".to_owned(),
            quorum: Quorum::new([(Tier::R3, people)].into()).unwrap(),
            keeps: Default::default(),
            observes: false,
            waives_consent: false,
            redaction: Default::default(),
            members: None,
            defaults: None,
            self_approval: SelfApproval::Allowed,
            space: self.call(0).space,
            version: self.version,
        };
        self.tell(Kind::Space, &body)
    }

    /// From here on their space only observes, or does not any more.
    fn observing(mut self, observes: bool) -> Self {
        self.version += 1;
        let body = SpaceBody {
            band: Band::Green,
            by: PrincipalId::User(owner()),
            name: "main".to_owned(),
            quorum: Quorum::default(),
            keeps: Default::default(),
            observes,
            waives_consent: false,
            redaction: Default::default(),
            members: None,
            defaults: None,
            self_approval: SelfApproval::Allowed,
            space: self.call(0).space,
            version: self.version,
        };
        self.tell(Kind::Space, &body)
    }

    /// Adds the intent of a call that takes this much of the grant's sum.
    fn spend(self, number: u8, amount: Option<&str>) -> Self {
        let body = self.call(number);
        self.take(&body, amount)
    }

    fn take(self, body: &ReceiptBody, amount: Option<&str>) -> Self {
        let intent_id = IntentId::new(self.now(), [9; 10]);
        let intent = IntentBody { intent_id, spends: amount.and_then(Amount::parse), ..intent(body, 1) };
        self.tell(Kind::Intent, &intent)
    }

    /// A call that these people approved.
    fn approved(&self, number: u8, approvers: &[u8]) -> ReceiptBody {
        let approvers = approvers.iter().map(|number| PrincipalId::User(user(*number))).collect();
        let approval = Some(ApprovalBody { approvers, binding: crate::story::digest("binding") });
        ReceiptBody { grant: None, approval, ..self.call(number) }
    }

    fn revoked(self) -> Self {
        self.rule(RuleChange::GrantRevoked { grant: grant() })
    }

    fn on(self, scope: SwitchScope) -> Self {
        self.rule(RuleChange::SwitchedOn { scope, stop: Stop::ExceptDryRuns, reason: "test".to_owned() })
    }

    fn off(self, scope: SwitchScope) -> Self {
        self.rule(RuleChange::SwitchedOff { scope, reason: "test".to_owned() })
    }

    /// A call under the grant, requested now.
    fn call(&self, number: u8) -> ReceiptBody {
        let decision = Decision::new(Mode::RequireApproval, ModeSource::InferredDefault, None);
        let mut body = receipt(number, SEND, Tier::R3, decision, Status::Succeeded);
        body.grant = Some(grant());
        body.receipt_id = ReceiptId::new(self.now(), [number; 10]);
        body.invocation_id = InvocationId::new(self.now(), [number; 10]);
        (body.timing.started_at, body.timing.ended_at) = (Some(self.now()), self.now().plus_seconds(1));
        body
    }

    /// Adds a person, if need be, whom the owner invites and who redeems the invitation for a token.
    fn known(self, person: &UserId) -> Self {
        let known = self.story.drafts.iter().any(|draft| draft.body.pointer("/change/user") == Some(&serde_json::json!(person)));
        if known {
            return self;
        }
        let invitation = TokenId::new(self.now(), [90; 10]);
        let created = IdentityChange::UserCreated { user: person.clone(), role: Role::Owner };
        let expires_at = self.now().plus_seconds(1_000);
        let invited = IdentityChange::Invited { invitation: invitation.clone(), user: person.clone(), expires_at, device: None };
        let redeemed = IdentityChange::InvitationRedeemed { invitation, token: token_of(person), user: person.clone() };
        let by_owner = || Some(PrincipalId::User(owner()));
        let tell = |sequel: Self, by, change| sequel.tell(Kind::Identity, &IdentityBody { by, change });
        tell(tell(tell(self, by_owner(), created), by_owner(), invited), None, redeemed)
    }

    fn intend(mut self, body: &ReceiptBody, attempt: u32) -> Self {
        for approver in body.approval.iter().flat_map(|approval| &approval.approvers) {
            let PrincipalId::User(person) = approver else { continue };
            self = self.known(person);
            let pending_from_seq = self.story.drafts.len().to_string();
            let given = AnswerBody { token: token_of(person), pending_from_seq, ..answer(body, approver) };
            self = self.tell(Kind::Answer, &given);
        }
        let intent = IntentBody { intent_id: IntentId::new(self.now(), [attempt as u8; 10]), ..intent(body, attempt) };
        self.tell(Kind::Intent, &intent)
    }

    fn end(self, body: &ReceiptBody) -> Self {
        self.tell(Kind::Receipt, body)
    }

    /// Adds a complete call under the grant.
    fn used(self, number: u8) -> Self {
        let body = self.call(number);
        self.intend(&body, 1).end(&body)
    }

    /// Adds a call that was not sent to its source, with its use given back.
    fn returned(self, number: u8) -> Self {
        let body = returned(self.call(number));
        self.intend(&body, 1).end(&body)
    }

    fn report(&self) -> Report {
        verify(self.story.seal().texts().into_iter().map(Ok::<_, Infallible>), &key(FIRST_KEY).public(), None)
    }

    #[track_caller]
    fn holds(&self) {
        let report = self.report();
        assert!(report.ok, "{:?}", report.first_bad);
    }

    /// The verifier must refuse the last entry.
    #[track_caller]
    fn fails(&self, why: &str) {
        let finding = self.report().first_bad.unwrap_or_else(|| panic!("nothing was found, expected: {why}"));
        assert_eq!(
            (finding.class, finding.seq),
            (Class::EffectDespiteDenial.number(), Some(self.story.drafts.len() as u64 - 1)),
            "{finding:?}"
        );
        assert!(finding.reason.contains(why), "{finding:?}");
    }
}

fn token_of(person: &UserId) -> TokenId {
    TokenId::parse(&person.as_str().replace(UserId::PREFIX, TokenId::PREFIX)).unwrap()
}

fn user(number: u8) -> UserId {
    UserId::new(second(0), [number; 10])
}

fn grant() -> GrantId {
    GrantId::new(second(0), [41; 10])
}

fn returned(body: ReceiptBody) -> ReceiptBody {
    ReceiptBody {
        status: Status::Failed,
        error: Some("source_unreachable".to_owned()),
        outputs: None,
        grant_returned: true,
        reward: crate::body::Reward { scalar_millionths: 0, success: 0, quality: 0, cost: 0, latency: 0 },
        ..body
    }
}

#[test]
fn a_grant_is_used_as_often_as_it_says() {
    let given = |most| Sequel::new().given(|terms| terms.calls_max = most);
    given(Some(2)).used(50).used(51).holds();
    given(None).used(50).used(51).used(52).holds();
    let sequel = given(Some(2)).used(50).used(51);
    let third = sequel.call(52);
    sequel.intend(&third, 1).fails("was used up");
}

#[test]
fn the_calls_of_a_grant_never_add_up_to_more_than_its_sum() {
    let bound = |per_seconds| SumMax { max: Amount::parse("500").unwrap(), of: "/amount".to_owned(), per_seconds };
    let given = |per_seconds| Sequel::new().given(|terms| terms.sum_max = Some(bound(per_seconds)));
    given(900).spend(50, Some("300.25")).spend(51, Some("199.75")).holds();
    given(900).spend(50, Some("500")).spend(51, Some("0.000001")).fails("does not leave so much of its sum");
    given(900).spend(50, Some("500.01")).fails("does not leave so much of its sum");
    given(900).spend(50, None).fails("does not leave so much of its sum");
    // What was given back, because the call was not sent, is there again.
    let sequel = given(900);
    let unsent = returned(sequel.call(50));
    sequel.take(&unsent, Some("500")).end(&unsent).spend(51, Some("500")).holds();
    // Each entry is ten seconds after the one before it.
    given(10).spend(50, Some("500")).spend(51, Some("500")).holds();
    given(11).spend(50, Some("500")).spend(51, Some("500")).fails("does not leave so much of its sum");
}

#[test]
fn what_nobody_permitted_ran_only_where_the_space_observed() {
    let unasked = |sequel: &Sequel| ReceiptBody { grant: None, observed: true, ..sequel.call(50) };
    let begin = |sequel: Sequel| {
        let body = unasked(&sequel);
        sequel.intend(&body, 1)
    };
    begin(Sequel::new()).fails("does not only observe");
    begin(Sequel::new().observing(true).observing(false)).fails("does not only observe");
    let observing = Sequel::new().observing(true);
    let body = unasked(&observing);
    let begun = observing.intend(&body, 1);
    begun.holds();
    // Its receipt must say so, too, whatever the space has become meanwhile.
    begun.end(&ReceiptBody { observed: false, ..body.clone() }).fails("nobody approved it");
    let sequel = Sequel::new().observing(true);
    let body = unasked(&sequel);
    sequel.intend(&body, 1).observing(false).end(&body).holds();
}

#[test]
fn another_try_of_the_same_call_is_no_other_use() {
    let sequel = Sequel::new().given(|terms| terms.calls_max = Some(1));
    let mut body = sequel.call(50);
    body.attempts = 2;
    sequel.intend(&body, 1).intend(&body, 2).end(&body).holds();
}

#[test]
fn a_grant_ends_when_it_is_revoked_or_its_time_is_over() {
    let sequel = Sequel::new().given(|_| {}).used(50).revoked();
    let body = sequel.call(51);
    sequel.intend(&body, 1).fails("had been revoked");
    // The third entry after the grant comes thirty seconds later.
    let until = |seconds| {
        let sequel = Sequel::new();
        let expires_at = sequel.now().plus_seconds(seconds);
        let sequel = sequel.given_until(expires_at, |_| {}).used(50);
        let body = sequel.call(51);
        sequel.intend(&body, 1)
    };
    until(31).holds();
    until(30).fails("was past its time");
}

/// Makes the terms of a grant narrower or wider.
type Narrow<'a> = &'a dyn Fn(&mut Terms);

#[test]
fn a_grant_is_for_what_it_says() {
    let elsewhere = SpaceId::new(second(0), [77; 10]);
    let other = Covers::parse("files.write_text").unwrap();
    let stranger = GrantScope::Session(SessionId::new(second(0), [78; 10]));
    let definition = GrantedDefinition { structural: crate::story::digest("a"), textual: crate::story::digest("b") };
    let narrow: [(&str, Narrow<'_>); 4] = [
        ("does not cover the call", &|terms| terms.covers = other.clone()),
        ("does not cover the call", &|terms| terms.space = Some(elsewhere.clone())),
        ("was given to somebody else", &|terms| terms.scope = stranger.clone()),
        ("was given for another definition", &|terms| terms.definition = Some(definition)),
    ];
    for (why, narrow) in narrow {
        let sequel = Sequel::new().given(narrow);
        let body = sequel.call(50);
        sequel.intend(&body, 1).fails(why);
    }
    let wide: [&dyn Fn(&mut Terms); 3] =
        [&|terms| terms.covers = Covers::parse("*").unwrap(), &|terms| terms.covers = Covers::parse("http.*").unwrap(), &|terms| {
            terms.scope = GrantScope::Session(SessionId::new(second(0), [4; 10]))
        }];
    for wide in wide {
        Sequel::new().given(wide).used(50).holds();
    }
}

#[test]
fn a_grant_that_was_never_given_allows_nothing() {
    let sequel = Sequel::new();
    let body = sequel.call(50);
    sequel.intend(&body, 1).fails("was never given");
    // A grant given after the effect has started does not count either.
    let sequel = Sequel::new();
    let body = sequel.call(50);
    let late = sequel.intend(&body, 1).given(|_| {});
    assert!(!late.report().ok);
}

#[test]
fn no_grant_covers_what_destroys() {
    let sequel = Sequel::new().given(|terms| terms.covers = Covers::parse("*").unwrap());
    let deleted = sequel.story.receipt(crate::story::at::DELETE);
    let mut body = sequel.call(50);
    (body.action, body.tier, body.definition, body.decision) = (deleted.action, deleted.tier, deleted.definition, deleted.decision);
    sequel.intend(&body, 1).fails("cannot cover what destroys");
}

#[test]
fn a_grant_stands_in_for_as_many_people_as_gave_it() {
    // One person gave it, where the space requires two from the beginning, and where it does so later.
    for sequel in [Sequel::new().quorum(2).given_by(1, &[1], None), Sequel::new().given_by(1, &[1], None).used(50).quorum(2)] {
        let body = sequel.call(51);
        sequel.intend(&body, 1).fails("was given by fewer people than the space asks for");
    }
    Sequel::new().quorum(2).given_by(1, &[1], None).quorum(1).used(50).holds();
    // Both people gave it who approved the call that it came with.
    let with_approval = |givers: &[u8]| {
        let sequel = Sequel::new().quorum(2);
        let first = sequel.approved(50, &[1, 2]);
        sequel.intend(&first, 1).given_by(2, givers, Some(&first)).end(&first)
    };
    with_approval(&[1, 2]).used(51).holds();
    for givers in [&[1_u8][..], &[2, 2], &[]] {
        let sequel = with_approval(givers);
        let body = sequel.call(51);
        sequel.intend(&body, 1).fails("was given by fewer people than the space asks for");
    }
    // A grant that names no giver counts as given by one.
    let alone = Sequel::new().quorum(2).given_by(1, &[], None);
    let body = alone.call(51);
    alone.intend(&body, 1).fails("was given by fewer people than the space asks for");
}

#[test]
fn no_grant_answers_for_content_for_a_drift_or_in_a_black_space() {
    let read = Story::new().receipt(crate::story::at::READ);
    for (reason, why) in [
        (Reason::Gate { gate: Gate::Safety }, Some("cannot answer for the content")),
        (Reason::Drift { drift: Drift::Textual }, Some("has changed since its review")),
        (Reason::Drift { drift: Drift::Appeared }, Some("nobody has reviewed")),
        (Reason::Gate { gate: Gate::Abac }, None),
    ] {
        let sequel = Sequel::new().given(|terms| terms.covers = Covers::parse("*").unwrap());
        let mut body = sequel.call(50);
        (body.action, body.tier, body.definition) = (read.action.clone(), read.tier, read.definition);
        let base = Decision::new(Mode::Allow, ModeSource::InferredDefault, None);
        body.decision = Decision { mode: Mode::RequireApproval, tightened: vec![reason], ..base };
        let sequel = sequel.intend(&body, 1);
        match why {
            Some(why) => sequel.fails(why),
            None => sequel.holds(),
        }
    }
    // If the call required an approval anyway, only the receipt names the gate.
    let sequel = Sequel::new().given(|_| {});
    let mut body = sequel.call(50);
    body.policy.get_mut(&Gate::Safety).unwrap().verdict = Verdict::NeedsApproval;
    sequel.intend(&body, 1).end(&body).fails("cannot answer for the content");
    let sequel = Sequel::new().given(|_| {});
    let mut body = sequel.call(50);
    body.policy.get_mut(&Gate::Abac).unwrap().verdict = Verdict::NeedsApproval;
    sequel.intend(&body, 1).end(&body).holds();
}

#[test]
fn a_grant_names_nobody_who_did_not_give_it() {
    Sequel::new().given_by(1, &[1, 2], None).fails("names somebody who did not give it");
    Sequel::new().given_by(1, &[2], None).fails("names somebody who did not give it");
    let sequel = Sequel::new();
    let first = sequel.approved(50, &[1]);
    sequel.intend(&first, 1).given_by(1, &[1, 2], Some(&first)).fails("names somebody who did not give it");
    let sequel = Sequel::new();
    let never = sequel.approved(50, &[1, 2]);
    sequel.given_by(1, &[1, 2], Some(&never)).fails("came with an approval that is not there");
}

#[test]
fn a_use_that_comes_back_was_taken_before() {
    let once = || Sequel::new().given(|terms| terms.calls_max = Some(1));
    once().returned(50).used(51).holds();
    let sequel = once().returned(50).used(51);
    let third = sequel.call(52);
    sequel.intend(&third, 1).fails("was used up");
    // A call that was denied gives nothing back.
    let sequel = once();
    let mut denied = returned(sequel.call(50));
    (denied.status, denied.attempts, denied.denied_by) = (Status::Denied, 0, Some(countersign_core::invocation::DeniedBy::Policy));
    denied.error = None;
    denied.timing.started_at = None;
    assert!(!sequel.end(&denied).report().ok);
}

#[test]
fn what_was_done_gives_no_use_back() {
    let sequel = Sequel::new().given(|terms| terms.calls_max = Some(1));
    let body = ReceiptBody { grant_returned: true, ..sequel.call(50) };
    sequel.intend(&body, 1).end(&body).fails("gives back a use");
}

#[test]
fn nothing_starts_that_a_switch_covers() {
    let action = || ActionId::parse(SEND).unwrap();
    let story = Story::new();
    let (space, session) = (story.receipt(crate::story::at::SEND).space, story.receipt(crate::story::at::SEND).session);
    let source = SwitchScope::parse("source:http").unwrap();
    let covering = [SwitchScope::Org, SwitchScope::Space(space), SwitchScope::Session(session), source, SwitchScope::Action(action())];
    for scope in covering {
        let sequel = Sequel::new().given(|_| {}).on(scope.clone());
        let body = sequel.call(50);
        sequel.intend(&body, 1).fails("a kill switch on");
        // Once the switch is off, calls start again. A call that began before the switch was turned on may still end.
        Sequel::new().given(|_| {}).on(scope.clone()).off(scope.clone()).used(50).holds();
        let sequel = Sequel::new().given(|_| {});
        let body = sequel.call(50);
        sequel.intend(&body, 1).on(scope.clone()).end(&body).holds();
        // Turning another switch off does not help.
        let sequel = Sequel::new().given(|_| {}).on(scope.clone()).on(SwitchScope::parse("source:files").unwrap());
        let sequel = sequel.off(SwitchScope::parse("source:files").unwrap());
        let body = sequel.call(50);
        sequel.intend(&body, 1).fails("a kill switch on");
    }
    for scope in ["source:files", "action:http.get"] {
        Sequel::new().given(|_| {}).on(SwitchScope::parse(scope).unwrap()).used(50).holds();
    }
}

#[test]
fn an_intent_names_the_rules_of_its_moment() {
    let begun = |named: i64| {
        let sequel = Sequel::new().given(|_| {}).on(SwitchScope::parse("source:files").unwrap());
        let mut body = sequel.call(50);
        body.decision.rules_version = Some(named);
        sequel.intend(&body, 1)
    };
    begun(12).holds();
    for named in [11, 10, 0, 13] {
        let sequel = begun(named);
        let finding = sequel.report().first_bad.unwrap();
        assert_eq!((finding.class, finding.seq), (Class::DecisionNotReproduced.number(), Some(sequel.story.drafts.len() as u64 - 1)));
    }
}
