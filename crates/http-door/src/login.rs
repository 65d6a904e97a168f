//! Who sits at a browser: the cookies of pages, the form that logs a person in, and the word that every form carries, so that no page of
//! others can send it. At the API the cookies count only beside a word of this login, which a page of ours asks for.

use super::html::{escaped, escaped_line, page, told, told_with};
use super::page::Asked;
use super::problem::Refusal;
use super::reached::{Reached, Scheme};
use api::Code;
use axum::Json;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use countersign_core::{Digest, InvocationId, Principal, Secret, random_bytes};
use operations::App;
use operations::{logins, sign_ins};
use pipeline::limits::LINK_SECONDS_MAX;
use receipt::entry::payload_digest;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use store::limits::LOGGED_IN_SECONDS;
use url::form_urlencoded;
use utoipa::{IntoParams, ToSchema};

/// Names the browser, so that a link is opened in one and forms come from a page of ours. It is sent when a person follows a link from
/// elsewhere, and with no form of others.
const BROWSER: &str = "countersign_browser";
/// Says that a person has logged in. It is sent by pages of ours alone.
const LOGIN: &str = "countersign_login";
/// Longer texts are no cookie of ours.
const COOKIE_CHARS_MAX: usize = 100;
const LOGIN_PLACE: &str = "/login";
const LOGOUT_PLACE: &str = "/logout";
const ONCE_PLACE: &str = "/login/once";
const SIGN_IN_PLACE: &str = "/login/oidc";
/// What the words of the API are for.
const API_PLACE: &str = "/api";
/// Where a request of a page has its word.
const WORD_HEADER: &str = "x-countersign-csrf";
/// The longest address to go on to after a login.
const NEXT_CHARS_MAX: usize = 1_000;
/// Where a login leads if nothing else is said: to the pages.
const HOME_PLACE: &str = "/";

/// A browser that asks for a page.
pub(super) struct Visitor {
    browser: String,
    is_new: bool,
    login: Option<String>,
    /// Whether it came over TLS: then its cookies are never sent otherwise, and nobody but this host can set them.
    is_secure: bool,
    from: IpAddr,
    /// What people call the issuer where they can sign in too.
    sign_in: Option<String>,
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let reached = parts.extensions.get::<Reached>();
        let is_secure = reached.is_some_and(|reached| reached.scheme == Scheme::Https) || asks_for_public_https(parts, app);
        let found = |name: &str| cookie(&parts.headers, &full_name(name, is_secure));
        let (known, login) = (found(BROWSER), found(LOGIN));
        let is_new = known.is_none();
        let browser = known.unwrap_or_else(|| hex::encode(random_bytes::<32>(&*app.parts.random)));
        let from = reached.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |reached| reached.client);
        Ok(Self { browser, is_new, login, is_secure, from, sign_in: sign_ins::name(app).map(str::to_owned) })
    }
}

impl Visitor {
    pub(super) fn browser(&self) -> &str {
        &self.browser
    }

    /// The address that the request came from.
    pub(super) const fn address(&self) -> IpAddr {
        self.from
    }

    /// The person who has logged in here.
    pub(super) async fn person(&self, app: &App) -> Result<Option<Principal>, Refusal> {
        match &self.login {
            Some(login) => Ok(logins::find(app, login).await?),
            None => Ok(None),
        }
    }

    /// The hidden field of a form at this place. Only a page that this browser got from us has it.
    pub(super) fn field(&self, place: &str) -> String {
        format!("<input type=\"hidden\" name=\"form\" value=\"{}\">", self.word(place))
    }

    /// Like `field`, for a form that counts as long as this person stays logged in here.
    pub(super) fn field_of_login(&self, place: &str) -> String {
        self.field(&self.place_of_login(place))
    }

    /// SECURITY: refuses a form that a page of others made.
    pub(super) fn check(&self, place: &str, word: &str) -> Result<(), Refusal> {
        if Digest::parse(word).is_some_and(|given| self.word(place).matches(&given)) {
            return Ok(());
        }
        let refusal = Refusal::new(Code::Forbidden, "the form is not of a page that this browser has open; nothing was done");
        Err(refusal.hint("open the page again; the browser has to take cookies"))
    }

    pub(super) fn check_of_login(&self, place: &str, word: &str) -> Result<(), Refusal> {
        self.check(&self.place_of_login(place), word)
    }

    /// Gives the browser its name, if it has none.
    pub(super) fn known(&self, response: Response) -> Response {
        if self.is_new { self.named(response) } else { response }
    }

