//! A browser without scripts: it keeps cookies, follows redirects, and sends forms with the hidden fields that it was shown.

use crate::harness::TestServer;
use parking_lot::Mutex;
use reqwest::header::{self, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode};
use std::collections::BTreeMap;

pub(crate) struct Browser {
    http: reqwest::Client,
    pub(crate) url: String,
    cookies: Mutex<BTreeMap<String, String>>,
    /// The hidden fields of the last form for each address.
    fields: Mutex<BTreeMap<String, String>>,
}

pub(crate) struct Shown {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Browser {
    pub(crate) fn of(server: &TestServer) -> Self {
        Self::new(&server.url)
    }

    pub(crate) fn new(url: &str) -> Self {
        // The server speaks plain HTTP, so no certificates are loaded.
        let http = reqwest::Client::builder().tls_certs_only([]).redirect(Policy::none()).build().unwrap();
        Self { http, url: url.to_owned(), cookies: Mutex::default(), fields: Mutex::default() }
    }

    /// The same browser, which asks another server.
    pub(crate) fn at(self, server: &TestServer) -> Self {
        Self { url: server.url.clone(), ..self }
    }

    pub(crate) async fn get(&self, path: &str) -> Shown {
        self.ask(Method::GET, path.to_owned(), None).await
    }

    /// Sends the form of this address, with its hidden fields.
    pub(crate) async fn send(&self, path: &str, form: &str) -> Shown {
        let fields = self.fields.lock().get(path).cloned().unwrap_or_default();
        self.send_bare(path, &format!("{fields}{form}")).await
    }

    /// Sends a form as it is.
    pub(crate) async fn send_bare(&self, path: &str, form: &str) -> Shown {
        self.ask(Method::POST, path.to_owned(), Some(form.to_owned())).await
    }

    /// The hidden fields of the form for this address.
    pub(crate) fn fields(&self, path: &str) -> String {
        self.fields.lock().get(path).cloned().unwrap_or_default()
    }

    pub(crate) fn cookie(&self, name: &str) -> Option<String> {
        self.cookies.lock().get(name).cloned()
    }

    /// Looks at a link, and opens it if nobody has.
    pub(crate) async fn look(&self, link: &str) -> (u16, String) {
        let mut shown = self.get(link).await;
        if shown.text.contains("value=\"open\"") {
            shown = self.send(link, "answer=open").await;
        }
        (shown.status, shown.text)
    }

    /// Presses a button of a link's page.
    pub(crate) async fn press(&self, link: &str, form: &str) -> (u16, String) {
        if self.fields(link).is_empty() {
            self.look(link).await;
        }
        let shown = self.send(link, form).await;
        (shown.status, shown.text)
    }

    /// Goes to the page of a call and logs in there.
    pub(crate) async fn log_in(&self, invocation: &str, token: &str) -> Shown {
        self.get(&format!("/inbox/{invocation}")).await;
        self.send("/login", &format!("token={token}")).await
    }

    /// What a script of a page asks for: the cookies go with it, and these headers.
    pub(crate) async fn fetch(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> reqwest::Response {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).header(header::COOKIE, self.all_cookies());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }

    /// The word that a page of the server sends with its requests; `None` if nobody is logged in.
    pub(crate) async fn word(&self) -> Option<String> {
        let shown = self.get("/login/word").await;
        let told: serde_json::Value = serde_json::from_str(&shown.text).unwrap();
        told["word"].as_str().map(str::to_owned)
    }

    fn all_cookies(&self) -> String {
        self.cookies.lock().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    async fn ask(&self, method: Method, path: String, form: Option<String>) -> Shown {
        let (mut method, mut path, mut form) = (method, path, form);
        loop {
            let mut request = self.http.request(method, format!("{}{path}", self.url)).header(header::COOKIE, self.all_cookies());
            if let Some(form) = form.take() {
                request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
            }
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status(), response.headers().clone());
            self.keep_cookies(&headers);
            if status == StatusCode::SEE_OTHER {
                path = headers[header::LOCATION].to_str().unwrap().to_owned();
                method = Method::GET;
                continue;
            }
            let text = response.text().await.unwrap();
            self.keep_fields(&path, &text);
            return Shown { status: status.as_u16(), headers, text };
        }
    }

    fn keep_cookies(&self, headers: &HeaderMap) {
        for line in headers.get_all(header::SET_COOKIE) {
            let line = line.to_str().unwrap();
            assert!(line.contains("; HttpOnly; SameSite="), "{line}");
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            let mut cookies = self.cookies.lock();
            if line.contains("Max-Age=0;") {
                cookies.remove(name);
            } else {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    fn keep_fields(&self, path: &str, text: &str) {
        for form in text.split("<form method=\"post\"").skip(1) {
            let form = form.split("</form>").next().unwrap();
            let action = form.strip_prefix(" action=\"").and_then(|rest| rest.split('"').next()).unwrap_or(path);
            let hidden = form.split("<input type=\"hidden\" name=\"").skip(1);
            let fields: String = hidden
                .map(|input| {
                    let mut parts = input.split('"');
                    let (name, value) = (parts.next().unwrap(), parts.nth(1).unwrap().replace("&amp;", "&"));
                    format!("{}&", url::form_urlencoded::Serializer::new(String::new()).append_pair(name, &value).finish())
                })
                .collect();
            self.fields.lock().insert(action.to_owned(), fields);
        }
    }
}
