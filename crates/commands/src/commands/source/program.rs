//! `countersign source add NAME -- COMMAND`, by an operator: shows what the program will see and reach, asks once, and allows the command and
//! adds the source in one request.

use crate::commands::allow::{self, Terms};
use crate::shared::*;
use api::Code;
use api::allowed::{AllowedCommand, CommandPlanRequest, CommandPlanView};
use api::source::VariableRequest;
use countersign_core::limits::{INSTALL_SECONDS_MAX, MCP_PROGRAM_OPEN_FILES_DEFAULT, PACKAGE_MEMORY_MB_DEFAULT};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

/// How long packages may take to install, or a program to start and to list its tools.
pub(super) const PATIENCE: Duration = Duration::from_secs(2 * INSTALL_SECONDS_MAX);
const TICK: Duration = Duration::from_secs(1);
/// Whoever does not watch is told less often.
const TOLD_EVERY_SECONDS: u64 = 20;

/// Finds out what the command runs, shows what is to be allowed, and asks. Returns what to send with the source.
pub(super) async fn agreed_to(
    name: &str,
    command: Vec<String>,
    terms: Terms,
    env: &[VariableRequest],
    agreed: Agreed,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<AllowedCommand, Failure> {
    let command: Vec<_> = command.iter().enumerate().map(|(at, word)| standing(at, word)).collect();
    let variables: Vec<_> = env.iter().map(|variable| variable.name.clone()).collect();
    if client.rehearses() {
        return Ok(terms.of(command, variables));
    }
    let typed = allow::words(&command);
    let asked = CommandPlanRequest { command };
    let planning = client.post_within::<CommandPlanView>(&["allowed", "commands", "plan"], &asked, PATIENCE);
    let planned = waited(&format!("looking at what `{typed}` needs, and installing what is missing"), planning, terminal).await;
    let plan = planned.map_err(|failure| as_admin(failure, name, &typed))?.read;
    let allow = terms.of(plan.command.clone(), variables);
    tell(name, &plan, &allow, env, terminal);
    terminal.consent(&format!("Allow this, and add it as source `{}`?", clean::line(name)), agreed.consent(client)).await?;
    Ok(allow)
}

/// A word that names a file from here names it from everywhere: the server stands elsewhere.
fn standing(at: usize, word: &str) -> String {
    let path = Path::new(word);
    let may_be_file = !word.starts_with('-') && path.is_relative() && (word.contains('/') || (at > 0 && word.contains('.')));
    let absolute = (may_be_file && path.exists()).then(|| std::path::absolute(path).ok()).flatten();
    // `./kit` and `kit` are the same file, and an operator allows it under one name.
    let plain = absolute.map(|path| path.components().collect::<PathBuf>());
    plain.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| word.to_owned())
}

/// Whoever is no operator can add what is allowed already.
fn as_admin(failure: Failure, name: &str, typed: &str) -> Failure {
    if !failure.is(Code::Forbidden) {
        return failure;
    }
    failure.hint(format!(
        "an operator runs this, or allows the command with `countersign allow command add`; then an admin adds it with `countersign source add {} \
         --mcp-stdio -- {typed}`",
        clean::line(name)
    ))
}

fn tell(name: &str, plan: &CommandPlanView, allow: &AllowedCommand, env: &[VariableRequest], terminal: &mut Terminal) {
    let mut line = |label: &str, text: String| terminal.remark(format!("  {label:<11} {}", clean::line(&text)));
    line("source", clean::line(name));
    line("runs", allow::words(&plan.command));
    line("in", "the jail: nothing of this machine but what follows".to_owned());
    for path in plan.readable.iter().chain(&allow.readable) {
        line("sees", format!("{path}, read-only"));
    }
    if allow.workspace {
        line("sees", "the org's shared workspace, read-only, as /workspace".to_owned());
    }
    for variable in env {
        let value = match (&variable.value, &variable.secret) {
            (Some(value), _) => format!("{}={value}", variable.name),
            (None, Some(secret)) => format!("{}, the value of secret `{secret}`", variable.name),
            (None, None) => variable.name.clone(),
        };
        line("variable", value);
    }
    line("reaches", allow::reaches(allow));
    line("memory", format!("{} MB at most", allow.memory_mb.unwrap_or(PACKAGE_MEMORY_MB_DEFAULT)));
    line("open files", format!("{} at most", allow.open_files.unwrap_or(MCP_PROGRAM_OPEN_FILES_DEFAULT)));
    match allow.folder_mb {
        Some(size) => line("writes", format!("a folder of its own, kept, of {size} MB at most")),
        None => line("writes", "nothing that is kept".to_owned()),
    }
    line("digest", plan.digest.clone());
    for note in &plan.notes {
        line("note", note.clone());
    }
    for (host, network) in allow.hosts.iter().filter_map(|host| Some((host, not_public(host)?))) {
        let how = format!("countersign allow network add {network}");
        line("note", format!("`{host}` is not public, and is reached once its network is allowed, too: {how}"));
    }
}

/// The network of a host that is certainly not public. What a name leads to is not known here.
fn not_public(host: &str) -> Option<String> {
    let place = host.split_once("://").map_or(host, |(_, place)| place);
    let name = place.split_once(':').map_or(place, |(name, _)| name);
    let address = if name == "localhost" { Ipv4Addr::LOCALHOST } else { name.parse().ok()? };
    (address.is_loopback() || address.is_private() || address.is_link_local()).then(|| format!("{address}/32"))
}

/// Says how long something takes, as long as it takes.
pub(super) async fn waited<T>(what: &str, work: impl Future<Output = T>, terminal: &mut Terminal) -> T {
    let (mut work, began) = (pin!(work), Instant::now());
    let is_watched = terminal.is_watched();
    loop {
        match tokio::time::timeout(TICK, &mut work).await {
            Ok(done) => {
                if is_watched {
                    terminal.redraw("");
                }
                return done;
            }
            Err(_) => {
                let seconds = began.elapsed().as_secs();
                if is_watched {
                    terminal.redraw(&format!("{what} … {seconds} s"));
                } else if seconds.is_multiple_of(TOLD_EVERY_SECONDS) {
                    terminal.remark(format!("{what} … {seconds} s"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_certainly_not_public_is_told_with_its_network() {
        for (host, network) in [
            ("http://localhost:5432", Some("127.0.0.1/32")),
            ("localhost", Some("127.0.0.1/32")),
            ("https://10.1.2.3:8443", Some("10.1.2.3/32")),
            ("192.168.0.7", Some("192.168.0.7/32")),
            ("http://93.184.215.14:5432", None),
            ("*.example.com", None),
            ("localhost.example.com", None),
        ] {
            assert_eq!(not_public(host).as_deref(), network, "{host}");
        }
    }
}
