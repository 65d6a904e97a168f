//! Whether a request came from Slack, as Slack documents it (<https://docs.slack.dev/authentication/verifying-requests-from-slack>): an
//! HMAC-SHA256 over `v0:timestamp:body` under the signing secret of the app, not older than five minutes.

use crate::limits::SLACK_WINDOW_SECONDS;
use countersign_core::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A request as it came in. Only its raw body is signed.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The header `X-Slack-Request-Timestamp`.
    pub timestamp: &'a str,
    /// The header `X-Slack-Signature`.
    pub signature: &'a str,
    pub body: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Slack did not sign it.
    Forged,
    /// Slack signed it, too long ago or ahead of our clock.
    Expired,
}

/// Checks the signature first: only of what Slack signed it is told that it came too late. Returns the bytes of the signature, which are the same
/// however they were written.
pub fn check(secret: &str, signed: Signed<'_>, now: Timestamp) -> Result<Vec<u8>, Wrong> {
    let Signed { timestamp, signature, body } = signed;
    let is_number = (1..=12).contains(&timestamp.len()) && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: i64 = timestamp.parse().ok().filter(|_| is_number).ok_or(Wrong::Forged)?;
    let given = signature.strip_prefix("v0=").and_then(|hex| hex::decode(hex).ok()).ok_or(Wrong::Forged)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|_| Wrong::Forged)?;
    mac.update(format!("v0:{timestamp}:").as_bytes());
    mac.update(body);
    // SECURITY: this comparison takes the same time wherever a difference lies.
    mac.verify_slice(&given).map_err(|_| Wrong::Forged)?;
    let apart = (now.as_micros() / 1_000_000).abs_diff(seconds);
    if apart <= SLACK_WINDOW_SECONDS { Ok(given) } else { Err(Wrong::Expired) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of Slack's documentation.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const SIGNED: Signed<'static> = Signed {
        timestamp: "1531420618",
        signature: "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        body: b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros((1_531_420_618 + seconds) * 1_000_000)
    }

    #[test]
    fn the_example_of_slacks_documentation_holds_for_five_minutes() {
        let bytes = || hex::decode(SIGNED.signature.trim_start_matches("v0=")).unwrap();
        for (seconds, expected) in [
            (0, Ok(bytes())),
            (300, Ok(bytes())),
            (-300, Ok(bytes())),
            (301, Err(Wrong::Expired)),
            (-301, Err(Wrong::Expired)),
            (i64::from(u32::MAX), Err(Wrong::Expired)),
        ] {
            assert_eq!(check(SECRET, SIGNED, at(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn a_signature_in_other_letters_is_the_same_signature() {
        let upper = SIGNED.signature.to_ascii_uppercase().replace("V0=", "v0=");
        assert_eq!(check(SECRET, Signed { signature: &upper, ..SIGNED }, at(0)), check(SECRET, SIGNED, at(0)));
    }

    #[test]
    fn whatever_slack_did_not_sign_is_forged_also_when_it_is_old() {
        let upper = SIGNED.signature.to_ascii_uppercase();
        for (secret, signed) in [
            ("another", SIGNED),
            ("", SIGNED),
            (SECRET, Signed { body: b"token=x", ..SIGNED }),
            (SECRET, Signed { body: b"", ..SIGNED }),
            (SECRET, Signed { timestamp: "1531420619", ..SIGNED }),
            (SECRET, Signed { timestamp: "01531420618", ..SIGNED }),
            (SECRET, Signed { timestamp: "+1531420618", ..SIGNED }),
            (SECRET, Signed { timestamp: "1531420618 ", ..SIGNED }),
            (SECRET, Signed { timestamp: "", ..SIGNED }),
            (SECRET, Signed { timestamp: "99999999999999999999", ..SIGNED }),
            (SECRET, Signed { signature: "", ..SIGNED }),
            (SECRET, Signed { signature: "v0=", ..SIGNED }),
            (SECRET, Signed { signature: &upper, ..SIGNED }),
            (SECRET, Signed { signature: SIGNED.signature.trim_start_matches("v0="), ..SIGNED }),
            (SECRET, Signed { signature: &SIGNED.signature[..SIGNED.signature.len() - 2], ..SIGNED }),
        ] {
            for seconds in [0, 100_000] {
                assert_eq!(check(secret, signed, at(seconds)), Err(Wrong::Forged), "{signed:?}");
            }
        }
    }
}
