//! The HTTP client. It sends requests, reads the answer or the problem, and says plainly when the server cannot be reached. It follows no
//! redirect, uses no proxy and sends the token to one address only. It never repeats a request by itself.

mod door;
mod events;
mod refused;

pub(crate) use events::{Event, Events};
pub(crate) use reqwest::Method;

use crate::context::{Origin, Place, Server};
use crate::exit::{Exit, Failure};
use crate::hints;
use api::{Page, Problem};
use countersign_core::Secret;
use countersign_core::limits::PAGE_ROWS_MAX;
use reqwest::{Response, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;
use url::Url;

const CONNECT_SECONDS: u64 = 5;
/// How long an answer may take. An action may run for half a minute, in up to three attempts.
const ANSWER_SECONDS: u64 = 180;
/// The prefix of agents' tokens.
const AGENT_TOKEN: &str = "cs_agent_";
/// How long a stream may be silent before it counts as cut off.
const SILENCE_SECONDS: u64 = 60;

/// An answer of the server: parsed in `read`, and exactly as it was sent in `raw`.
pub(crate) struct Answer<T> {
    pub(crate) read: T,
    pub(crate) raw: Value,
}

/// A client of one server, with the token that it sends.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    place: Place,
    token: Option<Secret<String>>,
    origin: Origin,
    mode: Rehearsal,
}

/// Whether `--dry-run` is given: then requests that would change something are shown instead of sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rehearsal {
    Off,
    On,
}

