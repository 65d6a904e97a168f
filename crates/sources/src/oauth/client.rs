//! Who we are to an authorization server. A client that a person registered by hand is used where one was given; else our own document
//! describes us (Client ID Metadata Documents); else we register (RFC 7591). A registration counts for its issuer alone.

use super::discovery::Server;
use super::fetch::{Fetch, login_failed};
use super::kept::{Client, ClientAuth, Credential, Registered, hidden};
use crate::words::failed;
use countersign_core::Secret;
use countersign_core::source::Error;
use serde::Deserialize;
use serde_json::{Value, json};

const NAME: &str = "Countersign";
const CALLBACK_PATH: &str = "/oauth/callback";
const DOCUMENT_PATH: &str = "/oauth/client.json";

/// The address at which people and authorization servers reach this server, without a slash at its end.
#[derive(Clone, Debug)]
pub struct Own(String);

impl Own {
    pub fn new(address: &str) -> Self {
        Self(address.trim_end_matches('/').to_owned())
    }

    pub fn address(&self) -> &str {
        &self.0
    }

    fn redirect_uri(&self) -> String {
        format!("{}{CALLBACK_PATH}", self.0)
    }

    /// The address of the document that describes us. An authorization server fetches it, so it must be https.
    fn document(&self) -> Option<String> {
        self.0.starts_with("https://").then(|| format!("{}{DOCUMENT_PATH}", self.0))
    }

    /// Native clients come back to a port of the person's own machine.
    fn application_type(&self) -> &'static str {
        if self.0.starts_with("https://") { "web" } else { "native" }
    }
}

/// The document that describes us to authorization servers: its own address is the id of the client.
pub fn client_document(own: &Own) -> Value {
    let mut document = registration(own);
    document["client_id"] = json!(format!("{}{DOCUMENT_PATH}", own.0));
    document
}

fn registration(own: &Own) -> Value {
    json!({
        "client_name": NAME,
        "redirect_uris": [own.redirect_uri()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": own.application_type(),
    })
}

/// The client to use at this server; it may be registered for that.
pub(super) async fn find(fetch: &Fetch, server: &Server, own: &Own, known: &Credential) -> Result<Client, Error> {
    let (issuer, redirect_uri) = (server.issuer.clone(), own.redirect_uri());
    if let Some(given) = &known.given {
        let auth = auth_of(server, given.secret.is_some());
        let how = Registered::ByHand;
        return Ok(Client { issuer, id: given.id.clone(), secret: given.secret.clone(), auth, redirect_uri, how });
    }
    if let Some(id) = own.document().filter(|_| server.client_id_metadata_document_supported) {
        return Ok(Client { issuer, id, secret: None, auth: ClientAuth::None, redirect_uri, how: Registered::ByDocument });
    }
    let is_ours =
        |client: &&Client| client.how == Registered::Dynamically && client.issuer == server.issuer && client.redirect_uri == redirect_uri;
    if let Some(client) = known.client.as_ref().filter(is_ours) {
        return Ok(client.clone());
    }
    match &server.registration_endpoint {
        Some(endpoint) => register(fetch, server, endpoint, own).await,
        None => Err(failed(
            "login_failed",
            format!(
                "`{}` takes no client that it does not know: register one there by hand, with the callback `{redirect_uri}`, and give its id \
                 when you make the connection",
                super::origin(&server.issuer)
            ),
        )),
    }
}

#[derive(Deserialize)]
struct Registration {
    client_id: String,
    #[serde(default, with = "hidden::maybe")]
    client_secret: Option<Secret<String>>,
}

async fn register(fetch: &Fetch, server: &Server, endpoint: &str, own: &Own) -> Result<Client, Error> {
    let answer = fetch.post_json(endpoint, &registration(own)).await?;
    if !answer.is_ok() {
        return Err(login_failed(endpoint, &format!("did not register us as a client: it answered {}", answer.status)));
    }
    let Registration { client_id: id, client_secret: secret } = answer.json(endpoint)?;
    let auth = auth_of(server, secret.is_some());
    let how = Registered::Dynamically;
    Ok(Client { issuer: server.issuer.clone(), id, secret, auth, redirect_uri: own.redirect_uri(), how })
}

/// How a client with a secret sends it: in a header, unless the server takes it in the form only.
pub(super) fn auth_of(server: &Server, has_secret: bool) -> ClientAuth {
    let takes = |method: &str| match &server.token_endpoint_auth_methods_supported {
        Some(methods) => methods.iter().any(|known| known == method),
        // RFC 8414: the default.
        None => method == "client_secret_basic",
    };
    match has_secret {
        false => ClientAuth::None,
        true if !takes("client_secret_basic") && takes("client_secret_post") => ClientAuth::ClientSecretPost,
        true => ClientAuth::ClientSecretBasic,
    }
}
