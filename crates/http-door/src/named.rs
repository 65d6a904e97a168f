//! A JSON value read into types with names. Serde reads a struct from a list too, by position: here a list is no object, however deep
//! it stands. And a text that a type asks for is bounded, before anything looks at it: `LONG_TEXT` alone is not.

use api::limits::TEXT_BYTES_MAX;
use api::long_text::LONG_TEXT;
use serde::de::value::StringDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::{Error, Map, Value};

pub(super) struct Named(pub(super) Value);

macro_rules! bounded {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.bounded()?.deserialize_any(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Named {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => {
                let mut items = Items(items.into_iter());
                let read = visitor.visit_seq(&mut items)?;
                if items.0.len() == 0 { Ok(read) } else { Err(Error::custom("the list is longer than expected")) }
            }
            Value::Object(members) => visitor.visit_map(Members { members: members.into_iter(), member: None, names: Names::Any }),
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        match &self.0 {
            Value::Object(_) => self.members(visitor),
            Value::Array(_) => Err(Error::invalid_type(Unexpected::Seq, &"an object")),
            Value::Null => Err(Error::invalid_type(Unexpected::Unit, &"an object")),
            Value::Bool(truth) => Err(Error::invalid_type(Unexpected::Bool(*truth), &"an object")),
            Value::Number(_) => Err(Error::invalid_type(Unexpected::Other("number"), &"an object")),
            // The text is not quoted: it may be a secret that somebody sent as the whole body.
            Value::String(_) => Err(Error::invalid_type(Unexpected::Other("string"), &"an object")),
        }
    }

    /// A struct that keeps the fields it does not know is read as a map.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_struct("", &[], visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name == LONG_TEXT { visitor.visit_newtype_struct(self.0) } else { visitor.visit_newtype_struct(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.bounded()?.0.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.bounded()?.deserialize_any(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.bounded()?.deserialize_any(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.bounded()?.deserialize_any(visitor)
    }

    bounded! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_seq deserialize_identifier
    }
}

impl Named {
    /// SECURITY: even a text that does not fit would be told back whole, and the known names that are like it looked for.
    fn bounded(self) -> Result<Self, Error> {
        if self.0.as_str().is_some_and(|text| text.len() > TEXT_BYTES_MAX) { Err(too_long("the text")) } else { Ok(self) }
    }

    /// The members of an object with known names, or with names that are texts of ours.
    fn members<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Object(members) => visitor.visit_map(Members { members: members.into_iter(), member: None, names: Names::Bounded }),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                Self(other).deserialize_any(visitor)
            }
        }
    }
}

fn too_long(what: &str) -> Error {
    Error::custom(format!("{what} is longer than {TEXT_BYTES_MAX} bytes"))
}

struct Items(std::vec::IntoIter<Value>);

impl<'de> SeqAccess<'de> for Items {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|item| seed.deserialize(Named(item))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Members {
    members: <Map<String, Value> as IntoIterator>::IntoIter,
    /// The member whose key was read last.
    member: Option<(String, Value)>,
    names: Names,
}

/// What the names of members may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Those of a JSON value, which is bounded as a whole.
    Any,
    Bounded,
}

impl<'de> MapAccess<'de> for Members {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.members.next() else {
            return Ok(None);
        };
        if self.names == Names::Bounded && key.len() > TEXT_BYTES_MAX {
            return Err(too_long("the name of a member"));
        }
        self.member = Some((key.clone(), value));
        let key: StringDeserializer<Error> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (key, value) = self.member.take().unwrap_or_default();
        seed.deserialize(Named(value)).map_err(|error| within(&key, &error.to_string()))
    }
}

