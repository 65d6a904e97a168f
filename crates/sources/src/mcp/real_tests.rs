//! Tests with servers of the MCP library, over HTTP and on the streams of a program, in both lifecycles.

use super::super::connection::Start;
use super::super::testing::Server as Raw;
use super::*;
use crate::builtin::tests::context;
use countersign_core::Secret;
use countersign_core::effect::{Progress, Scope};
use countersign_core::jail::{self, Ended};
use countersign_core::resident::{Child, Resident, Spec, StderrTail};
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::json;
use std::borrow::Cow;
use std::path::PathBuf;
use tokio::sync::watch;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

#[derive(Clone)]
struct Kit {
    versions: &'static [ProtocolVersion],
}

const MODERN: Kit = Kit { versions: &[ProtocolVersion::V_2026_07_28, ProtocolVersion::V_2025_11_25] };
const LEGACY: Kit = Kit { versions: &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25] };

impl ServerHandler for Kit {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
            .with_server_info(Implementation::new("kit", "1.0.0"))
            .with_instructions("Ask before you set.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } }).as_object().cloned().unwrap();
        let tool = |name: &'static str| Tool::new(name, "A tool.", schema.clone());
        Ok(ListToolsResult::with_all_items(vec![tool("add"), tool("fail"), tool("slow")]))
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let text = |text: String| vec![ContentBlock::text(text)];
        match request.name.as_ref() {
            "add" => {
                if let Some(token) = context.meta.get_progress_token() {
                    let _ = context.peer.notify_progress(ProgressNotificationParam::new(token, 1.0)).await;
                }
                let n = request.arguments.and_then(|arguments| arguments.get("n").and_then(Value::as_i64)).unwrap_or_default();
                Ok(CallToolResult::success(text(format!("{}", n + 1))).into())
            }
            "fail" => Ok(CallToolResult::error(text("it did not work".to_owned())).into()),
            "slow" => {
                context.ct.cancelled().await;
                Ok(CallToolResult::success(text("too late".to_owned())).into())
            }
            _ => Err(ErrorData::invalid_params("unknown tool", None)),
        }
    }
}

async fn http(kit: Kit, sessions: bool) -> McpSource {
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(sessions);
    let service: StreamableHttpService<Kit, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(kit.clone()), Default::default(), config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = axum::Router::new().nest_service("/mcp", service);
    tokio::spawn(async move { axum::serve(listener, router).await });
    // The raw server lends the rest of the config.
    let raw = Raw::legacy(|_| None).await;
    raw.source_with(|config| {
        if let Server::Http { url, allowed_hosts, .. } = &mut config.server {
            *url = format!("http://127.0.0.1:{port}/mcp");
            *allowed_hosts = vec![format!("http://127.0.0.1:{port}").parse().unwrap()];
        }
    })
}

/// Everything that a server of the library can be asked.
async fn works(source: &McpSource, version: &str) {
    let actions = source.list(&context().org).await.unwrap();
    assert_eq!(actions.iter().map(|action| action.id.as_str()).collect::<Vec<_>>(), ["kit.add", "kit.fail", "kit.slow"]);
    assert_eq!(source.known().unwrap().version, version);
    assert_eq!(source.guide().as_deref(), Some("Ask before you set."));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&lines);
    let told = CallContext { progress: Some(Progress::new(move |line| heard.lock().push(line.to_owned()))), ..context() };
    let call = async |context: &CallContext, name: &str| {
        source.call(context, &ActionId::parse(&format!("kit.{name}")).unwrap(), &json!({ "n": 41 })).await
    };
    let output = call(&told, "add").await.unwrap();
    assert_eq!(output.value["content"], json!([{ "type": "text", "text": "42" }]));
    assert_eq!(*lines.lock(), ["1"]);
    let failed = call(&context(), "fail").await.unwrap_err();
    assert_eq!(
        (failed.code(), failed.reported().unwrap()["content"][0]["text"].as_str()),
        ("source_reported_error", Some("it did not work"))
    );
    let late = call(&CallContext { timeout_ms: 300, ..context() }, "slow").await.unwrap_err();
    assert_eq!(late.code(), "source_timed_out");
    assert_eq!(call(&context(), "none").await.unwrap_err().code(), "source_reported_error");
    assert!(call(&context(), "add").await.is_ok(), "it still works");
}