    fn named(&self, response: Response) -> Response {
        self.with_cookie(response, BROWSER, &self.browser, LINK_SECONDS_MAX, "Lax")
    }

    /// On to another page, with the cookie of a login.
    fn logged_in(&self, login: &Secret<String>, next: &str) -> Response {
        self.with_login(Redirect::to(next).into_response(), login)
    }

    /// Gives the browser the cookie of a login. Its own name goes with it, so that the words of the login count as long as that does.
    pub(super) fn with_login(&self, response: Response, login: &Secret<String>) -> Response {
        let response = self.named(response);
        self.with_cookie(response, LOGIN, login.expose(), LOGGED_IN_SECONDS, "Strict")
    }

    /// Gives the browser the cookie of its login once more, if that was extended.
    async fn extended(&self, app: &App, response: Response) -> Result<Response, Refusal> {
        if let Some(login) = &self.login
            && logins::extend(app, login).await?
        {
            return Ok(self.with_login(response, &Secret::new(login.clone())));
        }
        Ok(response)
    }

    /// A page that goes on to another one by itself, with the cookie of a login. A redirect would not do: the request came from a page of the
    /// issuer, so the browser would not send this cookie with it.
    pub(super) fn came_back(&self, login: &Secret<String>, next: Option<String>) -> Response {
        let next = next.and_then(|next| own_place(next).ok()).unwrap_or_else(|| HOME_PLACE.to_owned());
        let body = format!("<h1>Countersign</h1><p>You are signed in. <a href=\"{}\">Go on</a></p>", escaped(&next));
        let mut response = page(StatusCode::OK, &body);
        if let Ok(there) = HeaderValue::from_str(&format!("0; url={next}")) {
            response.headers_mut().insert(header::REFRESH, there);
        }
        self.with_login(response, login)
    }

    fn word(&self, place: &str) -> Digest {
        payload_digest(&format!("form {} {place}", self.browser))
    }

    fn place_of_login(&self, place: &str) -> String {
        format!("{place} {}", self.login.as_deref().unwrap_or_default())
    }

    fn with_cookie(&self, mut response: Response, name: &str, value: &str, seconds: u64, same_site: &str) -> Response {
        let (name, secure) = (full_name(name, self.is_secure), if self.is_secure { "; Secure" } else { "" });
        let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}");
        if let Ok(text) = HeaderValue::from_str(&text) {
            response.headers_mut().append(header::SET_COOKIE, text);
        }
        response
    }
}

/// The login of a browser, for a request to the API that a page of ours made; `None` if it shows no word, or there is no login.
///
/// SECURITY: a browser sends its cookies whoever made the page. The word is readable by pages of ours alone; and a request of which the
/// browser says that a page of others made it is refused even so.
pub(super) async fn of_own_page(parts: &mut Parts, app: &App) -> Result<Option<Secret<String>>, Refusal> {
    let word = parts.headers.get(WORD_HEADER).and_then(|word| word.to_str().ok()).map(str::to_owned);
    let Some(word) = word.filter(|_| parts.uri.path().starts_with("/api/")) else { return Ok(None) };
    let visitor = match Visitor::from_request_parts(parts, app).await {
        Ok(visitor) => visitor,
        Err(never) => match never {},
    };
    let Some(login) = visitor.login.clone() else { return Ok(None) };
    if is_of_others(parts, app) {
        return Err(Refusal::new(Code::Forbidden, "a page of another site made this request; nothing was done"));
    }
    let changed = |_refusal| Refusal::new(Code::LoginChanged, "the page is not of the login that this browser has now; nothing was done");
    visitor.check_of_login(API_PLACE, &word).map_err(changed)?;
    Ok(Some(Secret::new(login)))
}

/// Whether the browser says that a page of others made the request. Older browsers, and those that came without TLS, name the page's origin.
fn is_of_others(parts: &Parts, app: &App) -> bool {
    let said = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = said("sec-fetch-site") {
        return site != "same-origin";
    }
    let Some(origin) = said("origin") else { return false };
    let told = parts.extensions.get::<Reached>().and_then(|reached| reached.host.as_deref());
    let host = told.or_else(|| said("host")).or_else(|| parts.uri.authority().map(axum::http::uri::Authority::as_str));
    let is_host = origin.split_once("://").is_some_and(|(_, named)| host.is_some_and(|host| host.eq_ignore_ascii_case(named)));
    !is_host && !origin.eq_ignore_ascii_case(app.parts.address.address())
}

