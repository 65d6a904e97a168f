//! Bounds stored values by pruning the JSON value, never its text, so the result is always valid JSON.
//! Small members stay whole and large ones share the remaining room, so one long text does not push out the rest.

use serde_json::{Map, Value};

/// The member that marks a pruned value, and the member with the length of its original compact JSON.
const TRUNCATED: &str = "_truncated";
const ORIGINAL_BYTES: &str = "_original_bytes";
/// The member for a pruned value that cannot carry the mark itself.
const VALUE: &str = "value";
/// Any value can be represented in this room: an empty array or object, a cut string, and every number whole.
const ROOM_BYTES_MIN: usize = 32;
/// Ends a cut string.
const ELLIPSIS: char = '…';

/// Returns the value unchanged if its compact JSON has at most `bytes_max` bytes; otherwise prunes it to fit, as an object marked
/// `_truncated`.
///
/// Below 64 bytes there is room for little more than the mark. If even the mark does not fit, the result is `null`.
pub(crate) fn truncate(value: Value, bytes_max: usize) -> Value {
    let size = Size::of(&value);
    if size.bytes <= bytes_max { value } else { marked(value, &size, bytes_max) }
}

/// Whether the value may have been pruned. A value that has such a member of its own is taken for pruned too, which costs only a second
/// look.
pub fn is_truncated(value: &Value) -> bool {
    value.get(TRUNCATED) == Some(&Value::Bool(true))
}

fn marked(value: Value, size: &Size, bytes_max: usize) -> Value {
    let mut object = Map::new();
    object.insert(TRUNCATED.to_owned(), Value::Bool(true));
    object.insert(ORIGINAL_BYTES.to_owned(), Value::from(size.bytes));
    let mark_bytes = object_bytes(&object);
    if mark_bytes > bytes_max {
        object.remove(ORIGINAL_BYTES);
        return if object_bytes(&object) <= bytes_max { Value::Object(object) } else { Value::Null };
    }
    let room = bytes_max - mark_bytes;
    match value {
        // The members go into the same object as the mark: their two braces are saved, and one comma is added.
        Value::Object(members) if !members.contains_key(TRUNCATED) && !members.contains_key(ORIGINAL_BYTES) => {
            if room >= ROOM_BYTES_MIN {
                object.extend(prune_object(members, size, room + 1));
            }
        }
        // Not an object, or an object with such a member of its own, which must not be mistaken for our mark.
        value @ (Value::Object(_) | Value::Array(_) | Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null) => {
            let room = room.saturating_sub(member_bytes(VALUE));
            if room >= ROOM_BYTES_MIN {
                object.insert(VALUE.to_owned(), prune(value, size, room));
            }
        }
    }
    Value::Object(object)
}

/// The length of a value's compact JSON, and of every value inside it. It is measured once, so that pruning is not quadratic.
struct Size {
    bytes: usize,
    below: Vec<Self>,
}

impl Size {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null | Value::Bool(true) => Self::leaf(4),
            Value::Bool(false) => Self::leaf(5),
            Value::Number(number) => Self::leaf(number.to_string().len()),
            Value::String(text) => Self::leaf(text_bytes(text)),
            Value::Array(items) => {
                let below: Vec<_> = items.iter().map(Self::of).collect();
                Self { bytes: 2 + items.len().saturating_sub(1) + below.iter().map(|size| size.bytes).sum::<usize>(), below }
            }
            Value::Object(members) => {
                let below: Vec<_> = members.values().map(Self::of).collect();
                Self { bytes: object_bytes_around(members) + below.iter().map(|size| size.bytes).sum::<usize>(), below }
            }
        }
    }

    const fn leaf(bytes: usize) -> Self {
        Self { bytes, below: Vec::new() }
    }
}

fn object_bytes(members: &Map<String, Value>) -> usize {
    object_bytes_around(members) + members.values().map(|value| Size::of(value).bytes).sum::<usize>()
}

/// The bytes of the braces, keys, colons and commas.
fn object_bytes_around(members: &Map<String, Value>) -> usize {
    2 + members.keys().map(|key| member_bytes(key)).sum::<usize>() - usize::from(!members.is_empty())
}

/// The bytes of a key with its quotes, its colon and one comma.
fn member_bytes(key: &str) -> usize {
    text_bytes(key) + 2
}

fn text_bytes(text: &str) -> usize {
    2 + text.chars().map(char_bytes).sum::<usize>()
}

const fn char_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

/// Fits a value into `room`, which is at least `ROOM_BYTES_MIN`.
fn prune(value: Value, size: &Size, room: usize) -> Value {
    if size.bytes <= room {
        return value;
    }
    match value {
        Value::String(text) => Value::String(cut(text, room)),
        Value::Array(items) => Value::Array(prune_array(items, size, room)),
        Value::Object(members) => Value::Object(prune_object(members, size, room)),
        // None of them is longer than `ROOM_BYTES_MIN`.
        Value::Null | Value::Bool(_) | Value::Number(_) => Value::Null,
    }
}

