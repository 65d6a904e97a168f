//! The network that a jailed program sees: the server answers its questions for names, and carries the bytes of its connections to the hosts
//! that it may reach. The program knows nothing of it, and TLS stays closed. The log and the metrics say where each connection went and how
//! much it carried, and never what.

use crate::limits::{
    RELAY_CONNECTIONS_IN_ALL_MAX, RELAY_CONNECTIONS_MAX, RELAY_IDLE_SECONDS, RELAY_LINES_PER_MINUTE, RELAY_QUESTIONS_PER_SECOND,
};
use crate::resolver::{Known, Names, Question};
use crate::web::{Allowed, Lookup, NotConnected, Scheme, ask_the_system};
use crate::words::shown;
use countersign_core::network::{Network, Refused, Sockets};
use countersign_core::{Future, SourceId, jail};
use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// The network of one program.
pub(crate) struct Relay(Arc<Shared>);

struct Shared {
    /// The source that the program belongs to.
    whose: String,
    allowed: Allowed,
    lookup: Lookup,
    names: Mutex<Names>,
    questions: Mutex<Rate>,
    lines: Mutex<Lines>,
    refused: Mutex<Option<Refused>>,
    turns: Semaphore,
}

/// The connections of all programs of this server.
static IN_ALL: Semaphore = Semaphore::const_new(RELAY_CONNECTIONS_IN_ALL_MAX);

const IDLE: Duration = Duration::from_secs(RELAY_IDLE_SECONDS);
/// How much of a connection is under way in each direction.
const BUFFER_BYTES: usize = 32 << 10;
/// The longest question. A longer message is not one of ours to answer.
const QUESTION_BYTES_MAX: usize = 512;
/// Connections with questions, which few programs make.
const ASKING_MAX: usize = 8;
const ASKING: Duration = Duration::from_secs(10);
/// How long a socket rests after an error, such as too many open files.
const REST: Duration = Duration::from_millis(100);
/// The port of the resolver.
const QUESTIONS_PORT: u16 = 53;

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("whose", &self.0.whose).finish_non_exhaustive()
    }
}

impl Relay {
    pub(crate) fn new(source: &SourceId, allowed: &Allowed) -> Self {
        Self::looking_up(source, allowed, ask_the_system())
    }

    fn looking_up(source: &SourceId, allowed: &Allowed, lookup: Lookup) -> Self {
        Self(Arc::new(Shared {
            whose: source.to_string(),
            allowed: allowed.clone(),
            lookup,
            names: Mutex::new(Names::new(allowed.clone())),
            questions: Mutex::new(Rate { second: Instant::now(), asked: 0, dropped: 0 }),
            lines: Mutex::new(Lines { minute: Instant::now(), written: 0, more: 0 }),
            refused: Mutex::default(),
            turns: Semaphore::new(RELAY_CONNECTIONS_MAX),
        }))
    }
}

impl Network for Relay {
    fn ports(&self) -> Vec<u16> {
        self.0.allowed.ports().into_iter().collect()
    }

    fn serve(&self, sockets: Sockets) -> Future<'_, ()> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let mut tasks = JoinSet::new();
            if let Err(error) = begin(&shared, sockets, &mut tasks) {
                tracing::error!(%error, whose = shared.whose, "the network of a program could not be served");
            }
            let _unsaid = Unsaid(&shared);
            while tasks.join_next().await.is_some() {}
        })
    }

    fn refused(&self) -> Option<Refused> {
        self.0.refused.lock().clone()
    }
}

fn begin(shared: &Arc<Shared>, sockets: Sockets, tasks: &mut JoinSet<()>) -> io::Result<()> {
    let Sockets { questions, questions_by_tcp, connections, refusals } = sockets;
    let datagrams = |socket: std::net::UdpSocket| socket.set_nonblocking(true).and_then(|()| UdpSocket::from_std(socket));
    let listener = |socket: std::net::TcpListener| socket.set_nonblocking(true).and_then(|()| TcpListener::from_std(socket));
    tasks.spawn(answer_datagrams(Arc::clone(shared), datagrams(questions)?));
    tasks.spawn(answer_streams(Arc::clone(shared), listener(questions_by_tcp)?));
    for refused in refusals {
        tasks.spawn(hear_refusals(Arc::clone(shared), datagrams(refused)?));
    }
    for connections in connections {
        tasks.spawn(carry_all(Arc::clone(shared), listener(connections)?));
    }
    Ok(())
}

