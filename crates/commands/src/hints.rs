//! What somebody at a command line can do about a problem: one row for each code the server knows a request for.
//! `{invocation}` and `{action}` stand for those the problem is about; a row that names one the problem has not is left out. `{source}`,
//! `{connection}` and `{secret}` stand for the one that the problem names in words, else for `NAME`.

use crate::style::counted;
use api::invocation::{InvocationView, TightenedBy};
use api::{Code, Problem};
use countersign_core::Mode;
use countersign_core::decision::ModeSource;
use countersign_core::switch::SwitchScope;

/// What an agent does with the commands that it has, where the general hint is for a person. `{source}` stands for that of the action.
const FOR_AGENTS: [(Code, &str); 12] = [
    (Code::InvalidParams, "see its schema with `countersign actions list --integration {source} --json`"),
    (Code::UnknownAction, "list what there is for you with `countersign actions list`"),
    (Code::UnknownSource, "list what there is for you with `countersign actions list`"),
    (Code::FileNotFound, "see what is there with `countersign actions run --integration files --action list`"),
    (Code::DocumentNotFound, "see what there is with `countersign actions run --integration documents --action search`"),
    (Code::NotARegularFile, "see what is there with `countersign actions run --integration files --action list`"),
    (Code::PathOutsideWorkspace, "name files relative to the workspace, such as `notes/today.md`"),
    (Code::PathNotAllowed, "name files relative to the workspace, such as `notes/today.md`"),
    (Code::NotGrantable, "call the action: a person decides about each call of it"),
    (Code::TooManyPending, "wait until people have answered the calls that are pending"),
    (Code::Quarantined, "do not send it again: tell the person you work for"),
    (Code::DefinitionMismatch, "the action has changed, and a person has to review it first: tell the person you work for"),
];

/// What can be listed, by the noun the server names it with. A "quarantined invocation" is a quarantine, so that noun comes first.
const LISTED: [&str; 15] = [
    "quarantine",
    "grant",
    "invocation",
    "receipt",
    "session",
    "space",
    "token",
    "user",
    "consent",
    "batch",
    "secret",
    "connection",
    "channel",
    "package",
    "source",
];

/// What is listed by a command of another name, or is too common a word to be looked for anywhere in a sentence: as "there is no run `x`".
const LISTED_AS: [(&str, &str); 10] = [
    ("artifact", "artifact list"),
    ("automation", "automation list"),
    ("dead letter", "event dlq list"),
    ("document", "document list"),
    ("draft", "automation draft list"),
    ("event", "event tail --after 0"),
    ("event group", "event group list"),
    ("run", "run list"),
    ("trigger", "trigger list AUTOMATION"),
    ("webhook", "trigger list AUTOMATION"),
];

/// The command line's own hint, else the server's, unless that one speaks of HTTP.
pub(crate) fn hint_of(problem: &Problem) -> Option<String> {
    let own = of_values(problem).or_else(|| {
        let row = problem.invocation.as_deref().and_then(of_denial).or_else(|| of_code(problem.code));
        row.and_then(|row| filled(row, problem))
    });
    let from_server = || problem.hint.clone().filter(|hint| !hint.contains("/api/v1/"));
    // Of a batch the server's own hint is better, where it is not about HTTP.
    let of_batch = || (problem.code == Code::InvalidBatch).then(|| "list what there is with `countersign action list`".to_owned());
    // Who may do it is the server's to say.
    let of_role = (problem.code == Code::Forbidden).then(from_server).flatten();
    of_role.or(own).or_else(from_server).or_else(of_batch).or_else(|| filled("countersign explain {invocation}", problem))
}

/// The hint for whoever uses the commands of an agent, who can neither approve nor change rules.
pub(crate) fn hint_for_agent(problem: &Problem) -> Option<String> {
    if let Some((source, name)) = problem.suggestions.first().and_then(|meant| meant.split_once('.')) {
        return Some(format!("did you mean `--integration {source} --action {name}`? all of them: countersign actions list"));
    }
    let action = problem.invocation.as_deref().map(|named| &named.action).or(problem.action.as_ref());
    let source = action.and_then(|action| action.split_once('.')).map_or("SOURCE", |(source, _)| source);
    let own = FOR_AGENTS.into_iter().find(|(code, _)| *code == problem.code);
    own.map(|(_, row)| row.replace("{source}", source)).or_else(|| hint_of(problem))
}

