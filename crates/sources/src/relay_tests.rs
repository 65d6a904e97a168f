//! The relay on sockets of this machine's own loopback addresses. The jail, and programs in it, are in `crates/cli/tests/it/relay.rs`.

use super::*;
use crate::mcp::AllowedProgram;
use crate::web::HostList;
use countersign_core::limits::RELAY_PORTS_MAX;
use std::net::TcpListener as StdListener;
use std::net::UdpSocket as StdUdp;
use std::sync::atomic::AtomicUsize;
use tokio::task::JoinHandle;

/// The first address that a name gets.
const NAMED: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 1);

/// A relay that serves `inside.example` and everything below `wide.example` on the port of a server of this machine.
struct Rig {
    outside: TcpListener,
    port: u16,
    questions: SocketAddr,
    by_tcp: SocketAddr,
    looked_up: Arc<AtomicUsize>,
    relay: Arc<Relay>,
    serving: JoinHandle<()>,
}

impl Rig {
    async fn start(scheme: &str, networks: &[&str]) -> Self {
        let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = outside.local_addr().unwrap().port();
        let rules = [format!("{scheme}inside.example:{port}"), format!("{scheme}*.wide.example:{port}")].map(|rule| rule.parse().unwrap());
        let hosts = HostList { rules: rules.into(), setting: "hosts", who: "an operator" };
        let allowed = Allowed::new(hosts, networks.iter().map(|network| network.parse().unwrap()).collect(), "networks");
        let looked_up = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looked_up);
        let lookup: Lookup = Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(vec!["127.0.0.1:0".parse().unwrap()])))
        });
        let relay = Arc::new(Relay::looking_up(&SourceId::parse("kit").unwrap(), &allowed, lookup));
        assert_eq!(relay.ports(), [port]);
        let datagrams = || StdUdp::bind("127.0.0.1:0").unwrap();
        let sockets = Sockets {
            questions: datagrams(),
            questions_by_tcp: StdListener::bind("127.0.0.1:0").unwrap(),
            connections: vec![StdListener::bind((NAMED, port)).unwrap()],
            refusals: [datagrams(), datagrams()],
        };
        let (questions, by_tcp) = (sockets.questions.local_addr().unwrap(), sockets.questions_by_tcp.local_addr().unwrap());
        let served = Arc::clone(&relay);
        let serving = tokio::spawn(async move { served.serve(sockets).await });
        Self { outside, port, questions, by_tcp, looked_up, relay, serving }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect((NAMED, self.port)).await.unwrap()
    }

    /// A connection of a program, and what it leads to.
    async fn both(&self) -> (TcpStream, TcpStream) {
        let program = self.connect().await;
        (program, self.outside.accept().await.unwrap().0)
    }

    fn looked_up(&self) -> usize {
        self.looked_up.load(Ordering::Relaxed)
    }
}

fn asking(name: &str) -> Vec<u8> {
    let mut message = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// Reads to the end; `None` where the connection was reset.
async fn rest(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.ok().map(|_| read)
}

#[tokio::test]
async fn bytes_go_both_ways_until_both_sides_are_done() {
    let rig = Rig::start("http://", &["127.0.0.1/32"]).await;
    let (mut program, mut outside) = rig.both().await;
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let sent = large.clone();
    let answering = tokio::spawn(async move {
        let mut asked = Vec::new();
        outside.read_to_end(&mut asked).await.unwrap();
        outside.write_all(&asked).await.unwrap();
        asked.len()
    });
    let (mut from, mut to) = program.split();
    to.write_all(&sent).await.unwrap();
    to.shutdown().await.unwrap();
    let mut answered = Vec::new();
    from.read_to_end(&mut answered).await.unwrap();
    assert_eq!((answering.await.unwrap(), answered == large), (large.len(), true));
    assert_eq!(rig.looked_up(), 1);
}

#[tokio::test]
async fn a_connection_that_breaks_outside_is_no_end_of_an_answer() {
    let rig = Rig::start("http://", &["127.0.0.1/32"]).await;
    let (mut program, mut outside) = rig.both().await;
    program.write_all(b"GET").await.unwrap();
    outside.read_exact(&mut [0; 3]).await.unwrap();
    outside.set_zero_linger().unwrap();
    drop(outside);
    assert_eq!(rest(&mut program).await, None);
}

#[tokio::test]
async fn net_relay_asks_nobody_and_bounds_questions() {
    let rig = Rig::start("http://", &[]).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(rig.questions).await.unwrap();
    let mut answer = [0; 512];
    for (name, code) in [("inside.example", 0), ("a.wide.example", 0), ("wide.example", 3), ("c2VjcmV0.evil.example", 3)] {
        socket.send(&asking(name)).await.unwrap();
        let length = socket.recv(&mut answer).await.unwrap();
        assert_eq!((answer[3] & 0xf, length > asking(name).len()), (code, code == 0), "{name}");
        let mut stream = TcpStream::connect(rig.by_tcp).await.unwrap();
        let message = asking(name);
        let head = u16::try_from(message.len()).unwrap().to_be_bytes();
        stream.write_all(&[&head, message.as_slice()].concat()).await.unwrap();
        let mut by_tcp = vec![0; stream.read_u16().await.unwrap().into()];
        stream.read_exact(&mut by_tcp).await.unwrap();
        assert_eq!(by_tcp, answer[..length], "{name}");
    }
    assert_eq!(rig.looked_up(), 0, "a question was asked outside");
    let mut rate = Rate { second: Instant::now() + Duration::from_secs(3_600), asked: 0, dropped: 0 };
    let answered = (0..RELAY_QUESTIONS_PER_SECOND + 50).filter(|_| rate.has_room("kit")).count();
    assert_eq!((answered, rate.dropped), (RELAY_QUESTIONS_PER_SECOND as usize, 50));
    let mut lines = Lines { minute: Instant::now() + Duration::from_secs(3_600), written: 0, more: 0 };
    let written = (0..RELAY_LINES_PER_MINUTE + 50).filter(|_| lines.has_room("kit")).count();
    assert_eq!((written, lines.more), (RELAY_LINES_PER_MINUTE as usize, 50));
}

#[tokio::test]
async fn net_relay_does_not_dial_a_name_that_leads_inside() {
    let rig = Rig::start("http://", &[]).await;
    let mut program = rig.connect().await;
    assert_eq!((rest(&mut program).await, rig.looked_up()), (None, 1));
}

#[tokio::test]
async fn only_tls_goes_where_only_tls_is_allowed() {
    let rig = Rig::start("https://", &["127.0.0.1/32"]).await;
    for plain in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[22, 2, 1], b"\0\0"] {
        let mut program = rig.connect().await;
        program.write_all(plain).await.unwrap();
        assert_eq!(rest(&mut program).await, None, "{plain:?}");
    }
    assert_eq!(rig.looked_up(), 0);
    let mut program = rig.connect().await;
    program.write_all(&[22, 3, 1, 7]).await.unwrap();
    let mut outside = rig.outside.accept().await.unwrap().0;
    let mut first = [0; 4];
    outside.read_exact(&mut first).await.unwrap();
    assert_eq!(first, [22, 3, 1, 7]);
}

