//! The network of a program that may reach hosts, made by process 1 in the jail's own network namespace. Nothing runs in it: its sockets go
//! to the server, and stay in this namespace all the same.
//!
//! Every IPv4 address belongs to the namespace. So a connection to any address arrives at a socket of the server, which then decides, and
//! what has no socket is refused by the kernel and heard by the server.

use super::{Failure, at};
use crate::error::Step;
use crate::sys;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, ipproto};
use seccompiler::sock_filter;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

/// Connections that wait for the server; a further one has to try again.
const BACKLOG: i32 = 128;
const QUESTIONS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53);

/// The sockets, in the order of `orders::NETWORK_FDS` and then one for each port.
pub(super) fn open(ports: &[u16]) -> Result<Vec<OwnedFd>, Failure> {
    let failed = |error: Errno| Failure::new(Step::Init, "making the network", error);
    bring_up().map_err(failed)?;
    let mut all = vec![
        bound(SocketType::DGRAM, QUESTIONS).map_err(failed)?,
        listening(QUESTIONS).map_err(failed)?,
        heard(ipproto::TCP, &RESETS)?,
        heard(ipproto::ICMP, &UNREACHABLE)?,
    ];
    for port in ports {
        let listener = listening(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, *port));
        all.push(listener.map_err(at(Step::Init, format_args!("listening on port {port} of the jail")))?);
    }
    Ok(all)
}

fn made(kind: SocketType, protocol: Option<Protocol>) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, protocol)
}

fn bound(kind: SocketType, address: SocketAddrV4) -> Result<OwnedFd, Errno> {
    let socket = made(kind, None)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

fn listening(address: SocketAddrV4) -> Result<OwnedFd, Errno> {
    let socket = bound(SocketType::STREAM, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A socket that hears the packets of the namespace that a filter lets through.
fn heard(protocol: Protocol, filter: &[sock_filter]) -> Result<OwnedFd, Failure> {
    // Nothing runs in the namespace yet, so nothing is heard before there is a filter.
    let socket = made(SocketType::RAW, Some(protocol)).map_err(at(Step::Init, "hearing what the network refuses"))?;
    sys::attach_filter(socket.as_fd(), filter).map_err(at(Step::Init, "hearing what the network refuses"))?;
    Ok(socket)
}

/// The longest part of a packet that the server needs: two headers of IPv4 with all their options, and the ports.
const HEARD_BYTES: u32 = 136;

const LOAD_HEADER_LENGTH: u16 = 0xb1;
const LOAD_BYTE_AFTER_HEADER: u16 = 0x50;
const LOAD_WORD_AFTER_HEADER: u16 = 0x40;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

const fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// The answer of the kernel to a connection where nobody listens: RST and ACK, with sequence number 0. A connection that breaks later has
/// another number.
const RESETS: [sock_filter; 7] = [
    step(LOAD_HEADER_LENGTH, 0, 0, 0),
    step(LOAD_BYTE_AFTER_HEADER, 0, 0, 13),
    step(JUMP_EQUAL, 0, 3, 0x14),
    step(LOAD_WORD_AFTER_HEADER, 0, 0, 4),
    step(JUMP_EQUAL, 0, 1, 0),
    step(RETURN, 0, 0, HEARD_BYTES),
    step(RETURN, 0, 0, 0),
];

/// The answer of the kernel to a datagram for nobody: `destination unreachable`, with the head of the datagram.
const UNREACHABLE: [sock_filter; 5] = [
    step(LOAD_HEADER_LENGTH, 0, 0, 0),
    step(LOAD_BYTE_AFTER_HEADER, 0, 0, 0),
    step(JUMP_EQUAL, 0, 1, 3),
    step(RETURN, 0, 0, HEARD_BYTES),
    step(RETURN, 0, 0, 0),
];

/// Brings the loopback device up, and makes every IPv4 address one of this namespace.
fn bring_up() -> Result<(), Errno> {
    // Protocol 0 of this family is the one for devices and routes.
    let flags = SocketFlags::CLOEXEC;
    let kernel = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let up = u32::try_from(libc::IFF_UP).unwrap_or(1).to_ne_bytes();
    let mut device = vec![0_u8, 0, 0, 0];
    device.extend(LOOPBACK.to_ne_bytes());
    device.extend(up);
    device.extend(up);
    ask(&kernel, libc::RTM_NEWLINK, 0, &device)?;
    // Family, lengths of both prefixes, type of service, table, protocol, scope, type, and the flags; then the device.
    let mut route =
        vec![libc::AF_INET as u8, 0, 0, 0, libc::RT_TABLE_LOCAL, libc::RTPROT_STATIC, libc::RT_SCOPE_HOST, libc::RTN_LOCAL, 0, 0, 0, 0];
    route.extend(8_u16.to_ne_bytes());
    route.extend(libc::RTA_OIF.to_ne_bytes());
    route.extend(LOOPBACK.to_ne_bytes());
    ask(&kernel, libc::RTM_NEWROUTE, libc::NLM_F_CREATE as u16, &route)
}

/// The index of the loopback device in every network namespace.
const LOOPBACK: u32 = 1;
/// The length of the head of a message to the kernel, and of its answer: that head and a number.
const HEAD_BYTES: usize = 16;
const ANSWER_BYTES: usize = HEAD_BYTES + 4;

/// Sends one message to the kernel and waits for its answer.
fn ask(kernel: &OwnedFd, kind: u16, more: u16, body: &[u8]) -> Result<(), Errno> {
    let flags = libc::NLM_F_REQUEST as u16 | libc::NLM_F_ACK as u16 | more;
    let mut message = u32::try_from(HEAD_BYTES + body.len()).map_err(|_| Errno::INVAL)?.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    rustix::net::send(kernel, &message, SendFlags::empty())?;
    let mut answer = [0_u8; 512];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(kernel, &mut answer))?;
    let code: [u8; 4] = answer[..length].get(HEAD_BYTES..ANSWER_BYTES).and_then(|code| code.try_into().ok()).ok_or(Errno::PROTO)?;
    match i32::from_ne_bytes(code) {
        0 => Ok(()),
        code => Err(Errno::from_raw_os_error(-code)),
    }
}
