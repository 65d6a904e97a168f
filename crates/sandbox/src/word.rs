//! The messages between the server and the jail: one datagram per message (a word), on a socket that the program never gets.

use crate::error::Step;
use crate::orders::{FDS, FDS_MAX, NETWORK_FDS_MAX};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The longest error message that is sent; the rest is cut off.
const SENTENCE_BYTES_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) enum Word {
    /// Everything is mounted. Carries the roots of the stage and the scratch, and a handle of process 1, whose death ends all processes of
    /// the jail.
    Ready {
        stage: OwnedFd,
        scratch: OwnedFd,
        init: OwnedFd,
        proc: bool,
    },
    /// The sockets of the program's network. Sent before `Ready`.
    Network(Vec<OwnedFd>),
    /// A step failed, and the program did not run.
    Failed {
        step: Step,
        why: String,
    },
    /// The program runs. Sent for a resident only.
    Begun,
    Exited(i32),
    Signalled(i32),
}

/// The result of listening: a word, none at the moment, or none ever again.
#[derive(Debug)]
pub(crate) enum Heard {
    Word(Word),
    Nothing,
    Closed,
}

/// Sends the stage, the scratch and the handle of process 1, in this order.
pub(crate) fn say_ready(socket: BorrowedFd<'_>, fds: [BorrowedFd<'_>; 3], proc: bool) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(socket, &[IoSlice::new(&[b'R', u8::from(proc)])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Sends the sockets of the program's network.
pub(crate) fn say_network(socket: BorrowedFd<'_>, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(NETWORK_FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    sendmsg(socket, &[IoSlice::new(b"N")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn say_failed(socket: BorrowedFd<'_>, step: Step, why: &str) -> Result<(), Errno> {
    let mut end = why.len().min(SENTENCE_BYTES_MAX);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = vec![b'F', step as u8];
    bytes.extend_from_slice(&why.as_bytes()[..end]);
    say(socket, &bytes)
}

pub(crate) fn say_begun(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    say(socket, b"B")
}

pub(crate) fn say_exited(socket: BorrowedFd<'_>, code: i32) -> Result<(), Errno> {
    say_number(socket, b'X', code)
}

pub(crate) fn say_signalled(socket: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    say_number(socket, b'S', signal)
}

fn say_number(socket: BorrowedFd<'_>, kind: u8, number: i32) -> Result<(), Errno> {
    let [a, b, c, d] = number.to_le_bytes();
    say(socket, &[kind, a, b, c, d])
}

fn say(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL).map(|_| ())
}

/// Asks the jail to send its program SIGTERM.
pub(crate) fn ask_to_end(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::net::send(socket, b"T", SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map(|_| ())
}

/// Whether the server has asked the jail to end the program. Does not wait.
pub(crate) fn is_asked_to_end(socket: BorrowedFd<'_>) -> bool {
    matches!(rustix::net::recv(socket, &mut [0_u8; 1], RecvFlags::DONTWAIT), Ok((1, _)))
}

/// Sends the jail its orders, with all the descriptors they need.
pub(crate) fn give_orders(socket: BorrowedFd<'_>, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    sendmsg(socket, &[IoSlice::new(b"O")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for the orders. `None` when there will be none, because the server is gone or does not need this jail.
pub(crate) fn take_orders(socket: BorrowedFd<'_>) -> Result<Option<Vec<OwnedFd>>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 1];
    let message =
        rustix::io::retry_on_intr(|| recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC))?;
    let fds = rights(&mut ancillary);
    Ok((message.bytes == 1 && fds.len() >= FDS).then_some(fds))
}

fn rights(ancillary: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let mut fds = vec![];
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    fds
}

/// Takes the next word, without waiting for one.
pub(crate) fn hear(socket: BorrowedFd<'_>) -> Result<Heard, Errno> {
    let mut bytes = [0; SENTENCE_BYTES_MAX + 2];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(NETWORK_FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
        Ok(message) => message,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Heard::Nothing),
        Err(Errno::CONNRESET) => return Ok(Heard::Closed),
        Err(error) => return Err(error),
    };
    let fds = rights(&mut ancillary);
    if message.bytes == 0 || message.flags.contains(ReturnFlags::TRUNC) {
        return Ok(Heard::Closed);
    }
    Ok(parse(&bytes[..message.bytes], fds).map_or(Heard::Closed, Heard::Word))
}

fn parse(bytes: &[u8], fds: Vec<OwnedFd>) -> Option<Word> {
    let number = |rest: &[u8]| rest.try_into().ok().map(i32::from_le_bytes);
    match bytes {
        [b'R', proc] => {
            let [stage, scratch, init]: [OwnedFd; 3] = fds.try_into().ok()?;
            Some(Word::Ready { stage, scratch, init, proc: *proc != 0 })
        }
        [b'N'] => Some(Word::Network(fds)),
        [b'F', step, why @ ..] => Some(Word::Failed { step: Step::from_number(*step)?, why: String::from_utf8_lossy(why).into_owned() }),
        [b'B'] => Some(Word::Begun),
        [b'X', rest @ ..] => number(rest).map(Word::Exited),
        [b'S', rest @ ..] => number(rest).map(Word::Signalled),
        _ => None,
    }
}
