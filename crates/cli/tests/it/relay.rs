//! Tests the network that an MCP program sees: programs of others, which know nothing of it, reach the hosts that the operator allows, by
//! name and by address, in plain and with TLS; and nothing reaches anything else. Group 56 of the escape corpus, `net_relay`, is here.

use crate::countersign::Server;
use crate::outside::Outside;
use reqwest::Method;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use testkit::certificates::{FIRST, ROOT};

/// An MCP server with one tool, which does what its params say.
const PROGRAM: &str = r#"
import errno, json, os, select, socket, struct, subprocess, sys, urllib.request, ssl

def python(url, root):
    with urllib.request.urlopen(url, context=ssl.create_default_context(cafile=root), timeout=20) as answer:
        return answer.read().decode()

def curl(url, root, at):
    return subprocess.run([at, "-sSL", "--max-time", "20", "--cacert", root, url], capture_output=True, text=True, check=True).stdout

def node(url, root, at):
    script = "fetch(process.argv[1]).then(a => a.text()).then(t => console.log(t), e => { console.error(e.cause); process.exit(1) })"
    env = {"NODE_EXTRA_CA_CERTS": root, "HOME": "/tmp"}
    return subprocess.run([at, "-e", script, url], capture_output=True, text=True, check=True, env=env).stdout.strip()

# Asks the resolver that resolv.conf names, over UDP and then over TCP, as Go's own resolver does.
def question(name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)

def asked(name, kind=1, by_tcp=False):
    with open("/etc/resolv.conf") as lines:
        server = next(line.split()[1] for line in lines if line.startswith("nameserver"))
    message = question(name, kind)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if by_tcp else socket.SOCK_DGRAM) as asking:
        asking.settimeout(20)
        asking.connect((server, 53))
        asking.send(struct.pack(">H", len(message)) + message if by_tcp else message)
        answer = asking.recv(600)[2 if by_tcp else 0:]
    return {"code": answer[3] & 15, "addresses": [socket.inet_ntoa(answer[-4:])] if answer[7] else []}