#[tokio::test]
async fn a_server_of_the_library_works_over_http_in_both_lifecycles() {
    works(&http(MODERN, true).await, "2026-07-28").await;
    works(&http(MODERN, false).await, "2026-07-28").await;
    works(&http(LEGACY, true).await, "2025-11-25").await;
    works(&http(LEGACY, false).await, "2025-11-25").await;
}

/// Starts "programs" that run in this process, on streams in memory.
struct InProcess<S> {
    serve: S,
    started: Mutex<Vec<Arc<InMemory>>>,
}

#[derive(Default)]
struct InMemory {
    is_ended: watch::Sender<bool>,
    code: Mutex<Option<i32>>,
    stderr: Mutex<Vec<String>>,
    /// The values in its environment.
    env: Mutex<Vec<String>>,
}

struct Handle(Arc<InMemory>);

impl Child for Handle {
    fn end(&self) {
        self.0.is_ended.send_replace(true);
    }

    fn ended(&self) -> Future<'_, Result<Ended, jail::Error>> {
        Box::pin(async move {
            let _ = self.0.is_ended.subscribe().wait_for(|is_ended| *is_ended).await;
            Ok(Ended::Exited(self.0.code.lock().unwrap_or(0)))
        })
    }

    fn stderr(&self) -> StderrTail {
        StderrTail { lines: self.0.stderr.lock().clone(), dropped: 0 }
    }

    fn facts(&self) -> &Value {
        &Value::Null
    }
}

impl<S: Fn(tokio::io::DuplexStream, Arc<InMemory>) + Send + Sync> Residents for InProcess<S> {
    fn start(&self, spec: Spec) -> Future<'_, Result<Resident, jail::Error>> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let program = Arc::new(InMemory::default());
        *program.env.lock() = spec.env.iter().map(|(_, value)| value.expose().clone()).collect();
        self.started.lock().push(Arc::clone(&program));
        (self.serve)(theirs, Arc::clone(&program));
        let (stdout, stdin) = tokio::io::split(ours);
        let child: Box<dyn Child> = Box::new(Handle(program));
        Box::pin(std::future::ready(Ok(Resident { stdin: Box::new(stdin.compat_write()), stdout: Box::new(stdout.compat()), child })))
    }
}

/// A program with one secret, which has as many versions as values were set.
struct WithSecret(Mutex<Vec<&'static str>>, Duration);

impl WithSecret {
    fn new(value: &'static str) -> Arc<Self> {
        Self::with_patience(value, Duration::from_secs(10))
    }

    fn with_patience(value: &'static str, patience: Duration) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![value]), patience))
    }

    fn version(&self) -> Vec<Option<i64>> {
        vec![i64::try_from(self.0.lock().len()).ok()]
    }
}

impl Startable for WithSecret {
    fn start(&self) -> Future<'_, Result<Start, Error>> {
        let secret = Secret::new(self.0.lock().last().copied().unwrap_or_default().to_owned());
        let spec = Spec {
            owner: "org".to_owned(),
            profile: Profile::Default,
            program: PathBuf::from("/bin/kit"),
            program_digest: [0; 32],
            name: None,
            args: Vec::new(),
            env: vec![("TOKEN".to_owned(), secret.clone())],
            read_only: Vec::new(),
            folder: None,
            inputs: Vec::new(),
            memory_bytes: 1 << 26,
            processes: 8,
            open_files: 256,
            cpu_percent: 100,
            line_bytes_max: 1 << 22,
            grace_ms: 1_000,
            egress: None,
            network: None,
        };
        Box::pin(std::future::ready(Ok(Start { spec, secrets: vec![secret], versions: self.version() })))
    }

    fn patience(&self) -> Duration {
        self.1
    }

    fn versions(&self) -> Future<'_, Result<Vec<Option<i64>>, Error>> {
        Box::pin(std::future::ready(Ok(self.version())))
    }
}

fn program<S>(serve: S) -> (McpSource, Arc<InProcess<S>>)
where
    S: Fn(tokio::io::DuplexStream, Arc<InMemory>) + Send + Sync + 'static,
{
    program_with(serve, WithSecret::new("canary-7731"), None, Reach::default())
}

