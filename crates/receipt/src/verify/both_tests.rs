//! Logs that are signed with the right keys, and wrong in one respect each. This verifier and the one that was written from the documentation
//! alone (`examples/verify.py`) refuse them, and both name the same entry.

use super::*;
use crate::body::{AnswerBody, ApprovalBody, Cost, IntentBody, SpaceBody, Terms};
use crate::story::{Bundle, FIRST_KEY, Story, answer, at, digest, intent, key, receipt, second};
use countersign_core::decision::ModeSource;
use countersign_core::effect::Purpose;
use countersign_core::grant::{Covers, GrantScope};
use countersign_core::invocation::Beyond;
use countersign_core::principal::Role;
use countersign_core::session::{Quorum, SelfApproval};
use countersign_core::{
    ActionId, Amount, AutomationId, Band, ChannelId, Decision, GrantId, Mode, PrincipalId, Status, Tier, Timestamp, TokenId, UserId,
};
use serde_json::json;
use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};

/// People by number. The story's owner is the second.
const OWNER: u8 = 2;
const ROBIN: u8 = 77;
const EVE: u8 = 78;

type Told = (Kind, Value);

fn user(number: u8) -> UserId {
    UserId::new(second(0), [number; 10])
}

fn person(number: u8) -> PrincipalId {
    PrincipalId::User(user(number))
}

fn token(number: u8) -> TokenId {
    TokenId::new(second(0), [number; 10])
}

fn invitation(number: u8) -> TokenId {
    TokenId::new(second(1), [number; 10])
}

fn identity(by: Option<PrincipalId>, change: Value) -> Told {
    (Kind::Identity, json!({ "by": by, "change": change }))
}

fn rule(by: u8, version: i64, change: Value) -> Told {
    (Kind::Rule, json!({ "by": person(by), "change": change, "version": version }))
}

fn created(by: PrincipalId, number: u8, role: Role) -> Told {
    identity(Some(by), json!({ "identity": "user_created", "user": user(number), "role": role }))
}

fn invited(number: u8, expires_at: Timestamp) -> Told {
    let change = json!({ "identity": "invited", "invitation": invitation(number), "user": user(number), "expires_at": expires_at });
    identity(Some(person(OWNER)), change)
}

fn redeemed(number: u8) -> Told {
    let change =
        json!({ "identity": "invitation_redeemed", "invitation": invitation(number), "token": token(number), "user": user(number) });
    identity(None, change)
}

fn revoked(token: TokenId) -> Told {
    identity(Some(person(OWNER)), json!({ "identity": "token_revoked", "token": token }))
}

/// Token 90, made for this person by themselves.
fn made(holder: u8, with: TokenId, expires_at: Option<Timestamp>) -> Told {
    token_made(Some(person(holder)), &person(holder), &[], Some(with), expires_at)
}

fn token_made(
    by: Option<PrincipalId>,
    holder: &PrincipalId,
    scopes: &[&str],
    with: Option<TokenId>,
    expires_at: Option<Timestamp>,
) -> Told {
    let change = json!({
        "identity": "token_made", "token": token(90), "holder": holder, "scopes": scopes, "with": with, "expires_at": expires_at,
    });
    identity(by, change)
}

fn service(scopes: &[&str]) -> Told {
    token_made(Some(person(OWNER)), &PrincipalId::Service(token(90)), scopes, Some(token(OWNER)), None)
}

/// The token of the agent that makes the calls.
fn agent(by: PrincipalId) -> Told {
    let change = json!({
        "identity": "token_made", "token": token(91), "holder": call(&[]).principal, "scopes": [], "with": null, "expires_at": null,
    });
    identity(Some(by), change)
}

fn disabled(number: u8) -> Told {
    identity(Some(person(OWNER)), json!({ "identity": "user_disabled", "user": user(number) }))
}

/// A person whom the owner invites, and who redeems the invitation.
fn joined(number: u8, role: Role) -> Vec<Told> {
    vec![created(person(OWNER), number, role), invited(number, second(1_000)), redeemed(number)]
}

/// This person signs in, whom the issuer knows by this subject, and gets token `with`.
fn signed_in(number: u8, subject: &str, role: Role, with: u8) -> Told {
    let change = json!({
        "identity": "signed_in", "user": user(number), "token": token(with), "role": role, "issuer": "https://login.example.com",
        "subject": digest(subject), "expires_at": second(1_000),
    });
    identity(None, change)
}

/// The role that a sign-in gave.
fn role_followed(number: u8, role: Role) -> Told {
    let change = json!({ "rule": "role_changed", "user": user(number), "role": role });
    (Kind::Rule, json!({ "by": null, "change": change, "version": 11 }))
}

fn role_changed(by: u8, number: u8, role: Role) -> Told {
    rule(by, 10, json!({ "rule": "role_changed", "user": user(number), "role": role }))
}

/// A call that these people approved.
fn call(approvers: &[u8]) -> ReceiptBody {
    let asked = Decision::new(Mode::RequireApproval, ModeSource::InferredDefault, None);
    let approvers = approvers.iter().map(|number| person(*number)).collect();
    let approval = Some(ApprovalBody { approvers, binding: digest("binding") });
    ReceiptBody { approval, ..receipt(50, "http.request", Tier::R3, asked, Status::Succeeded) }
}

/// An approval of the call, changed as given.
fn answered(by: u8, role: Role, change: impl FnOnce(&mut AnswerBody)) -> Told {
    let mut body = AnswerBody { role, token: token(by), ..answer(&call(&[by]), &person(by)) };
    change(&mut body);
    (Kind::Answer, json!(body))
}

