//! Tokens that are right, and tokens that are wrong in one respect each.

use super::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::json;

const NOW: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);
const SECONDS: i64 = 1_794_729_600;
const EXPECTED: Expected<'static> = Expected { issuer: "https://issuer.test", client_id: "countersign", nonce: "n-1", now: NOW };

/// The modulus of a key with 2048 bits whose other half is gone, and the token that it signed.
const RSA_N: &str = "yqF3d4AoY4MA-LAJVZrtuJ6u_IMHmVLRQJNmscBE97bEqJGYBNoNk33QYeCM79h5-hS1npZUuIVPo0OZ_wLgTdJbsxYspi2prWdvLw9LH3Fk2ix-XhIHXOyZPfXHTbC_1JaTHZx1gp5TW4erYXQetSj2jjcrZ5XIgWcwFGMhfavP9bRHGCexr7G8idHvymiNRCBF0QloNUTs5wA28ABsX2tsgE6pj-W7vVXwpfqTsDr_s9jqv9FkBvUjoIehtyp6UlYwIwzm6RLcEs5mhVULtvRTJavd_K7z5nzHSt8GAOYZNiYUQg8Ja72bpkCXBYat0oa1dxJ9wwUuJjpTK7O4Dw";
const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci50ZXN0IiwiYXVkIjoiY291bnRlcnNpZ24iLCJzdWIiOiJyb2Jpbi0xIiwibm9uY2UiOiJuLTEiLCJpYXQiOjE3OTQ3Mjk2MDAsImV4cCI6MTc5NDcyOTkwMH0.X5gpej0TyvyrGOd13Tmsy8fgxiusoP45WyxEgbkcuxKW1PraHlHNWU6Rp7rVrnAbry1xnwNqV1dsKUpyNuYTdfI4ygIOK5ktc9yTu1UwqDw1kBrH6SDpSLQXfOdH7Q6fAtIc746_ARImAGgUlrPnpk86Kfql2eYHwoy1v2DqPhvs1I7rsbhTT47Q3Mz7IcrjhBamsQ-JZzvoREGxyy9mjS1ld8hjU7aL9jmyVVAjAqprhOMynSJDoqp5WhUnaGsVG2gSB9gEn4jDiY36dyYIibjjifXF5XaGeJ3I9itkJHT664YYo1SWFokBidD7YUWIyYmPr5T7jNmTkioermD4hg";

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of an issuer, and its public half as a JWK.
struct Signer {
    pair: EcdsaKeyPair,
    jwk: Value,
}

impl Signer {
    fn new(kid: &str) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "alg": "ES256", "x": base64(x), "y": base64(y) });
        Self { pair, jwk }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", base64(signature.as_ref()))
    }
}

fn keys(keys: &[&Value]) -> Keys {
    Keys { keys: keys.iter().map(|key| (*key).clone()).collect() }
}

