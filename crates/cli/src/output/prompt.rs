//! Asking a person: only on a terminal, never with `--no-input`, and always so that Ctrl-C is heard.

use super::{Input, Terminal};
use crate::exit::Failure;
use countersign_core::Secret;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::BorrowedFd;

/// Whether somebody already agreed to what takes a yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    Given,
    Asked,
}

impl Terminal {
    /// Whether a person can be asked now.
    pub(crate) fn can_ask(&self) -> bool {
        self.settings.input == Input::Ask && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Goes on only when a person agrees, or has agreed with `--yes`.
    pub(crate) async fn consent(&mut self, question: &str, consent: Consent) -> Result<(), Failure> {
        match consent {
            Consent::Given => Ok(()),
            Consent::Asked if self.can_ask() => {
                let answer = self.ask(&format!("{question} [y/N] ")).await?;
                let agreed = matches!(answer.to_lowercase().as_str(), "y" | "yes");
                if agreed { Ok(()) } else { Err(Failure::failed("not done: you did not say yes")) }
            }
            Consent::Asked => Err(Failure::usage(format!("nobody can be asked here: {question}"))
                .cause("this takes a yes, and there is no terminal or `--no-input` was given")
                .hint("add --yes")),
        }
    }

    /// A line typed by a person.
    pub(crate) async fn ask(&mut self, question: &str) -> Result<String, Failure> {
        self.prompt(question);
        read_line().await
    }

    /// A line typed by a person that does not show on the screen.
    pub(crate) async fn ask_secret(&mut self, question: &str) -> Result<Secret<String>, Failure> {
        // Before the question: whoever answers quickly must not see it on the screen.
        let silence = Silence::start();
        self.prompt(question);
        let typed = read_line().await.map(Secret::new);
        drop(silence);
        self.note("");
        typed
    }

    fn prompt(&mut self, question: &str) {
        let _closed = write!(self.stderr, "{question}").and_then(|()| self.stderr.flush());
    }
}

/// Everything on stdin, up to `bytes_max`.
pub(crate) async fn read_stdin(bytes_max: u64) -> Result<String, Failure> {
    let read = tokio::task::spawn_blocking(move || io::read_to_string(io::Read::take(io::stdin().lock(), bytes_max + 1)));
    let text = finished(read.await)?.map_err(|error| Failure::failed(format!("stdin cannot be read: {error}")))?;
    if text.len() as u64 > bytes_max {
        return Err(Failure::usage(format!("stdin holds more than {bytes_max} bytes")));
    }
    Ok(text)
}

/// The width of the terminal behind stdout.
pub(crate) fn width() -> Option<u16> {
    width_of(rustix::stdio::stdout())
}

/// The same behind stderr.
pub(super) fn note_width() -> Option<u16> {
    width_of(rustix::stdio::stderr())
}

fn width_of(stream: BorrowedFd<'_>) -> Option<u16> {
    termios::tcgetwinsize(stream).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}

/// On a thread of its own, so that an interrupt does not wait for the line to end.
async fn read_line() -> Result<String, Failure> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = finished(read.await)?.map_err(|error| Failure::failed(format!("the answer cannot be read: {error}")))?;
    Ok(line.trim().to_owned())
}

fn finished<T>(joined: Result<T, tokio::task::JoinError>) -> Result<T, Failure> {
    joined.map_err(|error| Failure::failed(format!("reading stopped: {error}")))
}

/// While this lives, what is typed does not show. Dropping it, also when interrupted, restores the terminal.
struct Silence {
    before: Option<Termios>,
}

impl Silence {
    fn start() -> Self {
        let before = termios::tcgetattr(rustix::stdio::stdin()).ok();
        if let Some(mut quiet) = before.clone() {
            quiet.local_modes.remove(LocalModes::ECHO);
            let _stays = termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &quiet);
        }
        Self { before }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _stays = termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}