/// Says, when the program ends, how many lines were left out of the log.
struct Unsaid<'s>(&'s Shared);

impl Drop for Unsaid<'_> {
    fn drop(&mut self) {
        self.0.lines.lock().say_more(&self.0.whose);
        self.0.questions.lock().say_dropped(&self.0.whose);
    }
}

/// Bounds the questions of one second.
struct Rate {
    second: Instant,
    asked: u32,
    dropped: u64,
}

impl Rate {
    fn has_room(&mut self, whose: &str) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            self.say_dropped(whose);
            (self.second, self.asked) = (Instant::now(), 0);
        }
        if self.asked == RELAY_QUESTIONS_PER_SECOND {
            self.dropped += 1;
            return false;
        }
        self.asked += 1;
        true
    }

    fn say_dropped(&mut self, whose: &str) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            metrics::counter!("countersign_relay_questions_total", "answer" => "dropped").increment(dropped);
            tracing::warn!(whose, dropped, refused = "too_many_questions", "relay");
        }
    }
}

/// Bounds the lines of one minute about what a program may not reach.
struct Lines {
    minute: Instant,
    written: u32,
    more: u64,
}

impl Lines {
    fn has_room(&mut self, whose: &str) -> bool {
        if self.minute.elapsed() >= Duration::from_secs(60) {
            self.say_more(whose);
            (self.minute, self.written) = (Instant::now(), 0);
        }
        if self.written == RELAY_LINES_PER_MINUTE {
            self.more += 1;
            return false;
        }
        self.written += 1;
        true
    }

    fn say_more(&mut self, whose: &str) {
        let more = std::mem::take(&mut self.more);
        if more > 0 {
            tracing::warn!(whose, more, "relay: more was refused than the log says");
        }
    }
}

impl Shared {
    /// Counts and logs what the program may not reach.
    fn refuse(&self, host: &str, port: u16, refused: &'static str) {
        metrics::counter!("countersign_relay_connections_total", "ended" => refused).increment(1);
        let (whose, host) = (&self.whose, shown(host));
        if self.lines.lock().has_room(&self.whose) {
            tracing::warn!(whose, host, port, refused, "relay");
        }
        *self.refused.lock() = Some(Refused { host, port: Some(port), code: refused });
    }

    /// The answer to one question; `None` where there is to be none.
    fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        if !self.questions.lock().has_room(&self.whose) {
            return None;
        }
        let Some(question) = Question::read(message) else {
            self.say_unanswered("", "not_a_question");
            return None;
        };
        let known = self.names.lock().look_up(&question.name);
        let answer = question.answer(known);
        match known {
            Known::At(_) => {
                metrics::counter!("countersign_relay_questions_total", "answer" => "known").increment(1);
            }
            Known::NotAllowed => self.say_unanswered(&question.name, "name_not_allowed"),
            Known::TooMany => self.say_unanswered(&question.name, "too_many_names"),
        }
        Some(question.write(answer))
    }

    fn say_unanswered(&self, name: &str, refused: &'static str) {
        metrics::counter!("countersign_relay_questions_total", "answer" => refused).increment(1);
        let (whose, name) = (&self.whose, shown(name));
        if self.lines.lock().has_room(&self.whose) {
            tracing::warn!(whose, name, refused, "relay");
        }
        *self.refused.lock() = Some(Refused { host: name, port: None, code: refused });
    }

    /// The host that an address of the jail stands for.
    fn host_at(&self, address: Ipv4Addr) -> String {
        self.names.lock().at(address).map_or_else(|| address.to_string(), str::to_owned)
    }

    /// The same, for a connection. An address may be one of a name, and be allowed itself as well.
    fn host_of(&self, address: SocketAddrV4) -> Result<(String, Scheme), (String, NotConnected)> {
        let (named, literal) = (self.host_at(*address.ip()), address.ip().to_string());
        for host in [&named, &literal] {
            if let Ok(carries) = self.allowed.carries(host, address.port()) {
                return Ok((host.clone(), carries));
            }
        }
        Err((named, NotConnected::HostNotAllowed))
    }

    fn turn(&self) -> Option<(SemaphorePermit<'_>, SemaphorePermit<'static>)> {
        Some((self.turns.try_acquire().ok()?, IN_ALL.try_acquire().ok()?))
    }
}