/// Hints that are made of what the problem carries.
fn of_values(problem: &Problem) -> Option<String> {
    if let Some(meant) = problem.suggestions.first() {
        return Some(format!("did you mean `{meant}`? all of them: countersign action list"));
    }
    if let Some(batch) = &problem.batch_id {
        return Some(format!("read it with `countersign batch show {batch}`"));
    }
    if problem.code == Code::RateLimited {
        let seconds = problem.retry_after_ms.unwrap_or_default().div_ceil(1_000).max(1);
        return Some(format!("wait {} and do it again: nothing was done", counted(seconds, "second", "seconds")));
    }
    if let Some(scope) = stopped_by(problem) {
        let command = match &scope {
            SwitchScope::Source(source) => format!("source resume {source}"),
            SwitchScope::Org | SwitchScope::Space(_) | SwitchScope::Session(_) | SwitchScope::Action(_) => {
                format!("kill-switch off {scope}")
            }
        };
        return Some(format!("an admin ends it with `countersign {command}`"));
    }
    if problem.code == Code::UrlNotAllowed && HOLDS_CREDENTIAL.iter().any(|words| problem.detail.contains(words)) {
        return Some(CREDENTIAL_IN_URL.to_owned());
    }
    // A channel to a host that nobody allowed yet.
    if problem.code == Code::InvalidRequest && problem.detail.contains("`source_allowed_hosts`") {
        return Some(ALLOW_HOST.to_owned());
    }
    if let Some(secret) = named_after("there is no secret", &problem.detail).filter(|_| problem.code == Code::NotFound) {
        return Some(format!("list them with `countersign secret list`, or keep it with `countersign secret set {secret} --stdin`"));
    }
    let missing =
        problem.detail.strip_prefix("there is no ").and_then(|rest| rest.split_once(" `")).filter(|_| problem.code == Code::NotFound);
    if let Some((_, list)) = missing.and_then(|(noun, _)| LISTED_AS.into_iter().find(|(listed, _)| *listed == noun)) {
        return Some(format!("list them with `countersign {list}`"));
    }
    let what = LISTED.into_iter().find(|noun| problem.detail.split(' ').any(|word| word.strip_suffix('d').unwrap_or(word) == *noun));
    what.filter(|_| problem.code == Code::NotFound).map(|what| format!("list them with `countersign {what} list`"))
}

/// How the server says that a URL has a part that may be a credential.
const HOLDS_CREDENTIAL: [&str; 2] = ["a user or a password", "has no query"];
const CREDENTIAL_IN_URL: &str = "leave it out of the URL: `countersign connection add` takes a credential unseen, and a source uses it with \
                                 `--connection NAME`";

const ALLOW_HOST: &str = "an operator allows it with `countersign allow host add`, and its network with `countersign allow network add` if that is \
                          not public";

/// The kill switch that stopped it, if it is named.
fn stopped_by(problem: &Problem) -> Option<SwitchScope> {
    let is_stopped = problem.code == Code::Stopped || problem.error.as_deref() == Some("stopped");
    let (_, named) = problem.detail.split_once("a kill switch on `").filter(|_| is_stopped)?;
    SwitchScope::parse(named.split('`').next()?)
}

