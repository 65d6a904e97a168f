//! The only way out of a jail: requests, one line of JSON each, on a descriptor that leads to the server and to nobody else.
//!
//! ```text
//! {"method":"GET","url":"https://example.com/","headers":[["accept","*/*"]],"body":"<base64>"}
//! {"status":200,"headers":[["content-type","text/plain"]],"body":"<base64>"}     or     {"refused":"<why>"}
//! ```
//!
//! This file frames, bounds and records. Whether a host may be asked, what its name resolves to and where a redirect leads is judged by
//! the transport, which the composition supplies: it sees every request, and nothing leaves but through it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// The longest line of a request, its body in base64 included; then the connection ends.
pub const LINE_BYTES_MAX: usize = 2 << 20;
/// The largest body that is handed back; a larger one is refused.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// How many requests one run may make; then the connection ends.
pub const REQUESTS_MAX: usize = 100;
/// How many headers a request may have, and how long its url may be.
pub const HEADERS_MAX: usize = 64;
pub const URL_BYTES_MAX: usize = 8 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Why a request was not made. The program is told, and so is the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// What is kept of each request, made or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    pub method: String,
    pub url: String,
    /// The status it was answered with; `None` when it was refused.
    pub status: Option<u16>,
    pub refused: Option<String>,
}

/// Our end of a program's way out.
pub struct Proxy(UnixStream);

/// A proxy, and the end a program is given (`Spec::egress`).
pub fn pair() -> io::Result<(Proxy, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    Ok((Proxy(ours), theirs.into()))
}

impl Proxy {
    /// Answers until the program is gone, or has used up what it may. Blocks, so it has a thread of its own.
    pub fn serve(self, mut transport: impl FnMut(Request) -> Result<Response, Refused>) -> io::Result<Vec<Record>> {
        let mut answers = self.0.try_clone()?;
        let mut lines = BufReader::new(self.0);
        let mut records = vec![];
        while records.len() < REQUESTS_MAX {
            let mut line = vec![];
            let read = lines.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(records);
            }
            let whole = line.ends_with(b"\n") && line.len() <= LINE_BYTES_MAX;
            let parsed = if whole { parse(&line) } else { Err(Refused("the line is too long, or has no end".into())) };
            let (method, url) = match &parsed {
                Ok(request) => (request.method.clone(), crate::text::neutralise(request.url.as_bytes())),
                Err(_) => Default::default(),
            };
            let answer = parsed.and_then(&mut transport).and_then(bounded);
            let (status, refused) = match &answer {
                Ok(response) => (Some(response.status), None),
                Err(Refused(why)) => (None, Some(why.clone())),
            };
            records.push(Record { method, url, status, refused });
            // A program that does not listen any more has had its request made all the same, and recorded.
            if answers.write_all(&wire(answer)?).is_err() || !whole {
                return Ok(records);
            }
        }
        Ok(records)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answered {
    Response { status: u16, headers: Vec<(String, String)>, body: String },
    Refused { refused: String },
}

fn parse(line: &[u8]) -> Result<Request, Refused> {
    let refused = |why: &str| Err(Refused(why.to_owned()));
    let Ok(asked) = serde_json::from_slice::<Asked>(line) else { return refused("not a request") };
    if asked.method.is_empty() || asked.method.len() > 16 || !asked.method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return refused("not a method");
    }
    if asked.method == "CONNECT" {
        return refused("a tunnel is not a request");
    }
    if asked.url.len() > URL_BYTES_MAX || !asked.url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused("the url is too long, or not plain ASCII");
    }
    if asked.headers.len() > HEADERS_MAX {
        return refused("too many headers");
    }
    for (name, value) in &asked.headers {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return refused("not a header's name");
        }
        // A line break would begin a header, or a request, that nobody has judged.
        if !value.bytes().all(|byte| byte == b' ' || byte == b'\t' || byte.is_ascii_graphic()) {
            return refused("not a header's value");
        }
        // Whom a request is for is said by its url alone.
        if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            return refused("a header that is not the program's to set");
        }
    }
    let Ok(body) = STANDARD.decode(&asked.body) else { return refused("the body is not base64") };
    Ok(Request { method: asked.method, url: asked.url, headers: asked.headers, body })
}

