//! Checks an ID token (OpenID Connect Core, 3.1.3.7): who signed it, for whom, when, and for which sign-in. What it says counts for nothing before
//! that. Only signatures with public keys are taken; `none` and shared secrets are no signature here.

use crate::limits::OAUTH_LEEWAY_SECONDS;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use countersign_core::Timestamp;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The longest `sub` that OpenID Connect allows.
const SUBJECT_BYTES_MAX: usize = 255;

/// What a token says of a person.
pub(super) type Claims = Map<String, Value>;

/// The keys that an issuer signs with. Those of other kinds stay unread.
#[derive(Deserialize)]
pub(super) struct Keys {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Key {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// What a token must say.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Timestamp,
}

/// The claims of a token that is right. The error is what the issuer did, in words that quote nothing of the token.
pub(super) fn check(token: &str, keys: Keys, expected: &Expected<'_>) -> Result<Claims, &'static str> {
    const NOT_A_TOKEN: &str = "gave an ID token that cannot be read";
    let (signed, signature) = token.rsplit_once('.').ok_or(NOT_A_TOKEN)?;
    let (header, claims) = signed.split_once('.').ok_or(NOT_A_TOKEN)?;
    let header: Header = decoded(header).ok_or(NOT_A_TOKEN)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| NOT_A_TOKEN)?;
    if header.crit.is_some() {
        return Err("gave an ID token that asks for more than we know");
    }
    let keys = keys.keys.into_iter().filter_map(|key| serde_json::from_value::<Key>(key).ok());
    let is_signed = keys.filter(|key| key.may_have_signed(&header)).any(|key| key.has_signed(&header.alg, signed.as_bytes(), &signature));
    if !is_signed {
        return Err("gave an ID token that none of its keys has signed, or not with RS256, ES256 or EdDSA");
    }
    let claims: Claims = decoded(claims).ok_or(NOT_A_TOKEN)?;
    expected.of(&claims)?;
    Ok(claims)
}

impl Key {
    fn may_have_signed(&self, header: &Header) -> bool {
        let is_named = header.kid.is_none() || header.kid == self.kid;
        is_named && self.usage.as_deref().is_none_or(|usage| usage == "sig") && self.alg.as_ref().is_none_or(|alg| *alg == header.alg)
    }

    /// SECURITY: the kind of the key decides with the algorithm, so that no key is taken for one of another kind.
    fn has_signed(&self, alg: &str, signed: &[u8], signature: &[u8]) -> bool {
        let [n, e, x, y] =
            [&self.n, &self.e, &self.x, &self.y].map(|part| URL_SAFE_NO_PAD.decode(part.as_deref().unwrap_or_default()).ok());
        let verified = match (alg, self.kty.as_str(), self.crv.as_deref()) {
            ("RS256", "RSA", _) => n.zip(e).map(|(n, e)| {
                let key = RsaPublicKeyComponents { n: without_zeros(&n), e: without_zeros(&e) };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }),
            ("ES256", "EC", Some("P-256")) => x.zip(y).map(|(x, y)| {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, [&[4_u8][..], &x[..], &y[..]].concat()).verify(signed, signature)
            }),
            ("EdDSA", "OKP", Some("Ed25519")) => x.map(|x| UnparsedPublicKey::new(&ED25519, x).verify(signed, signature)),
            _ => None,
        };
        verified.is_some_and(|verified| verified.is_ok())
    }
}

impl Expected<'_> {
    fn of(&self, claims: &Claims) -> Result<(), &'static str> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let seconds = |name: &str| claims.get(name).and_then(Value::as_f64);
        let now = self.now.as_micros() as f64 / 1_000_000.0;
        let leeway = OAUTH_LEEWAY_SECONDS as f64;
        if text("iss") != Some(self.issuer) {
            return Err("gave an ID token of another issuer");
        }
        let audience: Vec<_> = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().map(Value::as_str).collect(),
            Some(one) => vec![one.as_str()],
            None => Vec::new(),
        };
        let party = claims.get("azp");
        let is_ours = party.map_or(audience.len() == 1, |party| party.as_str() == Some(self.client_id));
        if !audience.contains(&Some(self.client_id)) || !is_ours {
            return Err("gave an ID token for another client");
        }
        if seconds("exp").is_none_or(|end| end + leeway <= now) {
            return Err("gave an ID token that has expired");
        }
        // One without `iat` does not say when it was made.
        if seconds("iat").is_none_or(|at| at > now + leeway) || seconds("nbf").is_some_and(|from| from > now + leeway) {
            return Err("gave an ID token of a time to come: one of the two clocks is wrong");
        }
        if text("nonce") != Some(self.nonce) {
            return Err("gave an ID token for another sign-in");
        }
        if !text("sub").is_some_and(|subject| (1..=SUBJECT_BYTES_MAX).contains(&subject.len())) {
            return Err("gave an ID token that names nobody");
        }
        Ok(())
    }
}

fn decoded<T: DeserializeOwned>(part: &str) -> Option<T> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    // serde would also read the members from a list, by their order.
    bytes.starts_with(b"{").then(|| serde_json::from_slice(&bytes).ok()).flatten()
}

/// Some issuers write a zero before a number whose first bit is set.
fn without_zeros(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|byte| **byte == 0).count()..]
}

#[cfg(test)]
#[path = "id_token_tests.rs"]
mod tests;