const fn of_code(code: Code) -> Option<&'static str> {
    match code {
        Code::SchemaTooCostly => Some("send smaller params, or a simpler condition"),
        Code::InvalidParams => Some("see the schema with `countersign action show {action}`"),
        Code::DryRunUnsupported => Some("see whether it would be allowed with `countersign explain {action} --as SESSION`"),
        Code::NeedsConfirmation => Some("countersign approve {invocation} --confirm {action}"),
        Code::InvalidPolicy => Some("see what policies can refer to with `countersign policy schema`"),
        Code::NotGrantable => Some("approve this one call with `countersign approve {invocation}`"),
        Code::UnknownAction => Some("list what you may call with `countersign action list`"),
        Code::UnknownSource => Some("list those that were added with `countersign source list`, and all with `countersign action list`"),
        Code::SourceTaken => Some("choose another name; `countersign source list` and `countersign package list` show those there are"),
        Code::TooManySources => Some("remove one with `countersign source remove NAME`, or ask an operator to raise `max_sources`"),
        Code::NoRollback => Some("set R3, which asks a person; or add --accept-irreversible"),
        Code::SourceChanged => Some("see who changed it with `countersign source show {source}`, then do it again"),
        Code::ConnectionInUse => Some("see what uses it with `countersign source list`, then change that with `countersign source edit`"),
        Code::PackageInUse => Some("remove the sources that use it first, with `countersign source remove {source}`"),
        Code::DefinitionInvalid => Some("each mistake says what to try; check the file with `countersign automation validate -f FILE`"),
        Code::DraftFlags => {
            Some("read each flag with `countersign automation draft show DRAFT`, then save it with `--accept PLACE` for each")
        }
        Code::InputsInvalid => Some("see what it asks for in `inputs` with `countersign automation export AUTOMATION`"),
        Code::SaveNeedsPerson => Some("a person has to do this; a draft is saved with `countersign automation draft save DRAFT`"),
        Code::TooManyAutomations => Some("archive those that nobody needs with `countersign automation archive AUTOMATION`"),
        Code::TooManyDrafts => {
            Some("drop those that nobody saves with `countersign automation draft drop DRAFT`, or have a person save them")
        }
        Code::AutomationPaused => Some("resume it with `countersign automation resume AUTOMATION`"),
        Code::TriggerDisabled => Some("enable it with `countersign trigger enable AUTOMATION TRIGGER`"),
        Code::AutomationArchived => {
            Some("save its definition anew: `countersign automation export AUTOMATION > FILE`, then `automation apply -f FILE`")
        }
        Code::AutomationChanged => {
            Some("see how yours differs with `countersign automation diff -f FILE`, then decide whether to apply it")
        }
        Code::RerunRefused => Some("see its steps with `countersign run show RUN`, or run all of it again"),
        Code::ArtifactQuarantined => Some("see who put it there with `countersign artifact show ARTIFACT`"),
        Code::UnknownSession | Code::SessionEnded => Some("create one with `countersign session create`"),
        Code::Rejected
        | Code::Consumed
        | Code::AlreadyEnded
        | Code::NotInDoubt
        | Code::ArgsMismatch
        | Code::PolicyMismatch
        | Code::TupleMismatch
        | Code::Expired => Some("see its state with `countersign show {invocation}`"),
        Code::DefinitionMismatch => Some("look at it again with `countersign action review {action}`"),
        Code::Reconciling => Some("see whether it is known by now with `countersign show {invocation}`"),
        Code::NotRevertible => Some("see what it did with `countersign show {invocation}`"),
        Code::AlreadyReverted => Some("see what reverted it with `countersign show {invocation}`"),
        Code::CannotRun => Some("correct that and approve it again, or deny it with `countersign deny {invocation}`"),
        Code::Stopped => Some("see which switches are on with `countersign kill-switch list`"),
        Code::ApproverTooNew | Code::ApprovalUnproven | Code::AlreadyApproved => {
            Some("see who approved it with `countersign show {invocation}`")
        }
        Code::QuarantineSettled => Some("see what is held with `countersign quarantine list`"),
        Code::GrantEnded => Some("see them with `countersign grant list`"),
        Code::LastOwner => Some("make someone else an owner first, or another token with `countersign token create`"),
        Code::SecretChanged => Some("see who changed it with `countersign secret list`, then decide whether to replace it"),
        Code::SecretInUse => Some("see what uses it with `countersign secret used-by {secret}`"),
        Code::MasterKeyChanging => Some("wait until it has ended"),
        Code::MasterKeyUnready => Some("correct that, for every server on this database, then try again"),
        Code::ConnectionNotReady => Some("an admin logs in with `countersign connection login {connection}`"),
        Code::ConnectionNotAllowed => Some("see what each connection is for with `countersign connection list`"),
        Code::SlackSignatureInvalid => Some("see that the channel has the signing secret of the app: `countersign channel show NAME`"),
        Code::SlackRequestExpired | Code::SlackRequestReplayed => Some("press the button again, if there is still something to answer"),
        Code::SlackUserUnknown => {
            Some("an admin names the person in the channel, and the person makes the token with `countersign token create`")
        }
        Code::SignInRefused => Some("ask whoever runs the server which group of the issuer gives a role, then sign in again"),
        Code::LoginFailed => Some("correct that, then log in again with `countersign connection login {connection}`"),
        Code::ConnectionUnreachable => Some(
            "see whether its server runs; `countersign connection show {connection}` has the address: one with a wrong address is removed and added \
             again",
        ),
        Code::TooManyPending => Some("see what is pending with `countersign inbox`"),
        Code::TooManyStreams => Some("close streams that nobody reads, then do it again"),
        Code::FileNotFound | Code::NotARegularFile => Some("see what is there with `countersign action invoke files.list`"),
        Code::DocumentNotFound => Some("see what there is with `countersign action invoke documents.search`"),
        Code::PathOutsideWorkspace | Code::PathNotAllowed => Some(
            "name files relative to the workspace, such as `notes/today.md`; see what is there with `countersign action invoke files.list`",
        ),
        Code::UrlNotAllowed => Some("correct the URL as the error says"),
        Code::OutcomeUnrecorded => Some("read it with `countersign show {invocation}` once the store is back"),
        Code::PackageFindings => Some("read each place in its file; then install it with `--accept-findings`, which says that you did"),
        Code::RulesChanging => Some("do it again: nothing was done"),
        Code::StoreUnavailable => Some("look at `countersign doctor` and the server's log"),
        Code::NotAMember => Some("see who is one with `countersign space member list`, or become one with `countersign space member add`"),
        Code::Forbidden => Some("see what this token may do with `countersign whoami`, or ask an admin"),
        Code::MalformedJson
        | Code::InvalidRequest
        | Code::InvalidQuery
        | Code::InvalidScope
        | Code::CommandNotAllowed
        | Code::InvalidBatch
        | Code::Unauthenticated
        | Code::TokenExpired
        | Code::TokenRevoked
        | Code::LoginChanged
        | Code::MayNotApprove
        | Code::SelfApproval
        | Code::NotYourSession
        | Code::DeniedByPolicy
        | Code::Quarantined
        | Code::DeniedByPerson
        | Code::PackageInvalid
        | Code::ApprovalVoid
        | Code::UnknownRoute
        | Code::MethodNotAllowed
        | Code::NotFound
        | Code::RequestTimeout
        | Code::IdempotencyConflict
        | Code::IdempotencyKeyReused
        | Code::SignatureInvalid
        | Code::IdempotencyInFlight
        | Code::InDoubt
        | Code::NameTaken
        | Code::BodyTooLarge
        | Code::UnsupportedMediaType
        | Code::RateLimited
        | Code::NotUtf8
        | Code::FileTooLarge
        | Code::HardLinkRefused
        | Code::ContentChanged
        | Code::OutsideScope
        | Code::ScopeTooFine
        | Code::HostNotAllowed
        | Code::AddressNotAllowed
        | Code::HeaderNotAllowed
        | Code::PackageCodeDisabled
        | Code::PackageNetworkNotAllowed
        | Code::PackageCommandNotAllowed
        | Code::PackageChanged
        | Code::WorkspaceElsewhere
        | Code::ActionFailed
        | Code::Internal
        | Code::SourceFailed
        | Code::OrgDisabled
        | Code::SourceUnavailable => None,
    }
}

