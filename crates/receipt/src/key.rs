//! Ed25519 keys: a sealing key signs, a public key verifies strictly. Where seeds are stored is decided elsewhere.

use crate::Error;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use countersign_core::Secret;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The bytes of an Ed25519 SubjectPublicKeyInfo before the 32 bytes of the key: sequence, algorithm 1.3.101.112, bit string.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const PEM_BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const PEM_END: &str = "-----END PUBLIC KEY-----";

/// A private key. It is wiped when dropped and never printed.
pub struct SealingKey {
    signing: SigningKey,
    public: PublicKey,
}

impl SealingKey {
    pub fn from_seed(seed: &Secret<[u8; 32]>) -> Self {
        let signing = SigningKey::from_bytes(seed.expose());
        let public = PublicKey::named(signing.verifying_key());
        Self { signing, public }
    }

    pub fn public(&self) -> PublicKey {
        self.public.clone()
    }

    pub fn key_id(&self) -> &str {
        self.public.key_id()
    }

    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.signing.sign(message).to_bytes()
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.key_id())
    }
}

/// A public key. It is always a point of the curve in its one encoding and not of small order; no other can be built.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    verifying: VerifyingKey,
    id: String,
}

impl PublicKey {
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, Error> {
        let verifying = VerifyingKey::from_bytes(bytes).map_err(|_| Error::NotAKey)?;
        // A second encoding of the same point would be the same key under a second id.
        let is_canonical = verifying.to_edwards().compress().as_bytes() == bytes;
        let key = Self::named(verifying);
        match (key.verifying.is_weak(), is_canonical) {
            (true, _) => Err(Error::WeakKey { key_id: key.id }),
            (false, false) => Err(Error::NotAKey),
            (false, true) => Ok(key),
        }
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        self.verifying.as_bytes()
    }

    /// The first 16 hex characters of SHA-256 of the key's bytes.
    pub fn key_id(&self) -> &str {
        &self.id
    }

    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.as_bytes())
    }

    pub fn from_base64(text: &str) -> Result<Self, Error> {
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        Self::from_bytes(&bytes.ok_or(Error::NotBase64 { what: "public key" })?)
    }

    /// SubjectPublicKeyInfo as PEM, which `openssl pkey -pubin` reads.
    pub fn to_pem(&self) -> String {
        let der = [&SPKI_PREFIX[..], self.as_bytes()].concat();
        format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", STANDARD.encode(der))
    }

    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let inner = text.trim().strip_prefix(PEM_BEGIN).and_then(|rest| rest.strip_suffix(PEM_END)).ok_or(Error::NotAKey)?;
        let inner: String = inner.split_ascii_whitespace().collect();
        let der = STANDARD.decode(inner).map_err(|_| Error::NotBase64 { what: "public key" })?;
        let bytes = der.strip_prefix(&SPKI_PREFIX[..]).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()).ok_or(Error::NotAKey)?;
        Self::from_bytes(&bytes)
    }

    /// Checks that `signature` is a signature of `message` under this key, in the one form that strict Ed25519 accepts.
    pub fn verify_strict(&self, message: &[u8], signature: &[u8; 64]) -> Result<(), Error> {
        let parsed = Signature::from_bytes(signature);
        if self.verifying.verify_strict(message, &parsed).is_ok() {
            return Ok(());
        }
        let key_id = self.id.clone();
        if !is_reduced(parsed.s_bytes()) || is_small_order(parsed.r_bytes()) {
            return Err(Error::LaxSignature { key_id });
        }
        Err(Error::WrongSignature { key_id })
    }

    fn named(verifying: VerifyingKey) -> Self {
        let id = hex::encode(&Sha256::digest(verifying.as_bytes())[..8]);
        Self { verifying, id }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id)
    }
}

/// Whether `scalar`, little-endian, is below the group's order 2^252 + 27742317777372353535851937790883648493.
fn is_reduced(scalar: &[u8; 32]) -> bool {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0x10,
    ];
    scalar.iter().rev().lt(ORDER.iter().rev())
}