fn begun(call: &ReceiptBody) -> Told {
    (Kind::Intent, json!(intent(call, 1)))
}

fn ended(call: &ReceiptBody) -> Told {
    (Kind::Receipt, json!(call))
}

fn mode(by: u8, version: i64) -> Told {
    let action = "http.request";
    (Kind::Mode, json!({ "action": action, "by": person(by), "lock": "open", "mode": "allow", "scope": "org", "version": version }))
}

fn space(by: u8, people: u32) -> Told {
    let body = SpaceBody {
        band: Band::Green,
        by: person(by),
        name: "main".to_owned(),
        quorum: Quorum::new([(Tier::R3, people)].into()).unwrap(),
        keeps: Default::default(),
        observes: false,
        waives_consent: false,
        redaction: Default::default(),
        members: None,
        defaults: None,
        self_approval: SelfApproval::Allowed,
        space: call(&[]).space,
        version: 9,
    };
    (Kind::Space, json!(body))
}

/// From here on the space only observes.
fn observing() -> Told {
    let (kind, mut body) = space(OWNER, 1);
    body["observes"] = json!(true);
    (kind, body)
}

/// From here on the space refuses self-approval.
fn separate(people: u32) -> Told {
    let (kind, mut body) = space(OWNER, people);
    body["self_approval"] = json!(SelfApproval::Refused);
    (kind, body)
}

/// From here on these people alone act in the space.
fn closed(members: &[u8]) -> Told {
    let (kind, mut body) = space(OWNER, 1);
    let mut members: Vec<_> = members.iter().map(|number| user(*number)).collect();
    members.sort();
    body["members"] = json!(members);
    (kind, body)
}

/// A source, as somebody sets it.
fn source_set(by: PrincipalId, version: i64) -> Told {
    let change = json!({
        "rule": "source_set", "source": "github", "version": 1, "settings": digest("settings"), "server": "http", "connection": null,
        "tiers": { "create_issue": "R3" },
    });
    (Kind::Rule, json!({ "by": by, "change": change, "version": version }))
}

fn source_removed(by: u8, version: i64) -> Told {
    rule(by, version, json!({ "rule": "source_removed", "source": "github", "version": 1 }))
}

fn channel() -> ChannelId {
    ChannelId::new(second(0), [9; 10])
}

fn automation() -> AutomationId {
    AutomationId::new(second(0), [8; 10])
}

/// An automation, as somebody saves it.
fn automation_set(by: PrincipalId, version: i64) -> Told {
    let change = json!({
        "rule": "automation_set", "automation": automation(), "version": 1, "definition": digest("definition"), "status": "active",
    });
    (Kind::Rule, json!({ "by": by, "change": change, "version": version }))
}

/// This person saves this version of the automation.
fn saved(by: u8, version: u32) -> Told {
    let (kind, mut body) = automation_set(person(by), 10 + i64::from(version));
    body["change"]["version"] = json!(version);
    (kind, body)
}

/// This person pauses the automation, of which there is one version.
fn paused(by: u8) -> Told {
    let (kind, mut body) = automation_set(person(by), 12);
    body["change"]["status"] = json!("paused");
    (kind, body)
}

/// The call begins in a run of the automation, for the owner whom it names, and after somebody asked for the run.
fn stepped(call: ReceiptBody, owner: Option<u8>, asked_by: Option<u8>) -> Told {
    let call = ReceiptBody { principal: PrincipalId::Automation(automation()), ..call };
    (Kind::Intent, json!(IntentBody { owner: owner.map(user), asked_by: asked_by.map(user), ..intent(&call, 1) }))
}

/// A channel, as somebody adds it.
fn channel_set(by: PrincipalId, version: i64) -> Told {
    let change = json!({ "rule": "channel_set", "channel": channel(), "name": "night", "kind": "webhook", "settings": digest("settings") });
    (Kind::Rule, json!({ "by": by, "change": change, "version": version }))
}

fn channel_removed(by: u8, version: i64) -> Told {
    rule(by, version, json!({ "rule": "channel_removed", "channel": channel() }))
}

/// A link that answers in the name of whoever has this token.
fn link_made(by: Option<u8>, token: TokenId, channel: Option<ChannelId>) -> Told {
    let mut change =
        json!({ "identity": "link_made", "invocation_id": call(&[]).invocation_id, "token": token, "expires_at": second(1_000) });
    if let Some(channel) = channel {
        change["channel"] = json!(channel);
    }
    identity(by.map(person), change)
}

fn granted(by: u8, givers: &[u8], expires_at: Timestamp) -> Told {
    let covers = Covers::only(&ActionId::parse("http.request").unwrap());
    let terms = Terms { calls_max: None, condition: None, covers, definition: None, scope: GrantScope::Org, space: None, sum_max: None };
    let givers: Vec<_> = givers.iter().map(|number| user(*number)).collect();
    let change = json!({
        "rule": "grant_given", "grant": grant(), "terms": terms, "expires_at": expires_at, "givers": givers, "invocation_id": null,
        "requested_by": null,
    });
    rule(by, 10, change)
}

fn grant() -> GrantId {
    GrantId::new(second(0), [41; 10])
}

/// A call under the grant.
fn under_grant() -> ReceiptBody {
    ReceiptBody { approval: None, grant: Some(grant()), ..call(&[]) }
}

