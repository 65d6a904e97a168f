//! Attempts to communicate with anybody outside the jail.

use crate::answer::{Attempt, errno, try_one};
use crate::sys::{self, call};
use crate::{Place, say};

pub(crate) const ALL: &[(&str, Attempt)] =
    &[("net_inet", inet), ("net_families", families), ("net_dns", dns), ("net_unix", unix), ("net_egress_fd", egress)];

fn socket(family: i32, kind: i32, protocol: i32) -> Result<(), i32> {
    call(libc::SYS_socket, &[&i64::from(family), &i64::from(kind), &i64::from(protocol)]).map(drop)
}

fn inet(_: &Place) {
    try_one("tcp", || socket(libc::AF_INET, libc::SOCK_STREAM, 0));
    try_one("tcp6", || socket(libc::AF_INET6, libc::SOCK_STREAM, 0));
    try_one("udp", || socket(libc::AF_INET, libc::SOCK_DGRAM, 0));
    try_one("raw", || socket(libc::AF_INET, libc::SOCK_RAW, 1));
    try_one("ping", || socket(libc::AF_INET, libc::SOCK_DGRAM, 1));
    try_one("mptcp", || socket(libc::AF_INET, libc::SOCK_STREAM, 262));
    try_one("sctp", || socket(libc::AF_INET, libc::SOCK_STREAM, 132));
}

fn families(_: &Place) {
    for (label, family, kind) in [
        ("packet", libc::AF_PACKET, libc::SOCK_RAW),
        ("netlink", libc::AF_NETLINK, libc::SOCK_RAW),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM),
        ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET),
        ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW),
        ("xdp", libc::AF_XDP, libc::SOCK_RAW),
        ("tipc", libc::AF_TIPC, libc::SOCK_SEQPACKET),
    ] {
        try_one(label, || socket(family, kind, 0));
    }
}

/// Resolves a name in every possible way: with the C library, through its daemon, and from a server at a known address.
fn dns(_: &Place) {
    let found = std::net::ToSocketAddrs::to_socket_addrs("countersign.invalid:80").map(|all| all.count());
    say(&format!("lookup={}", if found.is_ok() { "ok" } else { "failed" }));
    for daemon in ["/run/nscd/socket", "/var/run/nscd/socket"] {
        try_one(daemon, || connect(libc::SOCK_STREAM, &pathname(daemon)));
    }
    let port: u16 = std::env::var("LISTENER").ok().and_then(|port| port.parse().ok()).unwrap_or(53);
    try_one("tcp", || errno(std::net::TcpStream::connect(("127.0.0.1", port))).map(drop));
    try_one("udp", || {
        let socket = errno(std::net::UdpSocket::bind("127.0.0.1:0"))?;
        errno(socket.send_to(b"who is it", ("127.0.0.1", port))).map(drop)
    });
}

/// A Unix socket address, and how many bytes of it count.
type Address = ([libc::sockaddr_un; 1], i64);

fn address(bytes: &[u8]) -> Address {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    ([address], 2 + bytes.len() as i64)
}

fn pathname(path: &str) -> Address {
    address(&[path.as_bytes(), b"\0"].concat())
}

fn unnamed_by_a_file(name: &str) -> Address {
    address(&[b"\0", name.as_bytes()].concat())
}

fn connect(kind: i32, (address, length): &Address) -> Result<(), i32> {
    let socket = call(libc::SYS_socket, &[&i64::from(libc::AF_UNIX), &i64::from(kind), &0_i64])?;
    call(libc::SYS_connect, &[&socket, address, length]).map(drop)
}

/// A socket pair needs no address. The harm would be that one end of it reaches somebody else.
fn pair(kind: i32) -> Result<[i64; 2], i32> {
    let mut pair = [[0_i32; 2]];
    call(libc::SYS_socketpair, &[&i64::from(libc::AF_UNIX), &i64::from(kind), &0_i64, &(pair.as_mut_ptr() as i64)])?;
    Ok(pair[0].map(i64::from))
}

fn send_to(kind: i32, (address, length): &Address) -> Result<(), i32> {
    let [end, _] = pair(kind)?;
    call(libc::SYS_sendto, &[&end, &crate::files::text("hello"), &5_i64, &0_i64, address, length]).map(drop)
}

fn unix(place: &Place) {
    // For the run in the jail, the test listens outside; for the control, this process listens itself.
    let in_the_jail = place.stage == "/stage";
    let folder = if in_the_jail { "/shown" } else { &place.visible };
    let (stream, datagram) = (pathname(&format!("{folder}/stream")), pathname(&format!("{folder}/datagram")));
    let hidden = unnamed_by_a_file(&std::env::var("LISTENER").unwrap_or_else(|_| "countersign-control".to_owned()));
    if !in_the_jail {
        for (kind, (address, length)) in [(libc::SOCK_STREAM, &stream), (libc::SOCK_DGRAM, &datagram), (libc::SOCK_STREAM, &hidden)] {
            let listening = call(libc::SYS_socket, &[&i64::from(libc::AF_UNIX), &i64::from(kind), &0_i64])
                .and_then(|socket| call(libc::SYS_bind, &[&socket, address, length]).map(|_| socket));
            let _ = listening.and_then(|socket| call(libc::SYS_listen, &[&socket, &8_i64]));
        }
    }
    try_one("stream", || socket(libc::AF_UNIX, libc::SOCK_STREAM, 0));
    try_one("datagram", || socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0));
    try_one("pathname", || connect(libc::SOCK_STREAM, &stream));
    try_one("pathname_datagram", || connect(libc::SOCK_DGRAM, &datagram));
    try_one("abstract", || connect(libc::SOCK_STREAM, &hidden));
    for engine in ["/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"] {
        try_one(engine, || connect(libc::SOCK_STREAM, &pathname(engine)));
    }
    try_one("pair", || pair(libc::SOCK_STREAM).map(drop));
    try_one("pair_connect", || {
        let [end, _] = pair(libc::SOCK_STREAM)?;
        call(libc::SYS_connect, &[&end, &stream.0, &stream.1]).map(drop)
    });
    // A datagram socket of a pair is not tied to the other end: it can send to any address it names.
    try_one("pair_sends_out", || send_to(libc::SOCK_DGRAM, &datagram));
    try_one("raw_pair_sends_out", || send_to(libc::SOCK_RAW, &datagram));
    try_one("stream_pair_sends_out", || send_to(libc::SOCK_STREAM, &datagram));
    // The descriptor numbers at which the jail kept the program file and the control socket until the exec.
    for (label, number) in [("program", 700_i64), ("control", 701)] {
        try_one(label, || call(libc::SYS_sendto, &[&number, &crate::files::text("hello"), &5_i64, &0_i64, &0_i64, &0_i64]).map(drop));
    }
    // A descriptor sent through a pair arrives at the program's own other end; nobody outside has an end.
    try_one("rights_of_its_own", || {
        let [one, other] = pair(libc::SOCK_STREAM)?;
        sys::send_rights(one, 0)?;
        sys::receive_rights(other)
    });
}

fn egress(_: &Place) {
    // The egress is connected to the server only, and cannot be connected to anything else.
    let address = [[1_u16, 0, 0, 0]];
    try_one("write", || call(libc::SYS_write, &[&3_i64, &crate::files::text("hello\n"), &6_i64]).map(drop));
    try_one("connect", || call(libc::SYS_connect, &[&3_i64, &address, &8_i64]).map(drop));
    // The peer of a socket can send descriptors along; the server at the other end of the egress does not.
    try_one("rights", || sys::receive_rights(3));
}
