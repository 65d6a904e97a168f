//! The outside world for packages: servers on this machine that record every connection and every byte they receive.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

pub(crate) struct Outside {
    pub(crate) port: u16,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The bytes of each connection, empty if nothing was sent on it.
    said: Mutex<Vec<String>>,
    /// The number of connections that have ended.
    gone: Mutex<usize>,
    changed: Condvar,
}

impl Outside {
    /// Answers `/moved/<n>` with a redirect to the n-th address of `moved`, never answers `/silent`, and answers everything else with 200
    /// and `fine`.
    pub(crate) fn start(address: &str, moved: impl Fn(u16) -> Vec<String>) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        Self::serve(listener, moved)
    }

    /// Like `start`, on a port that is already used on another address.
    pub(crate) fn start_at(address: &str, port: u16) -> Self {
        Self::serve(TcpListener::bind((address, port)).unwrap(), |_| Vec::new())
    }

    fn serve(listener: TcpListener, moved: impl Fn(u16) -> Vec<String>) -> Self {
        let port = listener.local_addr().unwrap().port();
        let (seen, moved) = (Arc::new(Seen::default()), Arc::new(moved(port)));
        let outside = Self { port, seen: Arc::clone(&seen) };
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let place = {
                    let mut said = seen.said.lock().unwrap();
                    said.push(String::new());
                    said.len() - 1
                };
                let (seen, moved) = (Arc::clone(&seen), Arc::clone(&moved));
                std::thread::spawn(move || {
                    answer(connection, place, &seen, &moved);
                    *seen.gone.lock().unwrap() += 1;
                    seen.changed.notify_all();
                });
            }
        });
        outside
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.said.lock().unwrap().clone()
    }

    /// Returns once no client is connected any more.
    pub(crate) fn wait_until_alone(&self) {
        let came = self.seen().len();
        let gone = self.seen.gone.lock().unwrap();
        let _gone = self.seen.changed.wait_while(gone, |gone| *gone < came).unwrap();
    }
}

fn answer(mut connection: TcpStream, place: usize, seen: &Seen, moved: &[String]) {
    let mut request = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    while !is_whole(&request) {
        match connection.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(read) => request.extend_from_slice(&chunk[..read]),
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    seen.said.lock().unwrap()[place].clone_from(&request);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let text = match path.strip_prefix("/moved/").map(|number| number.parse::<usize>().unwrap()) {
        Some(number) => format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", moved[number]),
        None => "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine".to_owned(),
    };
    if path == "/silent" {
        // Waits until the client disconnects.
        let _gone = connection.read(&mut chunk);
        return;
    }
    let _gone = connection.write_all(text.as_bytes());
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
    body.len() >= length
}