/// The same error with its place, as a pointer from the member that is read.
fn within(key: &str, error: &str) -> Error {
    let key = key.replace('~', "~0").replace('/', "~1");
    match error.strip_prefix("at `/") {
        Some(deeper) => Error::custom(format!("at `/{key}/{deeper}")),
        None => Error::custom(format!("at `/{key}`: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        name: String,
        inner: Option<Inner>,
        list: Vec<Inner>,
        any: Value,
        word: Word,
        by_key: BTreeMap<String, u8>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        one: u64,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Open {
        one: u64,
        #[serde(flatten)]
        more: BTreeMap<String, Value>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Yes,
    }

    fn read(value: Value) -> Result<Outer, Error> {
        Outer::deserialize(Named(value))
    }

    fn whole() -> Value {
        json!({ "name": "n", "inner": { "one": 1 }, "list": [{ "one": 2 }], "any": [1, { "a": null }], "word": "yes", "by_key": { "k": 3 } })
    }

    #[test]
    fn what_has_names_is_read_as_serde_reads_it() {
        let expected: Outer = serde_json::from_value(whole()).unwrap();
        assert_eq!(read(whole()).unwrap(), expected);
        let mut without = whole();
        without["inner"] = Value::Null;
        assert_eq!(read(without).unwrap(), Outer { inner: None, ..expected });
    }

    #[test]
    fn what_keeps_unknown_fields_is_read_as_strictly_and_quotes_no_text() {
        let open = Open::deserialize(Named(json!({ "one": 1, "two": [2, { "deep": null }] }))).unwrap();
        assert_eq!(open, Open { one: 1, more: BTreeMap::from([("two".to_owned(), json!([2, { "deep": null }]))]) });
        for wrong in [json!([1]), json!("a secret"), json!(null), json!(true), json!(7)] {
            let error = Open::deserialize(Named(wrong)).unwrap_err().to_string();
            assert!(error.contains("expected an object") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_text_is_bounded_before_anything_looks_at_it_and_a_value_is_not() {
        #[derive(Debug, Deserialize)]
        struct Long {
            #[serde(deserialize_with = "api::long_text::long_text")]
            text: String,
        }
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        for pointer in ["/name", "/word", "/inner/one", "/list", "/by_key/k"] {
            let mut value = whole();
            *value.pointer_mut(pointer).unwrap() = json!(long);
            let error = read(value).unwrap_err().to_string();
            assert_eq!(error, format!("at `{pointer}`: the text is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let mut value = whole();
        value["by_key"][&long] = json!(1);
        assert_eq!(
            read(value).unwrap_err().to_string(),
            format!("at `/by_key`: the name of a member is longer than {TEXT_BYTES_MAX} bytes")
        );
        let mut value = whole();
        value["any"] = json!({ &long: [&long] });
        assert_eq!(read(value.clone()).unwrap().any, value["any"]);
        assert_eq!(Long::deserialize(Named(json!({ "text": long }))).unwrap().text, long);
    }

    #[test]
    fn a_list_is_no_object_however_deep_it_stands() {
        for (pointer, wrong) in [
            ("", json!(["n", null, [], 1, "yes", {}])),
            ("/inner", json!([1])),
            ("/list/0", json!([2])),
            ("/list/0", json!(7)),
            ("/inner", json!("text")),
            ("/inner", json!(true)),
            ("/by_key", json!([["k", 3]])),
        ] {
            let mut value = whole();
            *value.pointer_mut(pointer).unwrap() = wrong;
            let error = read(value.clone()).unwrap_err().to_string();
            assert!(error.contains("invalid type"), "{pointer}: {error}");
            let member = pointer.trim_end_matches("/0");
            assert!(member.is_empty() || error.starts_with(&format!("at `{member}`: ")), "{pointer}: {error}");
        }
        let mut deep = whole();
        deep["inner"] = json!({ "one": "1" });
        assert!(read(deep).unwrap_err().to_string().starts_with("at `/inner/one`: invalid type"), "a place is told whole");
        let mut unknown = whole();
        unknown["other"] = json!(1);
        assert!(read(unknown).unwrap_err().to_string().contains("unknown field `other`"));
    }
}
