//! An MCP server in the test's process that does what the test says, over streamable HTTP, and remembers what it was sent.

use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A request: its head, and its body as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }
}

/// The bytes of an answer, and what follows them.
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) then: Then,
}

pub(crate) enum Then {
    End,
    /// These bytes again and again, until the client hangs up.
    Again(Vec<u8>),
    /// Nothing, until the client hangs up.
    Silence,
}

impl Reply {
    /// An answer whose length is not said.
    pub(crate) fn open(kind: &str, body: impl AsRef<[u8]>) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
        Self { bytes: [head.as_bytes(), body.as_ref()].concat(), then: Then::End }
    }

    /// A stream of events that goes on like this.
    pub(crate) fn stream(then: Then) -> Self {
        Self { then, ..Self::open("text/event-stream", "") }
    }

    /// The answer to a request of the protocol.
    pub(crate) fn result(asked: &Asked, result: &Value) -> Self {
        let body = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result }).to_string();
        Self { bytes: http("200 OK", "content-type: application/json\r\n", &body), then: Then::End }
    }
}

type Answer = dyn Fn(&Asked) -> Option<Reply> + Send + Sync;

pub(crate) struct Upstream {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    seen: Mutex<Vec<Asked>>,
    came: Condvar,
    /// How many clients hung up while it was silent.
    gone: Mutex<usize>,
    left: Condvar,
    answer: Mutex<Arc<Answer>>,
}

impl Upstream {
    /// A server with sessions and the tools `look`, which says that it only reads, and `set`.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let answer: Arc<Answer> = Arc::new(|_: &Asked| None);
        let (gone, left) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { seen: Mutex::default(), came: Condvar::new(), gone, left, answer: Mutex::new(answer) });
        let serving = Arc::clone(&shared);
        // The threads end with the test's process; nothing joins them.
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || serve(connection, &shared));
            }
        });
        Self { url, shared }
    }

    /// From now on it answers so; `None` leaves the answer as it was.
    pub(crate) fn answers(&self, answer: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static) {
        let answer: Arc<Answer> = Arc::new(answer);
        *self.shared.answer.lock().unwrap() = answer;
    }

    /// The address without its path.
    pub(crate) fn origin(&self) -> &str {
        self.url.trim_end_matches("/mcp")
    }

    pub(crate) fn seen(&self) -> Vec<Asked> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// How often a tool was called.
    pub(crate) fn calls(&self, tool: &str) -> usize {
        self.seen().iter().filter(|asked| is_call_of(asked, tool)).count()
    }

    /// Waits until a tool was called.
    pub(crate) fn wait_for_call(&self, tool: &str) {
        self.wait_for(|asked| is_call_of(asked, tool));
    }

    /// Waits until it was sent such a request.
    pub(crate) fn wait_for(&self, is_it: impl Fn(&Asked) -> bool) {
        let seen = self.shared.seen.lock().unwrap();
        let _seen = self.shared.came.wait_while(seen, |seen| !seen.iter().any(&is_it)).unwrap();
    }

    /// Waits until a client hung up while it was silent.
    pub(crate) fn wait_for_hang_up(&self) {
        let gone = self.shared.gone.lock().unwrap();
        let _gone = self.shared.left.wait_while(gone, |gone| *gone == 0).unwrap();
    }
}

fn is_call_of(asked: &Asked, tool: &str) -> bool {
    asked.method() == "tools/call" && asked.body["params"]["name"] == tool
}

pub(crate) fn tool(name: &str, annotations: &Value) -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    json!({ "name": name, "description": "A tool.", "inputSchema": schema, "annotations": annotations })
}

fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn serve(mut connection: TcpStream, shared: &Shared) {
    let Some(asked) = read(&mut connection) else { return };
    shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(asked.clone());
    shared.came.notify_all();
    let answer = Arc::clone(&shared.answer.lock().unwrap());
    let reply = answer(&asked).unwrap_or_else(|| usual(&asked));
    let Ok(()) = connection.write_all(&reply.bytes) else { return };
    match reply.then {
        Then::End => {}
        Then::Again(again) => while connection.write_all(&again).is_ok() {},
        Then::Silence => {
            let _gone = connection.read(&mut [0]);
            *shared.gone.lock().unwrap() += 1;
            shared.left.notify_all();
        }
    }
}

/// Reads one request; `None` if the client went before it was complete.
pub(crate) fn read(connection: &mut TcpStream) -> Option<Asked> {
    let (mut request, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(Asked { head: head.to_owned(), body: serde_json::from_str(body).unwrap_or_default() });
            }
        }
        match connection.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(read) => request.extend_from_slice(&chunk[..read]),
        }
    }
}

/// What a server of an earlier revision answers, which has two tools.
pub(crate) fn usual(asked: &Asked) -> Reply {
    let plain = |status: &str| Reply { bytes: http(status, "", ""), then: Then::End };
    match asked.method() {
        "initialize" => {
            let version = &asked.body["params"]["protocolVersion"];
            let server = json!({ "name": "kit", "version": "1" });
            Reply::result(asked, &json!({ "protocolVersion": version, "capabilities": { "tools": {} }, "serverInfo": server }))
        }
        "tools/list" => {
            let tools =
                [tool("look", &json!({ "readOnlyHint": true })), tool("set", &json!({ "readOnlyHint": false, "destructiveHint": false }))];
            Reply::result(asked, &json!({ "tools": tools }))
        }
        "tools/call" => Reply::result(asked, &json!({ "content": [{ "type": "text", "text": "done" }] })),
        method if method.starts_with("notifications/") => plain("202 Accepted"),
        "" => plain("405 Method Not Allowed"),
        _ => plain("400 Bad Request"),
    }
}
