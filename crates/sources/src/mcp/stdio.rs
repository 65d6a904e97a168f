//! A program in the jail that speaks MCP: one message a line, on its stdin and stdout.

use super::http::not_utf8;
use super::last_words::{Allowances, Observed};
use super::wire::{Inbound, Unusable, Wire, parsed, too_long, too_much};
use crate::limits::{MCP_MESSAGE_BYTES_MAX, MCP_STRAY_LINES_MAX};
use countersign_core::resident::{Child, Resident};
use countersign_core::source::Error;
use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Messages that wait for the library, and messages that wait for the program.
const QUEUE: usize = 16;

/// How long a program that closed its stdout has to end, so that the error can say how it ended.
const ENDING: Duration = Duration::from_secs(2);

/// The two ends of the program, as the library sees them. Each is served by a task of its own: the library may break a send or a receive
/// off in the middle, and half a line would spoil the rest.
pub(super) struct Stdio {
    wire: Arc<Wire>,
    to_program: mpsc::Sender<Line>,
    from_program: mpsc::Receiver<ServerJsonRpcMessage>,
}

struct Line {
    bytes: Vec<u8>,
    written: oneshot::Sender<bool>,
}

impl Stdio {
    /// Connects to a program that was started. It ends when the child is dropped, or when it no longer speaks MCP.
    pub(super) fn new(wire: Arc<Wire>, resident: Resident, allowed: Allowances) -> (Self, Arc<dyn Child>) {
        let Resident { stdin, stdout, child } = resident;
        let child: Arc<dyn Child> = Arc::from(child);
        let observed = Arc::new(Observed::new(Arc::clone(&child), allowed));
        wire.observe(Arc::clone(&observed));
        let (to_program, lines) = mpsc::channel(QUEUE);
        let (messages, from_program) = mpsc::channel(QUEUE);
        tokio::spawn(write(stdin, lines));
        tokio::spawn(Reading { wire: Arc::clone(&wire), child: Arc::clone(&child), observed, messages }.read(stdout));
        (Self { wire, to_program, from_program }, child)
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let (wire, to_program) = (Arc::clone(&self.wire), self.to_program.clone());
        let id = wire.outbound(&message);
        async move {
            let gone = || wire.ended().unwrap_or_else(|| wire.broken(&Unusable::answer("no longer reads what it is sent")));
            let sent = async {
                let mut bytes = serde_json::to_vec(&message).ok()?;
                bytes.push(b'\n');
                let (written, is_written) = oneshot::channel();
                to_program.send(Line { bytes, written }).await.ok()?;
                is_written.await.ok().filter(|is_written| *is_written)
            };
            match sent.await {
                Some(_) => Ok(()),
                None => {
                    if let Some(id) = id {
                        let _ = wire.fail(&id, gone());
                    }
                    Err(gone())
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.from_program.recv().await
    }

    async fn close(&mut self) -> Result<(), Error> {
        self.from_program.close();
        Ok(())
    }
}

async fn write(mut stdin: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Line>) {
    while let Some(Line { bytes, written }) = lines.recv().await {
        let is_written = stdin.write_all(&bytes).await.is_ok() && stdin.flush().await.is_ok();
        let _ = written.send(is_written);
        if !is_written {
            return;
        }
    }
}

struct Reading {
    wire: Arc<Wire>,
    child: Arc<dyn Child>,
    observed: Arc<Observed>,
    messages: mpsc::Sender<ServerJsonRpcMessage>,
}

impl Reading {
    async fn read(self, stdout: impl AsyncRead + Unpin) {
        let error = match self.lines(stdout).await {
            Ok(()) => self.ended().await,
            Err(unusable) => {
                self.child.end();
                self.wire.broken(&unusable)
            }
        };
        self.wire.fail_all(&error);
    }

    /// Reads until stdout ends.
    async fn lines(&self, mut stdout: impl AsyncRead + Unpin) -> Result<(), Unusable> {
        let mut taken = self.wire.budget.nothing();
        let (mut line, mut chunk, mut strays) = (Vec::new(), vec![0; 16 * 1024], 0);
        loop {
            let Ok(read @ 1..) = stdout.read(&mut chunk).await else { return Ok(()) };
            for piece in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                if line.len() + piece.len() > MCP_MESSAGE_BYTES_MAX {
                    return Err(too_long());
                }
                taken.grow(piece.len()).map_err(|_| too_much())?;
                line.extend_from_slice(piece);
                if line.ends_with(b"\n") {
                    let whole = std::mem::take(&mut line);
                    let is_stray = !self.take(&whole).await?;
                    taken.shrink(whole.len());
                    strays = if is_stray { strays + 1 } else { 0 };
                    if strays > MCP_STRAY_LINES_MAX {
                        return Err(Unusable::answer("prints something else than MCP"));
                    }
                }
            }
        }
    }

    /// Whether the line was a message. Many programs greet before they speak; what looks like a message, and is none, may have been an
    /// answer.
    async fn take(&self, line: &[u8]) -> Result<bool, Unusable> {
        let Ok(text) = std::str::from_utf8(line) else { return Err(not_utf8()) };
        let text = text.trim();
        if !text.starts_with(['{', '[']) {
            return Ok(text.is_empty());
        }
        match self.wire.inbound(text, None) {
            Ok(Inbound::Nothing) => Ok(true),
            Ok(Inbound::Pass(text)) => {
                if let Some(message) = parsed(&text) {
                    // The library is gone if nobody receives; then the child is ended as well.
                    let _ = self.messages.send(message).await;
                }
                Ok(true)
            }
            Err(unusable) if unusable.is_stray => Ok(false),
            Err(unusable) => Err(unusable),
        }
    }

    async fn ended(&self) -> Error {
        let ended = tokio::time::timeout(ENDING, self.child.ended()).await.ok();
        self.observed.note(ended);
        let message = self.observed.last_words(&self.wire.given).in_a_sentence();
        Error::Broken { source_id: self.wire.source_id().to_owned(), message }
    }
}
