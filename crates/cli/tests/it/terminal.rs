//! Somebody at a terminal: a pseudo-terminal is all three streams of the binary, questions are awaited and answered.

use crate::countersign::User;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

/// What somebody saw, and how it ended.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) code: i32,
    /// Everything on the screen, what was typed as well where it shows.
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
    /// Runs it at a terminal. Each question is awaited before its answer is typed; one that does not come fails the test.
    pub(crate) fn at_terminal(&self, arguments: &[&str], answers: &[(&str, &str)]) -> Seen {
        self.at_terminal_of(0, arguments, answers)
    }

    /// The same at one that is so wide; 0 says nothing.
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
    /// How much of it belongs to questions that were answered.
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
        // The command holds copies of their side: it goes, so that the screen ends when the binary does.
        let child = user.command(arguments).stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        Self { keyboard: File::from(ours), seen: String::new(), read_to: 0, child }
    }

    fn await_text(&mut self, text: &str) {
        while !self.seen[self.read_to..].contains(text) {
            assert!(self.read(), "it ended with {:?} and did not ask `{text}`:\n{}", self.child.wait(), self.seen);
        }
        self.read_to = self.seen.len();
    }

    /// Whether there was more to read.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.keyboard.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
                true
            }
            // Nobody has their side open any more.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => false,
            Err(error) => panic!("the screen cannot be read: {error}"),
        }
    }

    fn end(mut self) -> Seen {
        while self.read() {}
        Seen { code: self.child.wait().unwrap().code().unwrap_or(-1), screen: self.seen.replace("\r\n", "\n") }
    }
}