/// What refused the call decides who can allow it, and how.
fn of_denial(invocation: &InvocationView) -> Option<&'static str> {
    let decision = &invocation.decision;
    match invocation.error.as_ref()?.code.as_str() {
        "stopped" => Some(
            "see which switch is on with `countersign kill-switch list`; an admin ends it with `countersign kill-switch off org`, or what \
             it names in place of `org`",
        ),
        "breaker_open" => Some("see the state of its target with `countersign breaker list`"),
        "denied_by_mode" if decision.mode != Mode::Deny => {
            Some("an admin can change the mode of the action it names; see `countersign mode list`")
        }
        "denied_by_mode" if decision.base != Mode::Deny => match decision.tightened_by.last()? {
            TightenedBy::Band => Some("an admin can set a less strict band for the space with `countersign space band`"),
            TightenedBy::Drift => Some("an admin looks at what changed with `countersign action review {action}`"),
            TightenedBy::DangerIsNeverAllowed | TightenedBy::PackageNeverUnattended | TightenedBy::Gate | TightenedBy::Stopped => None,
        },
        "denied_by_mode" => Some(match decision.source {
            ModeSource::AutomationOverride => {
                "an admin can remove the mode: `countersign mode unset {action} --automation ID`; `countersign mode list` names it"
            }
            ModeSource::OrgDefault => "an admin can remove the mode: `countersign mode unset {action}`; see `countersign mode list`",
            ModeSource::InferredDefault => "an admin can let a person decide: `countersign mode set {action} require_approval`",
        }),
        _ => None,
    }
}