fn story(told: Vec<Told>) -> Story {
    told.into_iter().fold(Story::new(), |story, (kind, body)| story.and(kind, &body))
}

/// The verifier that was written from the documentation alone, in a process that reads one bundle after the other. Most entries of two bundles
/// are the same, so it remembers which signatures fit: in Python alone each takes some milliseconds.
const BY_EXAMPLE: &str = r#"
import contextlib, functools, importlib.util, io, json, sys
spec = importlib.util.spec_from_file_location("verify", sys.argv.pop(1))
verify = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verify)
verify.signature_fits = functools.cache(verify.signature_fits)
for line in sys.stdin:
    verify.open = lambda path, *how, **more: io.BytesIO(json.loads(line).encode()) if path == "-" else open(path, *how, **more)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = verify.main()
    print(json.dumps([code == 0, said.getvalue()]), flush=True)
"#;

struct Example {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

static EXAMPLE: LazyLock<Mutex<Example>> = LazyLock::new(|| Mutex::new(Example::start()));

impl Example {
    #[expect(clippy::disallowed_methods, reason = "a test of a program runs it")]
    #[expect(clippy::zombie_processes, reason = "it ends when the test does, and its input with it")]
    fn start() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut program = Command::new("python3");
        program.args(["-c", BY_EXAMPLE]).arg(here.join("../../examples/verify.py"));
        program.args(["-", "--key"]).arg(here.join("vectors/receipt-key.pem"));
        let mut running = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Self { stdin: running.stdin.take().unwrap(), stdout: BufReader::new(running.stdout.take().unwrap()) }
    }
}

