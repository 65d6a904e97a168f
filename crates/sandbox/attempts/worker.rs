//! What the tests let a worker do: each request is an attempt, and the answer is what became of it.

use crate::answer::{errno, name};
use std::io::{self, BufRead, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::sync::mpsc;

pub(crate) fn serve(requests: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    for request in requests.lines() {
        let request = request?;
        let (word, rest) = request.split_once(' ').unwrap_or((&request, ""));
        let answer = match word {
            "echo" => rest.to_owned(),
            "read" => told(std::fs::read(rest)),
            "write" => told(std::fs::write(rest, "x")),
            "list" => told(std::fs::read_dir(rest)),
            "connect" => told(TcpStream::connect(rest)),
            "datagram" => told(UdpSocket::bind("127.0.0.1:0")),
            "start" => told(start(rest)),
            "thread" => told(std::thread::Builder::new().spawn(|| {})),
            "kill" => told(kill(rest)),
            "allocate" => vec![1_u8; rest.parse().unwrap_or(0)].iter().map(|byte| usize::from(*byte)).sum::<usize>().to_string(),
            "answer" => "x".repeat(rest.parse().unwrap_or(0)),
            "spin" => spin(),
            "hang" => hang(),
            "exit" => std::process::exit(0),
            _ => "unknown".to_owned(),
        };
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
    Ok(())
}

fn told<T>(result: io::Result<T>) -> String {
    errno(result).map_or_else(name, |_| "ok".to_owned())
}

#[expect(clippy::disallowed_methods, reason = "it is the attempt")]
fn start(program: &str) -> io::Result<()> {
    Command::new(program).spawn().map(drop)
}

fn kill(pid: &str) -> io::Result<()> {
    let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::test_kill_process(pid)?)
}

fn spin() -> String {
    let mut number = 0_u64;
    loop {
        number = std::hint::black_box(number.wrapping_add(1));
        if number == u64::MAX {
            return number.to_string();
        }
    }
}

/// Waits without computing, for somebody who never comes.
fn hang() -> String {
    let (_kept, never) = mpsc::channel::<()>();
    told(never.recv().map_err(io::Error::other))
}