#[tokio::test]
async fn net_relay_that_is_killed_takes_its_connections_along() {
    let rig = Rig::start("http://", &["127.0.0.1/32"]).await;
    let (mut program, mut outside) = rig.both().await;
    program.write_all(b"half").await.unwrap();
    outside.read_exact(&mut [0; 4]).await.unwrap();
    outside.write_all(b"half").await.unwrap();
    program.read_exact(&mut [0; 4]).await.unwrap();
    rig.serving.abort();
    assert_eq!(rest(&mut program).await, None);
    assert!(rest(&mut outside).await.is_none_or(|rest| rest.is_empty()));
    assert!(TcpStream::connect((NAMED, rig.port)).await.is_err(), "something listens still");
    assert_eq!(rig.relay.0.turns.available_permits(), RELAY_CONNECTIONS_MAX);
}

#[tokio::test]
async fn net_relay_bounds_connections_at_once() {
    let rig = Rig::start("http://", &["127.0.0.1/32"]).await;
    let _all = rig.relay.0.turns.acquire_many(u32::try_from(RELAY_CONNECTIONS_MAX).unwrap()).await.unwrap();
    let mut program = rig.connect().await;
    assert_eq!((rest(&mut program).await, rig.looked_up()), (None, 0));
}

#[test]
fn what_the_network_refused_is_read_from_its_packets() {
    let head = |protocol: u8, from: [u8; 4], to: [u8; 4]| [&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, protocol, 0, 0][..], &from, &to].concat();
    let at = |a, b, c, d, port| SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port);
    let reset = [head(TCP, [8, 8, 8, 8], [127, 0, 0, 1]), vec![1, 187, 0xc0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(refused_in(&reset), Some((at(8, 8, 8, 8, 443), "port_not_allowed")));
    let unreachable = |from: u16, to: u16| {
        let datagram = [head(UDP, [127, 0, 0, 1], [9, 9, 9, 9]), from.to_be_bytes().into(), to.to_be_bytes().into()].concat();
        [head(ICMP, [9, 9, 9, 9], [127, 0, 0, 1]), vec![3, 3, 0, 0, 0, 0, 0, 0], datagram].concat()
    };
    assert_eq!(refused_in(&unreachable(40_000, 53)), Some((at(9, 9, 9, 9, 53), "datagram_not_allowed")));
    assert_eq!(refused_in(&unreachable(53, 40_000)), None);
    for length in 0..reset.len() - 6 {
        assert_eq!(refused_in(&reset[..length]), None, "{length}");
    }
}

#[test]
fn a_program_finds_its_resolver_unless_the_operator_shows_other_files() {
    let paths = |readable: &[&str]| {
        let readable: Vec<PathBuf> = readable.iter().map(PathBuf::from).collect();
        files(&readable).into_iter().map(|input| input.path.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(paths(&["/opt", "/etc/ssl"]), ["/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"]);
    assert_eq!(paths(&["/etc/hosts"]), ["/etc/nsswitch.conf", "/etc/resolv.conf"]);
    assert_eq!(paths(&["/etc"]), Vec::<String>::new());
    assert!(certificates(&["/etc".into(), "/usr".into()]).is_empty());
}

#[test]
fn what_an_operator_cannot_mean_of_a_network_is_a_mistake() {
    let mistake = |hosts: Vec<String>| {
        let program: AllowedProgram = serde_json::from_value(serde_json::json!({ "command": ["node"], "hosts": hosts })).unwrap();
        program.mistake().unwrap_or_default()
    };
    let ports = |count: usize| (0..count).map(|number| format!("example.com:{}", 8_000 + number)).collect();
    assert_eq!((mistake(ports(RELAY_PORTS_MAX)), mistake(vec!["http://db.example.com:5432".to_owned()])), (String::new(), String::new()));
    assert!(mistake(ports(RELAY_PORTS_MAX + 1)).contains("more than 32 ports"));
    assert!(mistake(vec!["http://ns.example.com:53".to_owned()]).contains("`http://ns.example.com:53` in `hosts` has the port"));
}
