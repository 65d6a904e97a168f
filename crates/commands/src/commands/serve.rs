//! `countersign serve`: starts the server and says where it listens.

use crate::serving::with_the_process;
use crate::shared::*;
use clap::Args;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign serve                                  SQLite in ./countersign-data, on 127.0.0.1:7117
  countersign serve --listen 0.0.0.0:443 --tls-cert fullchain.pem --tls-key privkey.pem
  countersign serve --database postgres://countersign@db/countersign --redis redis://cache";

/// What a server is started with; shared by every command that opens its store.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerFlags {
    /// The folder for everything that is kept; else COUNTERSIGN_DATA
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// A PostgreSQL database instead of SQLite; else COUNTERSIGN_DATABASE
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// The settings; else COUNTERSIGN_CONFIG, else countersign.toml in the data folder
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    server: ServerFlags,
    /// Where to listen; else COUNTERSIGN_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The certificate for https, in PEM, with its chain; else COUNTERSIGN_TLS_CERT. It is read again when it changes
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM; else COUNTERSIGN_TLS_KEY
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Shares the rate limit between servers; else COUNTERSIGN_REDIS
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
}

impl ServerFlags {
    pub(crate) fn load(self, setting: &Setting<'_>) -> Result<host::Config, Failure> {
        self.load_with(host::Flags::default(), setting)
    }

    /// `others` are the flags that only some commands have.
    pub(super) fn load_with(self, others: host::Flags, setting: &Setting<'_>) -> Result<host::Config, Failure> {
        let file = self.config.as_ref().map(|file| format!(" --config {}", quoted(&file.display().to_string())));
        let flags = host::Flags { data: self.data, database: self.database, config: self.config, ..others };
        host::Config::load(flags, setting.environment.variables.clone().into_iter())
            .map_err(|error| Failure::usage(error.to_string()).hint(format!("countersign doctor{}", file.unwrap_or_default())))
    }
}

impl Serve {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        setting.no_dry_run("serve")?;
        let Self { server: shared, listen, tls_cert, tls_key, redis } = self;
        let config = shared.load_with(host::Flags { listen, tls_cert, tls_key, redis, ..host::Flags::default() }, &setting)?;
        let terminal = setting.terminal;
        let watched = if terminal.is_watched() { host::LogFormat::Text } else { host::LogFormat::Json };
        let log_format = config.log_format.unwrap_or(watched);
        host::init_logs(log_format, &config.log_level);
        let started = Box::new(|started: &host::Started| tell(started, log_format, terminal));
        setting.serving.serve(config, started, with_the_process()).await.map_err(|error| refused(&error))?;
        Ok(Exit::Ok)
    }
}

/// Writes the lines on stdout. Scripts read them, so their format must not change.
fn tell(started: &host::Started, log_format: host::LogFormat, terminal: &mut Terminal) {
    // The token is a secret. It is shown on a terminal, and never written to a file or a log collector.
    let owner_token = started.owner_token.as_ref().map(|token| match terminal.is_screen() {
        true => format!("owner token: {token}"),
        false => format!("owner token file: {}", started.owner_token_file.display()),
    });
    // So is the address that logs the owner in.
    let sign_in = started.sign_in_url.as_ref().filter(|_| terminal.is_screen()).map(|url| format!("sign in, once: {url}"));
    let lines = [Some(format!("url: {}", started.url)), sign_in, owner_token, Some(format!("data: {}", started.data.display()))];
    // If stdout is closed, the server keeps running.
    let _closed = lines.into_iter().flatten().try_for_each(|line| terminal.line(line)).and_then(|()| terminal.flush());
    if terminal.is_watched() {
        let kept = format!("the token is kept in {}", started.owner_token_file.display());
        let files = format!("the files that actions may touch are in {}", started.workspace.display());
        for line in [kept, files, format!("everything is recorded in {}; stop with Ctrl-C", started.store)] {
            terminal.note(Tone::Muted.paint(line));
        }
    }
    reach(started, log_format, terminal);
    if terminal.is_watched() {
        terminal.next("countersign action invoke files.write_text path=hello.txt text=hello (in a second terminal)");
    }
}

/// Says how to reach the server from another folder. It is also written if stderr goes to a file, unless the log there is in JSON.
fn reach(started: &host::Started, log_format: host::LogFormat, terminal: &mut Terminal) {
    match log_format {
        host::LogFormat::Text => terminal.note(Tone::Muted.paint(format!("from another folder: {}", export(started)))),
        // The log line `serving` names the folder already.
        host::LogFormat::Json => {}
    }
}

/// What leads every later command of a shell to this server, as its owner.
pub(super) fn export(started: &host::Started) -> String {
    let token = std::path::absolute(&started.owner_token_file).unwrap_or_else(|_| started.owner_token_file.clone());
    format!("export COUNTERSIGN_URL={} COUNTERSIGN_TOKEN=$(cat {})", started.url, quoted(&token.display().to_string()))
}

/// Quotes a text for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+@%:,=".contains(letter);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

pub(super) fn refused(error: &host::Error) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error {
        host::Error::Listen { .. } => failure.hint("choose another address with --listen"),
        host::Error::InUse { .. } => failure.hint("choose another folder with --data"),
        host::Error::DataDir { .. }
        | host::Error::MasterKey(_)
        | host::Error::Store(_)
        | host::Error::Database(_)
        | host::Error::Recover(_) => failure.hint("countersign doctor"),
        host::Error::Tls(_) => failure.hint("name the certificate with --tls-cert and its key with --tls-key, both in PEM"),
        host::Error::Source(_) | host::Error::Limiter(_) | host::Error::SignIn(_) => failure.hint("look at the settings"),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_path_is_quoted_where_a_shell_would_split_it() {
        for (path, expected) in [("/a/b-c/owner.token", "/a/b-c/owner.token"), ("/my data/x", "'/my data/x'"), ("/it's", r"'/it'\''s'")] {
            assert_eq!(quoted(path), expected);
        }
    }
}
