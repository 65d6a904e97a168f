//! A fake server with scripted answers, for answers that a real server gives only when something is broken.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: method, path with query, and body.
pub(crate) type Asked = (String, String, Value);

pub(crate) struct Fake {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// Answers every request with the status and body that `answer` returns for its method and path.
    pub(crate) fn start(answer: impl Fn(&str, &str) -> (u16, String) + Send + 'static) -> Self {
        Self::reading(move |method, path, _| answer(method, path))
    }

    /// Like `start`, but `answer` also gets the body.
    pub(crate) fn reading(answer: impl Fn(&str, &str, &Value) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        // The thread ends with the test's process; nothing joins it.
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                serve(connection, &answer, &kept);
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// The address of a server that is not there.
pub(crate) fn nobody() -> String {
    format!("http://{}", testkit::nobody())
}

fn serve(connection: TcpStream, answer: &impl Fn(&str, &str, &Value) -> (u16, String), asked: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let mut words = first.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return };
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let header = header.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let (status, text) = answer(method, path, &body);
    asked.lock().unwrap().push((method.to_owned(), path.to_owned(), body));
    let head =
        format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
    let mut connection = connection;
    connection.write_all(format!("{head}{text}").as_bytes()).unwrap();
}
