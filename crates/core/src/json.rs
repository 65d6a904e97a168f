//! Strict reading of JSON from strangers: a text that is hashed and signed must have exactly one meaning.
//! It refuses duplicate keys, integers that canonicalisation would change, and nesting beyond `JSON_DEPTH_MAX`.

mod canonical;

use crate::limits::JSON_DEPTH_MAX;
use canonical::Integers;
use serde::Serialize;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::fmt;

/// The largest integer up to which every integer is exact in every JSON reader, 2^53 - 1.
pub const INTEGER_MAX: i64 = 9_007_199_254_740_991;

/// The text is not JSON that we accept. `pointer` is the place (RFC 6901, empty for the whole text).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if pointer.is_empty() { String::new() } else { format!("at `{pointer}`: ") })]
pub struct Error {
    pub pointer: String,
    pub message: String,
}

/// Reads one JSON value and nothing after it.
pub fn parse_strict(bytes: &[u8]) -> Result<Value, Error> {
    parse(bytes, Widest::Signed)
}

/// Reads one JSON value as strictly, and keeps every digit of 64-bit integers. It is for what is not signed as it is: events, webhooks and
/// definitions of automations. What becomes a call of it is refused there if it could not be signed.
pub fn parse_exact(bytes: &[u8]) -> Result<Value, Error> {
    parse(bytes, Widest::SixtyFourBits)
}

fn parse(bytes: &[u8], widest: Widest) -> Result<Value, Error> {
    let path = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let result = Strict { path: &path, widest }.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    result.map_err(|error| Error { pointer: pointer(&path.borrow()), message: error.to_string() })
}

/// The canonical form (RFC 8785), as text. Integers beyond 2^53 - 1 are rounded, as the RFC demands; see `canonical_exact`.
pub fn canonical<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    canonical::write(value, Integers::Rounded).map(|canonical| canonical.text).map_err(no_form)
}

/// The canonical form of a value without loss: an error if an integer would be rounded.
pub fn canonical_exact<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    let canonical = canonical::write(value, Integers::Rounded).map_err(no_form)?;
    if canonical.is_exact { Ok(canonical.text) } else { Err(no_form("an integer is beyond 2^53 - 1".to_owned())) }
}

/// The canonical form with every digit of 64-bit integers, where RFC 8785 would round them. It is for digests that we alone compute and compare,
/// such as those of definitions: two values that differ never share one.
pub fn canonical_digits<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    canonical::write(value, Integers::Kept).map(|canonical| canonical.text).map_err(no_form)
}

const fn no_form(message: String) -> Error {
    Error { pointer: String::new(), message }
}

enum Step {
    Key(String),
    Index(usize),
}

fn pointer(path: &[Step]) -> String {
    path.iter()
        .map(|step| match step {
            Step::Key(key) => format!("/{}", escape(key)),
            Step::Index(index) => format!("/{index}"),
        })
        .collect()
}

/// Escapes a key as one reference token of a JSON pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Turns a JSON pointer into the form people write: `permissions.commands[0]`.
pub fn path_of(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")) {
        match step.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) if path.is_empty() => path = step,
            Err(_) => path.push_str(&format!(".{step}")),
        }
    }
    path
}

/// Whether a value is larger than so many bytes, its texts and names counted as they are and everything else as one. It stops counting there.
pub fn outweighs(value: &Value, bytes_max: usize) -> bool {
    fn take(value: &Value, left: &mut usize) -> Option<()> {
        let own = match value {
            Value::String(text) => text.len() + 1,
            Value::Object(members) => members.keys().map(|name| name.len()).sum::<usize>() + 1,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => 1,
        };
        *left = left.checked_sub(own)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| take(item, left)),
            Value::Object(members) => members.values().try_for_each(|member| take(member, left)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(()),
        }
    }
    take(value, &mut { bytes_max }).is_none()
}

/// What is wrong with the shape of a value, without the names of our Rust types, which the author of the value does not know.
pub fn in_plain_words(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if let Some((before, name)) = text.split_once("expected struct ") {
        let end = name.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(name.len());
        text = format!("{before}expected an object{}", &name[end..]);
    }
    let ours = [("type: sequence", "type: list"), ("expected a sequence", "expected a list"), ("type: map", "type: object")];
    ours.into_iter().fold(text, |text, (ours, theirs)| text.replace(ours, theirs))
}

/// The integers that are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Widest {
    /// Those that canonicalisation leaves as they are.
    Signed,
    /// From -2^63 to 2^64 - 1.
    SixtyFourBits,
}

struct Strict<'p> {
    path: &'p RefCell<Vec<Step>>,
    widest: Widest,
}