/// The row with what the problem is about; `None` where it names what the problem has not.
fn filled(row: &str, problem: &Problem) -> Option<String> {
    let named = problem.invocation.as_deref();
    let invocation = named.map(|named| &named.id).or(problem.invocation_id.as_ref());
    let action = named.map(|named| &named.action).or(problem.action.as_ref());
    let mut hint = row.to_owned();
    for (mark, value) in [("{invocation}", invocation), ("{action}", action)] {
        if hint.contains(mark) {
            hint = hint.replace(mark, value?);
        }
    }
    for (mark, noun) in [("{source}", "source"), ("{connection}", "connection"), ("{secret}", "secret")] {
        hint = hint.replace(mark, named_after(noun, &problem.detail).unwrap_or("NAME"));
    }
    Some(hint)
}

/// The hint with the ids that the request was about, in place of the words that stand for them.
pub(crate) fn named(hint: &str, path: &[&str]) -> String {
    const STANDS_FOR: [(&str, &str); 4] = [("aut_", "AUTOMATION"), ("run_", "RUN"), ("drf_", "DRAFT"), ("art_", "ARTIFACT")];
    STANDS_FOR.into_iter().fold(hint.to_owned(), |hint, (kind, word)| {
        let is_id = |part: &&&str| part.strip_prefix(kind).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        path.iter().find(is_id).map_or_else(|| hint.clone(), |id| hint.replace(word, id))
    })
}