/// What is right, with these members instead; `null` leaves one out.
fn claims(changed: Value) -> Value {
    let mut claims = json!({
        "iss": "https://issuer.test", "aud": "countersign", "sub": "robin-1", "nonce": "n-1", "iat": SECONDS, "exp": SECONDS + 300,
    });
    for (name, value) in changed.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

#[test]
fn a_token_counts_with_each_of_the_algorithms() {
    let signer = Signer::new("ec");
    let token = signer.sign(&json!({ "alg": "ES256", "kid": "ec" }), &claims(json!({ "groups": ["a"] })));
    let other = json!({ "kty": "oct", "k": "AAAA" });
    let read = check(&token, keys(&[&other, &signer.jwk]), &EXPECTED).unwrap();
    assert_eq!((&read["sub"], &read["groups"]), (&json!("robin-1"), &json!(["a"])));
    // A header without `kid` means any of the keys.
    let token = signer.sign(&json!({ "alg": "ES256" }), &claims(json!({})));
    assert!(check(&token, keys(&[&Signer::new("a").jwk, &signer.jwk]), &EXPECTED).is_ok());
    for n in [RSA_N.to_owned(), base64(&[&[0_u8][..], &URL_SAFE_NO_PAD.decode(RSA_N).unwrap()].concat())] {
        let rsa = json!({ "kty": "RSA", "kid": "rsa", "n": n, "e": "AQAB" });
        assert_eq!(check(RSA_TOKEN, keys(&[&rsa]), &EXPECTED).unwrap()["sub"], "robin-1");
    }
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": base64(pair.public_key().as_ref()) });
    let signed = format!("{}.{}", base64(br#"{"alg":"EdDSA"}"#), base64(claims(json!({})).to_string().as_bytes()));
    let token = format!("{signed}.{}", base64(pair.sign(signed.as_bytes()).as_ref()));
    assert!(check(&token, keys(&[&jwk]), &EXPECTED).is_ok());
}

#[test]
fn a_token_that_its_issuer_did_not_sign_says_nothing() {
    let (signer, forger) = (Signer::new("ec"), Signer::new("ec"));
    let header = json!({ "alg": "ES256", "kid": "ec" });
    let right = signer.sign(&header, &claims(json!({})));
    let (head, signature) = right.rsplit_once('.').unwrap();
    let (header_part, _) = head.split_once('.').unwrap();
    let changed = format!("{header_part}.{}.{signature}", base64(claims(json!({ "sub": "owner" })).to_string().as_bytes()));
    let none = |alg: &str| format!("{}.{}.", base64(json!({ "alg": alg }).to_string().as_bytes()), right.split('.').nth(1).unwrap());
    let mut for_encryption = signer.jwk.clone();
    for_encryption["use"] = json!("enc");
    for (token, key) in [
        (forger.sign(&header, &claims(json!({}))), &signer.jwk),
        (changed, &signer.jwk),
        (none("none"), &signer.jwk),
        (none("HS256"), &signer.jwk),
        (signer.sign(&json!({ "alg": "RS256", "kid": "ec" }), &claims(json!({}))), &signer.jwk),
        (signer.sign(&json!({ "alg": "ES256", "kid": "another" }), &claims(json!({}))), &signer.jwk),
        (right.clone(), &for_encryption),
        (RSA_TOKEN.to_owned(), &signer.jwk),
    ] {
        assert!(check(&token, keys(&[key]), &EXPECTED).unwrap_err().contains("none of its keys has signed"), "{token}");
    }
    for token in ["", ".", "..", "a.b.c", &format!("{right}.x"), &right[1..]] {
        assert!(check(token, keys(&[&signer.jwk]), &EXPECTED).is_err(), "{token}");
    }
    let critical = signer.sign(&json!({ "alg": "ES256", "kid": "ec", "crit": ["exp"] }), &claims(json!({})));
    assert!(check(&critical, keys(&[&signer.jwk]), &EXPECTED).unwrap_err().contains("more than we know"));
}

#[test]
fn a_token_counts_for_this_issuer_client_time_and_sign_in_alone() {
    let signer = Signer::new("ec");
    let read = |changed: Value| {
        let token = signer.sign(&json!({ "alg": "ES256", "kid": "ec" }), &claims(changed));
        check(&token, keys(&[&signer.jwk]), &EXPECTED)
    };
    for right in [
        json!({}),
        json!({ "aud": ["countersign"] }),
        json!({ "aud": ["countersign", "another"], "azp": "countersign" }),
        json!({ "exp": SECONDS - 29 }),
        json!({ "iat": SECONDS + 29, "nbf": SECONDS + 29 }),
        json!({ "exp": 1_794_729_900.5 }),
    ] {
        assert!(read(right.clone()).is_ok(), "{right}");
    }
    for (wrong, told) in [
        (json!({ "iss": "https://issuer.test/" }), "another issuer"),
        (json!({ "iss": null }), "another issuer"),
        (json!({ "aud": "another" }), "another client"),
        (json!({ "aud": ["another"] }), "another client"),
        (json!({ "aud": null }), "another client"),
        (json!({ "aud": ["countersign", "another"] }), "another client"),
        (json!({ "azp": "another" }), "another client"),
        (json!({ "exp": SECONDS - 30 }), "has expired"),
        (json!({ "exp": null }), "has expired"),
        (json!({ "exp": "never" }), "has expired"),
        (json!({ "iat": SECONDS + 31 }), "a time to come"),
        (json!({ "iat": null }), "a time to come"),
        (json!({ "nbf": SECONDS + 31 }), "a time to come"),
        (json!({ "nonce": "n-2" }), "another sign-in"),
        (json!({ "nonce": null }), "another sign-in"),
        (json!({ "sub": null }), "names nobody"),
        (json!({ "sub": "" }), "names nobody"),
        (json!({ "sub": 7 }), "names nobody"),
        (json!({ "sub": "x".repeat(256) }), "names nobody"),
    ] {
        let refused = read(wrong.clone()).unwrap_err();
        assert!(refused.contains(told), "{wrong}: {refused}");
    }
}