impl<'p> Strict<'p> {
    /// On an error the path is not popped, so that the error can say where it happened.
    fn below<E>(&self, step: Step, read: impl FnOnce(Strict<'p>) -> Result<Value, E>) -> Result<Value, E>
    where
        E: serde::de::Error,
    {
        self.path.borrow_mut().push(step);
        if self.path.borrow().len() > JSON_DEPTH_MAX {
            return Err(E::custom(format!("nested deeper than {JSON_DEPTH_MAX} levels")));
        }
        let value = read(Strict { path: self.path, widest: self.widest })?;
        self.path.borrow_mut().pop();
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        if self.widest == Widest::Signed && value < -INTEGER_MAX {
            return Err(E::custom(format!("integer {value} is below -(2^53 - 1) and would change when it is signed; send it as a string")));
        }
        Ok(Value::from(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        if self.widest == Widest::Signed && value > INTEGER_MAX as u64 {
            return Err(E::custom(format!("integer {value} is above 2^53 - 1 and would change when it is signed; send it as a string")));
        }
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // An integer too large for 64 bits arrives here as a float. It is refused like every integer beyond 2^53 - 1.
        if value.fract() == 0.0 && value.abs() > INTEGER_MAX as f64 {
            return Err(E::custom(match self.widest {
                Widest::Signed => "a whole number beyond 2^53 - 1 would change when it is signed; send it as a string",
                Widest::SixtyFourBits => {
                    "a whole number that is beyond 64 bits, or that is written as a fraction beyond 2^53 - 1, loses digits; send it as a string"
                }
            }));
        }
        serde_json::Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            let mut ended = false;
            let value = self.below(Step::Index(values.len()), |seed| {
                let item = items.next_element_seed(seed)?;
                ended = item.is_none();
                Ok(item.unwrap_or(Value::Null))
            })?;
            if ended {
                return Ok(Value::Array(values));
            }
            values.push(value);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if map.contains_key(&key) {
                self.path.borrow_mut().push(Step::Key(key.clone()));
                return Err(A::Error::custom(format!("key `{key}` appears twice")));
            }
            let value = self.below(Step::Key(key.clone()), |seed| members.next_value_seed(seed))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn refused(text: &str, pointer: &str, part: &str) {
        let error = parse_strict(text.as_bytes()).expect_err(text);
        assert_eq!(error.pointer, pointer, "{error}");
        assert!(error.message.contains(part), "{error}");
    }

    #[test]
    fn what_would_mean_two_things_is_refused_with_its_place() {
        refused(r#"{"a":1,"a":2}"#, "/a", "twice");
        refused(r#"{"a":[{"b/c":{"x":1,"x":1}}]}"#, "/a/0/b~1c/x", "twice");
        refused(r#"{"n":9007199254740993}"#, "/n", "2^53");
        refused(r#"{"n":-9007199254740992}"#, "/n", "2^53");
        refused(r#"{"n":123456789012345678901234567890}"#, "/n", "2^53");
        refused("[1,2", "/2", "EOF");
        refused("{} {}", "", "trailing");
        refused(r#""\ud800""#, "", "escape");
    }

    #[test]
    fn where_nothing_is_signed_every_digit_of_64_bits_is_kept() {
        for text in
            ["[9007199254740993]", "[18446744073709551615]", "[-9223372036854775808]", r#"{"a":{"b":-9007199254740993}}"#, "[1.5,1]"]
        {
            assert_eq!(parse_exact(text.as_bytes()).unwrap().to_string(), text);
        }
        for (text, part) in [
            ("[18446744073709551616]", "64 bits"),
            ("[-9223372036854775809]", "64 bits"),
            ("[1e400]", "out of range"),
            (r#"{"a":9007199254740993,"a":9007199254740992}"#, "twice"),
            (r#""\ud800""#, "escape"),
        ] {
            let error = parse_exact(text.as_bytes()).expect_err(text);
            assert!(error.message.contains(part), "{error}");
        }
        let deep = format!("{}{}", "[".repeat(JSON_DEPTH_MAX + 1), "]".repeat(JSON_DEPTH_MAX + 1));
        assert!(parse_exact(deep.as_bytes()).is_err());
    }

    #[test]
    fn a_place_is_said_as_people_write_it_and_the_whole_has_none() {
        for (pointer, path) in [("", ""), ("/name", "name"), ("/permissions/commands/0", "permissions.commands[0]"), ("/0/a~1b", "[0].a/b")]
        {
            assert_eq!(path_of(pointer), path);
        }
        assert!(!parse_strict(b"{} {}").unwrap_err().to_string().contains("at ``"));
        assert!(parse_strict(br#"{"a":1,"a":2}"#).unwrap_err().to_string().starts_with("at `/a`: "));
    }

    #[test]
    fn nobody_is_told_the_names_of_our_types() {
        #[derive(Debug, serde::Deserialize)]
        struct Inner {
            #[expect(dead_code, reason = "only its shape matters")]
            ok: bool,
        }
        let read = |value: Value| serde_json::from_value::<Vec<Inner>>(value).unwrap_err();
        assert_eq!(in_plain_words(&read(json!(["x"]))), "invalid type: string \"x\", expected an object");
        assert_eq!(in_plain_words(&read(json!({}))), "invalid type: object, expected a list");
        assert_eq!(in_plain_words(&read(json!([{}]))), "missing field `ok`");
    }

    #[test]
    fn nesting_is_bounded_far_below_the_stack() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse_strict(deep(JSON_DEPTH_MAX).as_bytes()).is_ok());
        for levels in [JSON_DEPTH_MAX + 1, 10_000, 100_000] {
            assert!(parse_strict(deep(levels).as_bytes()).is_err(), "{levels} levels were accepted");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-INTEGER_MAX..=INTEGER_MAX).prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect()))
            ]
        })
    }

    #[test]
    fn integers_that_would_be_rounded_are_refused_wherever_they_stand() {
        for (value, exact) in [
            (json!({ "n": 9_007_199_254_740_991_u64 }), true),
            (json!({ "n": 9_007_199_254_740_992_u64 }), false),
            (json!([-9_007_199_254_740_992_i64]), false),
            (json!({ "n": 1e21 }), false),
            (json!({ "9007199254740992": "9007199254740992" }), true),
            (json!({ "a": [{ "b": u64::MAX }] }), false),
            (json!(1.5), true),
        ] {
            assert_eq!(canonical_exact(&value).is_ok(), exact, "{value}");
            assert!(canonical(&value).is_ok(), "{value}");
        }
    }

    #[test]
    fn digits_are_kept_where_the_rfc_rounds_them() {
        let value = json!({ "b": 9_007_199_254_740_993_u64, "a": [i64::MIN, u64::MAX, 1.0, 1.5] });
        let kept = r#"{"a":[-9223372036854775808,18446744073709551615,1,1.5],"b":9007199254740993}"#;
        assert_eq!(canonical_digits(&value).unwrap(), kept);
        assert_eq!(canonical(&json!([9_007_199_254_740_993_u64])).unwrap(), "[9007199254740992]");
    }

    /// The examples of RFC 8785, section 3.2.2 and 3.2.3.
    #[test]
    fn the_examples_of_the_rfc_hold() {
        let value: Value = serde_json::from_str(
            r#"{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
                 "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false] }"#,
        )
        .unwrap();
        assert_eq!(
            canonical(&value).unwrap(),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        let keys = json!({ "\u{20ac}": 0, "\r": 0, "\u{fb33}": 0, "1": 0, "\u{1f600}": 0, "\u{80}": 0, "\u{f6}": 0 });
        let text = canonical(&keys).unwrap();
        let order: Vec<String> = serde_json::from_str::<Map<String, Value>>(&text).unwrap().keys().cloned().collect();
        assert_eq!(order, ["\r", "1", "\u{80}", "\u{f6}", "\u{20ac}", "\u{1f600}", "\u{fb33}"]);
    }

    #[test]
    fn what_has_no_form_is_an_error() {
        // NaN is no JSON value: `serde_json` always writes it as `null`.
        assert_eq!(canonical(&f64::NAN).unwrap(), "null");
        assert!(canonical(&serde_json::value::RawValue::from_string("{ }".to_owned()).unwrap()).is_err());
    }

    proptest! {
        /// Another implementation of the same RFC writes the same bytes.
        #[test]
        fn canonical_text_is_what_others_write(value in any_json(), float in any::<f64>(), integer in any::<i64>()) {
            let float = if float.is_finite() { float } else { 0.5 };
            let value = json!({ "value": value, "float": float, "integer": integer, "a": { "ab": 1, "a": 2, "a!": 3 } });
            prop_assert_eq!(canonical(&value).unwrap(), serde_json_canonicalizer::to_string(&value).unwrap());
        }

        #[test]
        fn what_reads_strictly_is_exact(value in any_json(), n in any::<u64>()) {
            prop_assert!(canonical_exact(&json!([value, n.min(INTEGER_MAX as u64)])).is_ok());
            let text = canonical(&json!([n])).unwrap();
            prop_assert_eq!(canonical_exact(&json!([n])).is_err(), parse_strict(text.as_bytes()).is_err());
        }

        #[test]
        fn canonical_text_always_reads_back_as_the_same_value(value in any_json()) {
            let text = canonical(&value).unwrap();
            let back = parse_strict(text.as_bytes()).unwrap();
            prop_assert_eq!(&back, &value);
            prop_assert_eq!(canonical(&back).unwrap(), text);
        }
    }
}
