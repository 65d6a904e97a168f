//! The surroundings of a run: variables and three streams. The process has its own; tests supply others.

use anstream::{AutoStream, ColorChoice};
use rustix::termios;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::fd::AsFd;

/// Everything that a run reads and writes besides files and the server.
pub struct World {
    pub variables: BTreeMap<String, String>,
    pub stdin: Box<dyn BufRead + Send>,
    /// Whether stdin is a terminal at which somebody types.
    pub is_typed: bool,
    pub stdout: Stream,
    pub stderr: Stream,
}

/// An output stream, and what is known about its reader.
pub struct Stream {
    pub to: Box<dyn Write + Send>,
    pub is_terminal: bool,
    /// The width of the terminal, if it is known.
    pub columns: Option<u16>,
    /// Whether colours are shown unless a flag says otherwise.
    pub has_colours: bool,
}

impl World {
    /// The variables and streams of this process.
    pub fn of_process() -> Self {
        let stdin = io::stdin();
        Self {
            variables: variables(),
            is_typed: stdin.is_terminal(),
            stdin: Box::new(BufReader::new(stdin)),
            stdout: Stream::of_process(io::stdout()),
            stderr: Stream::of_process(io::stderr()),
        }
    }
}

/// The variables of this process. A variable that is not UTF-8 is skipped, because it cannot be one that Countersign reads.
pub(crate) fn variables() -> BTreeMap<String, String> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

impl Stream {
    /// Writes one line. Colours are removed if the stream does not show them.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.part(&format!("{text}\n"))
    }

    /// Writes a part of a line and flushes it.
    pub(crate) fn part(&mut self, text: &str) -> io::Result<()> {
        if self.has_colours {
            self.to.write_all(text.as_bytes())?;
        } else {
            write!(self.to, "{}", anstream::adapter::strip_str(text))?;
        }
        self.to.flush()
    }

    fn of_process(stream: impl AsFd + IsTerminal + anstream::stream::RawStream + Send + 'static) -> Self {
        let columns = termios::tcgetwinsize(&stream).ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
        let has_colours = AutoStream::choice(&stream) != ColorChoice::Never;
        Self { is_terminal: IsTerminal::is_terminal(&stream), columns, has_colours, to: Box::new(stream) }
    }
}