fn cut(mut text: String, room: usize) -> String {
    let room = room.saturating_sub(2 + ELLIPSIS.len_utf8());
    let mut bytes = 0;
    let end = text.char_indices().find(|(_, character)| {
        bytes += char_bytes(*character);
        bytes > room
    });
    if let Some((end, _)) = end {
        text.truncate(end);
        text.push(ELLIPSIS);
    }
    text
}

/// Keeps a prefix of the items: as many whole items as fit, and a pruned next one. If a few large items would cost more than half of the
/// others, it keeps more items instead and prunes the large ones.
fn prune_array(items: Vec<Value>, size: &Size, room: usize) -> Vec<Value> {
    // The last item needs no comma.
    let room = room - 1;
    let least = (room / 16).max(ROOM_BYTES_MIN);
    let whole = prefix(size, room, usize::MAX);
    let shared = prefix(size, room, least);
    if whole.items * 2 < shared.items {
        let sizes: Vec<_> = size.below[..shared.items].iter().map(|size| size.bytes).collect();
        let level = level(sizes, room - shared.items);
        return items.into_iter().zip(&size.below).take(shared.items).map(|(item, size)| prune(item, size, level)).collect();
    }
    let left = room - whole.bytes;
    let mut kept: Vec<_> = items.into_iter().take(whole.items + 1).collect();
    let last = if kept.len() > whole.items { kept.pop() } else { None };
    if let (Some(last), Some(size)) = (last, size.below.get(whole.items)) {
        // One byte is for the comma.
        if left > ROOM_BYTES_MIN {
            kept.push(prune(last, size, left - 1));
        }
    }
    kept
}

struct Prefix {
    items: usize,
    /// With one comma for each item.
    bytes: usize,
}

/// The longest prefix that fits if no item takes more than `item_bytes_max`.
fn prefix(size: &Size, room: usize, item_bytes_max: usize) -> Prefix {
    let mut prefix = Prefix { items: 0, bytes: 0 };
    for size in &size.below {
        let bytes = prefix.bytes + size.bytes.min(item_bytes_max) + 1;
        if bytes > room {
            break;
        }
        prefix = Prefix { items: prefix.items + 1, bytes };
    }
    prefix
}

/// Keeps every member that gets some room, in order; the large members share the room that the small ones leave.
fn prune_object(members: Map<String, Value>, size: &Size, room: usize) -> Map<String, Value> {
    // The last member needs no comma.
    let room = room - 1;
    let least = (room / 64).max(ROOM_BYTES_MIN);
    let mut taken = 0;
    let mut around = 0;
    let mut sizes = Vec::new();
    let kept: Vec<_> = members
        .into_iter()
        .zip(&size.below)
        .filter(|((key, _), size)| {
            let bytes = member_bytes(key) + size.bytes.min(least);
            let fits = taken + bytes <= room;
            if fits {
                taken += bytes;
                around += member_bytes(key);
                sizes.push(size.bytes);
            }
            fits
        })
        .collect();
    let level = level(sizes, room - around);
    kept.into_iter().map(|((key, value), size)| (key, prune(value, size, level))).collect()
}

