//! What a caller can do next, in the words of HTTP: one row for each code. The command line has a table of its own.
//! `{invocation}`, `{action}` and `{space}` stand for those the problem is about.

use api::invocation::{InvocationView, TightenedBy};
use api::{Code, Problem};
use countersign_core::Mode;
use countersign_core::decision::ModeSource;

const DESCRIPTION: &str = "the API is described at `GET /api/v1/openapi.json`";
pub(super) const LIST_ACTIONS: &str =
    "list the actions with `GET /api/v1/actions`; an agent lists its own at `actions/available` of its session";
const CREATE_SESSION: &str = "create one with `POST /api/v1/sessions`; an agent asks a person to";
const READ_IT: &str = "read it with `GET /api/v1/invocations/{invocation}`";
const ASK_ANOTHER: &str = "another approver has to answer it";
const LIST_FILES: &str = "see what is there: invoke `files.list`";

/// The hint of a problem that has none of its own. A row that names what the problem has not is left out.
pub(super) fn hint_of(problem: &Problem) -> Option<String> {
    let named = problem.invocation.as_deref();
    let row = named.and_then(of_denial).or_else(|| of_code(problem.code))?;
    let mut hint = row.to_owned();
    for (mark, value) in [
        ("{invocation}", problem.invocation_id.as_deref()),
        ("{action}", named.map(|named| named.action.as_str()).or(problem.action.as_deref())),
        ("{space}", named.map(|named| named.space_id.as_str())),
    ] {
        if hint.contains(mark) {
            hint = hint.replace(mark, value?);
        }
    }
    Some(hint)
}

