//! Serves the pages of `docs/` that are not about one error code, as of this build, so that links on error pages work.

/// By the path below `docs/`, without `.md`.
pub(super) fn find(path: &str) -> Option<&'static str> {
    PAGES.iter().find(|(name, _)| *name == path).map(|(_, text)| *text)
}

/// Whether the page on what goes wrong inside an invocation tells of this code.
pub(super) fn is_invocation_error(code: &str) -> bool {
    let quoted = format!("`{code}`");
    find("errors/invocation-errors").is_some_and(|page| {
        // The first cell of a row names the codes the row is about.
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).any(|cell| cell.split(", ").any(|name| name == quoted))
    })
}

macro_rules! pages {
    ($($name:literal),+ $(,)?) => {
        const PAGES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../docs/", $name, ".md")))),+];
    };
}

pages![
    "README",
    "benchmarks",
    "benchmarks-method",
    "concepts/approvals",
    "concepts/artifacts",
    "concepts/batches",
    "concepts/bundle-format",
    "concepts/connections",
    "concepts/decision-table",
    "concepts/definitions",
    "concepts/documents",
    "concepts/drift",
    "concepts/effects",
    "concepts/events",
    "concepts/files-and-http",
    "concepts/filters",
    "concepts/grants",
    "concepts/idempotency",
    "concepts/identity",
    "concepts/invocation",
    "concepts/kill-switch",
    "concepts/live-stream",
    "concepts/modes-and-decisions",
    "concepts/observe",
    "concepts/packages",
    "concepts/policies",
    "concepts/receipts",
    "concepts/redaction",
    "concepts/safety-checks",
    "concepts/sandbox",
    "concepts/schedules",
    "concepts/secrets",
    "concepts/sources",
    "concepts/storage",
    "concepts/templates",
    "concepts/words-of-older-contracts",
    "conformance",
    "decisions/0001-record-decisions",
    "decisions/0002-one-writer-group-commit",
    "decisions/0003-receipt-crate",
    "decisions/0004-own-limiter",
    "decisions/0005-canonical-json",
    "decisions/0006-remembered-reads",
    "decisions/0007-one-version-of-the-rules",
    "decisions/0008-cedar-for-policies",
    "decisions/0009-a-jail-of-our-own",
    "decisions/0010-batches",
    "decisions/0011-leases",
    "decisions/0012-one-bell",
    "decisions/0013-sign-in-without-a-jose-library",
    "decisions/0014-one-log-of-events",
    "decisions/0015-artifacts-beside-the-database",
    "decisions/0016-leases-of-runs",
    "decisions/0017-rights-of-automations",
    "decisions/0018-jsonpath-of-bounded-work",
    "decisions/0019-consent-to-class-high",
    "decisions/0020-a-network-for-unmodified-programs",
    "decisions/0021-what-a-call-costs",
    "glossary",
    "guides/agents",
    "guides/automations",
    "guides/clients",
    "guides/command-line",
    "guides/configuration",
    "guides/first-call",
    "guides/generated-clients",
    "guides/mcp-door",
    "guides/mcp-servers",
    "guides/mcp-servers-tried",
    "guides/notifications",
    "guides/notifications-email",
    "guides/notifications-slack",
    "guides/packages",
    "guides/permission",
    "guides/runbook",
    "guides/web-ui",
    "security",
    "tests",
    "errors/README",
    "errors/invocation-errors",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guides_have_the_programs_that_are_tested() {
        for (guide, program) in [
            ("guides/generated-clients", include_str!("../../../clients/generated/program.ts")),
            ("guides/generated-clients", include_str!("../../../clients/generated/program.py")),
            ("guides/clients", include_str!("../../../clients/typescript/journey.ts")),
            ("guides/clients", include_str!("../../../clients/python/journey.py")),
        ] {
            assert!(find(guide).unwrap().contains(program), "{guide}: {program}");
        }
    }

    #[test]
    fn what_goes_wrong_inside_an_invocation_is_found_by_its_code() {
        for code in ["host_not_allowed", "path_outside_workspace", "package_killed", "evidence_unreadable", "denied_by_mode"] {
            assert!(is_invocation_error(code), "{code}");
        }
        for none in ["", "code", "nonsense", "denied", "host_not_allowed`", "title"] {
            assert!(!is_invocation_error(none), "{none}");
        }
    }
}