impl Client {
    pub(crate) fn new(server: Server, mode: Rehearsal) -> Result<Self, Failure> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(CONNECT_SECONDS))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        if let Some(file) = &server.ca_cert {
            builder = builder.tls_certs_only(certificates(file)?);
        } else if server.url.scheme() == "http" {
            // No certificate is verified over plain HTTP, so the client must also start on a machine that has no CA certificates.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| {
            Failure::failed(format!("the HTTP client cannot start: {}", reasons(&error))).hint("install your system's CA certificates")
        })?;
        Ok(Self { http, base: server.url, place: server.place, token: server.token, origin: server.origin, mode })
    }

    pub(crate) const fn url(&self) -> &Url {
        &self.base
    }

    pub(crate) const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(crate) fn rehearses(&self) -> bool {
        self.mode == Rehearsal::On
    }

    /// Whether it sends the token of an agent, who can neither approve nor change rules.
    pub(crate) fn is_agents(&self) -> bool {
        self.token.as_ref().is_some_and(|token| token.expose().starts_with(AGENT_TOKEN))
    }

    /// Sends a GET request. `path` holds the segments after `/api/v1`; each is escaped.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, String)]) -> Result<Answer<T>, Failure> {
        let request = self.request(Method::GET, path)?.query(query).timeout(Duration::from_secs(ANSWER_SECONDS));
        self.read(self.send(request, Effect::None).await?).await
    }

    /// Reads every page of a list, one after the other.
    pub(crate) fn pages<'a, T>(&'a self, path: &'a [&'a str], query: &[(&'static str, &str)]) -> Pages<'a, T> {
        let query = query.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Pages { client: self, path, query, at: At::Start, item: PhantomData }
    }

    /// A read whose parameters are too large for a URL, so they are sent as the body of a POST. It changes nothing, so it is sent under
    /// `--dry-run` too.
    pub(crate) async fn question<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<Answer<T>, Failure> {
        let request = self.request(Method::POST, path)?.timeout(Duration::from_secs(ANSWER_SECONDS)).json(body);
        self.read(self.send(request, Effect::None).await?).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<Answer<T>, Failure> {
        self.change(Method::POST, path, Some(body)).await
    }

    /// A POST whose answer may take longer than others.
    pub(crate) async fn post_within<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<Answer<T>, Failure> {
        if self.rehearses() {
            return self.post(path, body).await;
        }
        let request = self.request(Method::POST, path)?.timeout(limit).json(body);
        self.read(self.send(request, Effect::Possible).await?).await
    }

    /// A POST that is sent under `--dry-run` too. It is for invocations that are marked as dry runs themselves, and for the session they
    /// run in.
    pub(crate) async fn post_always<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<Answer<T>, Failure> {
        self.ask(Method::POST, path, &[], Some(body)).await
    }

    /// Like `post_always`, but asks the server to stream events while the call runs. A server that cannot stream sends a plain answer.
    pub(crate) async fn post_told<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<Reply<T>, Failure> {
        let request = self.request(Method::POST, path)?.header(header::ACCEPT, events::MEDIA_TYPE);
        let request = request.timeout(Duration::from_secs(ANSWER_SECONDS)).json(body);
        let response = self.send(request, Effect::Possible).await?;
        if events::is_stream(&response) {
            return Ok(Reply::Told(Box::new(Events::new(response))));
        }
        self.read(response).await.map(Reply::Answered)
    }

    /// Opens the stream of events under this path. It fails if the server answers without a stream.
    pub(crate) async fn events(&self, path: &[&str], query: &[(&str, String)]) -> Result<Events, Failure> {
        let request = self.request(Method::GET, path)?.query(query).header(header::ACCEPT, events::MEDIA_TYPE);
        let response = self.send(request, Effect::None).await?;
        match (response.status().is_success(), events::is_stream(&response)) {
            (true, true) => Ok(Events::new(response)),
            (true, false) => Err(Failure::failed("the server does not tell what happens while it happens").hint("countersign status")),
            (false, _) => Err(self.refused(problem(response).await)),
        }
    }

    /// A POST without a body, for requests that the path describes completely.
    pub(crate) async fn post_empty<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Answer<T>, Failure> {
        self.change(Method::POST, path, None::<&()>).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<Answer<T>, Failure> {
        self.change(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn patch<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<Answer<T>, Failure> {
        self.change(Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Answer<T>, Failure> {
        self.change(Method::DELETE, path, None::<&()>).await
    }

    /// A DELETE with a body, for resources that the path alone does not identify.
    pub(crate) async fn delete_with<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<Answer<T>, Failure> {
        self.change(Method::DELETE, path, Some(body)).await
    }

    /// An answer that is read in pieces. It may take as long as it needs, but no pause may be longer than `SILENCE_SECONDS`.
    pub(crate) async fn stream(&self, path: &[&str]) -> Result<Pieces, Failure> {
        let request = self.request(Method::GET, path)?;
        let response = self.send(request, Effect::None).await?;
        if !response.status().is_success() {
            return Err(self.refused(problem(response).await));
        }
        Ok(Pieces { response })
    }

    /// The bytes behind a link of the server, a path with a query, which are read in pieces.
    pub(crate) async fn linked(&self, link: &str) -> Result<Pieces, Failure> {
        let (path, query) = link.split_once('?').unwrap_or((link, ""));
        let path: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let query: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let response = self.send(self.at(Method::GET, &path)?.query(&query), Effect::None).await?;
        if !response.status().is_success() {
            return Err(self.refused(problem(response).await));
        }
        Ok(Pieces { response })
    }

    /// The server's time, from its `Date` header; `None` if it sends none.
    pub(crate) async fn date(&self) -> Result<Option<String>, Failure> {
        let request = self.request(Method::GET, &["openapi.json"])?.timeout(Duration::from_secs(3 * CONNECT_SECONDS));
        let response = self.send(request, Effect::None).await?;
        Ok(response.headers().get("date").and_then(|date| date.to_str().ok()).map(str::to_owned))
    }

    async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&impl Serialize>,
    ) -> Result<Answer<T>, Failure> {
        self.change_with(method, path, &[], body).await
    }

    /// A request that changes something, with headers of its own.
    pub(crate) async fn change_with<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        headers: &[(&'static str, String)],
        body: Option<&impl Serialize>,
    ) -> Result<Answer<T>, Failure> {
        if self.rehearses() {
            let body = body.map(serde_json::to_value).transpose().map_err(|error| Failure::failed(error.to_string()))?;
            return Err(Failure::unsent_request(method.as_str(), &format!("/api/v1/{}", path.join("/")), body));
        }
        self.ask(method, path, headers, body).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        headers: &[(&'static str, String)],
        body: Option<&impl Serialize>,
    ) -> Result<Answer<T>, Failure> {
        let request = self.request(method, path)?.timeout(Duration::from_secs(ANSWER_SECONDS));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        self.read(self.send(request, Effect::Possible).await?).await.map_err(|mut failure| {
            failure.hint = failure.hint.map(|hint| hints::named(&hint, path));
            failure
        })
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<reqwest::RequestBuilder, Failure> {
        self.at(method, &[["api", "v1"].as_slice(), path].concat())
    }

    /// A request to this path below the server's address, with the token.
    fn at(&self, method: Method, path: &[&str]) -> Result<reqwest::RequestBuilder, Failure> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Failure::usage(format!("`{}` is not the address of a server", self.base)))?
            .pop_if_empty()
            .extend(path);
        let request = self.http.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        })
    }

    async fn send(&self, request: reqwest::RequestBuilder, effect: Effect) -> Result<Response, Failure> {
        request.send().await.map_err(|error| self.unreachable(&error, effect))
    }

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<Answer<T>, Failure> {
        read(response).await.map_err(|failure| self.refused(failure))
    }

    /// Adds to a refused token what the server cannot know: where the token came from, or where the command line looked for one.
    fn refused(&self, failure: Failure) -> Failure {
        if self.is_agents() {
            refused::to_agent(failure, &self.base, &self.origin)
        } else {
            refused::told(failure, &self.base, &self.origin)
        }
    }

    fn unreachable(&self, error: &reqwest::Error, effect: Effect) -> Failure {
        let url = &self.base;
        let unreachable = |message: String| Failure::new(Exit::Unreachable, message).cause(reasons(error));
        let why = reasons(error);
        if error.is_connect() && why.contains("certificate") {
            return unreachable(format!("the certificate of the server at `{url}` is not trusted; nothing was sent"))
                .hint("name the certificate of its CA with --ca-cert FILE, and the server by a name that its certificate has");
        }
        if error.is_connect() {
            let failure = unreachable(format!("the server at `{url}` cannot be reached; nothing was sent, retrying is safe"));
            return refused::nobody_there(failure, &self.place);
        }
        match effect {
            Effect::None => unreachable(format!("the server at `{url}` did not answer; retrying is safe")).hint("countersign doctor"),
            Effect::Possible => {
                unreachable(format!("the server at `{url}` did not answer; it may have done what was asked, look before retrying"))
                    .hint("countersign invocation list")
            }
        }
    }
}

/// A list that is read page by page.
pub(crate) struct Pages<'a, T> {
    client: &'a Client,
    path: &'a [&'a str],
    query: Vec<(&'static str, String)>,
    at: At,
    item: PhantomData<T>,
}

enum At {
    Start,
    After(String),
    End,
}

impl<T: DeserializeOwned> Pages<'_, T> {
    /// The next page, each item both parsed and as the server sent it; `None` after the last page.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<(T, Value)>>, Failure> {
        let after = match &self.at {
            At::Start => None,
            At::After(cursor) => Some(("after", cursor.clone())),
            At::End => return Ok(None),
        };
        let query: Vec<_> = self.query.iter().cloned().chain([("limit", PAGE_ROWS_MAX.to_string())]).chain(after).collect();
        let answer = self.client.get::<Page<T>>(self.path, &query).await?;
        let raw = answer.raw.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        self.at = answer.read.next.map_or(At::End, At::After);
        Ok(Some(answer.read.items.into_iter().zip(raw).collect()))
    }

    /// All remaining items.
    pub(crate) async fn all(mut self) -> Result<Vec<(T, Value)>, Failure> {
        let mut all = Vec::new();
        while let Some(page) = self.next().await? {
            all.extend(page);
        }
        Ok(all)
    }
}

/// Whether a request whose answer was lost may have changed something.
#[derive(Clone, Copy)]
enum Effect {
    None,
    Possible,
}

/// The answer to a request that asked for events: a plain answer, or a stream of events.
pub(crate) enum Reply<T> {
    Answered(Answer<T>),
    Told(Box<Events>),
}

/// A streamed answer.
pub(crate) struct Pieces {
    response: Response,
}

impl Pieces {
    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<impl AsRef<[u8]>>, Failure> {
        let cut_off = |cause: String| Failure::new(Exit::Unreachable, "the answer was cut off; retrying is safe").cause(cause);
        match tokio::time::timeout(Duration::from_secs(SILENCE_SECONDS), self.response.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => Err(cut_off(reasons(&error))),
            Err(_) => Err(cut_off(format!("nothing came for {SILENCE_SECONDS} s"))),
        }
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<Answer<T>, Failure> {
    if !response.status().is_success() {
        return Err(problem(response).await);
    }
    let bytes = response.bytes().await.map_err(|error| {
        Failure::new(Exit::Unreachable, "the answer was cut off; look before retrying")
            .cause(reasons(&error))
            .hint("countersign invocation list")
    })?;
    // An answer without a body is read as JSON `null`.
    let bytes = if bytes.is_empty() { "null".into() } else { bytes };
    read_as(serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))?)
}

fn read_as<T: DeserializeOwned>(raw: Value) -> Result<Answer<T>, Failure> {
    let read = T::deserialize(&raw).map_err(|error| unreadable(&error))?;
    Ok(Answer { read, raw })
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::failed("the server's answer cannot be read; is it a countersign of another version?")
        .cause(error.to_string())
        .hint("countersign status")
}

/// The problem that the server sent. If the body is not a problem document, the failure is made from the HTTP status.
async fn problem(response: Response) -> Failure {
    let status = response.status();
    let bytes = response.bytes().await.unwrap_or_default();
    problem_of(status, serde_json::from_slice(&bytes).ok())
}

fn problem_of(status: StatusCode, raw: Option<Value>) -> Failure {
    let known = raw.as_ref().and_then(|raw| serde::Deserialize::deserialize(raw).ok());
    match (known, raw) {
        (Some(known), Some(raw)) => Failure::of_problem(&known as &Problem, raw),
        (_, raw) => {
            let detail = raw.as_ref().and_then(|raw| raw.get("detail")).and_then(Value::as_str).map(str::to_owned);
            let failure = Failure::new(Exit::of_http(status.as_u16()), detail.unwrap_or_else(|| format!("the server answered {status}")));
            failure.cause("the answer is not a problem this version knows").hint("countersign status")
        }
    }
}

/// The certificates of a file.
fn certificates(file: &Path) -> Result<Vec<reqwest::Certificate>, Failure> {
    let pem = std::fs::read(file).map_err(|error| Failure::file(file, &error))?;
    let found = reqwest::Certificate::from_pem_bundle(&pem).unwrap_or_default();
    if found.is_empty() {
        return Err(Failure::usage(format!("`{}` holds no certificate in PEM", file.display())));
    }
    Ok(found)
}

/// The causes of an error, in one line.
fn reasons(error: &reqwest::Error) -> String {
    let mut reasons = Vec::new();
    let mut next: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(reason) = next {
        let text = reason.to_string();
        if reasons.last() != Some(&text) {
            reasons.push(text);
        }
        next = reason.source();
    }
    if reasons.is_empty() { error.to_string() } else { reasons.join(": ") }
}
