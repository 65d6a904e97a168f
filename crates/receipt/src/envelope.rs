//! DSSE: a payload with its type and a signature over both, so that a verifier never has to canonicalise again.

use crate::Error;
use crate::key::{PublicKey, SealingKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

pub const PAYLOAD_TYPE: &str = "application/vnd.countersign.receipt.v1+json";

/// The pre-authentication encoding, which is the text that is signed. It puts the length of each part before the part.
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}

/// Signs the payload of an entry.
pub fn sign(key: &SealingKey, payload: &str) -> [u8; 64] {
    key.sign(&pae(PAYLOAD_TYPE, payload.as_bytes()))
}

/// The standard DSSE JSON envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// Base64 of the payload's bytes.
    pub payload: String,
    #[serde(rename = "payloadType")]
    pub payload_type: String,
    /// There is exactly one in our audit logs.
    pub signatures: Vec<EnvelopeSignature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvelopeSignature {
    pub keyid: String,
    /// Base64 of 64 bytes.
    pub sig: String,
}

impl Envelope {
    pub fn new(payload: &str, key_id: &str, signature: &[u8; 64]) -> Self {
        Self {
            payload: STANDARD.encode(payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![EnvelopeSignature { keyid: key_id.to_owned(), sig: STANDARD.encode(signature) }],
        }
    }

    /// Checks the payload's type and its signature under the key of `keys` that it names, and returns the payload's text.
    pub fn open(&self, keys: &[PublicKey]) -> Result<String, Error> {
        let signature = self.signature()?;
        let key = keys.iter().find(|key| key.key_id() == signature.keyid);
        let key = key.ok_or_else(|| Error::UnknownKey { key_id: signature.keyid.clone() })?;
        let payload = self.peek()?;
        let bytes = STANDARD.decode(&signature.sig).ok().and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
        let bytes = bytes.ok_or(Error::LaxSignature { key_id: signature.keyid.clone() })?;
        key.verify_strict(&pae(&self.payload_type, payload.as_bytes()), &bytes)?;
        Ok(payload)
    }

    /// The payload's text, without any check.
    pub fn peek(&self) -> Result<String, Error> {
        let bytes = STANDARD.decode(&self.payload).map_err(|_| Error::NotBase64 { what: "payload" })?;
        String::from_utf8(bytes).map_err(|_| Error::NotStrict { what: "payload", message: "not UTF-8".to_owned() })
    }

    /// The one signature of the envelope. It fails if the payload type is not ours.
    pub fn signature(&self) -> Result<&EnvelopeSignature, Error> {
        if self.payload_type != PAYLOAD_TYPE {
            return Err(Error::PayloadType { found: self.payload_type.clone(), expected: PAYLOAD_TYPE });
        }
        match self.signatures.as_slice() {
            [signature] => Ok(signature),
            others => Err(Error::UnknownShape { what: "envelope", message: format!("{} signatures, expected 1", others.len()) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::Secret;

    fn key(seed: u8) -> SealingKey {
        SealingKey::from_seed(&Secret::new([seed; 32]))
    }

    #[test]
    fn the_pre_authentication_encoding_is_that_of_the_specification() {
        assert_eq!(pae("http://example.com/HelloWorld", b"hello world"), b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
        assert_eq!(pae("", b""), b"DSSEv1 0  0 ");
    }

    #[test]
    fn an_envelope_is_standard_dsse_json_and_reads_back() {
        let envelope = Envelope::new("{}", "0123456789abcdef", &[0; 64]);
        let text = serde_json::to_string(&envelope).unwrap();
        let zeros = "A".repeat(86);
        assert_eq!(
            text,
            format!(
                r#"{{"payload":"e30=","payloadType":"application/vnd.countersign.receipt.v1+json","signatures":[{{"keyid":"0123456789abcdef","sig":"{zeros}=="}}]}}"#
            )
        );
        assert_eq!(serde_json::from_str::<Envelope>(&text).unwrap(), envelope);
    }

    #[test]
    fn an_envelope_opens_only_as_it_was_sealed() {
        let (ours, other) = (key(1), key(2));
        let sealed = Envelope::new("payload", ours.key_id(), &sign(&ours, "payload"));
        let keys = [other.public(), ours.public()];
        assert_eq!(sealed.open(&keys), Ok("payload".to_owned()));

        let wrong = Err(Error::WrongSignature { key_id: ours.key_id().to_owned() });
        let edited = Envelope { payload: STANDARD.encode("paylord"), ..sealed.clone() };
        assert_eq!(edited.open(&keys), wrong);
        let bare = Envelope::new("payload", ours.key_id(), &ours.sign(b"payload"));
        assert_eq!(bare.open(&keys), wrong, "a signature without the type is none");
        assert_eq!(sealed.open(&[other.public()]), Err(Error::UnknownKey { key_id: ours.key_id().to_owned() }));
        let retyped = Envelope { payload_type: "text/plain".to_owned(), ..sealed.clone() };
        assert!(matches!(retyped.open(&keys), Err(Error::PayloadType { .. })));
        let twice = Envelope { signatures: [&sealed.signatures[..], &sealed.signatures].concat(), ..sealed.clone() };
        assert!(matches!(twice.open(&keys), Err(Error::UnknownShape { .. })));
        let loose = Envelope { payload: sealed.payload.trim_end_matches('=').to_owned(), ..sealed.clone() };
        assert_eq!(loose.open(&keys), Err(Error::NotBase64 { what: "payload" }));
        let mut short = sealed;
        short.signatures[0].sig = STANDARD.encode([0; 63]);
        assert_eq!(short.open(&keys), Err(Error::LaxSignature { key_id: ours.key_id().to_owned() }));
    }
}
