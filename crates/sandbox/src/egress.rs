//! The only way out of a jail: one line of JSON per request, on a socket that leads to the server and nowhere else.
//!
//! ```text
//! {"method":"GET","url":"https://example.com/","headers":[["accept","*/*"]],"body":"<base64>"}
//! {"status":200,"headers":[["content-type","text/plain"]],"body":"<base64>"}     or     {"refused":"<why>"}
//! ```
//!
//! This file does the framing and the size limits. The port `core::egress` decides whether a host may be asked, to which addresses its name
//! may resolve and where a redirect may lead. The port is told of every line, refused ones included, and a request leaves only
//! through it.

use crate::limits::EGRESS_LINE_BYTES_MAX;
use crate::orders::fd;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use countersign_core::egress::{Egress, Refused, Request, Response};
use countersign_core::limits::EGRESS_RESPONSE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// The descriptor number at which a program finds its egress, if it has one.
pub const DESCRIPTOR: RawFd = fd::EGRESS;
/// The maximum number of headers of a request, and the maximum length of its URL.
const HEADERS_MAX: usize = 64;
const URL_BYTES_MAX: usize = 8 << 10;

/// The server's end of a program's egress. Dropping it closes it.
pub struct Proxy(UnixStream);

/// Makes a proxy, and the end for the program (`Spec::egress`).
pub fn pair() -> io::Result<(Proxy, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    Ok((Proxy(ours), theirs.into()))
}

impl Proxy {
    /// Answers one request after another until the program has closed its end or used up its requests. Dropping the future ends it:
    /// requests that were not read yet are not made, and the request under way is aborted.
    pub async fn serve(self, egress: &dyn Egress, requests_max: usize) -> io::Result<()> {
        self.0.set_nonblocking(true)?;
        let (lines, mut answers) = tokio::net::UnixStream::from_std(self.0)?.into_split();
        let mut lines = BufReader::new(lines);
        for _ in 0..requests_max {
            let mut line = vec![];
            // One byte more than the longest permitted line, to detect a line that is longer.
            let mut bounded_line = (&mut lines).take(EGRESS_LINE_BYTES_MAX as u64 + 1);
            if bounded_line.read_until(b'\n', &mut line).await? == 0 {
                return Ok(());
            }
            let is_whole = line.ends_with(b"\n") && line.len() <= EGRESS_LINE_BYTES_MAX;
            let parsed = if is_whole { parse(&line) } else { Err(Refused("the line is too long, or has no end".into())) };
            let answer = match parsed {
                Ok(request) => egress.request(request).await.and_then(bounded),
                Err(refused) => {
                    egress.refused(&refused);
                    Err(refused)
                }
            };
            // The write fails if the program no longer listens. The request has been made all the same.
            if answers.write_all(&wire(answer)?).await.is_err() || !is_whole {
                return Ok(());
            }
        }
        Ok(())
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
        // A line break could start another header or another request, which the port would not have checked.
        if !value.bytes().all(|byte| byte == b' ' || byte == b'\t' || byte.is_ascii_graphic()) {
            return refused("not a header's value");
        }
        // Only the URL says which host a request is for.
        if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            return refused("a header that is not the program's to set");
        }
    }
    let Ok(body) = STANDARD.decode(&asked.body) else { return refused("the body is not base64") };
    Ok(Request { method: asked.method, url: asked.url, headers: asked.headers, body })
}

