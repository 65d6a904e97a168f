//! The engines of others: a program of `bench/peers` each, which says when it is ready, and measures once for every line it is sent.

use crate::child::program;
use crate::cpu::Watched;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The longest that a program may take for what it is asked.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The folder where the peers are installed.
pub(crate) struct Peers(PathBuf);

/// A peer that runs.
pub(crate) struct Peer {
    child: Child,
    /// `None` once it was told that there is nothing more to do.
    asked: Option<ChildStdin>,
    said: Receiver<String>,
    watched: Watched,
}

/// What one repetition came to.
pub(crate) struct Repeated {
    pub(crate) said: Value,
    pub(crate) cpu_us: f64,
}

impl Peers {
    /// `None` if they are not installed.
    pub(crate) fn find() -> Option<Self> {
        std::env::var_os("BENCH_PEERS").map(|folder| Self(folder.into()))
    }

    /// DBOS. `runs` and `seconds` bound a repetition; `parent` is PostgreSQL's first process.
    pub(crate) fn dbos(&self, database: &str, size: DbosSize, journal: Journal, parent: Option<u32>) -> Result<Peer> {
        let DbosSize { steps, callers, runs, seconds } = size;
        let mut command = self.python("with_dbos.py");
        command.arg(database).args([steps, callers, runs, seconds].map(|number| number.to_string()));
        match journal {
            Journal::WriteAhead => _ = command.arg("wal"),
            Journal::Own => {}
        }
        Peer::start(&mut command, parent)
    }

    pub(crate) fn celery(&self, redis: &str, steps: usize, runs: usize, seconds: usize) -> Result<Peer> {
        let mut command = self.python("with_celery.py");
        Peer::start(command.arg(redis).args([steps, runs, seconds].map(|number| number.to_string())), None)
    }

    pub(crate) fn graphile(&self, database: &str, jobs: usize, pause: Duration, parent: Option<u32>) -> Result<Peer> {
        // It stands beside its packages, where Node.js finds them.
        let mut command = program(Path::new("node"));
        command.arg(self.0.join("with_graphile.mjs")).args([database, &jobs.to_string(), &pause.as_millis().to_string()]);
        Peer::start(&mut command, parent)
    }

    pub(crate) fn quamina(&self) -> PathBuf {
        self.0.join("with_quamina")
    }

    fn python(&self, script: &str) -> Command {
        let mut command = program(&self.0.join("python/bin/python"));
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(script));
        command
    }
}

/// What DBOS is to do in a repetition.
#[derive(Clone, Copy)]
pub(crate) struct DbosSize {
    pub(crate) steps: usize,
    pub(crate) callers: usize,
    pub(crate) runs: usize,
    pub(crate) seconds: usize,
}

/// How the SQLite of DBOS keeps commits.
#[derive(Clone, Copy)]
pub(crate) enum Journal {
    /// As it comes.
    Own,
    /// With a write-ahead log, as ours.
    WriteAhead,
}

impl Peer {
    fn start(command: &mut Command, parent: Option<u32>) -> Result<Self> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().with_context(|| format!("starting {command:?}"))?;
        let asked = child.stdin.take();
        let stdout = child.stdout.take().context("the peer has no stdout")?;
        let (sender, said) = channel();
        std::thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut peer = Self { child, asked, said, watched: Watched::default().and_children_of(parent) };
        let ready = peer.answer()?;
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        peer.watched.processes = ready.get("processes").and_then(Value::as_array).into_iter().flatten().filter_map(number).collect();
        if let Some(own) = ready.get("parent").and_then(number) {
            peer.watched.parent = Some(own);
        }
        Ok(peer)
    }

    pub(crate) fn repeat(&mut self) -> Result<Repeated> {
        let earlier = self.watched.read()?;
        writeln!(self.asked.as_mut().context("the peer was stopped")?)?;
        let said = self.answer()?;
        Ok(Repeated { said, cpu_us: self.watched.read()?.micros_since(&earlier) })
    }

    fn answer(&self) -> Result<Value> {
        match self.said.recv_timeout(ANSWER_MAX) {
            Ok(line) => serde_json::from_str(&line).with_context(|| format!("a peer said `{line}`")),
            Err(_) => bail!("a peer said nothing for {} s, or ended", ANSWER_MAX.as_secs()),
        }
    }
}

impl Repeated {
    pub(crate) fn number(&self, name: &str) -> Result<f64> {
        self.said.get(name).and_then(Value::as_f64).with_context(|| format!("a peer did not say `{name}`"))
    }
}

impl Drop for Peer {
    /// A peer that has read everything ends by itself, with what it has started.
    fn drop(&mut self) {
        self.asked = None;
        while self.said.recv_timeout(ANSWER_MAX / 6).is_ok() {}
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_measures_once_for_every_line_and_ends_with_the_last() {
        let script =
            r#"echo "{\"processes\": [$$]}"; number=0; while read -r line; do number=$((number + 1)); echo "{\"runs\": $number}"; done"#;
        let mut peer = Peer::start(program(Path::new("sh")).args(["-c", script]), None).unwrap();
        for number in [1.0, 2.0] {
            let repeated = peer.repeat().unwrap();
            assert_eq!(repeated.number("runs").unwrap(), number);
            assert!(repeated.number("seconds").is_err());
        }
        assert!(Peer::start(&mut program(Path::new("true")), None).is_err(), "it ended before it was ready");
    }
}
