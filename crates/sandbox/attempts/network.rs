//! Attempts to talk to anybody.

use crate::answer::{Attempt, try_one};
use crate::sys::call;
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

fn dns(_: &Place) {
    let found = std::net::ToSocketAddrs::to_socket_addrs("countersign.invalid:80").map(|all| all.count());
    say(&format!("lookup={}", if found.is_ok() { "ok" } else { "failed" }));
}

fn unix(_: &Place) {
    try_one("stream", || socket(libc::AF_UNIX, libc::SOCK_STREAM, 0));
    try_one("datagram", || socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0));
    let pair = [[0_i32; 2]];
    try_one("pair", || call(libc::SYS_socketpair, &[&i64::from(libc::AF_UNIX), &i64::from(libc::SOCK_STREAM), &0_i64, &pair]).map(drop));
    try_one("connect", || call(libc::SYS_connect, &[&0_i64, &pair, &2_i64]).map(drop));
}

fn egress(_: &Place) {
    // Connected to the server and to nobody else: it cannot be pointed anywhere.
    let address = [[1_u16, 0, 0, 0]];
    try_one("write", || call(libc::SYS_write, &[&3_i64, &crate::files::text("hello\n"), &6_i64]).map(drop));
    try_one("connect", || call(libc::SYS_connect, &[&3_i64, &address, &8_i64]).map(drop));
}
