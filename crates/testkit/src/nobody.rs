//! An address at which nobody listens.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use tokio::net::TcpSocket;

/// Bound and never listening: every connection is refused. It is kept until the process ends, because a port that is free again may be
/// given to the server of another test.
static TAKEN: LazyLock<TcpSocket> = LazyLock::new(|| {
    let socket = TcpSocket::new_v4().expect("this machine can make sockets");
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("the loopback network works");
    socket
});

/// Where every connection is refused, for as long as the process lives.
pub fn nobody() -> SocketAddr {
    TAKEN.local_addr().expect("a bound socket has an address")
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn nobody_answers_there_and_nobody_else_can() {
        let address = super::nobody();
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(TcpListener::bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(super::nobody(), address);
    }
}