fn program_with<S>(serve: S, secret: Arc<WithSecret>, package: Option<Digest>, reach: Reach) -> (McpSource, Arc<InProcess<S>>)
where
    S: Fn(tokio::io::DuplexStream, Arc<InMemory>) + Send + Sync + 'static,
{
    let programs = Arc::new(InProcess { serve, started: Mutex::default() });
    let config = McpConfig {
        id: SourceId::parse("kit").unwrap(),
        title: "Kit".to_owned(),
        server: Server::Program { residents: Arc::clone(&programs) as Arc<dyn Residents>, program: secret, package, reach },
        connection: None,
        server_sha256: None,
        spaces: None,
        tiers: Tiers::default(),
        list_timeout_ms: 10_000,
        call_timeout_ms: 10_000,
        hearer: None,
    };
    (McpSource::new(config), programs)
}

fn serve(kit: Kit) -> impl Fn(tokio::io::DuplexStream, Arc<InMemory>) + Send + Sync + 'static {
    move |stream, _| {
        let kit = kit.clone();
        tokio::spawn(async move {
            if let Ok(service) = kit.serve(stream).await {
                let _ = service.waiting().await;
            }
        });
    }
}

#[tokio::test]
async fn a_server_of_the_library_works_as_a_program_in_both_lifecycles() {
    let (modern, started) = program(serve(MODERN));
    works(&modern, "2026-07-28").await;
    assert_eq!(started.started.lock().len(), 1, "one program for all calls");
    works(&program(serve(LEGACY)).0, "2025-11-25").await;
}

#[tokio::test]
async fn the_code_of_a_package_is_part_of_each_action_and_no_other_code_is_called() {
    let code = Digest::new([7; 32]);
    let (source, _) = program_with(
        serve(MODERN),
        WithSecret::new("canary-7731"),
        Some(code),
        Reach { hosts: vec!["api.example.com".parse().unwrap()], ..Reach::default() },
    );
    let actions = source.list(&context().org).await.unwrap();
    assert_eq!((source.code(), actions[0].package_sha256, actions[0].profile), (Some(code), Some(code), Profile::Resident));
    assert_eq!(actions[0].hosts, ["api.example.com"]);
    let call = async |code| source.call(&CallContext { code, ..context() }, &actions[0].id, &json!({ "n": 41 })).await;
    for other in [None, Some(Digest::new([8; 32]))] {
        assert_eq!(call(other).await.unwrap_err().code(), "package_changed");
    }
    assert!(call(Some(code)).await.is_ok());
}

#[tokio::test]
async fn a_program_that_sees_the_workspace_reads_files_and_cannot_be_kept_to_a_part_of_it() {
    let narrow = Scope { allowed_dirs: vec!["src".to_owned()], ..Scope::default() };
    let hosts = vec!["api.example.com".parse().unwrap()];
    for (reach, effects, expected) in [
        (Reach::default(), vec![], Ok(())),
        (Reach { hosts: hosts.clone(), ..Reach::default() }, vec![Effect::NetworkCall], Ok(())),
        (Reach { hosts, workspace: true, folder: false }, vec![Effect::NetworkCall, Effect::FilesystemRead], Err("outside_scope")),
    ] {
        let (source, _) = program_with(serve(LEGACY), WithSecret::new("canary-7731"), None, reach.clone());
        let actions = source.list(&context().org).await.unwrap();
        assert!(actions.iter().all(|action| action.effects == effects), "{reach:?}");
        let asked = |scope| Asked { action: &actions[0].id, params: None, scope, code: None };
        assert_eq!(source.check(asked(&narrow)).await.map_err(|error| error.code()), expected, "{reach:?}");
        assert_eq!(source.check(asked(&Scope::default())).await, Ok(()), "{reach:?}");
    }
}

#[tokio::test]
async fn a_program_ends_with_its_source() {
    let (source, started) = program(serve(MODERN));
    source.list(&context().org).await.unwrap();
    let mut ended = started.started.lock()[0].is_ended.subscribe();
    assert!(!*ended.borrow());
    drop(source);
    ended.wait_for(|is_ended| *is_ended).await.unwrap();
}