/// The name that a sentence has after a noun: `crm` of "it is used by source `crm`".
fn named_after<'a>(noun: &str, sentence: &'a str) -> Option<&'a str> {
    let (_, rest) = sentence.split_once(&format!("{noun} `"))?;
    let (name, _) = rest.split_once('`')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (!name.is_empty() && name.bytes().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(problem: &Problem, expected: Option<&str>) {
        assert_eq!(hint_of(problem).as_deref(), expected);
    }

    #[test]
    fn the_command_line_has_hints_of_its_own_and_shows_none_that_speak_of_http() {
        let mut limited = Problem::new(Code::RateLimited, "too often");
        limited.retry_after_ms = Some(58_470);
        check(&limited, Some("wait 59 seconds and do it again: nothing was done"));
        let mut unknown = Problem::new(Code::UnknownAction, "there is no action `files.lst`");
        check(&unknown, Some("list what you may call with `countersign action list`"));
        unknown.suggestions = vec!["files.list".into()];
        check(&unknown, Some("did you mean `files.list`? all of them: countersign action list"));
        check(&Problem::new(Code::NotFound, "there is no grant `x`"), Some("list them with `countersign grant list`"));
        check(
            &Problem::new(Code::NotFound, "there is no quarantined invocation `x`"),
            Some("list them with `countersign quarantine list`"),
        );
        check(&Problem::new(Code::NotFound, "invocation `x` is not quarantined"), Some("list them with `countersign quarantine list`"));
        check(&Problem::new(Code::NotFound, "there is no invocation `x`"), Some("list them with `countersign invocation list`"));
        check(&Problem::new(Code::NotFound, "there is no breaker `x`"), None);
        check(&Problem::new(Code::NotFound, "there is no draft `x`"), Some("list them with `countersign automation draft list`"));
        check(&Problem::new(Code::NotFound, "there is no event group `x`"), Some("list them with `countersign event group list`"));
        check(&Problem::new(Code::InvalidRequest, "there is no run `x`"), None);
        check(&Problem::new(Code::InvalidRequest, "no").hint("the API is described at `GET /api/v1/openapi.json`"), None);
        check(&Problem::new(Code::InvalidRequest, "no").hint("give `role`"), Some("give `role`"));
        check(&Problem::new(Code::DeniedByPerson, "no").about("inv_1"), Some("countersign explain inv_1"));
        let mut unrecorded = Problem::new(Code::OutcomeUnrecorded, "it may have begun").hint("read it with `GET /api/v1/batches/bat_1`");
        check(&unrecorded, None);
        unrecorded.batch_id = Some("bat_1".into());
        check(&unrecorded, Some("read it with `countersign batch show bat_1`"));
        check(&Problem::new(Code::NotFound, "there is no package `x`"), Some("list them with `countersign package list`"));
        check(
            &Problem::new(Code::NotFound, "there is no secret `pager-key`"),
            Some("list them with `countersign secret list`, or keep it with `countersign secret set pager-key --stdin`"),
        );
        let no_host = "`http://127.0.0.1:9911` is not allowed, because no host is: an operator can list it in `source_allowed_hosts`";
        check(&Problem::new(Code::InvalidRequest, no_host), Some(ALLOW_HOST));
        // A row that names what the problem has not is no hint.
        check(&Problem::new(Code::CannotRun, "no"), None);
        check(
            &Problem::new(Code::CannotRun, "no").about("inv_1"),
            Some("correct that and approve it again, or deny it with `countersign deny inv_1`"),
        );
    }

    #[test]
    fn an_agent_is_told_of_its_own_commands() {
        let told = |problem: &Problem| hint_for_agent(problem).unwrap();
        let mut invalid = Problem::new(Code::InvalidParams, "the params do not fit");
        assert_eq!(told(&invalid), "see its schema with `countersign actions list --integration SOURCE --json`");
        invalid.action = Some("files.read_text".into());
        assert_eq!(told(&invalid), "see its schema with `countersign actions list --integration files --json`");
        let mut unknown = Problem::new(Code::UnknownAction, "there is no action `files.lst`");
        unknown.suggestions = vec!["files.list".into()];
        assert_eq!(told(&unknown), "did you mean `--integration files --action list`? all of them: countersign actions list");
        assert_eq!(told(&Problem::new(Code::RulesChanging, "no")), "do it again: nothing was done");
        for (code, row) in FOR_AGENTS {
            for others in ["approve", "action ", "grant ", "source list", "quarantine show", "inbox"] {
                assert!(!row.contains(&format!("countersign {others}")), "{code:?}: {row}");
            }
        }
    }

    #[test]
    fn a_hint_names_what_the_problem_names() {
        let in_use = "secret `crm-token` is used by source `crm`; nothing was deleted";
        check(&Problem::new(Code::SecretInUse, in_use), Some("see what uses it with `countersign secret used-by crm-token`"));
        let in_use = "package `crm-server` is used by source `crm`; nothing was removed";
        let remove = "remove the sources that use it first, with `countersign source remove crm`";
        check(&Problem::new(Code::PackageInUse, in_use), Some(remove));
        let log_in = |name: &str| format!("an admin logs in with `countersign connection login {name}`");
        for (detail, name) in [("connection `linear` needs a login", "linear"), ("connection `a b` is odd", "NAME"), ("log in", "NAME")] {
            check(&Problem::new(Code::ConnectionNotReady, detail), Some(&log_in(name)));
        }
    }

    #[test]
    fn a_hint_names_what_was_asked_for() {
        let hint = of_code(Code::RerunRefused).unwrap();
        let told = named(hint, &["runs", "run_1a", "rerun"]);
        assert_eq!(told, "see its steps with `countersign run show run_1a`, or run all of it again");
        for other in [["runs", "RUN", "rerun"], ["runs", "run_$(ls)", "rerun"], ["automations", "aut_1", "run"]] {
            assert_eq!(named(hint, &other), hint);
        }
    }

    #[test]
    fn what_a_kill_switch_stopped_is_let_through_by_ending_that_one() {
        let stopped = |scope: &str| Problem::new(Code::Stopped, format!("a kill switch on `{scope}` is on (“odd”); nothing was asked"));
        check(&stopped("source:kit"), Some("an admin ends it with `countersign source resume kit`"));
        check(&stopped("org"), Some("an admin ends it with `countersign kill-switch off org`"));
        check(&stopped("$(rm -r .)"), Some("see which switches are on with `countersign kill-switch list`"));
        let mut denied = Problem::new(Code::DeniedByPolicy, "`kit.look` did not happen: a kill switch on `source:kit` is on: nothing runs");
        denied.error = Some("stopped".into());
        check(&denied, Some("an admin ends it with `countersign source resume kit`"));
    }

    #[test]
    fn a_credential_belongs_into_a_connection_and_not_into_a_url() {
        for detail in ["the URL may not carry a user or a password", "the address has no query: it could be a credential"] {
            check(&Problem::new(Code::UrlNotAllowed, detail), Some(CREDENTIAL_IN_URL));
        }
        let other = Problem::new(Code::UrlNotAllowed, "the URL has no host").hint("use the spelling that `detail` gives");
        check(&other, Some("correct the URL as the error says"));
    }
}