def own(host, port, path):
    address = asked(host)["addresses"][0]
    with socket.create_connection((address, port), timeout=20) as stream:
        stream.sendall(f"GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"fine"):
            answer += stream.recv(4096)
    return answer.decode().rsplit("\r\n", 1)[1]

def connect(host, port, says="GET /fine HTTP/1.0\r\n\r\n"):
    with socket.create_connection((host, port), timeout=20) as stream:
        stream.sendall(says.encode())
        return stream.recv(100).decode()

def datagram(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.settimeout(20)
        sending.connect((host, port))
        sending.send(b"who is it")
        return sending.recv(100).decode()

def make(family, kind, protocol=0):
    socket.socket(getattr(socket, family), getattr(socket, kind), protocol).close()

def look_up(name):
    return sorted({found[4][0] for found in socket.getaddrinfo(name, 80)})

# Opens so many connections from several processes, and returns when all but `kept` of them were ended from outside.
def many(port, count, kept):
    ended, hold = os.pipe(), os.pipe()
    each = 125
    for _ in range(count // each):
        if os.fork() == 0:
            try:
                keep(port, each, ended[1], hold)
            finally:
                os._exit(0)
    seen = 0
    while seen < count - kept:
        seen += len(os.read(ended[0], 4096))
    os.close(hold[1])
    for _ in range(count // each):
        os.wait()
    return seen

# Holds connections until the other end of `hold` is closed, and says each that ends before.
def keep(port, count, ended, hold):
    os.close(hold[1])
    poll, kept = select.poll(), []
    poll.register(hold[0], select.POLLIN)
    for _ in range(count):
        try:
            stream = socket.create_connection(("localhost", port))
            stream.sendall(b"GET /silent HTTP/1.0\r\n\r\n")
            poll.register(stream, select.POLLIN)
            kept.append(stream)
        except OSError:
            os.write(ended, b".")
    while True:
        for found, _ in poll.poll():
            if found == hold[0]:
                return
            poll.unregister(found)
            os.write(ended, b".")

held = []
def hold(host, port):
    stream = socket.create_connection((host, port), timeout=20)
    stream.sendall(b"GET /silent HTTP/1.0\r\n\r\n")
    held.append(stream)

ACTS = {f.__name__: f for f in [python, curl, node, asked, own, connect, datagram, make, look_up, many, hold]}

def act(name, arguments):
    try:
        return {"ok": ACTS[name](*arguments)}
    except subprocess.CalledProcessError as error:
        return {"error": error.stderr}
    except OSError as error:
        reason = getattr(error, "reason", error)
        return {"error": errno.errorcode.get(getattr(reason, "errno", None) or 0, str(reason))}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer, method = {"jsonrpc": "2.0", "id": message["id"]}, message["method"]
    if method == "initialize":
        info = {"name": "kit", "version": "1"}
        answer["result"] = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "act", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]}
    elif method == "tools/call":
        params = message["params"]["arguments"]
        done = [act(name, arguments) for name, *arguments in params["acts"]]
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(done)}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

/// A server with one program that may reach these hosts, on these networks.
struct Rig {
    server: Server,
    path: String,
    /// The certificate that signed those of the tests, where the program sees it.
    root: PathBuf,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn start(hosts: &[String], networks: &str) -> Self {
        // The jail has a /tmp of its own.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let [settings, program, root] = ["settings.toml", "program.py", "root.pem"].map(|name| folder.path().join(name));
        std::fs::write(&program, PROGRAM).unwrap();
        std::fs::write(&root, ROOT).unwrap();
        let mut readable: Vec<_> =
            [found("curl"), found("node"), root.clone()].iter().map(|path| path.parent().unwrap().to_owned()).collect();
        readable.dedup();
        let (command, hosts, readable) = (json!(["python3", "-I", program]), json!(hosts), json!(readable));
        std::fs::write(&settings, format!("[[mcp_commands]]\ncommand = {command}\nhosts = {hosts}\nreadable = {readable}\n")).unwrap();
        let server = Server::start_with(&[
            ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true"),
            ("COUNTERSIGN_CONFIG", settings.to_str().unwrap()),
            ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", networks),
            ("COUNTERSIGN_LOG_FORMAT", "json"),
        ]);
        let added = json!({ "name": "kit", "command": command, "trust_hints": true });
        let (status, added) = send(&server, Method::POST, "sources", added).await;
        assert_eq!(status, 201, "{added}");
        let (_, session) = send(&server, Method::POST, "sessions", json!({})).await;
        let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
        Self { server, path, root, _folder: folder }
    }

    /// Has the program do this, one after the other.
    async fn acts(&self, acts: &Value) -> Vec<Value> {
        let (status, called) =
            send(&self.server, Method::POST, &self.path, json!({ "action": "kit.act", "params": { "acts": acts } })).await;
        assert_eq!(status, 200, "{called}");
        let text = called["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{called}"));
        serde_json::from_str(text).unwrap()
    }

    /// The lines of the log about the network of the program, with all these words in them.
    fn logged(&self, words: &[&str]) -> usize {
        let logged = self.server.logged();
        logged.lines().filter(|line| line.contains("\"relay\"") && words.iter().all(|word| line.contains(word))).count()
    }
}

async fn send(server: &Server, method: Method, path: &str, body: Value) -> (u16, Value) {
    server::init_process();
    let request = reqwest::Client::new().request(method, format!("{}/api/v1/{path}", server.url)).json(&body);
    let response = request.bearer_auth(server.owner_token.as_deref().unwrap()).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

/// A program of this machine.
fn found(name: &str) -> PathBuf {
    let places = ["/usr/local/bin", "/usr/bin", "/bin"].map(|place| Path::new(place).join(name));
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("there is no {name} on this machine"))
}

