//! A network that a jailed program sees as any other, and in which only the server answers. The sandbox makes its sockets; this port
//! serves them, so the sandbox does not know which hosts are allowed.

use crate::Future;
use std::fmt;
use std::net::{TcpListener, UdpSocket};

/// Answers questions for names, and carries connections to the hosts that a program may reach.
pub trait Network: Send + Sync + fmt::Debug {
    /// The ports on which there is a host to reach, at most `limits::RELAY_PORTS_MAX`.
    fn ports(&self) -> Vec<u16>;
    /// Serves these sockets. Dropping the future ends every connection of the program.
    fn serve(&self, sockets: Sockets) -> Future<'_, ()>;
    /// What the program wanted last and did not get; `None` if it got everything.
    fn refused(&self) -> Option<Refused>;
}

/// What a program wanted and did not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The name or the address, safe to show.
    pub host: String,
    /// Absent for a question about a name.
    pub port: Option<u16>,
    /// As in the log.
    pub code: &'static str,
}

/// The sockets of a program's network, made in its network namespace. There every IPv4 address is one of its own, so each of its connections
/// arrives here, whichever address it was for.
#[derive(Debug)]
pub struct Sockets {
    /// Questions for names: `127.0.0.1:53`.
    pub questions: UdpSocket,
    pub questions_by_tcp: TcpListener,
    /// One for each port, for every address.
    pub connections: Vec<TcpListener>,
    /// The IPv4 packets with which the namespace refused something: a connection to a port that nobody listens on, or a datagram.
    pub refusals: [UdpSocket; 2],
}
