//! Connections as calls use them: the right headers to the right place, and one renewal however many ask.

use super::*;
use crate::oauth::fake::{CANARY, Fake, reply};
use crate::oauth::tests::{connection, logged_in};
use countersign_core::ports::connections::Locked;
use countersign_core::{SpaceId, Timestamp};
use parking_lot::Mutex;
use serde_json::json;
use testkit::{FixedClock, SeededRandom};

/// A store of one connection, in memory.
struct Memory(Mutex<Row>);

struct Row {
    connection: Connection,
    value: Option<String>,
    holder: Option<String>,
    /// How often tokens were kept.
    kept: usize,
    /// How often it was noted that a person has to do something.
    needs: usize,
}

impl Row {
    fn opened(&self) -> OpenConnection {
        let value = self.value.clone().and_then(|text| SecretValue::new(Secret::new(text)));
        OpenConnection { connection: self.connection.clone(), value }
    }
}

impl KeptConnections for Memory {
    fn open_connection<'a>(
        &'a self,
        _: &'a OrgId,
        connection: &'a ConnectionId,
    ) -> Future<'a, Result<Option<OpenConnection>, ports::Error>> {
        let row = self.0.lock();
        Box::pin(std::future::ready(Ok((row.connection.id == *connection).then(|| row.opened()))))
    }

    fn mail_connections<'a>(&'a self, _: &'a OrgId) -> Future<'a, Result<Vec<Connection>, ports::Error>> {
        let row = self.0.lock();
        let found = (row.connection.kind == ConnectionKind::Smtp).then(|| row.connection.clone());
        Box::pin(std::future::ready(Ok(found.into_iter().collect())))
    }

    fn lock_tokens<'a>(&'a self, _: &'a OrgId, _: &'a ConnectionId, holder: &'a str) -> Future<'a, Result<Locked, ports::Error>> {
        let mut row = self.0.lock();
        let locked = if row.holder.is_some() {
            Locked::Taken
        } else {
            row.holder = Some(holder.to_owned());
            Locked::Ours(Box::new(row.opened()))
        };
        Box::pin(std::future::ready(Ok(locked)))
    }

    fn keep_tokens<'a>(
        &'a self,
        _: &'a OrgId,
        _: &'a ConnectionId,
        holder: &'a str,
        tokens: SecretValue,
    ) -> Future<'a, Result<bool, ports::Error>> {
        let mut row = self.0.lock();
        let is_ours = row.holder.take_if(|held| held == holder).is_some();
        if is_ours {
            row.value = Some(tokens.expose().to_owned());
            row.kept += 1;
        }
        Box::pin(std::future::ready(Ok(is_ours)))
    }

    fn unlock_tokens<'a>(&'a self, _: &'a OrgId, _: &'a ConnectionId, holder: &'a str) -> Future<'a, Result<(), ports::Error>> {
        self.0.lock().holder.take_if(|held| held == holder);
        Box::pin(std::future::ready(Ok(())))
    }

    fn need_login<'a>(&'a self, _: &'a OrgId, _: &'a ConnectionId, version: i64, need: Need) -> Future<'a, Result<(), ports::Error>> {
        let mut row = self.0.lock();
        assert_eq!(version, row.connection.version);
        row.holder = None;
        row.needs += 1;
        match need {
            Need::Login { why } => {
                row.connection.state = ConnectionState::NeedsLogin;
                row.connection.why = Some(why);
            }
            Need::Scopes { why, scopes } => {
                row.connection.why = Some(why);
                row.connection.scopes = Some(scopes);
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

struct World {
    fake: Fake,
    memory: Arc<Memory>,
    connected: Connected,
    clock: FixedClock,
    org: OrgId,
    space: SpaceId,
    id: ConnectionId,
}

impl World {
    async fn new(change: impl FnOnce(&mut Connection), value: impl AsyncFnOnce(&Fake) -> String) -> Self {
        let fake = Fake::start().await;
        let mut connection = Connection { state: ConnectionState::Ready, ..connection(fake.at("/mcp")) };
        change(&mut connection);
        let id = connection.id.clone();
        let value = Some(value(&fake).await);
        let memory = Arc::new(Memory(Mutex::new(Row { connection, value, holder: None, kept: 0, needs: 0 })));
        let clock = FixedClock::new();
        let (allowed_hosts, allowed_networks) = fake.allowed();
        let connected = Connected::new(
            ConnectedConfig { allowed_hosts, allowed_networks, mailer: Arc::default() },
            Arc::clone(&memory) as Arc<dyn KeptConnections>,
            Arc::new(clock.clone()),
            Arc::new(SeededRandom::new(3)),
        );
        let at = Timestamp::default();
        let (org, space) = (OrgId::new(at, [1; 10]), SpaceId::new(at, [2; 10]));
        Self { fake, memory, connected: connected.unwrap(), clock, org, space, id }
    }

    /// Somebody has just logged in.
    async fn oauth() -> Self {
        let value = async |fake: &Fake| logged_in(fake).await.write().unwrap().expose().to_owned();
        Self::new(|_| {}, value).await
    }

    async fn headers(&self, path: &str) -> Result<ConnectionHeaders, Error> {
        let url = self.fake.at(path);
        self.connected.resolve_connection(self.wanted(&url)).await
    }

    fn wanted<'a>(&'a self, url: &'a str) -> Wanted<'a> {
        Wanted { org: &self.org, connection: &self.id, space: Some(&self.space), url }
    }

    async fn token(&self) -> Result<String, Error> {
        let headers = self.headers("/mcp").await?;
        let token = headers.expose().map(|(name, value)| format!("{name}: {value}")).collect();
        Ok(token)
    }

    async fn refused(&self, sent: &ConnectionHeaders, status: u16, www_authenticate: &str) -> Result<bool, Error> {
        let url = self.fake.at("/mcp");
        let refusal = Refusal { sent, status, www_authenticate: Some(www_authenticate) };
        self.connected.refused_connection(self.wanted(&url), refusal).await
    }
}

#[tokio::test]
async fn each_kind_has_its_own_headers() {
    for (kind, account, expected) in [
        (ConnectionKind::Bearer, None, "authorization: Bearer s3cret"),
        (ConnectionKind::Header, Some("X-Api-Key"), "x-api-key: s3cret"),
        (ConnectionKind::Basic, Some("robin"), "authorization: Basic cm9iaW46czNjcmV0"),
    ] {
        let change = |connection: &mut Connection| {
            connection.kind = kind;
            connection.account = account.map(str::to_owned);
        };
        let world = World::new(change, async |_: &Fake| "s3cret".to_owned()).await;
        assert_eq!(world.token().await.unwrap(), expected);
        // With a credential that another place gave, nothing can be mended here.
        let sent = world.headers("/mcp").await.unwrap();
        assert_eq!(world.refused(&sent, 401, "Bearer").await, Ok(false));
        // A test says what was answered, and sends the credential there.
        world.fake.change("GET /mcp", reply(405, &json!({})));
        let tested = world.connected.test(&world.org, &world.id).await.unwrap();
        assert_eq!((tested.status, tested.status_without, tested.is_let_in()), (405, Some(405), None));
        let seen = world.fake.seen("GET /mcp");
        let seen: Vec<_> = seen.iter().map(|seen| seen.authorization.is_some()).collect();
        assert_eq!(seen, [kind != ConnectionKind::Header, false], "once with the credential, and once without");
    }
}

#[tokio::test]
async fn a_credential_goes_to_its_origin_and_to_the_spaces_that_may_use_it() {
    let bearer = |connection: &mut Connection| connection.kind = ConnectionKind::Bearer;
    let world = World::new(bearer, async |_: &Fake| CANARY.to_owned()).await;
    assert!(world.headers("/elsewhere?x").await.is_ok(), "the same origin");
    for url in ["https://127.0.0.1/mcp", "http://127.0.0.1:1/mcp", "http://evil.test/mcp", "nonsense"] {
        let refused = world.connected.resolve_connection(world.wanted(url)).await.map(|_| ()).unwrap_err();
        assert_eq!(refused.code(), "connection_not_allowed", "{url}");
        assert!(!refused.to_string().contains(CANARY));
    }
    world.memory.0.lock().connection.spaces = Some(vec![]);
    assert_eq!(world.token().await.unwrap_err().code(), "connection_not_allowed");
    let url = world.fake.at("/mcp");
    let listing = Wanted { space: None, ..world.wanted(&url) };
    assert!(world.connected.resolve_connection(listing).await.is_ok(), "a listing belongs to no space");
    world.memory.0.lock().connection.spaces = Some(vec![world.space.clone()]);
    assert!(world.token().await.is_ok());
    for bad in ["a\nb", "ä", "\u{7f}"] {
        world.memory.0.lock().value = Some(bad.to_owned());
        assert_eq!(world.token().await.unwrap_err().code(), "header_not_allowed");
    }
    world.memory.0.lock().connection.state = ConnectionState::Revoked;
    assert_eq!(world.token().await.unwrap_err().code(), "connection_not_ready");
}

#[tokio::test]
async fn a_token_that_has_ended_is_renewed_once_for_all_who_wait() {
    let world = World::oauth().await;
    assert_eq!(world.token().await.unwrap(), format!("authorization: Bearer {CANARY}-access-1"));
    assert_eq!(world.fake.seen("POST /token").len(), 1, "the login");
    world.clock.advance_seconds(3_600);
    let tokens = tokio::join!(world.token(), world.token(), world.token(), world.token());
    for token in [tokens.0, tokens.1, tokens.2, tokens.3] {
        assert_eq!(token.unwrap(), format!("authorization: Bearer {CANARY}-access-2"));
    }
    assert_eq!((world.fake.seen("POST /token").len(), world.memory.0.lock().kept), (2, 1));
    // A token that was refused is renewed too, but only if nobody has done it since.
    let sent = world.headers("/mcp").await.unwrap();
    let (one, two) = tokio::join!(world.refused(&sent, 401, "Bearer"), world.refused(&sent, 401, "Bearer"));
    assert_eq!((one, two, world.fake.seen("POST /token").len()), (Ok(true), Ok(true), 3));
    assert_eq!(world.token().await.unwrap(), format!("authorization: Bearer {CANARY}-access-3"));
}

#[tokio::test]
async fn a_login_that_has_ended_says_who_can_mend_it() {
    let world = World::oauth().await;
    world.clock.advance_seconds(3_600);
    // A server that is away for a moment ends nothing.
    world.fake.change("POST /token", reply(503, &json!({})));
    assert_eq!(world.token().await.unwrap_err().code(), "login_failed");
    assert_eq!(world.memory.0.lock().connection.state, ConnectionState::Ready);
    assert_eq!(world.memory.0.lock().holder, None, "the lock was given back");
    world.fake.change("POST /token", reply(400, &json!({ "error": "invalid_grant", "error_description": CANARY })));
    for _ in 0..2 {
        let refused = world.token().await.unwrap_err();
        assert_eq!(refused.code(), "connection_not_ready");
        assert!(refused.to_string().contains("an admin can log in with `connection login github`"), "{refused}");
        assert!(!refused.to_string().contains(CANARY), "{refused}");
    }
    assert_eq!(world.memory.0.lock().connection.state, ConnectionState::NeedsLogin);
    assert_eq!(world.fake.seen("POST /token").len(), 3, "nobody asks for what has ended");
}

#[tokio::test]
async fn a_call_that_needs_more_scopes_is_told_so_and_the_next_login_asks_for_them() {
    let world = World::oauth().await;
    world.memory.0.lock().connection.scopes = Some("read list".to_owned());
    let sent = world.headers("/mcp").await.unwrap();
    let challenge = r#"Bearer error="insufficient_scope", scope="list write""#;
    for _ in 0..2 {
        let refused = world.refused(&sent, 403, challenge).await.unwrap_err();
        assert_eq!(refused.code(), "connection_not_ready");
        let expected = "connection `github` needs a login: some calls need the scopes `list write` too; an admin can log in with \
                        `connection login github`";
        assert_eq!(refused.to_string(), expected);
    }
    assert_eq!(world.refused(&sent, 403, r#"Bearer error="other""#).await, Ok(false));
    let row = world.memory.0.lock().connection.clone();
    assert_eq!((row.scopes.as_deref(), row.state), (Some("read list write"), ConnectionState::Ready));
    assert!(row.why.is_some_and(|why| why.contains("`list write`")));
    assert_eq!(world.memory.0.lock().needs, 1, "what is known is not noted again");
    assert!(world.token().await.is_ok(), "other calls go on");
    let begun = world.connected.begin_login(&world.org, &world.id, &Own::new("http://127.0.0.1:1")).await.unwrap();
    assert!(begun.url.contains("scope=read+list+write"), "{}", begun.url);
}

#[tokio::test]
async fn the_login_of_a_mail_server_is_sent_to_no_other_server() {
    let smtp = |connection: &mut Connection| {
        connection.kind = ConnectionKind::Smtp;
        connection.account = Some("robin".to_owned());
    };
    let world = World::new(smtp, async |_: &Fake| CANARY.to_owned()).await;
    let refused = world.token().await.unwrap_err();
    assert_eq!((refused.code(), refused.to_string().as_str()), ("connection_not_allowed", "connection `github` is for mail alone"));
    let check = |url: &str| world.connected.check_mail_server(url).map(|_| ()).map_err(|error| error.code());
    assert_eq!(check("https://mail.example.com"), Err("url_not_allowed"));
    assert_eq!(check("smtps://mail.example.com"), Err("host_not_allowed"), "an operator names mail servers");
}

#[test]
fn a_server_cannot_ask_for_more_scopes_than_fit() {
    let many: Vec<_> = (0..1_000).map(|number| format!("scope{number:04}")).collect();
    let scopes = union("read", &format!("read \u{202e} a\"b {}", many.join(" ")));
    assert!(scopes.starts_with("read scope0000 scope0001 "), "{scopes}");
    assert!((CONNECTION_TEXT_BYTES_MAX - 10..=CONNECTION_TEXT_BYTES_MAX).contains(&scopes.len()), "{}", scopes.len());
    assert_eq!(union("", &"x".repeat(CONNECTION_TEXT_BYTES_MAX + 1)), "");
}

#[tokio::test]
async fn what_cannot_be_a_connection_is_refused_at_once() {
    let world = World::oauth().await;
    assert_eq!(world.connected.check_url(&world.fake.at("/mcp")), Ok(()));
    for (url, code) in [
        (format!("{}?key=x", world.fake.at("/mcp")), "url_not_allowed"),
        ("https://evil.test/".to_owned(), "host_not_allowed"),
        ("http://127.0.0.9/".to_owned(), "address_not_allowed"),
        ("ftp://a".to_owned(), "url_not_allowed"),
    ] {
        assert_eq!(world.connected.check_url(&url).unwrap_err().code(), code, "{url}");
    }
    let header = |name: &str| world.connected.check_credential(ConnectionKind::Header, Some(name), None).map_err(|error| error.code());
    assert_eq!((header("X-Api-Key"), header("Host")), (Ok(()), Err("header_not_allowed")));
    let value = SecretValue::new(Secret::new(format!("{CANARY}\n"))).unwrap();
    let refused = world.connected.check_credential(ConnectionKind::Bearer, None, Some(&value)).unwrap_err();
    assert!(!refused.to_string().contains(CANARY), "{refused}");
}