/// A server with TLS on this machine.
fn with_tls() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = FIRST.write(folder.path());
    let server = Server::start_with(&[("COUNTERSIGN_TLS_CERT", cert.to_str().unwrap()), ("COUNTERSIGN_TLS_KEY", key.to_str().unwrap())]);
    (server, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_know_nothing_of_it_reach_the_hosts_that_are_allowed() {
    let outside = Outside::start("127.0.0.1", |port| vec![format!("http://127.0.0.1:{port}/fine")]);
    let (secured, _folder) = with_tls();
    let p = outside.port;
    let t = secured.url.rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    let rig = Rig::start(
        &[format!("http://localhost:{p}"), outside.url(""), format!("localhost:{t}"), "*.example.com".to_owned()],
        "127.0.0.1/32",
    )
    .await;
    let (curl, node) = (found("curl"), found("node"));
    // By name, by address, and along a redirect from one to the other.
    for url in [format!("http://localhost:{p}/fine"), outside.url("/fine"), format!("http://localhost:{p}/moved/0")] {
        let before = outside.seen().len();
        let done = rig.acts(&json!([["python", url, rig.root], ["curl", url, rig.root, curl], ["node", url, rig.root, node]])).await;
        assert_eq!(done, [json!({ "ok": "fine" }), json!({ "ok": "fine" }), json!({ "ok": "fine" })], "{url}");
        assert!(outside.seen().len() >= before + 3, "{url}");
    }
    // With TLS, which nobody opens on the way.
    let url = format!("https://localhost:{t}/healthz");
    let done = rig.acts(&json!([["python", url, rig.root], ["curl", url, rig.root, curl], ["node", url, rig.root, node]])).await;
    assert!(done.iter().all(|done| done["ok"].as_str().is_some_and(|text| !text.is_empty())), "{done:?}");
    // A program that asks the resolver itself.
    let asks = json!([
        ["own", "localhost", p, "/fine"],
        ["asked", "api.example.com"],
        ["asked", "API.example.com", 1, true],
        ["asked", "api.example.com", 28],
        ["look_up", "api.example.com"],
    ]);
    let done = rig.acts(&asks).await;
    assert_eq!(done[0], json!({ "ok": "fine" }));
    let address = done[1]["ok"]["addresses"][0].as_str().unwrap();
    assert!(address.starts_with("127.64."), "{address}");
    assert_eq!(done[2], done[1]);
    assert_eq!((&done[3]["ok"], &done[4]["ok"]), (&json!({ "code": 0, "addresses": [] }), &json!([address])));
    assert_eq!(rig.logged(&["\"refused\""]), 0, "{}", rig.server.logged());
    let ended = rig.logged(&["\"ended\":\"done\"", "\"host\":\"localhost\"", &format!("\"port\":{p}")]);
    assert!(ended >= 7, "{}", rig.server.logged());
    assert!(rig.logged(&["/fine"]) == 0 && rig.logged(&["healthz"]) == 0, "the log says what was carried");
}

#[tokio::test(flavor = "multi_thread")]
async fn net_relay_lets_nothing_else_out_and_says_each_attempt() {
    let outside = Outside::start("127.0.0.1", |port| vec![format!("http://127.0.0.2:{port}/"), "http://169.254.169.254/".to_owned()]);
    let (other, inside) = (Outside::start("127.0.0.1", |_| Vec::new()), Outside::start_at("127.0.0.2", outside.port));
    let (secured, _folder) = with_tls();
    let (p, q) = (outside.port, other.port);
    let t: u16 = secured.url.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
    let hosts =
        [format!("http://localhost:{p}"), format!("http://127.0.0.2:{p}"), format!("http://127.0.0.3:{p}"), format!("localhost:{t}")];
    let rig = Rig::start(&[hosts.as_slice(), &["http://nowhere.invalid".to_owned()]].concat(), "127.0.0.1/32,169.254.0.0/16").await;
    let reset = || json!({ "error": "ECONNRESET" });
    let nobody = || json!({ "error": "ECONNREFUSED" });
    let rows = [
        // A host that is not allowed, by name and by address, and another port of one that is.
        (json!(["look_up", "evil.test"]), Value::Null, "\"name\":\"evil.test\"", "name_not_allowed"),
        (json!(["connect", "8.8.8.8", p]), reset(), "\"host\":\"8.8.8.8\"", "host_not_allowed"),
        (json!(["connect", "8.8.8.8", 443]), nobody(), "\"host\":\"8.8.8.8\"", "port_not_allowed"),
        (json!(["connect", "localhost", q]), nobody(), "\"host\":\"localhost\"", "port_not_allowed"),
        // An allowed host whose address may not be reached, directly and along redirects.
        (json!(["connect", "127.0.0.2", p]), reset(), "\"host\":\"127.0.0.2\"", "address_not_allowed"),
        (json!(["python", format!("http://localhost:{p}/moved/0"), rig.root]), reset(), "\"host\":\"127.0.0.2\"", "address_not_allowed"),
        (json!(["python", format!("http://localhost:{p}/moved/1"), rig.root]), reset(), "\"host\":\"169.254.169.254\"", "host_not_allowed"),
        // A name that leads nowhere, and plain words where TLS is allowed.
        (json!(["connect", "nowhere.invalid", 80]), reset(), "\"host\":\"nowhere.invalid\"", "name_not_found"),
        (json!(["connect", "localhost", t]), reset(), "\"host\":\"localhost\"", "not_tls"),
        // Datagrams, also to resolvers of others.
        (json!(["datagram", "8.8.8.8", 53]), nobody(), "\"host\":\"8.8.8.8\"", "datagram_not_allowed"),
        (json!(["datagram", "127.0.0.1", q]), nobody(), &format!("\"port\":{q}"), "datagram_not_allowed"),
        // Data in names.
        (
            json!(["asked", "c2vjcmv0.evil.test", 16]),
            json!({ "ok": { "code": 3, "addresses": [] } }),
            "c2vjcmv0.evil.test",
            "name_not_allowed",
        ),
        (json!(["asked", "c2vjcmv0.localhost"]), json!({ "ok": { "code": 3, "addresses": [] } }), "c2vjcmv0.localhost", "name_not_allowed"),
    ];
    for (act, answer, whose, refused) in &rows {
        let before = rig.logged(&[whose, &format!("\"refused\":\"{refused}\"")]);
        let done = rig.acts(&json!([act])).await.remove(0);
        // The words for a name that is not there differ from system to system.
        assert!(done == *answer || (answer.is_null() && done["error"].is_string()), "{act}: {done}");
        let said = || rig.logged(&[whose, &format!("\"refused\":\"{refused}\"")]) > before;
        crate::mcp::until(&format!("the log says {act}"), said).await;
    }
    // Sockets that would pass the network by are not made at all.
    for (socket, error) in [
        (json!(["make", "AF_INET6", "SOCK_STREAM"]), "EAFNOSUPPORT"),
        (json!(["make", "AF_NETLINK", "SOCK_RAW"]), "EAFNOSUPPORT"),
        (json!(["make", "AF_PACKET", "SOCK_RAW"]), "EAFNOSUPPORT"),
        (json!(["make", "AF_UNIX", "SOCK_STREAM"]), "EAFNOSUPPORT"),
        (json!(["make", "AF_INET", "SOCK_RAW", 6]), "EPERM"),
        (json!(["make", "AF_INET", "SOCK_DGRAM", 1]), "EPROTONOSUPPORT"),
        (json!(["make", "AF_INET", "SOCK_STREAM", 132]), "EPROTONOSUPPORT"),
    ] {
        assert_eq!(rig.acts(&json!([socket])).await, [json!({ "error": error })], "{socket}");
    }
    // The host of the redirects is the only one that was reached.
    assert_eq!((other.seen(), inside.seen()), (vec![], vec![]));
    assert!(outside.seen().len() == 2 && outside.seen().iter().all(|request| request.contains("/moved/")), "{:?}", outside.seen());
}

#[tokio::test(flavor = "multi_thread")]
async fn net_relay_reaches_this_machine_only_where_its_network_is_allowed_too() {
    let outside = Outside::start("127.0.0.1", |_| Vec::new());
    let p = outside.port;
    let rig = Rig::start(&[format!("http://localhost:{p}"), outside.url("")], "").await;
    for host in ["localhost", "127.0.0.1"] {
        assert_eq!(rig.acts(&json!([["connect", host, p]])).await, [json!({ "error": "ECONNRESET" })], "{host}");
    }
    assert_eq!(outside.seen(), Vec::<String>::new());
    assert_eq!(rig.logged(&["\"refused\":\"address_not_allowed\""]), 2, "{}", rig.server.logged());
    // Whoever looks at the source is told what to do.
    let (_, source) = send(&rig.server, Method::GET, "sources/kit", Value::Null).await;
    let hint = source["program"]["hint"].as_str().unwrap_or_else(|| panic!("{source:#}"));
    assert!(hint.contains(&format!(":{p}` (`address_not_allowed`)")) && hint.contains("allow network add"), "{hint}");
}

#[tokio::test(flavor = "multi_thread")]
async fn net_relay_bounds_connections_and_ends_them_with_the_server() {
    let outside = Outside::start("127.0.0.1", |_| Vec::new());
    let rig = Rig::start(&[format!("http://localhost:{}", outside.port)], "127.0.0.1/32").await;
    // Of a thousand at once, so many are carried and the rest is ended at once.
    assert_eq!(rig.acts(&json!([["many", outside.port, 1_000, 256]])).await, [json!({ "ok": 744 })]);
    assert_eq!(outside.seen().len(), 256);
    outside.wait_until_alone();
    let said = || rig.logged(&["\"refused\":\"too_many_connections\""]) >= 100;
    crate::mcp::until("the log says it", said).await;
    assert!(rig.logged(&["\"refused\":\"too_many_connections\""]) <= 200, "the log was flooded");
    // The program is still served.
    assert_eq!(rig.acts(&json!([["own", "localhost", outside.port, "/fine"]])).await, [json!({ "ok": "fine" })]);
    // A server that is killed takes the connections of its programs along, and nothing else opens.
    assert_eq!(rig.acts(&json!([["hold", "localhost", outside.port]])).await, [json!({ "ok": null })]);
    crate::mcp::until("it is held", || outside.seen().iter().filter(|request| request.contains("/silent")).count() == 257).await;
    let came = outside.seen().len();
    drop(rig);
    outside.wait_until_alone();
    assert_eq!(outside.seen().len(), came);
}
