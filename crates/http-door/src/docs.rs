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

/// Each page by its path; `build.rs` lists them.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/docs.rs"));

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
