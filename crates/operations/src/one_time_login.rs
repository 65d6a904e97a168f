//! The login that `serve` offers on its terminal: an address that logs the owner of the data folder in, once. It is kept in memory, so it
//! ends with the process.

use crate::limits::ONE_TIME_LOGIN_SECONDS;
use countersign_core::{Digest, Random, Secret, Timestamp, random_bytes};
use parking_lot::Mutex;
use receipt::entry::payload_digest;

#[derive(Default)]
pub struct OneTimeLogin(Mutex<Option<Offer>>);

struct Offer {
    digest: Digest,
    token: Secret<String>,
    expires_at: Timestamp,
}

impl OneTimeLogin {
    /// Offers to log in with this token. Returns the text that does; one that was offered before does no longer.
    pub(crate) fn offer(&self, token: Secret<String>, random: &dyn Random, now: Timestamp) -> Secret<String> {
        let text = Secret::new(hex::encode(random_bytes::<32>(random)));
        let expires_at = now.plus_seconds(ONE_TIME_LOGIN_SECONDS);
        *self.0.lock() = Some(Offer { digest: payload_digest(text.expose()), token, expires_at });
        text
    }

    /// The token behind a text, for the first who shows it in time.
    pub(crate) fn take(&self, text: &str, now: Timestamp) -> Option<Secret<String>> {
        let mut offered = self.0.lock();
        let fits = |offer: &Offer| offer.digest.matches(&payload_digest(text)) && now < offer.expires_at;
        if offered.as_ref().is_some_and(fits) { offered.take().map(|offer| offer.token) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::SeededRandom;

    #[test]
    fn it_counts_once_and_in_time() {
        let (login, random) = (OneTimeLogin::default(), SeededRandom::new(1));
        let now = Timestamp::from_micros(1_000_000_000);
        let offer = || login.offer(Secret::new("token".to_owned()), &random, now);
        assert!(login.take("", now).is_none());
        let first = offer();
        assert!(login.take("wrong", now).is_none());
        assert_eq!(login.take(first.expose(), now).unwrap().expose(), "token");
        assert!(login.take(first.expose(), now).is_none(), "the second time");
        let (replaced, late) = (offer(), offer());
        assert!(login.take(replaced.expose(), now).is_none(), "another was offered since");
        assert!(login.take(late.expose(), now.plus_seconds(ONE_TIME_LOGIN_SECONDS)).is_none());
        assert!(login.take(late.expose(), now.plus_seconds(ONE_TIME_LOGIN_SECONDS - 1)).is_some());
    }
}
