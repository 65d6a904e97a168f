//! Prompts for a person: only on a terminal, never with `--no-input`, and always so that Ctrl-C works.

use super::{Input, Terminal};
use crate::exit::Failure;
use countersign_core::Secret;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use std::io::{BufRead, Read as _};
use std::sync::PoisonError;
use tokio::sync::mpsc;

/// Whether the user has already confirmed what needs confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    Given,
    Asked,
}

impl Terminal {
    /// Whether a person can be asked now.
    pub(crate) fn can_ask(&self) -> bool {
        self.settings.input == Input::Ask && self.is_typed && self.stderr.is_terminal
    }

    /// Continues only if the user agrees now or has agreed with `--yes`.
    pub(crate) async fn consent(&mut self, question: &str, consent: Consent) -> Result<(), Failure> {
        match consent {
            Consent::Given => Ok(()),
            Consent::Asked if self.can_ask() => {
                if self.agrees(question).await? {
                    Ok(())
                } else {
                    Err(Failure::failed("not done: you did not say yes"))
                }
            }
            Consent::Asked => Err(Failure::usage(format!("nobody can be asked here: {question}"))
                .cause("this takes a yes, and there is no terminal or `--no-input` was given")
                .hint("add --yes")),
        }
    }

    /// Asks a question that a no answers as well as a yes.
    pub(crate) async fn agrees(&mut self, question: &str) -> Result<bool, Failure> {
        let answer = self.ask(&format!("{question} [y/N] ")).await?;
        Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
    }

    /// Asks for a line.
    pub(crate) async fn ask(&mut self, question: &str) -> Result<String, Failure> {
        self.prompt(question);
        self.read_line().await
    }

    /// Asks for a line that is not echoed on the screen.
    pub(crate) async fn ask_secret(&mut self, question: &str) -> Result<Secret<String>, Failure> {
        // Echo is turned off before the question is shown, so that a quick answer does not appear on the screen.
        let silence = Silence::start();
        self.prompt(question);
        let typed = self.read_line().await.map(Secret::new);
        drop(silence);
        self.note("");
        typed
    }

    /// Reads all of stdin, at most `bytes_max` bytes.
    pub(crate) async fn read_stdin(&self, bytes_max: u64) -> Result<String, Failure> {
        let read = self.read(move |stdin| {
            let mut text = String::new();
            stdin.take(bytes_max + 1).read_to_string(&mut text).map(|_| text)
        });
        let text = read.await?.map_err(|error| Failure::failed(format!("stdin cannot be read: {error}")))?;
        if text.len() as u64 > bytes_max {
            return Err(Failure::usage(format!("stdin holds more than {bytes_max} bytes")));
        }
        Ok(text)
    }

    /// The lines of stdin as they come, until it ends. If nobody takes them, stdin is not read on.
    pub(crate) fn lines(&self, bytes_max: usize) -> mpsc::Receiver<Line> {
        let (send, lines) = mpsc::channel(1);
        let stdin = self.stdin.clone();
        tokio::task::spawn_blocking(move || {
            let mut stdin = stdin.lock().unwrap_or_else(PoisonError::into_inner);
            while let Some(line) = next_line(&mut **stdin, bytes_max) {
                if send.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        lines
    }

    fn prompt(&mut self, question: &str) {
        let _closed = self.stderr.part(question);
    }

    async fn read_line(&self) -> Result<String, Failure> {
        let read = self.read(|stdin| {
            let mut line = String::new();
            stdin.read_line(&mut line).map(|_| line)
        });
        let line = read.await?.map_err(|error| Failure::failed(format!("the answer cannot be read: {error}")))?;
        Ok(line.trim().to_owned())
    }

    /// Reads on a separate thread, so that an interrupt does not have to wait for the end of the line.
    async fn read<T: Send + 'static>(&self, read: impl FnOnce(&mut (dyn BufRead + Send)) -> T + Send + 'static) -> Result<T, Failure> {
        let stdin = self.stdin.clone();
        let joined = tokio::task::spawn_blocking(move || read(&mut **stdin.lock().unwrap_or_else(PoisonError::into_inner)));
        joined.await.map_err(|error| Failure::failed(format!("reading stopped: {error}")))
    }
}

/// A line of stdin, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// It is too long or no text; why, in words.
    Unreadable(String),
}

/// The next line; `None` at the end, and where stdin cannot be read. Of a line that is too long nothing is kept.
fn next_line(stdin: &mut dyn BufRead, bytes_max: usize) -> Option<Line> {
    let (mut bytes, mut is_too_long) = (Vec::new(), false);
    loop {
        let buffer = match stdin.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        if buffer.is_empty() && bytes.is_empty() && !is_too_long {
            return None;
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let text = &buffer[..end.unwrap_or(buffer.len())];
        is_too_long |= bytes.len() + text.len() > bytes_max;
        if is_too_long {
            bytes.clear();
        } else {
            bytes.extend_from_slice(text);
        }
        let (used, is_over) = (end.map_or(buffer.len(), |end| end + 1), buffer.is_empty());
        stdin.consume(used);
        if end.is_some() || is_over {
            break;
        }
    }
    if is_too_long {
        return Some(Line::Unreadable(format!("a message has at most {bytes_max} bytes")));
    }
    Some(String::from_utf8(bytes).map_or_else(|_| Line::Unreadable("a message is UTF-8".to_owned()), Line::Text))
}

/// Turns off echo while it exists. Dropping it, also on an interrupt, restores the terminal.
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

#[cfg(test)]
mod tests {
    use super::{Line, next_line};
    use std::io::{BufReader, Cursor};

    #[test]
    fn lines_are_read_one_by_one_and_a_long_one_is_skipped_whole() {
        for capacity in [1, 3, 100] {
            let mut stdin = BufReader::with_capacity(capacity, Cursor::new(b"one\n\n123456789012\n\xff\nlast".to_vec()));
            let lines: Vec<_> = std::iter::from_fn(|| next_line(&mut stdin, 10)).collect();
            let text = |text: &str| Line::Text(text.to_owned());
            let unreadable = |why: &str| Line::Unreadable(why.to_owned());
            let expected =
                [text("one"), text(""), unreadable("a message has at most 10 bytes"), unreadable("a message is UTF-8"), text("last")];
            assert_eq!(lines, expected, "{capacity}");
        }
    }
}
