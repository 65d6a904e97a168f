//! `countersign doctor`: looks for problems on this machine and at the server, and says how to fix them. It fails only if something is
//! broken.

mod here;
mod there;

use super::serve::ServerFlags;
use crate::shared::*;
use crate::style::hang;
use clap::Args;
use serde_json::json;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign doctor
  countersign doctor --verbose                              every check
  countersign doctor --data /var/lib/countersign";

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    server: ServerFlags,
    /// Show every check; else checks that pass share a line
    #[arg(short, long)]
    verbose: bool,
}

/// The column at which the text of a finding starts, after its verdict and subject.
const INDENT: usize = 24;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Look,
    Broken,
}

/// The result of one check.
#[derive(Clone, Debug)]
struct Finding {
    subject: &'static str,
    verdict: Verdict,
    found: String,
    fix: Option<String>,
}

impl Doctor {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        let config = self.server.load(&setting);
        let mut findings = here::check(config.as_ref(), setting.environment);
        let listen = config.as_ref().ok().map(|config| config.listen.as_str());
        match setting.client() {
            Ok(client) => findings.extend(there::check(&client, listen, setting.terminal.now()).await),
            Err(failure) => findings.push(Finding::broken("server", failure.message).fix(failure.hint.unwrap_or_default())),
        }
        tell(&findings, self.verbose, setting.terminal)?;
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

    /// The command that fixes the problem.
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

/// The subjects of findings, in groups for the short report.
const GROUPS: &[(&str, &[&str])] = &[
    ("installation", &["version", "settings", "contexts"]),
    ("data", &["data folder", "master key", "owner token", "disk", "workspace"]),
    ("sandbox", &["sandbox", "interpreter"]),
    ("server", &["server", "clock", "token", "versions", "code"]),
    ("store", &["store", "servers", "receipts", "in doubt", "inbox", "runs", "dead letters"]),
    ("sources", &["source", "package", "connection"]),
    ("people", &["space", "channel"]),
];

/// The short report: one line for each group for the findings that are fine, and every other finding in full. Where something is not fine,
/// that comes first, so that no line says that all is well above it.
fn in_short(findings: &[Finding]) -> Vec<Finding> {
    let mut short = Vec::new();
    let group_of = |finding: &Finding| GROUPS.iter().position(|(_, subjects)| subjects.contains(&finding.subject));
    let is_dull = |finding: &Finding| finding.verdict == Verdict::Ok && finding.fix.is_none();
    for (at, (name, _)) in GROUPS.iter().enumerate() {
        let group = findings.iter().filter(|finding| group_of(finding) == Some(at));
        let (well, telling): (Vec<_>, Vec<_>) = group.partition(|finding| is_dull(finding));
        let mut subjects: Vec<_> = well.iter().map(|finding| finding.subject).collect();
        subjects.dedup();
        let is_all_well = telling.iter().all(|finding| finding.verdict == Verdict::Ok);
        let others = if is_all_well { "" } else { "the others: " };
        let in_one = (!subjects.is_empty()).then(|| Finding::ok(name, format!("{others}{} ({} checked)", subjects.join(", "), well.len())));
        let telling = telling.into_iter().cloned();
        if is_all_well {
            short.extend(in_one.into_iter().chain(telling));
        } else {
            short.extend(telling.chain(in_one));
        }
    }
    short.extend(findings.iter().filter(|finding| group_of(finding).is_none()).cloned());
    short
}

fn tell(findings: &[Finding], verbose: bool, terminal: &mut Terminal) -> Result<(), Failure> {
    if terminal.is_document() {
        let item = |finding: &Finding| json!({ "subject": finding.subject, "verdict": finding.verdict.word(), "found": finding.found, "fix": finding.fix });
        return terminal.document(&json!({ "items": findings.iter().map(item).collect::<Vec<_>>(), "next": null }));
    }
    let short = if verbose { findings.to_vec() } else { in_short(findings) };
    for finding in &short {
        let (symbol, tone) = finding.verdict.look();
        let word = tone.paint(format!("{symbol} {:6}", finding.verdict.word()));
        let columns = terminal.columns();
        let found = hang(&clean::line(&finding.found), INDENT, columns);
        terminal.line(format!("{word}  {:13} {found}", finding.subject))?;
        if let Some(fix) = &finding.fix {
            terminal.line(format!("{:INDENT$}{}", "", Tone::Primary.paint(hang(&clean::line(fix), INDENT, columns))))?;
        }
    }
    if !verbose {
        terminal.next("countersign doctor --verbose");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_well_is_one_line_and_what_is_not_is_told_in_full() {
        let findings = [
            Finding::ok("version", "1"),
            Finding::ok("settings", "they read well"),
            Finding::ok("sandbox", "one"),
            Finding::look("sandbox", "two").fix("mend it"),
            Finding::ok("sandbox", "three"),
            Finding::ok("inbox", "3 wait").fix("countersign inbox"),
            Finding::broken("something new", "it is broken"),
        ];
        let short: Vec<_> = in_short(&findings).into_iter().map(|finding| format!("{}: {}", finding.subject, finding.found)).collect();
        let expected = [
            "installation: version, settings (2 checked)",
            "sandbox: two",
            "sandbox: the others: sandbox (2 checked)",
            "inbox: 3 wait",
            "something new: it is broken",
        ];
        assert_eq!(short, expected);
    }
}