#[tokio::test]
async fn a_secret_that_was_replaced_reaches_the_program_with_the_next_call_and_running_calls_end_in_the_old_one() {
    let secret = WithSecret::new("canary-7731");
    let (source, started) = program_with(serve(MODERN), Arc::clone(&secret), None, Reach::default());
    let add = ActionId::parse("kit.add").unwrap();
    for _ in 0..2 {
        source.call(&context(), &add, &json!({})).await.unwrap();
    }
    assert_eq!(started.started.lock().len(), 1);
    let running = source.connection.lock().await.clone().unwrap();
    secret.0.lock().push("canary-7732");
    source.call(&context(), &add, &json!({})).await.unwrap();
    let programs = started.started.lock().clone();
    let given: Vec<_> = programs.iter().map(|program| program.env.lock().concat()).collect();
    assert_eq!(given, ["canary-7731", "canary-7732"]);
    assert!(!*programs[0].is_ended.borrow(), "something still runs in it");
    drop(running);
    programs[0].is_ended.subscribe().wait_for(|is_ended| *is_ended).await.unwrap();
    assert!(!*programs[1].is_ended.borrow());
}

#[tokio::test]
async fn a_program_that_dies_with_its_secret_on_its_lips_is_not_quoted() {
    let (source, _) = program(|stream, program: Arc<InMemory>| {
        program.stderr.lock().extend(["no config".to_owned(), "Error: TOKEN=canary-7731 is refused".to_owned()]);
        *program.code.lock() = Some(1);
        program.is_ended.send_replace(true);
        drop(stream);
    });
    let words =
        "its program ended with code 1: Error: TOKEN=[secret] is refused; its last lines: no config | Error: TOKEN=[secret] is refused";
    assert_eq!(call(&source).await.unwrap_err(), Error::Unreachable { source_id: "kit".to_owned(), message: words.to_owned() });
    let lines = ["no config", "Error: TOKEN=[secret] is refused"].map(str::to_owned).to_vec();
    let expected = LastWords { ended: Some("ended with code 1".to_owned()), hint: None, lines };
    assert_eq!(source.last_words(), Some(expected));
}

#[tokio::test]
async fn a_program_that_prints_its_environment_is_not_quoted() {
    const PRINTED: &[u8] =
        b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"TOKEN\\\": \\\"canary-7731\\\"}\"}]}}\n";
    let (source, _) = program(scripted(PRINTED, None));
    assert_eq!(call(&source).await.unwrap().value["content"][0]["text"], "{\"TOKEN\": \"[secret]\"}");
}