async fn answer_datagrams(shared: Arc<Shared>, socket: UdpSocket) {
    // One byte more than the longest question, to detect a longer one.
    let mut message = [0; QUESTION_BYTES_MAX + 1];
    loop {
        match socket.recv_from(&mut message).await {
            Ok((length, from)) => {
                if let Some(answer) = shared.answer(message.get(..length.min(QUESTION_BYTES_MAX)).unwrap_or_default()) {
                    let _ = socket.send_to(&answer, from).await;
                }
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

async fn answer_streams(shared: Arc<Shared>, listener: TcpListener) {
    let mut asking = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while asking.try_join_next().is_some() {}
                if asking.len() < ASKING_MAX {
                    asking.spawn(answer_stream(Arc::clone(&shared), stream));
                }
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

async fn answer_stream(shared: Arc<Shared>, mut stream: TcpStream) {
    let mut message = [0; QUESTION_BYTES_MAX];
    let _ = timeout(ASKING, async {
        loop {
            let length = usize::from(stream.read_u16().await?);
            let Some(message) = message.get_mut(..length) else { return Ok(()) };
            stream.read_exact(message).await?;
            let Some(answer) = shared.answer(message) else { return io::Result::Ok(()) };
            let length = u16::try_from(answer.len()).unwrap_or(u16::MAX).to_be_bytes();
            stream.write_all(&[&length, answer.as_slice()].concat()).await?;
        }
    })
    .await;
}

/// Logs what the network of the jail refused: a connection to a port where there is no host, and datagrams.
async fn hear_refusals(shared: Arc<Shared>, socket: UdpSocket) {
    let mut packet = [0; 256];
    loop {
        match socket.recv(&mut packet).await {
            Ok(length) => {
                if let Some((address, refused)) = packet.get(..length).and_then(refused_in) {
                    shared.refuse(&shared.host_at(*address.ip()), address.port(), refused);
                }
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_HEAD_BYTES: usize = 8;

/// Where the refused connection or datagram was to go.
fn refused_in(packet: &[u8]) -> Option<(SocketAddrV4, &'static str)> {
    let (head, body) = headed(packet)?;
    match head.protocol {
        // The refusal comes from where the connection was to go.
        TCP => Some((SocketAddrV4::new(head.from, port(body, 0)?), "port_not_allowed")),
        ICMP => {
            let (head, body) = headed(body.get(ICMP_HEAD_BYTES..)?)?;
            // An answer of ours that the program no longer waits for is refused too.
            let is_ours = head.protocol == UDP && port(body, 0)? == QUESTIONS_PORT;
            (!is_ours).then_some((SocketAddrV4::new(head.to, port(body, 2)?), "datagram_not_allowed"))
        }
        _ => None,
    }
}

struct Head {
    protocol: u8,
    from: Ipv4Addr,
    to: Ipv4Addr,
}

/// Takes the head of an IPv4 packet apart from its body.
fn headed(packet: &[u8]) -> Option<(Head, &[u8])> {
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    let length = usize::from(packet.first()? & 0xf) * 4;
    Some((Head { protocol: *packet.get(9)?, from: address(12)?, to: address(16)? }, packet.get(length..)?))
}

fn port(body: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?))
}

async fn carry_all(shared: Arc<Shared>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while connections.try_join_next().is_some() {}
                connections.spawn(carry_one(Arc::clone(&shared), stream));
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

/// The program's end of a connection. Unless it is done, it ends with a reset, so that no program takes that for the end of an answer.
struct End {
    stream: TcpStream,
    is_done: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = self.stream.set_zero_linger();
        }
    }
}

async fn carry_one(shared: Arc<Shared>, stream: TcpStream) {
    let mut program = End { stream, is_done: false };
    let Ok(SocketAddr::V4(address)) = program.stream.local_addr() else { return };
    let port = address.port();
    let (host, carries) = match shared.host_of(address) {
        Ok(found) => found,
        Err((host, error)) => return shared.refuse(&host, port, error.code()),
    };
    let Some(_turn) = shared.turn() else { return shared.refuse(&host, port, "too_many_connections") };
    if carries == Scheme::Https && !is_tls(&program.stream).await {
        return shared.refuse(&host, port, "not_tls");
    }
    let mut outside = match shared.allowed.dial(&host, port, &shared.lookup).await {
        Ok(outside) => outside,
        Err(error) => return shared.refuse(&host, port, error.code()),
    };
    for stream in [&program.stream, &outside] {
        let _ = stream.set_nodelay(true);
    }
    let mut carried = Carried { whose: &shared.whose, host, port, sent: AtomicU64::new(0), received: AtomicU64::new(0), ended: "cut" };
    let clock = Mutex::new(Instant::now());
    let (mut from_program, mut to_program) = program.stream.split();
    let (mut from_outside, mut to_outside) = outside.split();
    let ended = tokio::try_join!(
        pass(&mut from_program, &mut to_outside, &carried.sent, &clock),
        pass(&mut from_outside, &mut to_program, &carried.received, &clock),
    );
    program.is_done = ended.is_ok();
    carried.ended = match ended {
        Ok(_) => "done",
        Err(Broken::Idle) => "idle",
        Err(Broken::Broken) => "broken",
    };
}

/// Whether the first bytes begin TLS. They stay where they are.
async fn is_tls(program: &TcpStream) -> bool {
    const HANDSHAKE: [u8; 2] = [22, 3];
    let mut first = [0; 2];
    let begins = async {
        loop {
            match program.peek(&mut first).await {
                Ok(2) => return first == HANDSHAKE,
                Ok(1) if first[0] == HANDSHAKE[0] => tokio::time::sleep(REST).await,
                Ok(_) | Err(_) => return false,
            }
        }
    };
    timeout(IDLE, begins).await.unwrap_or(false)
}

/// A connection that is carried. It is counted and logged however it ends.
struct Carried<'s> {
    whose: &'s str,
    host: String,
    port: u16,
    sent: AtomicU64,
    received: AtomicU64,
    ended: &'static str,
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        let (sent, received) = (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed));
        metrics::counter!("countersign_relay_connections_total", "ended" => self.ended).increment(1);
        metrics::counter!("countersign_relay_bytes_total", "direction" => "sent").increment(sent);
        metrics::counter!("countersign_relay_bytes_total", "direction" => "received").increment(received);
        let (whose, host, port, ended) = (self.whose, &self.host, self.port, self.ended);
        tracing::info!(whose, host, port, sent, received, ended, "relay");
    }
}

enum Broken {
    Idle,
    Broken,
}

/// Carries one direction to its end. `clock` says when a byte went last, in either direction.
async fn pass(from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>, counted: &AtomicU64, clock: &Mutex<Instant>) -> Result<(), Broken> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = loop {
            match timeout(IDLE, from.read(&mut buffer)).await {
                Ok(read) => break read.map_err(|_| Broken::Broken)?,
                Err(_) if clock.lock().elapsed() >= IDLE => return Err(Broken::Idle),
                Err(_) => {}
            }
        };
        if read == 0 {
            // Whoever has closed its end already needs no word of it.
            let _ = to.shutdown().await;
            return Ok(());
        }
        *clock.lock() = Instant::now();
        let written = timeout(IDLE, to.write_all(&buffer[..read])).await.map_err(|_| Broken::Idle)?;
        written.map_err(|_| Broken::Broken)?;
        counted.fetch_add(read as u64, Ordering::Relaxed);
        *clock.lock() = Instant::now();
    }
}

/// The files by which programs find their resolver.
pub(crate) fn files(readable: &[PathBuf]) -> Vec<jail::Input> {
    const FILES: [(&str, &str); 3] = [
        ("/etc/hosts", "127.0.0.1 localhost\n"),
        ("/etc/nsswitch.conf", "hosts: files dns\n"),
        ("/etc/resolv.conf", "nameserver 127.0.0.1\n"),
    ];
    let all = FILES.into_iter().filter(|(path, _)| !is_shown(Path::new(path), readable));
    all.map(|(path, text)| jail::Input { path: path.into(), bytes: text.as_bytes().into() }).collect()
}

/// The certificates of the system, where distributions have them, and what their links lead to.
pub(crate) fn certificates(readable: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
    const PLACES: [&str; 7] = [
        "/etc/ssl/certs",
        "/etc/ssl/cert.pem",
        "/etc/ssl/openssl.cnf",
        "/etc/pki/tls/certs",
        "/etc/pki/ca-trust/extracted",
        "/usr/share/ca-certificates",
        "/usr/local/share/ca-certificates",
    ];
    let all = PLACES.into_iter().map(Path::new).filter(|path| path.exists() && !is_shown(path, readable));
    all.map(|path| (path.to_owned(), path.to_owned())).collect()
}

/// Whether the operator shows this path already.
fn is_shown(path: &Path, readable: &[PathBuf]) -> bool {
    readable.iter().any(|shown| path.starts_with(shown))
}

/// Whether a port can have hosts: on this one, the resolver listens.
pub(crate) const fn is_for_hosts(port: u16) -> bool {
    port != QUESTIONS_PORT
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
