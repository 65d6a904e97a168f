//! What a caller can do next about a call that was denied: what refused it decides who can allow it, and how. Every other step is in
//! `api::codes`, with the words of each door.

use api::{Advice, NextStep};
use countersign_core::decision::{ModeSource, Reason};
use countersign_core::switch::SwitchScope;
use countersign_core::{Invocation, Mode};

/// The step about the invocation, where it is not that of its code.
pub(super) fn of_denial(invocation: &Invocation) -> Option<NextStep> {
    let decision = &invocation.decision;
    let step = match invocation.failure.as_ref()?.code.as_str() {
        "stopped" => return decision.tightened.iter().find_map(of_reason),
        "breaker_open" => Advice::ListBreakers,
        // A dry run that would show what another action reads: its message names that one.
        "denied_by_mode" if decision.mode != Mode::Deny => Advice::ChangeModeOfRead,
        "denied_by_mode" if decision.base != Mode::Deny => return decision.tightened.last().and_then(of_reason),
        "denied_by_mode" => match decision.source {
            ModeSource::AutomationOverride => Advice::RemoveAutomationMode,
            ModeSource::OrgDefault => Advice::RemoveMode,
            ModeSource::InferredDefault => Advice::SetMode,
        },
        _ => return None,
    };
    Some(NextStep::new(step))
}

fn of_reason(reason: &Reason) -> Option<NextStep> {
    match reason {
        Reason::Stopped { scope } => Some(end_kill_switch(scope)),
        Reason::Band { .. } => Some(NextStep::new(Advice::RelaxBand)),
        Reason::Drift { .. } => Some(NextStep::new(Advice::ReviewAction)),
        Reason::DangerIsNeverAllowed | Reason::PackageNeverUnattended | Reason::Gate { .. } => None,
    }
}

/// Of a source it is its pause that ends.
pub(super) fn end_kill_switch(scope: &SwitchScope) -> NextStep {
    match scope {
        SwitchScope::Source(source) => NextStep::new(Advice::ResumeSource).with("source", source),
        SwitchScope::Org | SwitchScope::Space(_) | SwitchScope::Session(_) | SwitchScope::Action(_) => {
            NextStep::new(Advice::EndKillSwitch).with("scope", scope)
        }
    }
}

#[cfg(test)]
mod tests {
    use api::codes::Voice;
    use api::{Advice, Code, Problem};
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
        for (step, voice, words) in Advice::ALL.iter().flat_map(|step| step.words().iter().map(|(voice, words)| (*step, *voice, *words))) {
            let is_http = voice == Voice::Http;
            assert!(is_http || !words.contains("/api/v1/"), "{words}");
            assert!(step == Advice::AllowHost || !is_http || !words.contains("`countersign "), "{words}");
            for (method, path) in requests(words).filter(|(_, path)| is_http && !path.ends_with("{at}")) {
                let path = path.split('?').next().unwrap();
                assert!(paths[path][method.to_lowercase()].is_object(), "{words}");
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
            let (hint, next) = (problem.hint.take(), problem.next.take());
            if *code == Code::DeniedByPolicy {
                // Its hint is about what denied the call, and the page leaves the invocation out.
                assert!(hint.is_some() && next.is_some());
            } else {
                let step = problem.next_step();
                assert_eq!(hint, step.as_ref().and_then(|step| step.said(Voice::Http)), "`docs/errors/{}.md`", code.as_str());
                assert_eq!(next, step, "`docs/errors/{}.md`", code.as_str());
            }
        }
    }
}
