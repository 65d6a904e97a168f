//! A minimal HTTP/1.1 client: one kept connection, one request at a time. It is minimal because it shares the machine with the server.

use crate::load::Caller;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that is kept open.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The status, the head and the body of an answer, as slices of the received bytes. A body in chunks has their lengths in it.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = std::str::from_utf8(self.head).ok()?.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// What ends a body in chunks.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(8 * 1024) })
    }

    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.received.clear();
        let head = loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(head) = Head::find(&self.received)? {
                break head;
            }
        };
        while !head.is_whole(&self.received) {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                bail!("the server closed the connection");
            }
        }
        let (head_bytes, body) = self.received.split_at_checked(head.body_from).unwrap_or_default();
        Ok(Answer { status: head.status, head: head_bytes, body })
    }

    /// One exchange of JSON, used to prepare a measurement. Any status but success is an error.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, token: &str, body: &Value) -> Result<Value> {
        let answer = self.exchange(&request(method, path, token, body)).await?;
        if !(200..300).contains(&answer.status) {
            bail!("{method} {path} was answered {}: {}", answer.status, String::from_utf8_lossy(answer.body));
        }
        Ok(serde_json::from_slice(answer.body)?)
    }
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, token: &str, body: &Value) -> Vec<u8> {
    request_with(method, path, token, "", body)
}

/// The same with more header fields, each with its line's end.
pub(crate) fn request_with(method: &str, path: &str, token: &str, fields: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n{fields}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

/// Sends the same kind of request again and again. Each must succeed.
pub(crate) struct HttpCaller {
    connection: Connection,
    next: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>,
    count: Arc<AtomicU64>,
}

impl HttpCaller {
    /// Opens as many callers as requested, each with its own connection. `next` gets a number that no two requests share.
    pub(crate) async fn open(
        callers: usize,
        address: SocketAddr,
        count: &Arc<AtomicU64>,
        next: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>,
    ) -> Result<Vec<Self>> {
        let mut open = Vec::with_capacity(callers);
        for _ in 0..callers {
            let connection = Connection::open(address).await?;
            open.push(Self { connection, next: Arc::clone(&next), count: Arc::clone(count) });
        }
        Ok(open)
    }
}

impl Caller for HttpCaller {
    async fn call(&mut self) -> Result<()> {
        let request = (self.next)(self.count.fetch_add(1, Ordering::Relaxed));
        let answer = self.connection.exchange(&request).await?;
        if answer.status != 200 {
            bail!("a call was answered {}: {}", answer.status, String::from_utf8_lossy(answer.body));
        }
        Ok(())
    }
}

struct Head {
    status: u16,
    body_from: usize,
    length: Length,
}

/// How far a body goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunks,
}

impl Head {
    /// Finds the head of an answer; `None` while it is not complete.
    fn find(received: &[u8]) -> Result<Option<Self>> {
        let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = std::str::from_utf8(received.get(..end).unwrap_or_default()).context("the head is not text")?;
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("there is no status")?.parse()?;
        let mut length = None;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(Length::Bytes(value.trim().parse()?));
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                length = Some(Length::Chunks);
            }
        }
        Ok(Some(Self { status, body_from: end + 4, length: length.context("the answer has no length")? }))
    }

    /// Whether everything of the answer was received.
    fn is_whole(&self, received: &[u8]) -> bool {
        match self.length {
            Length::Bytes(bytes) => received.len() >= self.body_from + bytes,
            // The line before the body ends like a chunk, so that a body without any chunk is whole, too.
            Length::Chunks => received.get(self.body_from - 2..).is_some_and(|rest| rest.ends_with(LAST_CHUNK)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        assert!(Head::find(b"HTTP/1.1 200 OK\r\ncontent-le").unwrap().is_none());
        let head = Head::find(b"HTTP/1.1 202 Accepted\r\nx: y\r\nContent-Length: 5\r\n\r\nhello").unwrap().unwrap();
        assert_eq!((head.status, head.body_from, head.length), (202, 50, Length::Bytes(5)));
        let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        let head = Head::find(chunks).unwrap().unwrap();
        assert!(head.is_whole(chunks) && !head.is_whole(&chunks[..chunks.len() - 1]));
        assert!(Head::find(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "without a length nobody knows where it ends");
    }
}