/// A program that prints this once it is asked for a tool, and stays or ends.
fn scripted(print: &'static [u8], code: Option<i32>) -> impl Fn(tokio::io::DuplexStream, Arc<InMemory>) + Send + Sync + 'static {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    move |stream, program| {
        tokio::spawn(async move {
            let (reader, mut writer) = tokio::io::split(stream);
            let mut lines = BufReader::new(reader).lines();
            let _ = writer.write_all(b"kit 1.0 says hello\n\n").await;
            while let Ok(Some(line)) = lines.next_line().await {
                let request: Value = serde_json::from_str(&line).unwrap();
                let reply = match request["method"].as_str() {
                    Some("server/discover") => json!({ "id": request["id"], "error": { "code": -32601, "message": "what?" } }),
                    Some("initialize") => json!({ "id": request["id"], "jsonrpc": "2.0", "result": { "protocolVersion": "2025-03-26",
                        "capabilities": {}, "serverInfo": { "name": "kit", "version": "1" } } }),
                    Some("tools/call") => {
                        let _ = writer.write_all(print).await;
                        if let Some(code) = code {
                            program.stderr.lock().push("out of luck".to_owned());
                            *program.code.lock() = Some(code);
                            program.is_ended.send_replace(true);
                            return;
                        }
                        continue;
                    }
                    _ => continue,
                };
                let mut reply = reply;
                reply["jsonrpc"] = json!("2.0");
                let _ = writer.write_all(format!("{reply}\n").as_bytes()).await;
            }
        });
    }
}

async fn call(source: &McpSource) -> Result<Output, Error> {
    source.call(&context(), &ActionId::parse("kit.set").unwrap(), &json!({})).await
}

#[tokio::test]
async fn a_program_that_prints_nonsense_where_an_answer_is_awaited_is_ended() {
    const LONG: &[u8] = &[b'x'; crate::limits::MCP_MESSAGE_BYTES_MAX + 1];
    for (print, words) in [
        (&b"{\"id\":\n"[..], "it sent a message that is not JSON-RPC"),
        (b"[]\n", "it sent a message that is not JSON-RPC"),
        (b"\xff\xff\n", "it sent a message that is not UTF-8"),
        (LONG, "it sent a message longer than"),
    ] {
        let (source, started) = program(scripted(print, None));
        let error = call(&source).await.unwrap_err();
        assert_eq!((error.code(), error.to_string().contains("`kit`")), ("source_broke", true), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        let mut ended = started.started.lock()[0].is_ended.subscribe();
        ended.wait_for(|is_ended| *is_ended).await.unwrap();
    }
}

#[tokio::test]
async fn strays_are_passed_over_and_too_many_of_them_end_it() {
    const FEW: &[u8] = b"log line\n{\"id\":777,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[]}}\n";
    let (source, _) = program(scripted(FEW, None));
    assert_eq!(call(&source).await.unwrap().value, json!({ "content": [] }));
    static MANY: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| b"{\"id\":777,\"result\":{}}\n".repeat(200));
    let (source, _) = program(scripted(&MANY, None));
    let error = call(&source).await.unwrap_err();
    assert!(error.to_string().contains("prints something else than MCP"), "{error}");
}

#[tokio::test]
async fn a_program_that_dies_says_how_and_is_started_again_for_the_next_call() {
    let reach = Reach { folder: true, ..Reach::default() };
    let (source, started) = program_with(scripted(b"", Some(3)), WithSecret::new("canary-7731"), None, reach);
    for number in 1..=2 {
        let error = call(&source).await.unwrap_err();
        assert_eq!(error, Error::Broken { source_id: "kit".to_owned(), message: "its program ended with code 3: out of luck".to_owned() });
        assert_eq!(started.started.lock().len(), number);
    }
}

#[tokio::test]
async fn what_cannot_have_left_the_jail_was_not_done_and_what_can_have_may_have_been() {
    const NO: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"no\"}]}}\n";
    let hosts = || vec!["api.example.com".parse().unwrap()];
    for (reach, after) in [
        (Reach::default(), AfterError::NoEffect),
        (Reach { workspace: true, ..Reach::default() }, AfterError::NoEffect),
        (Reach { folder: true, ..Reach::default() }, AfterError::Unknown),
        (Reach { hosts: hosts(), ..Reach::default() }, AfterError::Unknown),
    ] {
        for (print, code, expected) in
            [(&b""[..], Some(3), "source_broke"), (b"[]\n", None, "source_broke"), (NO, None, "source_reported_error")]
        {
            let (source, _) = program_with(scripted(print, code), WithSecret::new("canary-7731"), None, reach.clone());
            let error = call(&source).await.unwrap_err();
            assert_eq!((error.code(), error.after()), (expected, after), "{reach:?}: {error}");
            assert_eq!(error.to_string().contains("the effect may have happened"), after == AfterError::Unknown, "{error}");
        }
        let (source, _) = program_with(scripted(b"", None), WithSecret::new("canary-7731"), None, reach.clone());
        let context = CallContext { timeout_ms: 300, ..context() };
        let error = source.call(&context, &ActionId::parse("kit.set").unwrap(), &json!({})).await.unwrap_err();
        assert_eq!((error.code(), error.after()), ("source_timed_out", after), "{reach:?}: {error}");
    }
}

#[tokio::test]
async fn an_error_that_a_program_answers_with_says_what_to_do_about_it() {
    const NO: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"EROFS: read-only file system, open '/x'\"}]}}\n";
    let (source, _) = program(scripted(NO, None));
    let error = call(&source).await.unwrap_err().to_string();
    assert!(error.contains("EROFS: read-only file system, open '/x'; it may write to `/tmp`") && error.contains("`--folder`"), "{error}");
}

/// A program that waits for this before it speaks.
fn waiting(for_it: &watch::Sender<bool>) -> impl Fn(tokio::io::DuplexStream, Arc<InMemory>) + Send + Sync + 'static + use<> {
    let may_speak = for_it.subscribe();
    move |stream, program| {
        let mut may_speak = may_speak.clone();
        tokio::spawn(async move {
            let _ = may_speak.wait_for(|may| *may).await;
            serve(MODERN)(stream, program);
        });
    }
}