/// The word of this login, for a page's requests to the API.
#[derive(Serialize, ToSchema)]
pub(super) struct LoginWord {
    /// Null if nobody is logged in here.
    word: Option<String>,
}

/// The word that a page sends with each request to the API, as `x-countersign-csrf`. It counts as long as the login.
///
/// A login of which half of the time is over is extended with this: a page that is used asks again.
#[utoipa::path(operation_id = "logins_word", get, path = "/login/word", tag = "logins", security(()),
    responses((status = 200, body = LoginWord), (status = "4XX", body = api::Problem, content_type = "application/problem+json")))]
pub(super) async fn word(State(app): State<App>, visitor: Visitor) -> Response {
    let with = |word| visitor.known(Json(LoginWord { word }).into_response());
    let told = async {
        let Some(_person) = visitor.person(&app).await? else { return Ok(with(None)) };
        let word = visitor.word(&visitor.place_of_login(API_PLACE)).to_string();
        visitor.extended(&app, with(Some(word))).await
    };
    told.await.unwrap_or_else(|refusal: Refusal| refusal.into_response())
}

/// A page that asks for a login, to go on with a call. It says nothing about the call. `why`: what else the person should know.
pub(super) fn needed(visitor: &Visitor, invocation: &InvocationId, why: &str) -> Response {
    // The cookie is not sent by a link of others; it is by a link of ours.
    let again = format!("<p>If you have logged in here before: <a href=\"/inbox/{invocation}\">go on</a>.</p>");
    let body = format!("<h1>A call waits for a person</h1>{why}{}{again}", login_form(visitor, Some(&format!("/inbox/{invocation}"))));
    page(StatusCode::UNAUTHORIZED, &body)
}

/// Who is logged in, with a button that ends it.
pub(super) fn foot(visitor: &Visitor, person: &Principal) -> String {
    format!(
        "<form method=\"post\" action=\"{LOGOUT_PLACE}\">{}<p><small>Logged in as {}.</small> <button>Log out</button></p></form>",
        visitor.field_of_login(LOGOUT_PLACE),
        escaped_line(&person.name),
    )
}

pub(super) fn login_form(visitor: &Visitor, next: Option<&str>) -> String {
    let sign_in = visitor.sign_in.as_deref().map(|name| sign_in_link(name, next)).unwrap_or_default();
    let next = next.map(|next| format!("<input type=\"hidden\" name=\"next\" value=\"{}\">", escaped(next))).unwrap_or_default();
    format!(
        "<p>Log in with your access token to look at it and to answer it as yourself.</p><form method=\"post\" action=\"{LOGIN_PLACE}\">{}{next}\
         <label>Access token <input type=\"password\" name=\"token\" autocomplete=\"current-password\" required></label>\
         <p><button>Log in</button></p></form>{sign_in}",
        visitor.field(LOGIN_PLACE),
    )
}

/// A link, and no form: a page of ours sends its forms to this server alone, and the browser is sent on.
fn sign_in_link(name: &str, next: Option<&str>) -> String {
    let query = next.map(|next| format!("?{}", form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish()));
    format!("<p><a href=\"{SIGN_IN_PLACE}{}\">Sign in with {}</a></p>", escaped(&query.unwrap_or_default()), escaped_line(name))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LoginQuery {
    /// The page of this server to go on with, such as `/receipts`.
    pub(super) next: Option<String>,
}

/// The form that logs a person in, or who is logged in.
#[utoipa::path(operation_id = "logins_show", get, path = "/login", tag = "logins", security(()), params(LoginQuery),
    responses((status = 200, description = "A page for a person.", content_type = "text/html", body = String),
        (status = 303, description = "Somebody is logged in, and another page was asked for."),
        (status = "4XX", description = "Why it was refused; a page.", content_type = "text/html", body = String)))]
pub(super) async fn show(State(app): State<App>, visitor: Visitor, asked: Result<Asked<LoginQuery>, Refusal>) -> Response {
    let shown = async {
        let Asked(LoginQuery { next }) = asked?;
        let next = next.map(own_place).transpose()?;
        Ok::<_, Refusal>(match (visitor.person(&app).await?, next) {
            (Some(_), Some(next)) => Redirect::to(&next).into_response(),
            (Some(person), None) => page(
                StatusCode::OK,
                &format!("<h1>Countersign</h1><p><a href=\"{HOME_PLACE}\">To the inbox</a></p>{}", foot(&visitor, &person)),
            ),
            (None, next) => page(StatusCode::OK, &format!("<h1>Countersign</h1>{}", login_form(&visitor, next.as_deref()))),
        })
    };
    visitor.known(shown.await.unwrap_or_else(|refusal| told(&refusal)))
}

