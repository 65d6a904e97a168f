//! Runs the binary on a pseudo-terminal as all three streams, waits for its questions and types the answers.

use crate::countersign::User;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

/// The screen of a run, and its exit code.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) code: i32,
    /// Everything on the screen, including typed text if it is echoed.
    pub(crate) screen: String,
}

impl Seen {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn shows(self, text: &str) -> Self {
        assert!(self.screen.contains(text), "`{text}` is not on the screen:\n{}", self.screen);
        self
    }
}

impl User {
    /// Runs a command at a terminal. Each answer is typed after its question appeared; a missing question fails the test.
    pub(crate) fn at_terminal(&self, arguments: &[&str], answers: &[(&str, &str)]) -> Seen {
        self.at_terminal_of(0, arguments, answers)
    }

    /// Like `at_terminal`, on a terminal of this width. A width of 0 means unknown.
    pub(crate) fn at_terminal_of(&self, columns: u16, arguments: &[&str], answers: &[(&str, &str)]) -> Seen {
        let mut terminal = Terminal::open(self, columns, arguments);
        for (question, typed) in answers {
            terminal.await_text(question);
            terminal.keyboard.write_all(typed.as_bytes()).unwrap();
        }
        terminal.end()
    }
}

struct Terminal {
    keyboard: File,
    seen: String,
    /// The length of the text up to the last question that was answered.
    read_to: usize,
    child: Child,
}

impl Terminal {
    fn open(user: &User, columns: u16, arguments: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        tcsetwinsize(&ours, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs: OwnedFd = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let stream = || Stdio::from(theirs.try_clone().unwrap());
        // The temporary `Command` holds copies of the terminal's other side. It is dropped here, so that reading ends when the binary does.
        let child = user.command(arguments).stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        Self { keyboard: File::from(ours), seen: String::new(), read_to: 0, child }
    }

    fn await_text(&mut self, text: &str) {
        while !self.seen[self.read_to..].contains(text) {
            assert!(self.read(), "it ended with {:?} and did not ask `{text}`:\n{}", self.child.wait(), self.seen);
        }
        self.read_to = self.seen.len();
    }

    /// Reads more of the screen; `false` at the end.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.keyboard.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
                true
            }
            // The other side of the terminal is closed.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => false,
            Err(error) => panic!("the screen cannot be read: {error}"),
        }
    }

    fn end(mut self) -> Seen {
        while self.read() {}
        Seen { code: self.child.wait().unwrap().code().unwrap_or(-1), screen: self.seen.replace("\r\n", "\n") }
    }
}
