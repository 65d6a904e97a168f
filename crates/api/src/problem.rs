//! Problems: RFC 9457 bodies with a stable code. The codes and the next steps are in `codes.rs`.

use crate::automation::MistakeView;
use crate::codes::{Code, NextStep, Voice};
use crate::invocation::InvocationView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error as RFC 9457 describes it, with a stable code and what to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A reference to the code's page.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub code: Code,
    /// What happened this time, and whether retrying is safe.
    pub detail: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The same for programs.
    #[serde(default, deserialize_with = "known_step", skip_serializing_if = "Option::is_none")]
    pub next: Option<NextStep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    /// The batch that the problem is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
    /// The action it is about, where there is no invocation yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Finds the log lines of this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Everything that is wrong with the params, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Everything that is wrong with a definition or with the inputs of a run, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<MistakeView>,
    /// Names that are like the one that does not exist, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<String>,
    /// Milliseconds to wait before trying again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The invocation that ended this way; it has a receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<Box<InvocationView>>,
    /// The code of what refused or failed it, such as `denied_by_mode` or `file_not_found`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// RFC 6901. In a file: from the root of what it holds.
    pub pointer: String,
    pub message: String,
    /// The file it is about, where it is about one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where in a text, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl FieldError {
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), ..Self::default() }
    }
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/docs/errors/{}", code.as_str()),
            title: code.title().into(),
            status: code.status(),
            code,
            detail: detail.into(),
            hint: None,
            next: None,
            invocation_id: None,
            batch_id: None,
            action: None,
            trace_id: None,
            errors: Vec::new(),
            mistakes: Vec::new(),
            suggestions: Vec::new(),
            retry_after_ms: None,
            invocation: None,
            error: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do next: the step it was given, else that of its code, about what the problem is about. A problem that was given words alone has
    /// none.
    pub fn next_step(&self) -> Option<NextStep> {
        let of_code = || self.code.step().filter(|_| self.hint.is_none()).map(NextStep::new);
        let mut next = self.next.clone().or_else(of_code)?;
        let named = self.invocation.as_deref();
        for (what, known) in [
            ("invocation", self.invocation_id.as_ref()),
            ("action", named.map(|named| &named.action).or(self.action.as_ref())),
            ("space", named.map(|named| &named.space_id)),
            ("connection", named.and_then(|named| named.connection_id.as_ref())),
        ] {
            if let Some(known) = known.filter(|_| next.is_about(what) && !next.with.contains_key(what)) {
                next = next.with(what, known);
            }
        }
        // Of a code's step that needs what is not known, nobody could say anything.
        let can_be_said = || [Voice::Http, Voice::Cli].into_iter().any(|voice| next.said(voice).is_some());
        (self.next.is_some() || can_be_said()).then_some(next)
    }

    #[must_use]
    pub fn about(mut self, invocation_id: impl ToString) -> Self {
        self.invocation_id = Some(invocation_id.to_string());
        self
    }
}

/// A server of another version may know further steps; then its hint is all there is.
fn known_step<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<NextStep>, D::Error> {
    serde_json::Value::deserialize(deserializer).map(|value| NextStep::deserialize(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What a call fails with where it is not the call itself that is the cause: its source, its package, its connection or the host.
    const FAILURES_OF_OTHERS: [&str; 44] = [
        "breaker_open",
        "command_not_allowed",
        "disk_full",
        "document_refused",
        "evidence_of_another_call",
        "evidence_unreadable",
        "file_io_failed",
        "http_429",
        "http_502",
        "http_503",
        "http_504",
        "interrupted",
        "listing_invalid",
        "mail_login_refused",
        "mail_not_encrypted",
        "mail_server_missing",
        "not_verified",
        "notification_refused",
        "package_bad_output",
        "package_failed",
        "package_flooded",
        "package_interpreter_missing",
        "package_invalid",
        "package_killed",
        "package_lost",
        "package_may_not_write",
        "package_missing",
        "package_out_of_memory",
        "package_refused",
        "package_stage_refused",
        "package_timed_out",
        "program_missing",
        "result_schema_mismatch",
        "rollback_evidence_missing",
        "sandbox_unavailable",
        "secret_missing",
        "snapshot_lost",
        "source_broke",
        "source_busy",
        "source_refused",
        "source_timed_out",
        "source_unauthorized",
        "source_unreachable",
        "verification_failed",
    ];

    #[test]
    fn only_what_others_caused_is_a_failure_of_the_gateway() {
        let page = include_str!("../../../docs/errors/invocation-errors.md");
        let (_denied, failed) = page.split_once("## From any source").unwrap();
        let cells = failed.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
        let documented: BTreeSet<_> = cells.flat_map(|cell| cell.split(", ").map(|code| code.trim_matches('`'))).collect();
        for code in documented {
            let answered = Code::about_the_call(code);
            assert_eq!(answered.is_none(), FAILURES_OF_OTHERS.contains(&code), "{code}: a new code has to be judged");
            assert!(answered.is_none_or(|code| (400..500).contains(&code.status())), "{code}");
        }
    }
}