/// What the login form sends.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginForm {
    /// From the page: the form of another page is refused.
    form: String,
    /// The access token of a person.
    token: String,
    /// The page of this server to go on with.
    next: Option<String>,
}

/// Logs a person in: the token becomes a cookie that pages take.
#[utoipa::path(operation_id = "logins_log_in", post, path = "/login", tag = "logins", security(()),
    request_body(content = LoginForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "Logged in; to the page that was asked for, or to the inbox."),
        (status = 401, description = "The token is not valid, or no longer; a page with the form.", content_type = "text/html", body = String),
        (status = 403, description = "The form is not of this browser's page, or the token is not a person's; a page.", content_type = "text/html", body = String),
        (status = 429, description = "Too many wrong tokens came from this address; a page.", content_type = "text/html", body = String),
        (status = "4XX", description = "Why it was refused; a page.", content_type = "text/html", body = String)))]
pub(super) async fn log_in(State(app): State<App>, visitor: Visitor, form: Result<Form<LoginForm>, FormRejection>) -> Response {
    // SECURITY: the rejection might quote the token.
    let Ok(Form(LoginForm { form, token, next })) = form else {
        return told(&Refusal::new(Code::InvalidRequest, "the form does not make sense"));
    };
    let token = Secret::new(token);
    let next = match next.map(own_place).transpose() {
        Ok(next) => next,
        Err(refusal) => return told(&refusal),
    };
    if let Err(refusal) = visitor.check(LOGIN_PLACE, &form) {
        return told(&refusal);
    }
    match logins::log_in(&app, token.expose().trim(), visitor.from).await {
        Ok(login) => visitor.logged_in(&login, next.as_deref().unwrap_or(HOME_PLACE)),
        Err(error) => told_with(&Refusal::from(error), &login_form(&visitor, next.as_deref())),
    }
}

/// SECURITY: a login leads to a page of ours, and to nobody else's.
pub(super) fn own_place(next: String) -> Result<String, Refusal> {
    let is_own = next.starts_with('/') && !next.starts_with("//") && next.len() <= NEXT_CHARS_MAX;
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_own && is_plain { Ok(next) } else { Err(Refusal::new(Code::InvalidRequest, "`next` is not the place of a page of this server")) }
}

/// A button that logs in whoever has the address that `serve` shows. Only the button counts: a program that looks ahead presses none.
#[utoipa::path(operation_id = "logins_show_once", get, path = "/login/once/{text}", tag = "logins", security(()), params(("text" = String, Path)),
    responses((status = 200, description = "A page with a button.", content_type = "text/html", body = String)))]
pub(super) async fn show_once(visitor: Visitor) -> Response {
    let form = format!("<form method=\"post\">{}<p><button>Log in here</button></p></form>", visitor.field(ONCE_PLACE));
    let told = "<p>This address logs the owner of this server in, in one browser, once.</p>";
    visitor.known(page(StatusCode::OK, &format!("<h1>Countersign</h1>{told}{form}")))
}

/// Logs in whoever has the address that `serve` shows, as the owner of its data folder.
#[utoipa::path(operation_id = "logins_log_in_once", post, path = "/login/once/{text}", tag = "logins", security(()), params(("text" = String, Path)),
    request_body(content = LogoutForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "Logged in; to the inbox."),
        (status = 401, description = "It was used already, or its time is over; a page with the form for tokens.", content_type = "text/html", body = String),
        (status = 403, description = "The form is not of this browser's page; a page.", content_type = "text/html", body = String),
        (status = "4XX", description = "Why it was refused; a page.", content_type = "text/html", body = String)))]
pub(super) async fn log_in_once(
    State(app): State<App>,
    visitor: Visitor,
    Path(text): Path<String>,
    form: Result<Form<LogoutForm>, FormRejection>,
) -> Response {
    let text = Secret::new(text);
    let Ok(Form(LogoutForm { form })) = form else {
        return told(&Refusal::new(Code::InvalidRequest, "the form does not make sense"));
    };
    if let Err(refusal) = visitor.check(ONCE_PLACE, &form) {
        return told(&refusal);
    }
    let late = || Refusal::new(Code::Unauthenticated, "this address was used already, or its time is over");
    match logins::log_in_once(&app, text.expose(), visitor.from).await {
        Ok(Some(login)) => visitor.logged_in(&login, HOME_PLACE),
        Ok(None) => told_with(&late(), &login_form(&visitor, None)),
        Err(error) => told(&error.into()),
    }
}