/// Whether it accepts the bundle, and what it says.
fn by_example(bundle: &Bundle) -> (bool, String) {
    let mut example = EXAMPLE.lock().unwrap();
    let text = bundle.texts().join("\n") + "\n";
    writeln!(example.stdin, "{}", json!(text)).unwrap();
    let mut answer = String::new();
    example.stdout.read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

fn by_this(bundle: &Bundle) -> Report {
    verify(bundle.texts().into_iter().map(Ok::<_, Infallible>), &key(FIRST_KEY).public(), None)
}

#[track_caller]
fn both_accept(what: &str, story: &Story) {
    both_accept_bundle(what, &story.seal());
}

#[track_caller]
fn both_accept_bundle(what: &str, bundle: &Bundle) {
    let report = by_this(bundle);
    assert!(report.ok, "{what}: {:?}", report.first_bad);
    let (ok, told) = by_example(bundle);
    assert!(ok, "{what}: {told}");
}

/// Both verifiers must refuse the entry at this position.
#[track_caller]
fn both_refuse(what: &str, bundle: &Bundle, seq: u64) {
    let found = by_this(bundle).first_bad;
    assert_eq!(found.as_ref().and_then(|finding| finding.seq), Some(seq), "{what}: {found:?}");
    let (ok, told) = by_example(bundle);
    // Lines are counted from one, and the first is the bundle's own.
    let line = format!("not verified: line {}: ", bundle.index(seq) + 2);
    assert!(!ok && told.starts_with(&line), "{what}: {told}, expected {line}");
}

#[track_caller]
fn both_refuse_the_last(what: &str, told: Vec<Told>) {
    let story = story(told);
    both_refuse(what, &story.seal(), story.drafts.len() as u64 - 1);
}

#[test]
fn both_accept_what_is_right() {
    both_accept("the story", &Story::new());
    let two = call(&[OWNER, ROBIN]);
    let since = |body: &mut AnswerBody| body.pending_from_seq = (at::SIZE + 4).to_string();
    let right = [
        joined(ROBIN, Role::Approver),
        vec![space(OWNER, 2), answered(OWNER, Role::Owner, since), answered(ROBIN, Role::Approver, since), begun(&two), ended(&two)],
        vec![
            service(&["manage_identity"]),
            created(PrincipalId::Service(token(90)), EVE, Role::Member),
            role_changed(OWNER, EVE, Role::Admin),
        ],
    ];
    both_accept("two people", &story(right.concat()));
    let used = under_grant();
    let right = vec![granted(OWNER, &[OWNER], second(1_000)), begun(&used), ended(&used)];
    both_accept("a grant", &story(right));
    // An admin who allowed the action with their answer may have lost their role before the call began.
    let one = call(&[ROBIN]);
    let always = |body: &mut AnswerBody| body.beyond = Beyond::Always;
    let right = [
        joined(ROBIN, Role::Admin),
        vec![answered(ROBIN, Role::Admin, always), role_changed(OWNER, ROBIN, Role::Approver), begun(&one), mode(ROBIN, 11)],
    ];
    both_accept("an action that is allowed from now on", &story(right.concat()));
    let by_service = vec![service(&["manage_policy"]), source_set(PrincipalId::Service(token(90)), 10), source_removed(OWNER, 11)];
    both_accept("a source that comes and goes", &story(by_service));
    let by_service = vec![service(&["manage_policy"]), channel_set(PrincipalId::Service(token(90)), 10), channel_removed(OWNER, 11)];
    both_accept("a channel that comes and goes", &story(by_service));
    let allowed = |rule_name: &str| json!({ "rule": rule_name, "list": "hosts", "entry": "mcp.example.com" });
    let by_owner = vec![rule(OWNER, 10, allowed("allowed_set")), rule(OWNER, 11, allowed("allowed_removed"))];
    both_accept("a host that is allowed for a while", &story(by_owner));
    both_accept("an automation", &story([joined(ROBIN, Role::Member), vec![automation_set(person(ROBIN), 10)]].concat()));
    let mut behind = Story::new().and(Kind::Mode, &mode(OWNER, 10).1);
    behind.drafts.last_mut().unwrap().clock = Some(second(1));
    both_accept("a clock that was set back", &behind);
}

#[test]
fn both_hold_a_sign_in_to_the_person_whom_the_issuer_knows() {
    let (robin, eve) = (|role, with| signed_in(ROBIN, "robin", role, with), || signed_in(EVE, "eve", Role::Member, EVE));
    let raised = |role| vec![robin(Role::Member, ROBIN), eve(), role_changed(OWNER, ROBIN, role)];
    let followed = [raised(Role::Admin), vec![robin(Role::Approver, 90), role_followed(ROBIN, Role::Approver)]].concat();
    both_accept("a role that follows the issuer", &story(followed.clone()));
    let one = call(&[ROBIN]);
    let with = |body: &mut AnswerBody| body.token = token(90);
    let answers = vec![answered(ROBIN, Role::Approver, with), begun(&one), ended(&one)];
    both_accept("an answer of who signed in", &story([followed.clone(), answers].concat()));
    let (kind, mut by_somebody) = robin(Role::Member, ROBIN);
    by_somebody["by"] = json!(person(OWNER));
    both_refuse_the_last("by somebody", vec![(kind, by_somebody)]);
    both_refuse_the_last("as somebody who was invited", [joined(ROBIN, Role::Member), vec![robin(Role::Owner, 90)]].concat());
    both_refuse_the_last("as the owner", vec![signed_in(OWNER, "owner", Role::Owner, 90)]);
    both_refuse_the_last("as somebody else", vec![robin(Role::Member, ROBIN), eve(), signed_in(EVE, "robin", Role::Member, 90)]);
    both_refuse_the_last("by another subject", vec![robin(Role::Member, ROBIN), signed_in(ROBIN, "eve", Role::Member, 90)]);
    both_refuse_the_last("with a token of another", vec![robin(Role::Member, ROBIN), signed_in(EVE, "eve", Role::Member, ROBIN)]);
    both_refuse_the_last("disabled", vec![robin(Role::Member, ROBIN), disabled(ROBIN), robin(Role::Member, 90)]);
    both_refuse_the_last("a role that no sign-in gave", vec![robin(Role::Member, ROBIN), role_followed(ROBIN, Role::Owner)]);
    for role in [Role::Approver, Role::Admin, Role::Owner] {
        both_refuse_the_last("a new person who approves", vec![robin(role, ROBIN)]);
        both_refuse_the_last("a person whom nobody raised", vec![robin(Role::Viewer, ROBIN), robin(role, 90)]);
    }
    both_refuse_the_last("above what somebody gave", [raised(Role::Approver), vec![robin(Role::Admin, 90)]].concat());
    both_refuse_the_last("above what somebody left them", [raised(Role::Viewer), vec![robin(Role::Member, 90)]].concat());
    let twice = vec![robin(Role::Member, ROBIN), role_changed(OWNER, ROBIN, Role::Viewer), role_followed(ROBIN, Role::Member)];
    both_refuse_the_last("a role that was taken away since", twice);
}

#[test]
fn both_refuse_tokens_that_nobody_could_make() {
    both_refuse_the_last("by nobody", [joined(ROBIN, Role::Member), vec![token_made(None, &person(ROBIN), &[], None, None)]].concat());
    both_refuse_the_last("for a person who is not there", vec![token_made(None, &person(EVE), &[], None, None)]);
    both_refuse_the_last("with an unknown token", vec![made(OWNER, token(89), None)]);
    both_refuse_the_last("with another's token", [joined(ROBIN, Role::Member), vec![made(OWNER, token(ROBIN), None)]].concat());
    let revoked = [joined(ROBIN, Role::Member), vec![revoked(token(ROBIN)), made(ROBIN, token(ROBIN), None)]];
    both_refuse_the_last("with a revoked token", revoked.concat());
    both_refuse_the_last("for a service that approves", vec![service(&["approve"])]);
    let by_member = token_made(Some(person(ROBIN)), &PrincipalId::Service(token(90)), &["read"], Some(token(ROBIN)), None);
    both_refuse_the_last("for a service, by a member", [joined(ROBIN, Role::Member), vec![by_member]].concat());
}

#[test]
fn both_refuse_links_in_the_name_of_somebody_else() {
    let joined = |role, last: &[Told]| [&joined(ROBIN, role)[..], last].concat();
    let right = [link_made(Some(ROBIN), token(ROBIN), None), link_made(None, token(ROBIN), Some(channel()))];
    both_accept("their own, and that of a channel's notice", &story(joined(Role::Approver, &right)));
    for (what, role, made) in [
        ("by another person", Role::Approver, link_made(Some(OWNER), token(ROBIN), None)),
        ("for a channel, by another person", Role::Approver, link_made(Some(OWNER), token(ROBIN), Some(channel()))),
        ("for a channel, by the person", Role::Approver, link_made(Some(ROBIN), token(ROBIN), Some(channel()))),
        ("by nobody, for no channel", Role::Approver, link_made(None, token(ROBIN), None)),
        ("for a channel, of who may not approve", Role::Member, link_made(None, token(ROBIN), Some(channel()))),
        ("for a channel, with a token that was never made", Role::Approver, link_made(None, token(89), Some(channel()))),
    ] {
        both_refuse_the_last(what, joined(role, &[made]));
    }
}

#[test]
fn both_refuse_invitations_that_are_not_open() {
    let asked = |until| vec![created(person(OWNER), ROBIN, Role::Member), invited(ROBIN, until)];
    both_refuse_the_last("revoked", [asked(second(1_000)), vec![revoked(invitation(ROBIN)), redeemed(ROBIN)]].concat());
    both_refuse_the_last("redeemed", [joined(ROBIN, Role::Member), vec![redeemed(ROBIN)]].concat());
    both_refuse_the_last("expired", [asked(second(1)), vec![redeemed(ROBIN)]].concat());
    both_refuse_the_last("never made", vec![created(person(OWNER), ROBIN, Role::Member), redeemed(ROBIN)]);
}

#[test]
fn both_refuse_changes_by_somebody_who_could_not_make_them() {
    let joined = |role, last| [joined(ROBIN, role), vec![created(person(OWNER), EVE, Role::Viewer), last]].concat();
    both_refuse_the_last("a role, by a member", joined(Role::Member, role_changed(ROBIN, EVE, Role::Member)));
    both_refuse_the_last("a role above their own", joined(Role::Admin, role_changed(ROBIN, EVE, Role::Owner)));
    both_refuse_the_last("their own role", joined(Role::Admin, role_changed(ROBIN, ROBIN, Role::Viewer)));
    both_refuse_the_last("an owner, by an admin", joined(Role::Admin, created(person(ROBIN), 79, Role::Owner)));
    let disabled = json!({ "identity": "user_disabled", "user": user(OWNER) });
    both_refuse_the_last("the owner disabled, by an admin", joined(Role::Admin, identity(Some(person(ROBIN)), disabled)));
    both_refuse_the_last(
        "a user by nobody",
        vec![identity(None, json!({ "identity": "user_created", "user": user(EVE), "role": "owner" }))],
    );
    let approver = created(PrincipalId::Service(token(90)), EVE, Role::Approver);
    both_refuse_the_last("an approver, by a service", vec![service(&["manage_identity"]), approver]);
    both_refuse_the_last("a mode, by an approver", joined(Role::Approver, mode(ROBIN, 10)));
    both_refuse_the_last("a space, by a member", joined(Role::Member, space(ROBIN, 1)));
    let off = json!({ "rule": "switched_off", "scope": "org", "reason": "" });
    both_refuse_the_last("a kill switch, by a member", joined(Role::Member, rule(ROBIN, 10, off)));
    both_refuse_the_last("a source, by an approver", joined(Role::Approver, source_set(person(ROBIN), 10)));
    both_refuse_the_last("a source that is removed, by a member", joined(Role::Member, source_removed(ROBIN, 10)));
    let allowed = json!({ "rule": "allowed_set", "list": "hosts", "entry": "mcp.example.com" });
    both_refuse_the_last("a host that is allowed, by an admin", joined(Role::Admin, rule(ROBIN, 10, allowed.clone())));
    let by_service =
        vec![service(&["manage_policy"]), (Kind::Rule, json!({ "by": PrincipalId::Service(token(90)), "change": allowed, "version": 10 }))];
    both_refuse_the_last("a host that is allowed, by a service", by_service);
    both_refuse_the_last("a channel, by an approver", joined(Role::Approver, channel_set(person(ROBIN), 10)));
    both_refuse_the_last("a channel that is removed, by a member", joined(Role::Member, channel_removed(ROBIN, 10)));
    both_refuse_the_last("an automation, by a viewer", joined(Role::Viewer, automation_set(person(ROBIN), 10)));
    let by_service = vec![service(&["invoke"]), automation_set(PrincipalId::Service(token(90)), 10)];
    both_refuse_the_last("an automation, by a service", by_service);
    let by_service = vec![service(&["manage_identity"]), source_set(PrincipalId::Service(token(90)), 10)];
    both_refuse_the_last("a source, by a service that may not", by_service);
}

#[test]
fn who_loses_a_role_may_still_have_a_request_under_way() {
    let demoted = || [joined(ROBIN, Role::Admin), vec![role_changed(OWNER, ROBIN, Role::Member), mode(ROBIN, 11)]].concat();
    both_accept("a mode of an admin who was one when the request arrived", &story(demoted()));
    let mut late = story(demoted());
    let lost = late.drafts.iter().rev().nth(1).unwrap().at;
    late = late.retimed(lost.plus_seconds(60));
    both_refuse("a minute later", &late.seal(), late.drafts.len() as u64 - 1);
    let twice = || [joined(ROBIN, Role::Admin), vec![role_changed(OWNER, ROBIN, Role::Viewer), disabled(ROBIN), mode(ROBIN, 11)]].concat();
    both_accept("a mode of an admin who then lost two roles", &story(twice()));
    let mut late = story(twice());
    let lost = late.drafts.iter().rev().nth(2).unwrap().at;
    late = late.retimed(lost.plus_seconds(60));
    both_refuse("a minute after they lost the first", &late.seal(), late.drafts.len() as u64 - 1);
}

#[test]
fn both_let_run_unasked_what_a_space_observes() {
    let unasked = ReceiptBody { approval: None, observed: true, ..call(&[]) };
    both_accept("where it observes", &story(vec![observing(), begun(&unasked)]));
    both_refuse_the_last("where it never did", vec![begun(&unasked)]);
    let mut again = space(OWNER, 1);
    again.1["version"] = json!(10);
    both_refuse_the_last("where it does no more", vec![observing(), again, begun(&unasked)]);
    let destroys = ReceiptBody { tier: Tier::R4, ..unasked };
    both_refuse_the_last("what destroys", vec![observing(), begun(&destroys)]);
}

#[test]
fn both_hold_the_cost_of_a_call_to_the_price_of_its_action() {
    let price = |action: &str, price: Value| rule(OWNER, 11, json!({ "rule": "price_set", "action": action, "price": price }));
    let each = || json!({ "usd": "0.002" });
    let per_unit = || json!({ "usd": "0.002", "unit": { "field": "result.units", "at_most": "9" } });
    let story_of = |price: Option<Told>, version, usd: Option<&str>| {
        let used = under_grant();
        let cost = Cost { price: version, usd: usd.and_then(Amount::parse), ..used.cost };
        let used = ReceiptBody { cost, ..used };
        [vec![granted(OWNER, &[OWNER], second(1_000))], price.into_iter().collect(), vec![begun(&used), ended(&used)]].concat()
    };
    let per_call = || Some(price("http.request", each()));
    for (what, price, version, usd) in [
        ("no price", None, None, None),
        ("its price", per_call(), Some(11), Some("0.002")),
        ("a call that was not made", per_call(), Some(11), Some("0")),
        ("units, which only the result counts", Some(price("http.request", per_unit())), Some(11), Some("7")),
    ] {
        both_accept(what, &story(story_of(price, version, usd)));
    }
    for (what, price, version, usd) in [
        ("more than its price", per_call(), Some(11), Some("0.003")),
        ("another version", per_call(), Some(8), Some("0.002")),
        ("the price of another action", Some(price("files.list", each())), Some(11), Some("0.002")),
        ("a price without a cost", per_call(), Some(11), None),
        ("a cost without a price", per_call(), None, Some("0.002")),
    ] {
        both_refuse_the_last(what, story_of(price, version, usd));
    }
    let mut by_a_member = price("http.request", each());
    by_a_member.1["by"] = json!(person(ROBIN));
    both_refuse_the_last("a price that a member set", [joined(ROBIN, Role::Member), vec![by_a_member]].concat());
}

#[test]
fn both_refuse_self_approval_where_the_space_does() {
    let answer = || answered(OWNER, Role::Owner, |_| ());
    let own = || vec![agent(person(OWNER)), answer(), begun(&call(&[OWNER]))];
    both_accept("where it is allowed", &story(own()));
    both_refuse_the_last("the owner of the agent", [vec![separate(1)], own()].concat());
    let through_service = vec![service(&["create_session"]), agent(PrincipalId::Service(token(90)))];
    let made_through = [vec![separate(1)], through_service, vec![answer(), begun(&call(&[OWNER]))]];
    both_refuse_the_last("who answers for the service that made the agent", made_through.concat());
    let themselves = ReceiptBody { principal: person(OWNER), ..call(&[OWNER]) };
    both_refuse_the_last("the requester", vec![separate(1), answer(), begun(&themselves)]);
    let by_service = ReceiptBody { principal: PrincipalId::Service(token(90)), ..call(&[OWNER]) };
    both_refuse_the_last("who answers for the service", vec![separate(1), service(&["invoke"]), answer(), begun(&by_service)]);
    let granted = |by| vec![separate(1), granted(by, &[by], second(1_000)), agent(person(OWNER)), begun(&under_grant())];
    both_refuse_the_last("a grant of the owner", granted(OWNER));

    both_accept("a grant of somebody else", &story([joined(ROBIN, Role::Approver), granted(ROBIN)].concat()));
    let other = vec![separate(1), agent(person(OWNER)), answered(ROBIN, Role::Approver, |_| ()), begun(&call(&[ROBIN]))];
    both_accept("somebody else", &story([joined(ROBIN, Role::Approver), other].concat()));
    let mut again = space(OWNER, 1);
    again.1["version"] = json!(10);
    both_accept("where it is allowed again", &story([vec![separate(1), again], own()].concat()));
    // What an effect left is rolled back, whatever the space has come to ask for.
    let rollback = IntentBody { purpose: Purpose::Rollback, ..intent(&call(&[OWNER]), 2) };
    both_accept("a rollback", &story([own(), vec![separate(2), (Kind::Intent, json!(rollback))]].concat()));
}

#[test]
fn both_refuse_who_is_no_member_of_the_space() {
    let robin = || [joined(ROBIN, Role::Approver), vec![agent(person(ROBIN))]].concat();
    let approved = || vec![answered(OWNER, Role::Owner, |_| ()), begun(&call(&[OWNER]))];
    let told = |members: &[u8]| [robin(), vec![closed(members)], approved()].concat();
    both_accept("two members", &story(told(&[OWNER, ROBIN])));
    both_refuse_the_last("a call of a stranger", told(&[OWNER]));
    both_refuse_the_last("an approval of a stranger", told(&[ROBIN]));
    both_refuse_the_last("where nobody is left", told(&[]));
    let granted =
        |members: &[u8]| [robin(), vec![closed(members), granted(OWNER, &[OWNER], second(1_000)), begun(&under_grant())]].concat();
    both_refuse_the_last("a grant of a stranger", granted(&[ROBIN]));
    let mut open = space(OWNER, 1);
    open.1["version"] = json!(10);
    both_accept("where it is open again", &story([robin(), vec![closed(&[OWNER]), open], approved()].concat()));
    // What an effect left is rolled back, whoever may act by then.
    let rollback = IntentBody { purpose: Purpose::Rollback, ..intent(&call(&[OWNER]), 2) };
    both_accept("a rollback", &story([robin(), approved(), vec![closed(&[]), (Kind::Intent, json!(rollback))]].concat()));
}

#[test]
fn both_let_a_run_act_for_a_member_who_saved_it() {
    let people = || [joined(ROBIN, Role::Approver), joined(EVE, Role::Approver)].concat();
    let told = |members: &[u8], versions: Vec<Told>, owner: Option<u8>| {
        let approved = vec![answered(OWNER, Role::Owner, |_| ()), stepped(call(&[OWNER]), owner, None)];
        [people(), vec![closed(members)], versions, approved].concat()
    };
    let of_robin = || vec![saved(ROBIN, 1)];
    both_accept("a member", &story(told(&[OWNER, ROBIN], of_robin(), Some(ROBIN))));
    both_refuse_the_last("a stranger", told(&[OWNER, EVE], of_robin(), Some(ROBIN)));
    both_refuse_the_last("a member who saved nothing", told(&[OWNER, ROBIN], of_robin(), Some(OWNER)));
    both_refuse_the_last("a member who only paused it", told(&[OWNER, ROBIN], vec![saved(ROBIN, 1), paused(OWNER)], Some(OWNER)));
    both_refuse_the_last("a member, of an automation that nobody saved", told(&[OWNER, ROBIN], vec![], Some(ROBIN)));
    let of_two = || vec![saved(ROBIN, 1), saved(EVE, 2)];
    both_accept("a run of an earlier version", &story(told(&[OWNER, ROBIN], of_two(), Some(ROBIN))));
    both_refuse_the_last("a run of the last version", told(&[OWNER, ROBIN], of_two(), Some(EVE)));

    // Entries from before name nobody: an automation acted for whoever had saved its last version.
    both_accept("an older entry", &story(told(&[OWNER, EVE], of_two(), None)));
    both_refuse_the_last("an older entry, for a stranger", told(&[OWNER, ROBIN], of_two(), None));
    both_refuse_the_last("an older entry, for nobody", told(&[OWNER, ROBIN], vec![], None));
}

#[test]
fn both_refuse_self_approval_in_a_run_where_the_space_does() {
    let people = || [joined(ROBIN, Role::Approver), joined(EVE, Role::Approver)].concat();
    let told = |space: Told, saver: u8, owner: Option<u8>, asked_by: Option<u8>| {
        let approved = vec![answered(OWNER, Role::Owner, |_| ()), stepped(call(&[OWNER]), owner, asked_by)];
        [people(), vec![space, saved(saver, 1)], approved].concat()
    };
    both_accept("where it is allowed", &story(told(space(OWNER, 1), OWNER, Some(OWNER), Some(OWNER))));
    both_accept("somebody else", &story(told(separate(1), ROBIN, Some(ROBIN), Some(EVE))));
    both_refuse_the_last("who saved it", told(separate(1), OWNER, Some(OWNER), None));
    both_refuse_the_last("who saved it, in an older entry", told(separate(1), OWNER, None, None));
    both_refuse_the_last("who asked for the run", told(separate(1), ROBIN, Some(ROBIN), Some(OWNER)));
    // A person reverts a call of the run: it is their own call, in the session of the run.
    let revert = |asked_by: u8| {
        let reverts = ReceiptBody { principal: person(EVE), ..call(&[OWNER]) };
        let intent = IntentBody { asked_by: Some(user(asked_by)), ..intent(&reverts, 1) };
        [people(), vec![separate(1), answered(OWNER, Role::Owner, |_| ()), (Kind::Intent, json!(intent))]].concat()
    };
    both_accept("a revert in a run of somebody else", &story(revert(ROBIN)));
    both_refuse_the_last("a revert in a run that they asked for", revert(OWNER));

    let granted = |saver: u8, asked_by: u8| {
        let given = vec![separate(1), granted(OWNER, &[OWNER], second(1_000)), saved(saver, 1)];
        [people(), given, vec![stepped(under_grant(), Some(saver), Some(asked_by))]].concat()
    };
    both_accept("a grant of somebody else", &story(granted(ROBIN, EVE)));
    both_refuse_the_last("a grant of who saved it", granted(OWNER, EVE));
    both_refuse_the_last("a grant of who asked for the run", granted(ROBIN, OWNER));
}

#[test]
fn both_refuse_answers_that_nobody_could_give() {
    let joined = |role, rest: Vec<Told>| [joined(ROBIN, role), rest].concat();
    let by_robin = |role| answered(ROBIN, role, |_| ());
    both_refuse_the_last("a viewer", joined(Role::Viewer, vec![by_robin(Role::Viewer)]));
    both_refuse_the_last("a role they do not have", joined(Role::Approver, vec![by_robin(Role::Admin)]));
    both_refuse_the_last("a revoked token", joined(Role::Approver, vec![revoked(token(ROBIN)), by_robin(Role::Approver)]));
    both_refuse_the_last("a disabled person", joined(Role::Approver, vec![disabled(ROBIN), by_robin(Role::Approver)]));
    let expired = answered(OWNER, Role::Owner, |body| body.token = token(90));
    both_refuse_the_last("an expired token", vec![made(OWNER, token(OWNER), Some(second(1))), expired]);
    let early = answered(OWNER, Role::Owner, |body| body.pending_from_seq = (at::SIZE + 1).to_string());
    both_refuse_the_last("a call that is not pending yet", vec![early]);
}

#[test]
fn both_refuse_effects_that_too_few_permitted() {
    let twice = call(&[OWNER, OWNER]);
    let answer = || answered(OWNER, Role::Owner, |_| ());
    both_refuse_the_last("one person twice", vec![space(OWNER, 2), answer(), answer(), begun(&twice)]);
    let two = call(&[OWNER, ROBIN]);
    let too_new = [joined(ROBIN, Role::Approver), vec![space(OWNER, 2), answer(), answered(ROBIN, Role::Approver, |_| ()), begun(&two)]];
    both_refuse_the_last("a person who came later", too_new.concat());
    let mut edited = Story::new();
    edited.drafts[at::DELETE as usize].body["edit"] = json!({ "by": person(OWNER), "changed": ["/path"], "proposed": digest("proposed") });
    both_refuse("an R4 call that its only approver edited", &edited.seal(), at::DELETE);
    both_refuse_the_last("a grant past its time", vec![granted(OWNER, &[OWNER], second(10)), begun(&under_grant())]);
    both_refuse_the_last("a grant that nobody gave", vec![begun(&under_grant())]);
    both_refuse_the_last("a grant by a member", [joined(ROBIN, Role::Member), vec![granted(ROBIN, &[ROBIN], second(1_000))]].concat());
    both_refuse_the_last("a grant in another's name", [joined(ROBIN, Role::Owner), vec![granted(OWNER, &[ROBIN], second(1_000))]].concat());
}

#[test]
fn both_refuse_wrong_times_and_events() {
    let last = || Story::new().and(Kind::Mode, &mode(OWNER, 10).1);
    let before = Story::new().drafts.last().unwrap().at;
    both_refuse("time that runs backwards", &last().retimed(Timestamp::from_micros(before.as_micros() - 1)).seal(), at::SIZE);
    let mut ahead = last();
    ahead.drafts.last_mut().unwrap().clock = Some(ahead.drafts.last().unwrap().at);
    both_refuse("a clock that was not behind", &ahead.seal(), at::SIZE);
    let mut bundle = Story::new().seal();
    let event = bundle.index(at::READ) + 1;
    if let Line::Event { invocation_id, .. } = &mut bundle.lines[event] {
        *invocation_id = None;
    }
    both_refuse("an event of no invocation", &bundle, at::READ);
}

#[test]
fn both_accept_that_the_oldest_events_are_gone_as_the_log_says_or_by_default() {
    let kept = |retention: Value| vec![rule(OWNER, 10, json!({ "rule": "retention_set", "retention": retention }))];
    // The last entry comes so many days after the others.
    let without = |told: Vec<Told>, days: u64, events: &[u64]| {
        let mut bundle = story(told).retimed(second(days * 24 * 60 * 60)).seal();
        for seq in events {
            let event = bundle.index(*seq) + 1;
            bundle.lines.remove(event);
        }
        bundle
    };
    let then = |mut told: Vec<Told>, last: Told| {
        told.push(last);
        told
    };
    let for_a_week = || then(kept(json!({ "events_days": 7 })), mode(OWNER, 11));
    both_accept_bundle("all are there", &without(for_a_week(), 8, &[]));
    both_accept_bundle("the oldest are gone", &without(for_a_week(), 8, &[at::READ, at::WRITE]));
    both_refuse("one in the middle is gone", &without(for_a_week(), 8, &[at::WRITE]), at::WRITE);
    both_refuse("one is gone before its time", &without(for_a_week(), 6, &[at::READ]), at::READ);
    // The default is written down nowhere.
    let never_said = || vec![mode(OWNER, 10)];
    both_accept_bundle("nobody said for how long", &without(never_said(), 8, &[at::READ]));
    both_refuse("one is gone before its time by default", &without(never_said(), 6, &[at::READ]), at::READ);
    let for_a_month = || kept(json!({ "events_days": 30 }));
    both_refuse("one is gone that is kept for longer", &without(then(for_a_month(), mode(OWNER, 11)), 8, &[at::READ]), at::READ);
    let by_default_again = then(for_a_month(), rule(OWNER, 11, json!({ "rule": "retention_set", "retention": {} })));
    both_accept_bundle("the default holds again", &without(by_default_again, 8, &[at::READ]));
    both_accept_bundle("a rule that says so late", &without(kept(json!({ "events_days": 7 })), 8, &[at::READ]));
    let only_calls = then(kept(json!({ "receipts_days": 180 })), mode(OWNER, 11));
    both_accept_bundle("a rule that says nothing of events", &without(only_calls, 8, &[at::READ]));
    let by_member = [joined(ROBIN, Role::Member), vec![rule(ROBIN, 10, json!({ "rule": "retention_set", "retention": {} }))]];
    both_refuse_the_last("retention, by a member", by_member.concat());
    // Countersign repeats what is in force, and decides nothing.
    let by_nobody = |version: i64, retention: Value| {
        let change = json!({ "rule": "retention_set", "retention": retention });
        (Kind::Rule, json!({ "by": null, "change": change, "version": version }))
    };
    let repeated = then(for_a_month(), by_nobody(11, json!({ "events_days": 30 })));
    both_accept_bundle("what was said, once more", &without(repeated, 31, &[at::READ]));
    both_accept_bundle("the default, in writing", &without(vec![by_nobody(10, json!({}))], 8, &[at::READ]));
    both_refuse_the_last("another retention, by nobody", then(for_a_month(), by_nobody(11, json!({ "events_days": 7 }))));
    both_refuse_the_last("a first retention, by nobody", vec![by_nobody(10, json!({ "events_days": 2 }))]);
}