/// The headers that say where a request goes and where it ends. A program may not set them.
const OURS: [&str; 8] = ["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "proxy-authorization"];

fn bounded(response: Response) -> Result<Response, Refused> {
    if response.body.len() > EGRESS_RESPONSE_BYTES_MAX { Err(Refused("the answer is too large".into())) } else { Ok(response) }
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
    use countersign_core::Future;
    use parking_lot::Mutex;

    const REQUESTS_MAX: usize = 20;

    /// Answers with the body it was sent, and remembers the requests and refusals.
    #[derive(Debug, Default)]
    struct Echo {
        asked: Mutex<Vec<Request>>,
        refused: Mutex<Vec<String>>,
    }

    impl Egress for Echo {
        fn request(&self, request: Request) -> Future<'_, Result<Response, Refused>> {
            self.asked.lock().push(request.clone());
            let answer = match request.url.as_str() {
                "https://large.example/" => Ok(Response { status: 200, headers: vec![], body: vec![0; EGRESS_RESPONSE_BYTES_MAX + 1] }),
                "https://refused.example/" => Err(Refused("not on the list".into())),
                "https://silent.example/" => return Box::pin(std::future::pending()),
                _ => Ok(Response { status: 200, headers: vec![("x".into(), "y".into())], body: request.body }),
            };
            Box::pin(std::future::ready(answer))
        }

        fn refused(&self, refused: &Refused) {
            self.refused.lock().push(refused.0.clone());
        }
    }

    /// Sends these bytes as a program would. Returns the answers and the `Echo` that saw the requests.
    async fn exchange(sent: &[u8]) -> (String, Echo) {
        let (proxy, program) = pair().unwrap();
        let sent = sent.to_vec();
        let program = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let mut program = UnixStream::from(program);
            let mut writer = program.try_clone().unwrap();
            let writing = std::thread::spawn(move || {
                let _ = writer.write_all(&sent);
                let _ = writer.shutdown(std::net::Shutdown::Write);
            });
            let mut answered = String::new();
            program.read_to_string(&mut answered).unwrap();
            writing.join().unwrap();
            answered
        });
        let echo = Echo::default();
        proxy.serve(&echo, REQUESTS_MAX).await.unwrap();
        (tokio::task::spawn_blocking(move || program.join().unwrap()).await.unwrap(), echo)
    }

    #[tokio::test]
    async fn a_request_is_made_and_answered() {
        let (answered, echo) = exchange(b"{\"method\":\"POST\",\"url\":\"https://a.example/\",\"body\":\"aGk=\"}\n").await;
        assert_eq!(answered, "{\"status\":200,\"headers\":[[\"x\",\"y\"]],\"body\":\"aGk=\"}\n");
        let expected = Request { method: "POST".into(), url: "https://a.example/".into(), headers: vec![], body: b"hi".to_vec() };
        assert_eq!(*echo.asked.lock(), [expected]);
        assert!(echo.refused.lock().is_empty());
    }

    #[tokio::test]
    async fn what_is_not_a_plain_request_is_told_and_never_made() {
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
        ] {
            let (answered, echo) = exchange(format!("{sent}\n").as_bytes()).await;
            assert_eq!(answered, format!("{{\"refused\":\"{why}\"}}\n"), "{sent}");
            assert!(echo.asked.lock().is_empty(), "{sent}");
            assert_eq!(*echo.refused.lock(), [why], "{sent}");
        }
    }

    #[tokio::test]
    async fn a_refusal_and_an_answer_that_is_too_large_are_told_to_the_program() {
        for (host, why) in [("refused", "not on the list"), ("large", "the answer is too large")] {
            let (answered, echo) = exchange(format!("{{\"method\":\"GET\",\"url\":\"https://{host}.example/\"}}\n").as_bytes()).await;
            assert_eq!(answered, format!("{{\"refused\":\"{why}\"}}\n"));
            assert_eq!(echo.asked.lock().len(), 1);
        }
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_cut_and_ends_the_connection() {
        let (answered, echo) = exchange(&vec![b'a'; EGRESS_LINE_BYTES_MAX + 10]).await;
        assert_eq!(answered, "{\"refused\":\"the line is too long, or has no end\"}\n");
        assert_eq!(echo.refused.lock().len(), 1);
    }

    #[tokio::test]
    async fn requests_are_counted() {
        let one = b"{\"method\":\"GET\",\"url\":\"https://a.example/\"}\n";
        let (answered, echo) = exchange(&one.repeat(REQUESTS_MAX + 5)).await;
        assert_eq!((answered.lines().count(), echo.asked.lock().len()), (REQUESTS_MAX, REQUESTS_MAX));
    }

    #[tokio::test]
    async fn whoever_stops_listening_leaves_nothing_open_and_makes_nothing_more() {
        let (proxy, program) = pair().unwrap();
        let mut program = UnixStream::from(program);
        {
            use std::io::Write;
            let silent = "{\"method\":\"GET\",\"url\":\"https://silent.example/\"}\n";
            let next = "{\"method\":\"GET\",\"url\":\"https://a.example/\"}\n";
            program.write_all(format!("{silent}{next}").as_bytes()).unwrap();
        }
        let echo = Echo::default();
        {
            let serving = proxy.serve(&echo, REQUESTS_MAX);
            tokio::pin!(serving);
            // Polled until the first request is under way, then dropped.
            while echo.asked.lock().is_empty() {
                assert!(looked_at(serving.as_mut()).await.is_none());
            }
        }
        assert_eq!(echo.asked.lock().len(), 1, "the second line was still made");
        // Our end is closed, so reading from it gives either the end of the stream or an error.
        let mut rest = vec![];
        let read = std::io::Read::read_to_end(&mut program, &mut rest);
        assert!(matches!(read, Ok(0) | Err(_)) && rest.is_empty(), "{read:?}");
    }

    /// Polls once a future that should not be ready.
    async fn looked_at<F: std::future::Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        tokio::select! { biased; ended = future => Some(ended), () = tokio::task::yield_now() => None }
    }
}
