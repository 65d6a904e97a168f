//! DNS rebinding: names that resolve to another address the second time, tested against real servers on this machine. Here `127.0.0.1`
//! stands for the public network, and `127.0.0.2` for an internal one: it is not allowed, and must receive no request.

use super::*;
use crate::web::HostList;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const PUBLIC: &str = "127.0.0.1:0";
const INSIDE: &str = "127.0.0.2:0";

/// A name server that gives its answers in turn and then repeats the last one.
#[derive(Clone)]
struct Names {
    answers: Arc<Vec<Vec<SocketAddr>>>,
    asked: Arc<AtomicUsize>,
}

impl Names {
    fn new(answers: &[&[&str]]) -> Self {
        let parsed = answers.iter().map(|answer| answer.iter().map(|address| address.parse().unwrap()).collect());
        Self { answers: Arc::new(parsed.collect()), asked: Arc::default() }
    }

    fn lookup(&self) -> Lookup {
        let names = self.clone();
        Arc::new(move |_name| {
            let turn = names.asked.fetch_add(1, Ordering::SeqCst).min(names.answers.len() - 1);
            Box::pin(std::future::ready(Ok(names.answers[turn].clone())))
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A server that records the first line of every request. It redirects `/away` to the same name and answers everything else.
async fn server(listener: TcpListener) -> Arc<Mutex<Vec<String>>> {
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut chunk = vec![0; 4096];
            let read = connection.read(&mut chunk).await.unwrap_or(0);
            let line = String::from_utf8_lossy(&chunk[..read]).lines().next().unwrap_or_default().to_owned();
            let answer = if line.starts_with("GET /away ") {
                format!("HTTP/1.1 302 Found\r\nlocation: http://name.test:{port}/there\r\ncontent-length: 0\r\n\r\n")
            } else {
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()
            };
            told.lock().push(line);
            let _gone = connection.write_all(answer.as_bytes()).await;
        }
    });
    seen
}

struct Scene {
    exchange: Exchange,
    allowed: Allowed,
    names: Names,
    port: u16,
    public: Arc<Mutex<Vec<String>>>,
    inside: Arc<Mutex<Vec<String>>>,
}

async fn scene(answers: &[&[&str]]) -> Scene {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let public = TcpListener::bind(PUBLIC).await.unwrap();
    let port = public.local_addr().unwrap().port();
    let inside = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
    let rules = vec![format!("http://name.test:{port}").parse().unwrap()];
    let hosts = HostList { rules, setting: "some.hosts", who: "somebody" };
    let allowed = Allowed::new(hosts, vec!["127.0.0.1/32".parse().unwrap()], "some.networks");
    let names = Names::new(answers);
    let exchange = Exchange::looking_up("test", &allowed, names.lookup()).unwrap();
    Scene { exchange, allowed, names, port, public: server(public).await, inside: server(inside).await }
}

impl Scene {
    async fn get(&self, path: &str) -> Result<u16, &'static str> {
        let target = Target::check(&format!("http://name.test:{}{path}", self.port), &self.allowed).unwrap();
        let deadline = Deadline::after(Duration::from_secs(10), 10_000);
        let followed = self.exchange.follow(Method::GET, target, HeaderMap::new(), &self.allowed, deadline, |_| {}).await;
        followed.map(|response| response.status().as_u16()).map_err(|error| error.code())
    }

    fn seen(&self) -> (usize, usize) {
        (self.public.lock().len(), self.inside.lock().len())
    }
}

#[tokio::test]
async fn a_name_is_looked_up_once_for_a_connection_and_what_was_checked_is_what_is_connected_to() {
    let scene = scene(&[&[PUBLIC], &[INSIDE]]).await;
    assert_eq!((scene.get("/").await, scene.names.asked()), (Ok(200), 1));
    assert_eq!(scene.seen(), (1, 0));
}

#[tokio::test]
async fn a_name_that_leads_inside_the_second_time_is_refused_the_second_time() {
    for (answers, second) in [([&[PUBLIC], &[INSIDE]], Err("address_not_allowed")), ([&[PUBLIC], &[PUBLIC]], Ok(200))] {
        let scene = scene(&answers.map(|answer| answer.as_slice())).await;
        assert_eq!(scene.get("/first").await, Ok(200));
        assert_eq!(scene.get("/second").await, second);
        assert_eq!(scene.seen(), (if second.is_ok() { 2 } else { 1 }, 0));
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_between_a_redirect_and_its_end_is_refused_there() {
    for (answers, ends) in [([&[PUBLIC], &[INSIDE]], Err("address_not_allowed")), ([&[PUBLIC], &[PUBLIC]], Ok(200))] {
        let scene = scene(&answers.map(|answer| answer.as_slice())).await;
        assert_eq!((scene.get("/away").await, scene.names.asked()), (ends, 2));
        assert_eq!(scene.seen(), (if ends.is_ok() { 2 } else { 1 }, 0));
    }
}

#[tokio::test]
async fn of_several_addresses_only_those_that_may_be_reached_are_tried() {
    let mixed = scene(&[&[INSIDE, PUBLIC, "[::ffff:127.0.0.2]:0"]]).await;
    assert_eq!((mixed.get("/").await, mixed.seen()), (Ok(200), (1, 0)));
    let inside = scene(&[&[INSIDE, "[::ffff:127.0.0.2]:0", "169.254.169.254:0"]]).await;
    assert_eq!((inside.get("/").await, inside.seen()), (Err("address_not_allowed"), (0, 0)));
}

/// A server that answers every request of a connection until the client goes, and counts connections.
async fn patient(listener: TcpListener, opened: Arc<AtomicUsize>) {
    while let Ok((mut connection, _)) = listener.accept().await {
        opened.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let mut chunk = vec![0; 4096];
            while connection.read(&mut chunk).await.is_ok_and(|read| read > 0) {
                let _gone = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            }
        });
    }
}

#[tokio::test]
async fn only_what_reads_uses_a_connection_again() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for (is_read, connections) in [(false, 3), (true, 1)] {
        let opened = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind(PUBLIC).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(patient(listener, Arc::clone(&opened)));
        let hosts = HostList { rules: vec![format!("http://name.test:{port}").parse().unwrap()], setting: "some.hosts", who: "somebody" };
        let allowed = Allowed::new(hosts, vec!["127.0.0.1/32".parse().unwrap()], "some.networks");
        let exchange = Exchange::looking_up("test", &allowed, Names::new(&[&[PUBLIC]]).lookup()).unwrap();
        let target = Target::check(&format!("http://name.test:{port}/"), &allowed).unwrap();
        for _ in 0..3 {
            let sent = Sent { method: Method::POST, headers: HeaderMap::new(), body: None, is_read };
            let deadline = Deadline::after(Duration::from_secs(10), 10_000);
            let response = exchange.send(sent, &target, &allowed, deadline).await.unwrap();
            assert_eq!(exchange.read(response, 10, deadline).await.bytes, b"ok");
        }
        assert_eq!(opened.load(Ordering::SeqCst), connections, "{is_read}");
    }
}
