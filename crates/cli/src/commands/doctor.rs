//! Looks for what is wrong, here and at the server, and says what mends it. Only what is broken makes it fail.

mod here;
mod there;

use super::Setting;
use super::serve::ServerFlags;
use crate::exit::{Exit, Failure};
use crate::output::Terminal;
use crate::style::{Tone, clean};
use clap::Args;
use serde_json::json;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign doctor
  countersign doctor --data /var/lib/countersign";

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    server: ServerFlags,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Look,
    Broken,
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
struct Finding {
    subject: &'static str,
    verdict: Verdict,
    found: String,
    fix: Option<String>,
}

impl Doctor {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        let mut findings = here::check(self.server, setting.environment);
        match setting.client() {
            Ok(client) => findings.extend(there::check(&client, setting.terminal.now()).await),
            Err(failure) => findings.push(Finding::broken("server", failure.message).fix(failure.hint.unwrap_or_default())),
        }
        tell(&findings, setting.terminal)?;
        let broken = findings.iter().any(|finding| finding.verdict == Verdict::Broken);
        Ok(if broken { Exit::Failed } else { Exit::Ok })
    }
}

impl Finding {
    fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Ok, found: found.into(), fix: None }
    }

    fn look(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Look, found: found.into(), fix: None }
    }

    fn broken(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Broken, found: found.into(), fix: None }
    }

    /// The command that mends it.
    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        self
    }
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Look => "look",
            Self::Broken => "broken",
        }
    }

    const fn look(self) -> (&'static str, Tone) {
        match self {
            Self::Ok => ("✓", Tone::Ok),
            Self::Look => ("!", Tone::Warn),
            Self::Broken => ("✗", Tone::Danger),
        }
    }
}

fn tell(findings: &[Finding], terminal: &mut Terminal) -> Result<(), Failure> {
    if terminal.is_document() {
        let item = |finding: &Finding| json!({ "subject": finding.subject, "verdict": finding.verdict.word(), "found": finding.found, "fix": finding.fix });
        return terminal.document(&json!({ "items": findings.iter().map(item).collect::<Vec<_>>(), "next": null }));
    }
    for finding in findings {
        let (symbol, tone) = finding.verdict.look();
        let word = tone.paint(format!("{symbol} {:6}", finding.verdict.word()));
        terminal.line(format!("{word}  {:13} {}", finding.subject, clean::line(&finding.found)))?;
        if let Some(fix) = &finding.fix {
            terminal.line(format!("{:24}{}", "", Tone::Primary.paint(clean::line(fix))))?;
        }
    }
    Ok(())
}
