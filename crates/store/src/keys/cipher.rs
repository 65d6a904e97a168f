//! How values are sealed.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use countersign_core::Random;
use countersign_core::keyring::DoesNotOpen;

const NONCE_BYTES: usize = 24;

pub(super) fn seal(key: &[u8; 32], random: &dyn Random, context: &str, plain: &[u8]) -> Vec<u8> {
    let nonce = countersign_core::random_bytes::<NONCE_BYTES>(random);
    let cipher = XChaCha20Poly1305::new(key.into());
    // Encryption in memory fails only beyond 256 GiB. It then gives an empty text, which never opens, so the failure is noticed.
    let sealed = cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: context.as_bytes() }).unwrap_or_default();
    [nonce.as_slice(), &sealed].concat()
}

pub(super) fn open(key: &[u8; 32], context: &str, sealed: &[u8]) -> Result<Vec<u8>, DoesNotOpen> {
    let (nonce, body) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(DoesNotOpen)?;
    let cipher = XChaCha20Poly1305::new(key.into());
    cipher.decrypt(&XNonce::from(*nonce), Payload { msg: body, aad: context.as_bytes() }).map_err(|_| DoesNotOpen)
}
