//! A duration such as `30m`, `2h` or `7d`: one number and one unit, in the server's format.

use countersign_core::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    text: String,
    seconds: u64,
}

impl Span {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let unit = |suffix| match suffix {
            's' => Some(1),
            'm' => Some(60),
            'h' => Some(60 * 60),
            'd' => Some(24 * 60 * 60),
            _ => None,
        };
        let seconds = text.chars().last().and_then(|suffix| {
            let number = text.strip_suffix(suffix)?;
            let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| number.parse::<u64>().ok()?.checked_mul(unit(suffix)?)).flatten()
        });
        seconds.map(|seconds| Self { text: text.to_owned(), seconds }).ok_or_else(|| "expected a time such as 30m, 2h or 7d".to_owned())
    }

    /// The text that is sent to the server.
    pub(crate) fn text(&self) -> String {
        self.text.clone()
    }

    /// The end of this duration if it starts now.
    pub(crate) fn from(&self, now: Timestamp) -> Timestamp {
        now.plus_seconds(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_one_number_and_one_unit() {
        for (text, expected) in [
            ("90s", Some(90)),
            ("30m", Some(1_800)),
            ("2h", Some(7_200)),
            ("7d", Some(604_800)),
            ("0s", Some(0)),
            ("1h30m", None),
            ("+5m", None),
            ("-5m", None),
            ("5", None),
            ("m", None),
            ("", None),
            ("5ä", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(Span::parse(text).ok().map(|span| span.seconds), expected, "{text}");
        }
    }
}