const fn of_code(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::MalformedJson | Code::InvalidRequest | Code::InvalidQuery | Code::UnknownRoute | Code::MethodNotAllowed => DESCRIPTION,
        Code::SchemaTooCostly => "send smaller params, or a simpler condition",
        Code::InvalidParams => "see `params_schema` of the action: `GET /api/v1/actions/{action}`",
        Code::InvalidScope => "name files and folders relative to the workspace, such as `src` or `src/**`",
        Code::CommandNotAllowed => "use a command that is allowed, or ask an operator to allow this one",
        Code::InvalidBatch => "put it last, make it a call of its own, or ask for `best_effort`",
        Code::DryRunUnsupported => "ask whether the call would be allowed with `POST /api/v1/explain`",
        Code::Unauthenticated | Code::TokenExpired | Code::TokenRevoked => "send `authorization: Bearer <token>` with a valid token",
        Code::OrgDisabled => "ask an operator of the server",
        Code::Forbidden => "see what the token may do with `GET /api/v1/whoami`",
        Code::LoginChanged => "see who is logged in, then send it again, with the word of `GET /login/word`",
        Code::MayNotApprove | Code::SelfApproval => ASK_ANOTHER,
        Code::NotYourSession => "use the token of the session",
        Code::NotAMember => "see who is one with `GET /api/v1/spaces`, and ask them; an admin can also become one",
        Code::Quarantined => "an approver looks at it with `GET /api/v1/quarantines/{invocation}`",
        Code::InvalidPolicy => "see what policies can refer to with `GET /api/v1/policies/schema`",
        Code::NeedsConfirmation => "approve it by itself, with `\"confirm\": \"{action}\"`",
        Code::NotGrantable => "approve this one call with `POST /api/v1/invocations/{invocation}/approve`",
        Code::UnknownAction | Code::UnknownSource => LIST_ACTIONS,
        Code::UnknownSession | Code::SessionEnded => CREATE_SESSION,
        Code::DeniedByPolicy
        | Code::DeniedByPerson
        | Code::ApprovalVoid
        | Code::Rejected
        | Code::Consumed
        | Code::AlreadyEnded
        | Code::NotInDoubt
        | Code::Reconciling
        | Code::NotRevertible
        | Code::AlreadyReverted
        | Code::ArgsMismatch
        | Code::DefinitionMismatch
        | Code::PolicyMismatch
        | Code::TupleMismatch
        | Code::AlreadyApproved
        | Code::ApproverTooNew
        | Code::ApprovalUnproven
        | Code::IdempotencyInFlight
        | Code::InDoubt
        | Code::Expired
        | Code::ActionFailed
        | Code::SourceFailed
        | Code::OutcomeUnrecorded => READ_IT,
        Code::CannotRun => "correct the cause and approve it again, or deny it with `POST /api/v1/invocations/{invocation}/deny`",
        Code::Stopped => "a person sees which kill switches are on with `GET /api/v1/kill-switches`",
        Code::QuarantineSettled => "see what is held with `GET /api/v1/quarantines`",
        Code::GrantEnded => "see the grants with `GET /api/v1/grants`",
        Code::IdempotencyConflict => "use a new key for a new call",
        Code::IdempotencyKeyReused => "use a new key for a new request",
        Code::DefinitionInvalid => "each of `mistakes` says what to try; the form of a definition is at `GET /api/v1/schemas/automation`",
        Code::DraftFlags => "read each of `mistakes`; then save it with their places in `accept`, such as `[\"/plan/0/action\"]`",
        Code::InputsInvalid => "see what the definition asks for in `inputs`: `GET /api/v1/automations/{automation}`",
        Code::SignatureInvalid => "sign `id.timestamp.body` with the secret that the webhook names, as Standard Webhooks specifies it",
        Code::SaveNeedsPerson => "a person has to do this; a draft is saved with `POST /api/v1/automation-drafts/{draft}/save`",
        Code::TooManyAutomations => "archive those that nobody needs with `POST /api/v1/automations/{automation}/archive`",
        Code::TooManyDrafts => "drop those that nobody saves with `DELETE /api/v1/automation-drafts/{draft}`, or have a person save them",
        Code::AutomationPaused => "a person resumes it with `POST /api/v1/automations/{automation}/resume`",
        Code::TriggerDisabled => "a person enables it with `POST /api/v1/automations/{automation}/triggers/{trigger}/enable`",
        Code::AutomationArchived => "save its definition as a new automation: `GET /api/v1/automations/{automation}/export` has it",
        Code::RerunRefused => "see its steps with `GET /api/v1/runs/{run}`, or run all of it again",
        Code::ArtifactQuarantined => "see who put it there with `GET /api/v1/artifacts/{artifact}`",
        Code::AutomationChanged => "read it with `GET /api/v1/automations/{automation}`, then decide whether to save yours",
        Code::NameTaken => "choose another name",
        Code::LastOwner => "make someone else an owner first",
        Code::SecretChanged => "see its version with `GET /api/v1/secrets`, then decide whether to replace it",
        Code::SourceTaken => "choose another name; see which are taken with `GET /api/v1/actions`",
        Code::TooManySources => "remove one that nobody needs, or an operator raises `max_sources`",
        Code::NoRollback => "set R3, which asks a person; or say `\"accept_irreversible\": true`",
        Code::SourceChanged => "read it with `GET /api/v1/sources/{source}`, then decide whether to change it",
        Code::SecretInUse => "see what uses it with `GET /api/v1/secrets/{secret}/used-by`",
        Code::ConnectionInUse => "give the sources that `detail` names another connection, or remove them first",
        Code::PackageInUse => "remove the sources that `detail` names first",
        Code::MasterKeyChanging => "see how far it is with `GET /api/v1/keys/master`",
        Code::MasterKeyUnready => "correct that, for every server on this database, then send it again",
        Code::ConnectionNotReady => "an admin logs in with `POST /api/v1/connections/{connection}/login`",
        Code::ConnectionNotAllowed => "see what each connection is for with `GET /api/v1/connections`",
        Code::SlackSignatureInvalid => {
            "see that the channel's `signing_secret` is that of the app, and that its Request URL names this channel"
        }
        Code::SlackRequestExpired => "see that the clocks are right, and press the button again",
        Code::SlackRequestReplayed => "press the button again, if there is still something to answer",
        Code::SlackUserUnknown => {
            "an admin names the person in `users` of the channel, and the person makes the token with `POST /api/v1/tokens`"
        }
        Code::SignInRefused => "ask whoever runs this server which group of the issuer gives a role here, then sign in again",
        Code::LoginFailed => "correct what `detail` says, then start the login again",
        Code::ConnectionUnreachable => "see whether the address is right and its server runs: `GET /api/v1/connections` has the address",
        Code::BodyTooLarge => "send less, or send it in parts",
        Code::UnsupportedMediaType => "send `content-type: application/json`",
        Code::RateLimited => "wait for `retry_after_ms`, then send it again: nothing was done",
        Code::TooManyPending => "ask an approver to answer what is pending",
        Code::TooManyStreams => "close streams that nobody reads, then open it again",
        Code::FileNotFound | Code::NotARegularFile => LIST_FILES,
        Code::DocumentNotFound => "see what there is: invoke `documents.search`",
        Code::PathOutsideWorkspace => {
            "name files relative to the workspace, such as `notes/today.md`; see what is there: invoke `files.list`"
        }
        Code::PathNotAllowed | Code::UrlNotAllowed => "use the spelling that `detail` gives",
        Code::HardLinkRefused => "copy the file, then use the copy",
        Code::ContentChanged => "read the file again, then decide",
        Code::OutsideScope => "widen `scope`, or use another path",
        Code::ScopeTooFine => "allow or forbid a whole folder instead of many files",
        Code::HostNotAllowed => {
            "an operator adds the host, with its scheme and port unless they are https and 443, to `allowed_hosts` under `[http]` in \
             `countersign.toml`, or to COUNTERSIGN_HTTP_ALLOWED_HOSTS"
        }
        Code::AddressNotAllowed => "an operator may list its network in `http.allowed_networks`",
        Code::HeaderNotAllowed => "leave the header out",
        Code::PackageCodeDisabled => "an operator sets `allow_plugin_code_execution = true`",
        Code::PackageNetworkNotAllowed => "an operator adds the host to `package_allowed_hosts`",
        Code::PackageCommandNotAllowed => "an operator adds a rule to `command_allowlist`",
        Code::PackageFindings => "read each place in its file; then install it with `\"accept_findings\": true`, which says that you did",
        Code::PackageChanged => "make the call again",
        Code::WorkspaceElsewhere => "send the request to the server that has the workspace",
        Code::RulesChanging => "send it again: nothing was done",
        Code::StoreUnavailable => "the operator looks at the server's log",
        Code::PackageInvalid
        | Code::NotFound
        | Code::RequestTimeout
        | Code::NotUtf8
        | Code::FileTooLarge
        | Code::SourceUnavailable
        | Code::Internal => return None,
    })
}