/// The largest size per value at which all of them fit into `room`: small values leave room, which the large ones share.
fn level(mut sizes: Vec<usize>, room: usize) -> usize {
    sizes.sort_unstable();
    let mut room = room;
    let mut sharing = sizes.len();
    for size in sizes {
        if size > room / sharing {
            return room / sharing;
        }
        room -= size;
        sharing -= 1;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn bytes(value: &Value) -> usize {
        serde_json::to_string(value).unwrap().len()
    }

    /// Truncates, and checks the properties that must hold for every value and bound.
    fn truncated(value: &Value, bytes_max: usize) -> Value {
        let pruned = truncate(value.clone(), bytes_max);
        if bytes(value) <= bytes_max {
            assert_eq!(&pruned, value, "changed though it fits");
            return pruned;
        }
        let text = serde_json::to_string(&pruned).unwrap();
        assert!(text.len() <= bytes_max, "{} bytes of {bytes_max}: {text}", text.len());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), pruned);
        assert_eq!(pruned[TRUNCATED], json!(true));
        assert_eq!(pruned[ORIGINAL_BYTES], json!(bytes(value)));
        pruned
    }

    #[test]
    fn what_fits_to_the_byte_is_unchanged() {
        for value in
            [json!("héllo \n\u{1} \"q\" \u{1f600}"), json!([1, -2.5, 1e300, u64::MAX, true, false]), json!({"a": {"b\\": []}, "": {}})]
        {
            let size = bytes(&value);
            assert_eq!(truncate(value.clone(), size), value);
            assert_ne!(truncate(value.clone(), size - 1), value);
        }
    }

    #[test]
    fn one_long_text_does_not_cost_the_rest() {
        let value = json!({ "log": "x".repeat(50_000), "status": 200, "headers": { "a": "1", "b": "2" },
            "body": "y".repeat(300), "list": [1, 2, 3] });
        let pruned = truncated(&value, 10_240);
        for key in ["status", "headers", "body", "list"] {
            assert_eq!(pruned[key], value[key], "{key}");
        }
        let log = pruned["log"].as_str().unwrap();
        assert!(log.ends_with('…') && log.len() > 9_500, "{}", log.len());
    }

    #[test]
    fn many_equal_rows_keep_a_prefix_of_whole_rows() {
        let rows: Vec<_> = (0..1_000).map(|row| json!({ "id": row, "name": "n".repeat(80) })).collect();
        let pruned = truncated(&json!({ "rows": rows.clone() }), 10_240);
        let kept = pruned["rows"].as_array().unwrap();
        assert_eq!(kept[..kept.len() - 1], rows[..kept.len() - 1]);
        assert!(kept.len() > 95, "{}", kept.len());
    }

    #[test]
    fn one_large_item_does_not_cost_the_small_ones_after_it() {
        let mut items = vec![json!("z".repeat(100_000))];
        items.extend((0..100).map(|item| json!(item)));
        let pruned = truncated(&Value::Array(items.clone()), 4_096);
        let kept = pruned[VALUE].as_array().unwrap();
        assert_eq!(kept[1..], items[1..]);
        assert!(kept[0].as_str().unwrap().len() > 3_000);
    }

    #[test]
    fn a_large_item_after_small_ones_is_cut_into_what_is_left() {
        let pruned = truncated(&json!(["a".repeat(300), "b".repeat(100_000)]), 10_240);
        assert_eq!(pruned[VALUE][0], json!("a".repeat(300)));
        assert!(pruned[VALUE][1].as_str().unwrap().len() > 9_700);
    }

    #[test]
    fn a_mark_that_was_already_there_is_kept_apart_from_ours() {
        for key in [TRUNCATED, ORIGINAL_BYTES] {
            let pruned = truncated(&json!({ key: "theirs", "text": "x".repeat(1_000) }), 512);
            assert_eq!(pruned[VALUE][key], json!("theirs"));
            assert!(pruned[VALUE]["text"].as_str().unwrap().ends_with('…'));
        }
    }

    #[test]
    fn a_string_is_cut_between_characters_and_by_its_escaped_length() {
        for text in ["\u{1f600}".repeat(500), "\u{1}".repeat(500), "\"\\".repeat(500), "é\n".repeat(500)] {
            let pruned = truncated(&json!(text), 256);
            let kept = pruned[VALUE].as_str().unwrap().strip_suffix('…').unwrap().to_owned();
            assert!(text.starts_with(&kept) && !kept.is_empty());
            assert!(bytes(&pruned) > 256 - 8, "{}", bytes(&pruned));
        }
    }

    #[test]
    fn a_key_too_long_to_keep_costs_its_member_only() {
        let pruned = truncated(&json!({ "k".repeat(5_000): 1, "small": 2 }), 1_024);
        assert_eq!(pruned["small"], json!(2));
        assert_eq!(pruned.as_object().unwrap().len(), 3);
    }

    #[test]
    fn where_there_is_no_room_the_mark_is_what_remains() {
        let value = json!({ "text": "x".repeat(1_000) });
        assert_eq!(truncate(value.clone(), 64), json!({ TRUNCATED: true, ORIGINAL_BYTES: 1_011 }));
        assert_eq!(truncate(value.clone(), 20), json!({ TRUNCATED: true }));
        assert_eq!(truncate(value, 10), json!(null));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            (any::<char>(), 0..2_000usize).prop_map(|(character, times)| Value::from(character.to_string().repeat(times))),
        ];
        leaf.prop_recursive(6, 200, 40, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                prop::collection::btree_map(prop_oneof![any::<String>(), "[a-z]{1,8}"], inner, 0..40)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn truncation_always_fits_always_parses_and_marks_exactly_what_it_pruned(value in any_json(), bytes_max in 256..4_096usize) {
            truncated(&value, bytes_max);
        }

        #[test]
        fn truncation_always_fits_even_where_there_is_hardly_room(value in any_json(), bytes_max in 4..256usize) {
            let pruned = truncate(value.clone(), bytes_max);
            prop_assert!(bytes(&pruned) <= bytes_max);
            prop_assert_eq!(bytes(&value) <= bytes_max, pruned == value);
        }

        #[test]
        fn the_measured_length_is_always_the_written_one(value in any_json()) {
            prop_assert_eq!(Size::of(&value).bytes, bytes(&value));
        }

        #[test]
        fn truncating_twice_is_truncating_once(value in any_json(), bytes_max in 256..4_096usize) {
            let once = truncate(value, bytes_max);
            prop_assert_eq!(truncate(once.clone(), bytes_max), once);
        }
    }
}
