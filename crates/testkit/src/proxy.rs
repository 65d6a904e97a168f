//! A network that can be cut: a proxy that forwards connections to a server until a test cuts them, also in the middle of a commit.

use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Whether the commit at which the connection is cut reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The server commits, and its answer is lost.
    Arrives,
    /// The server never receives the commit.
    IsLost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Open,
    /// Open until this many more commits have passed and another one comes.
    CutAtCommit {
        after: u32,
        commit: Commit,
    },
    Cut,
    /// Connections stay open, but nothing passes. The ones open at that time never recover.
    Silent,
}

/// A proxy on a port of its own. It stops with the runtime of its test.
#[derive(Clone)]
pub struct Proxy {
    line: Arc<watch::Sender<Line>>,
}

impl Proxy {
    /// Puts a proxy in front of the server of `url`, and returns the URL of the proxy.
    pub async fn before(url: &str) -> (Self, String) {
        let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?']).next().expect("the loopback network works");
        let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback network works");
        let port = listener.local_addr().expect("the loopback network works").port();
        let proxy = Self { line: Arc::new(watch::channel(Line::Open).0) };
        tokio::spawn(proxy.clone().accept(listener, address.clone()));
        (proxy, url.replace(&address, &format!("127.0.0.1:{port}")))
    }

    /// Ends every connection now, and new ones at once.
    pub fn cut(&self) {
        self.line.send_replace(Line::Cut);
    }

    /// Lets nothing pass any more, without closing connections.
    pub fn fall_silent(&self) {
        self.line.send_replace(Line::Silent);
    }

    pub fn mend(&self) {
        self.line.send_replace(Line::Open);
    }

    /// Cuts at a commit, after this many others have passed.
    pub fn cut_at_commit(&self, after: u32, commit: Commit) {
        self.line.send_replace(Line::CutAtCommit { after, commit });
    }

    pub async fn was_cut(&self) {
        self.line.subscribe().wait_for(|line| *line == Line::Cut).await.expect("the loopback network works");
    }

    async fn accept(self, listener: TcpListener, address: String) {
        while let Ok((client, _)) = listener.accept().await {
            if *self.line.borrow() == Line::Cut {
                continue;
            }
            let server = TcpStream::connect(&address).await.expect("the loopback network works");
            tokio::spawn(self.clone().forward(client, server));
        }
    }

    async fn forward(self, client: TcpStream, server: TcpStream) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let is_cut = self.is(Line::Cut);
        // When the first of these ends, all four halves are dropped, which closes both connections.
        tokio::select! {
            // A change of the line's state comes before data that arrives at the same moment.
            biased;
            () = is_cut => {}
            // The connections stay open from then on, so that neither side notices anything.
            () = self.is(Line::Silent) => self.is(Line::Cut).await,
            () = self.ask(&mut from_client, &mut to_server) => {}
            () = self.answer(&mut from_server, &mut to_client) => {}
        }
    }

    /// Waits until the line is in this state.
    async fn is(&self, wanted: Line) {
        let mut line = self.line.subscribe();
        let _closed = line.wait_for(|line| *line == wanted).await;
    }

    async fn ask(&self, client: &mut OwnedReadHalf, server: &mut OwnedWriteHalf) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = client.read(&mut bytes).await {
            let asked = &bytes[..count];
            if self.is_due(asked, Commit::IsLost) {
                return self.cut();
            }
            if server.write_all(asked).await.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, server: &mut OwnedReadHalf, client: &mut OwnedWriteHalf) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = server.read(&mut bytes).await {
            let answered = &bytes[..count];
            // The server answers once it has committed, so from here on only the answer can be lost.
            if self.is_due(answered, Commit::Arrives) {
                return self.cut();
            }
            if client.write_all(answered).await.is_err() {
                return;
            }
        }
    }

    /// Whether these bytes are the commit at which to cut; if they are an earlier commit, counts it.
    /// The word `COMMIT` occurs in both directions: in the client's query and in the server's answer.
    fn is_due(&self, bytes: &[u8], wanted: Commit) -> bool {
        let Line::CutAtCommit { after, commit } = *self.line.borrow() else { return false };
        if commit != wanted || !bytes.windows(6).any(|window| window == b"COMMIT") {
            return false;
        }
        if after > 0 {
            self.cut_at_commit(after - 1, commit);
        }
        after == 0
    }
}