/// What a button sends that needs no more than the word of its page.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogoutForm {
    form: String,
}

/// Ends the login of this browser.
#[utoipa::path(operation_id = "logins_log_out", post, path = "/logout", tag = "logins", security(()),
    request_body(content = LogoutForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "Logged out; to the form that logs in."),
        (status = "4XX", description = "Why it was refused; a page.", content_type = "text/html", body = String)))]
pub(super) async fn log_out(State(app): State<App>, visitor: Visitor, form: Result<Form<LogoutForm>, FormRejection>) -> Response {
    let Ok(Form(LogoutForm { form })) = form else {
        return told(&Refusal::new(Code::InvalidRequest, "the form does not make sense"));
    };
    if let Err(refusal) = visitor.check_of_login(LOGOUT_PLACE, &form) {
        return told(&refusal);
    }
    if let Some(login) = &visitor.login
        && let Err(error) = logins::log_out(&app, login).await
    {
        return told(&error.into());
    }
    visitor.with_cookie(Redirect::to(LOGIN_PLACE).into_response(), LOGIN, "", 0, "Strict")
}

/// Under the prefix `__Host-` a browser takes a cookie only over TLS, from this host, and for all of it.
fn full_name(name: &str, is_secure: bool) -> String {
    if is_secure { format!("__Host-{name}") } else { name.to_owned() }
}

/// A proxy that nobody named may end the TLS of the operator's address.
fn asks_for_public_https(parts: &Parts, app: &App) -> bool {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(axum::http::uri::Authority::as_str));
    app.parts.has_public_url && host.is_some_and(|host| app.parts.address.address().eq_ignore_ascii_case(&format!("https://{host}")))
}

/// A cookie of ours: letters, digits, `-` and `_`.
fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, value)| *found == name && is_ours(value)).map(|(_, value)| value.to_owned())
}

fn is_ours(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=COOKIE_CHARS_MAX).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_tls_a_cookie_stays_on_tls_and_on_this_host() {
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for (is_secure, expected) in [
            (true, "__Host-countersign_browser=b; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax; Secure"),
            (false, "countersign_browser=b; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"),
        ] {
            let visitor = Visitor { browser: "b".into(), is_new: true, login: None, is_secure, from, sign_in: None };
            assert_eq!(visitor.known(().into_response()).headers()[header::SET_COOKIE], expected);
        }
    }

    #[test]
    fn the_name_of_a_browser_outlives_the_login_that_it_is_sent_with() {
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let visitor = Visitor { browser: "b".into(), is_new: false, login: None, is_secure: false, from, sign_in: None };
        let response = visitor.with_login(().into_response(), &Secret::new("l".to_owned()));
        let cookies: Vec<_> = response.headers().get_all(header::SET_COOKIE).iter().collect();
        assert_eq!(
            cookies,
            [
                "countersign_browser=b; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax",
                "countersign_login=l; Path=/; Max-Age=3600; HttpOnly; SameSite=Strict",
            ]
        );
    }

    #[test]
    fn a_login_leads_to_a_place_of_ours_alone() {
        for ours in ["/", "/receipts?status=denied", "/inbox/inv_1", "/?call=inv_1&tab=decided"] {
            assert_eq!(own_place(ours.to_owned()).unwrap(), ours);
        }
        let long = format!("/{}", "x".repeat(NEXT_CHARS_MAX));
        for other in ["", "receipts", "//evil.example", "/\\evil.example", "https://evil.example", "/a b", "/\n", "/\u{e9}", &long] {
            assert!(own_place(other.to_owned()).is_err(), "{other}");
        }
    }

    #[test]
    fn only_a_whole_cookie_of_ours_is_read() {
        let read = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::COOKIE, HeaderValue::from_str(line).unwrap());
            }
            cookie(&headers, LOGIN)
        };
        assert_eq!(read(&["a=b; countersign_login=cs_login_x-Y; c=d"]).as_deref(), Some("cs_login_x-Y"));
        assert_eq!(read(&["a=b", "countersign_login=x"]).as_deref(), Some("x"), "HTTP/2 may send one line for each");
        let long = format!("countersign_login={}", "x".repeat(COOKIE_CHARS_MAX + 1));
        for none in [
            "",
            "countersign_login",
            "countersign_login=",
            "xcountersign_login=x",
            "countersign_login=a b",
            "countersign_login=\"x\"",
            &long,
        ] {
            assert_eq!(read(&[none]), None, "{none}");
        }
    }
}