#[tokio::test]
async fn a_program_that_starts_slowly_is_started_once_and_answers_the_caller_who_asks_again() {
    let may_speak = watch::Sender::new(false);
    let (source, started) =
        program_with(waiting(&may_speak), WithSecret::with_patience("canary-7731", Duration::from_secs(60)), None, Reach::default());
    let add = ActionId::parse("kit.add").unwrap();
    for _ in 0..2 {
        let hasty = CallContext { timeout_ms: 300, ..context() };
        let error = source.call(&hasty, &add, &json!({ "n": 1 })).await.unwrap_err();
        assert_eq!((error.code(), error.after()), ("source_busy", AfterError::NoEffect), "{error}");
        assert!(error.to_string().contains("still starting, which may take 60 s"), "{error}");
    }
    may_speak.send_replace(true);
    assert_eq!(source.call(&context(), &add, &json!({ "n": 1 })).await.unwrap().value["content"][0]["text"], "2");
    assert_eq!(started.started.lock().len(), 1);
}

#[tokio::test]
async fn a_few_programs_start_at_once_and_each_call_waits_for_its_own_alone() {
    let at_once = STARTS.available_permits();
    let may_speak = watch::Sender::new(false);
    let slow: Vec<_> =
        (0..at_once + 2).map(|_| program(waiting(&may_speak))).map(|(source, started)| (Arc::new(source), started)).collect();
    let count = || slow.iter().filter(|(_, started)| !started.started.lock().is_empty()).count();
    let calls: Vec<_> =
        slow.iter().map(|(source, _)| Arc::clone(source)).map(|source| tokio::spawn(async move { call(&source).await })).collect();
    while STARTS.available_permits() > 0 || count() < at_once {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(count(), at_once, "the others wait for their turn");
    may_speak.send_replace(true);
    for call in calls {
        // There is no such tool, which its own program says.
        assert_eq!(call.await.unwrap().unwrap_err().code(), "source_reported_error");
    }
    assert_eq!((count(), STARTS.available_permits()), (at_once + 2, at_once));
}

#[tokio::test]
async fn a_program_that_is_stopped_while_it_starts_is_ended() {
    let may_speak = watch::Sender::new(false);
    let (source, started) = program_with(waiting(&may_speak), WithSecret::new("canary-7731"), None, Reach::default());
    let source = Arc::new(source);
    let calling = tokio::spawn({
        let source = Arc::clone(&source);
        async move { call(&source).await }
    });
    while started.started.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    source.disconnect().await;
    assert_eq!(calling.await.unwrap().unwrap_err().code(), "source_unreachable");
    let program = Arc::clone(&started.started.lock()[0]);
    program.is_ended.subscribe().wait_for(|is_ended| *is_ended).await.unwrap();
}

#[tokio::test]
async fn a_program_that_dies_at_its_start_is_unreachable() {
    let (source, _) = program(|stream, program: Arc<InMemory>| {
        program.stderr.lock().push("no config".to_owned());
        *program.code.lock() = Some(1);
        program.is_ended.send_replace(true);
        drop(stream);
    });
    let error = call(&source).await.unwrap_err();
    assert_eq!(error, Error::Unreachable { source_id: "kit".to_owned(), message: "its program ended with code 1: no config".to_owned() });
}

#[tokio::test]
async fn a_program_that_says_nothing_is_given_up_in_time_and_ended() {
    let silent = |stream: tokio::io::DuplexStream, program: Arc<InMemory>| {
        tokio::spawn(async move {
            let _stream = stream;
            program.stderr.lock().push("loading".to_owned());
            let _ = program.is_ended.subscribe().wait_for(|is_ended| *is_ended).await;
        });
    };
    let secret = WithSecret::with_patience("canary-7731", Duration::from_millis(300));
    let (source, started) = program_with(silent, secret, None, Reach::default());
    let error = call(&source).await.unwrap_err();
    assert_eq!(error.code(), "source_unreachable", "{error}");
    for words in ["did not begin to speak MCP within 300 ms", "still runs: loading", "`start_seconds`"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    let program = Arc::clone(&started.started.lock()[0]);
    program.is_ended.subscribe().wait_for(|is_ended| *is_ended).await.unwrap();
}