/// What says where a request goes, and where it ends.
const OURS: [&str; 8] = ["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "proxy-authorization"];

fn bounded(response: Response) -> Result<Response, Refused> {
    if response.body.len() > BODY_BYTES_MAX { Err(Refused("the answer is too large".into())) } else { Ok(response) }
}

fn wire(answer: Result<Response, Refused>) -> io::Result<Vec<u8>> {
    let answered = match answer {
        Ok(Response { status, headers, body }) => Answered::Response { status, headers, body: STANDARD.encode(body) },
        Err(Refused(refused)) => Answered::Refused { refused },
    };
    let mut line = serde_json::to_vec(&answered)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything a program sends, what it is answered, and what is recorded.
    fn exchange(sent: &[u8]) -> (String, Vec<Record>) {
        let (proxy, program) = pair().unwrap();
        let mut program = UnixStream::from(program);
        let serving = std::thread::spawn(move || {
            proxy.serve(|request| match request.url.as_str() {
                "https://large.example/" => Ok(Response { status: 200, headers: vec![], body: vec![0; BODY_BYTES_MAX + 1] }),
                "https://refused.example/" => Err(Refused("not on the list".into())),
                _ => Ok(Response { status: 200, headers: vec![("x".into(), "y".into())], body: request.body }),
            })
        });
        let sent = sent.to_vec();
        let mut writer = program.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            let _ = writer.write_all(&sent);
            let _ = writer.shutdown(std::net::Shutdown::Write);
        });
        let mut answered = String::new();
        program.read_to_string(&mut answered).unwrap();
        writing.join().unwrap();
        (answered, serving.join().unwrap().unwrap())
    }

    #[test]
    fn a_request_is_made_answered_and_recorded() {
        let (answered, records) = exchange(b"{\"method\":\"POST\",\"url\":\"https://a.example/\",\"body\":\"aGk=\"}\n");
        assert_eq!(answered, "{\"status\":200,\"headers\":[[\"x\",\"y\"]],\"body\":\"aGk=\"}\n");
        let expected = Record { method: "POST".into(), url: "https://a.example/".into(), status: Some(200), refused: None };
        assert_eq!(records, [expected]);
    }

    #[test]
    fn what_is_not_a_plain_request_never_reaches_the_transport() {
        for (sent, why) in [
            (r#"{"method":"CONNECT","url":"a.example:443"}"#, "a tunnel is not a request"),
            (r#"{"method":"get","url":"https://a.example/"}"#, "not a method"),
            (r#"{"method":"GET /x HTTP/1.1\r\nA: b","url":"https://a.example/"}"#, "not a method"),
            (r#"{"method":"GET","url":"https://a.example/\r\nHost: b"}"#, "the url is too long, or not plain ASCII"),
            (r#"{"method":"GET","url":"https://a.example/ x"}"#, "the url is too long, or not plain ASCII"),
            (r#"{"method":"GET","url":"https://a.example/","headers":[["Host","b"]]}"#, "a header that is not the program's to set"),
            (r#"{"method":"GET","url":"https://a.example/","headers":[["a","b\r\nc: d"]]}"#, "not a header's value"),
            (r#"{"method":"GET","url":"https://a.example/","headers":[["a b","c"]]}"#, "not a header's name"),
            (r#"{"method":"GET","url":"https://a.example/","body":"?"}"#, "the body is not base64"),
            (r#"{"method":"GET","url":"https://a.example/","more":1}"#, "not a request"),
            ("nonsense", "not a request"),
            (r#"{"method":"GET","url":"https://refused.example/"}"#, "not on the list"),
            (r#"{"method":"GET","url":"https://large.example/"}"#, "the answer is too large"),
        ] {
            let (answered, records) = exchange(format!("{sent}\n").as_bytes());
            assert_eq!(answered, format!("{{\"refused\":\"{why}\"}}\n"), "{sent}");
            assert_eq!((records.len(), records[0].status, records[0].refused.as_deref()), (1, None, Some(why)), "{sent}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_cut_and_ends_the_connection() {
        let (answered, records) = exchange(&vec![b'a'; LINE_BYTES_MAX + 10]);
        assert_eq!(answered, "{\"refused\":\"the line is too long, or has no end\"}\n");
        assert_eq!(records.len(), 1);
    }

    #[test]
    fn requests_are_counted() {
        let one = b"{\"method\":\"GET\",\"url\":\"https://a.example/\"}\n";
        let (answered, records) = exchange(&one.repeat(REQUESTS_MAX + 5));
        assert_eq!((answered.lines().count(), records.len()), (REQUESTS_MAX, REQUESTS_MAX));
    }
}