/// What refused the call decides who can allow it, and how.
fn of_denial(invocation: &InvocationView) -> Option<&'static str> {
    let decision = &invocation.decision;
    match invocation.error.as_ref()?.code.as_str() {
        "stopped" => Some("an admin sees which kill switch is on with `GET /api/v1/kill-switches`, and ends it"),
        "breaker_open" => Some("a person sees the state of its target with `GET /api/v1/breakers`"),
        // A dry run that would show what another action reads: its message names that one.
        "denied_by_mode" if decision.mode != Mode::Deny => Some("an admin can change the mode of the action that it would read with"),
        "denied_by_mode" if decision.base != Mode::Deny => match decision.tightened_by.last()? {
            TightenedBy::Band => Some("an admin can set a less strict band for the space with `PATCH /api/v1/spaces/{space}`"),
            TightenedBy::Drift => Some("an admin reviews what changed with `POST /api/v1/reviews/{action}`"),
            TightenedBy::DangerIsNeverAllowed | TightenedBy::PackageNeverUnattended | TightenedBy::Gate | TightenedBy::Stopped => None,
        },
        "denied_by_mode" => Some(match decision.source {
            ModeSource::AutomationOverride => {
                "an admin can remove the mode that the automation has for `{action}`; `GET /api/v1/modes` lists it"
            }
            ModeSource::OrgDefault => "an admin can remove the mode with `DELETE /api/v1/modes/{action}`",
            ModeSource::InferredDefault => "an admin can set the mode `require_approval` with `PUT /api/v1/modes/{action}`",
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// `GET /api/v1/x` between backticks, wherever a hint has it.
    fn requests(hint: &str) -> impl Iterator<Item = (&str, &str)> {
        hint.split('`').skip(1).step_by(2).filter_map(|code| code.split_once(' ')).filter(|(_, path)| path.starts_with('/'))
    }

    #[test]
    fn hints_speak_of_http_and_every_request_they_name_exists() {
        let document: Value = serde_json::from_str(&crate::openapi_json()).unwrap();
        let paths = &document["paths"];
        let mut named = 0;
        for hint in Code::ALL.iter().filter_map(|code| of_code(*code)) {
            assert!(!hint.contains("`countersign "), "{hint}");
            for (method, path) in requests(hint) {
                let path = path.split('?').next().unwrap();
                assert!(paths[path][method.to_lowercase()].is_object(), "{hint}");
                named += 1;
            }
        }
        assert!(named > 20, "{named}");
    }

    #[test]
    fn the_example_on_a_page_has_the_hint_that_the_server_gives() {
        for code in Code::ALL {
            let example = code.page().split("```json").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
            assert!(!example.contains("`countersign "), "{example}");
            let mut problem: Problem = serde_json::from_str(example).unwrap();
            let hint = problem.hint.take();
            if *code == Code::DeniedByPolicy {
                // Its hint is about what denied the call, and the page leaves the invocation out.
                assert!(hint.is_some());
            } else {
                assert_eq!(hint, hint_of(&problem), "`docs/errors/{}.md`", code.as_str());
            }
        }
    }
}