fn is_small_order(point: &[u8; 32]) -> bool {
    VerifyingKey::from_bytes(point).is_ok_and(|point| point.is_weak())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        hex::decode(text).unwrap().try_into().unwrap()
    }

    fn key(seed: u8) -> SealingKey {
        SealingKey::from_seed(&Secret::new([seed; 32]))
    }

    #[test]
    fn signatures_are_those_of_rfc_8032() {
        let key = SealingKey::from_seed(&Secret::new(bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")));
        assert_eq!(key.public().as_bytes(), &bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"));
        let signature = bytes(
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        );
        assert_eq!(key.sign(b""), signature);
        assert_eq!(key.public().verify_strict(b"", &signature), Ok(()));
        assert_eq!(key.public().verify_strict(b"x", &signature), Err(Error::WrongSignature { key_id: key.key_id().to_owned() }));
    }

    #[test]
    fn a_key_id_is_the_start_of_the_keys_sha256() {
        let public = key(1).public();
        let id = hex::encode(Sha256::digest(public.as_bytes()));
        assert_eq!(public.key_id(), &id[..16]);
        assert_eq!(format!("{:?} {:?}", key(1), public), format!("SealingKey({0}) PublicKey({0})", &id[..16]));
    }

    #[test]
    fn keys_read_back_from_base64_and_from_the_pem_that_openssl_reads() {
        let public = key(1).public();
        assert_eq!(PublicKey::from_base64(&public.to_base64()), Ok(public.clone()));
        let pem = public.to_pem();
        let lines: Vec<_> = pem.lines().collect();
        let [begin, inner, end] = lines[..] else { panic!("{pem}") };
        assert_eq!((begin, end), ("-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"));
        let der = STANDARD.decode(inner).unwrap();
        assert_eq!(hex::encode(&der[..12]), "302a300506032b6570032100");
        assert_eq!(&der[12..], public.as_bytes());
        assert_eq!(PublicKey::from_pem(&pem), Ok(public.clone()));
        assert_eq!(PublicKey::from_pem(&pem.replace('\n', "\r\n")), Ok(public.clone()));

        for bad in ["", "MCowBQYDK2VwAyEA", &pem.replace("PUBLIC", "PRIVATE"), &pem.replace("MCow", "MCox")] {
            assert!(PublicKey::from_pem(bad).is_err(), "{bad}");
        }
        for bad in ["", "AAAA", &public.to_base64()[1..], &format!("{}A", public.to_base64())] {
            assert!(PublicKey::from_base64(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_of_small_order_or_in_a_second_encoding_are_refused() {
        for weak in [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0000000000000000000000000000000000000000000000000000000000000080",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
            // The same points with y + p instead of y.
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        ] {
            let found = PublicKey::from_bytes(&bytes(weak));
            assert!(matches!(found, Err(Error::WeakKey { .. })), "{weak}: {found:?}");
        }
        // y = 3 is a point of full order; y = p + 3 is the same one.
        let three = "0300000000000000000000000000000000000000000000000000000000000000";
        let again = "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f";
        assert!(PublicKey::from_bytes(&bytes(three)).is_ok());
        assert_eq!(PublicKey::from_bytes(&bytes(again)), Err(Error::NotAKey));
        let no_point = "0200000000000000000000000000000000000000000000000000000000000000";
        assert_eq!(PublicKey::from_bytes(&bytes(no_point)), Err(Error::NotAKey));
    }

    #[test]
    fn a_signature_has_one_form() {
        let key = key(1);
        let good = key.sign(b"message");
        let lax = Err(Error::LaxSignature { key_id: key.key_id().to_owned() });

        // A verifier that reduces the scalar sees S + L as the same scalar as S.
        let order: [u8; 32] = bytes("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
        let mut malleated = good;
        let mut carry = 0;
        for (byte, add) in malleated[32..].iter_mut().zip(order) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            *byte = sum as u8;
            carry = sum >> 8;
        }
        assert_eq!(key.public().verify_strict(b"message", &malleated), lax);

        let mut small_r = good;
        small_r[..32].copy_from_slice(&bytes::<32>("0100000000000000000000000000000000000000000000000000000000000000"));
        assert_eq!(key.public().verify_strict(b"message", &small_r), lax);
        assert_eq!(key.public().verify_strict(b"message", &good), Ok(()));
    }
}
