//! Tests of what a source receives, of the map back to the originals, and of what never changes.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn rules(kinds: &[Kind], regions: &[&str]) -> Redaction {
    Redaction { kinds: kinds.iter().copied().collect(), regions: regions.iter().map(|region| region.parse().unwrap()).collect() }
}

fn every_rule() -> Redaction {
    rules(&[Kind::Email, Kind::Phone, Kind::Secret, Kind::Face], &["GB", "US"])
}

fn check(params: Value, expected: Value) {
    let outgoing = redact_params(&params, &every_rule(), &[]);
    assert_eq!(outgoing.value, expected);
    assert_eq!(restored(&outgoing), params);
    assert_eq!(outgoing.unreadable, []);
}

/// The params with the originals put back.
fn restored(outgoing: &Outgoing) -> Value {
    fn text(text: &str, map: &[Replaced]) -> String {
        let mut restored = String::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            match map.iter().find(|replaced| rest.starts_with(&replaced.token)) {
                Some(replaced) => {
                    restored.push_str(&replaced.original);
                    rest = &rest[replaced.token.len()..];
                }
                None => {
                    restored.push(character);
                    rest = &rest[character.len_utf8()..];
                }
            }
        }
        restored
    }
    fn value(redacted: &Value, map: &[Replaced]) -> Value {
        match redacted {
            Value::Null | Value::Bool(_) | Value::Number(_) => redacted.clone(),
            Value::String(found) => Value::String(text(found, map)),
            Value::Array(items) => items.iter().map(|item| value(item, map)).collect(),
            Value::Object(members) => Value::Object(members.iter().map(|(key, member)| (text(key, map), value(member, map))).collect()),
        }
    }
    value(&outgoing.value, &outgoing.map)
}

#[test]
fn nothing_is_asked_for_by_default_and_nothing_is_taken_out() {
    let params = json!({ "to": "jane@example.com", "password": "x", "tel": "+44 20 7946 0123" });
    let outgoing = redact_params(&params, &Redaction::default(), &[]);
    assert_eq!(outgoing, Outgoing { value: params, map: vec![], counts: BTreeMap::new(), unreadable: vec![] });
}

#[test]
fn each_kind_is_taken_out_only_where_it_is_asked_for() {
    let params = json!({ "text": "jane@example.com +44 20 7946 0123", "token": "x" });
    for (kind, expected) in [
        (Kind::Email, json!({ "text": "<EMAIL_1> +44 20 7946 0123", "token": "x" })),
        (Kind::Phone, json!({ "text": "jane@example.com <PHONE_1>", "token": "x" })),
        (Kind::Secret, json!({ "text": "jane@example.com +44 20 7946 0123", "token": "<SECRET_1>" })),
        (Kind::Face, params.clone()),
    ] {
        assert_eq!(redact_params(&params, &rules(&[kind], &[]), &[]).value, expected);
    }
}

#[test]
fn tokens_are_numbered_by_first_appearance_and_one_original_has_one() {
    let params = json!({
        "b": ["john@example.com and jane@example.com", "jane@example.com"],
        "password": "jane@example.com",
        "a": { "phone": "2025550143", "also": "+44 20 7946 0123, jane@example.com" },
    });
    let outgoing = redact_params(&params, &every_rule(), &[]);
    assert_eq!(
        outgoing.value,
        json!({
            "b": ["<EMAIL_1> and <EMAIL_2>", "<EMAIL_2>"],
            "password": "<SECRET_1>",
            "a": { "phone": "<PHONE_1>", "also": "<PHONE_2>, <EMAIL_2>" },
        })
    );
    let map: Vec<_> = outgoing.map.iter().map(|replaced| (&*replaced.token, &*replaced.original, &*replaced.pointer)).collect();
    assert_eq!(
        map,
        [
            ("<EMAIL_1>", "john@example.com", "/b/0"),
            ("<EMAIL_2>", "jane@example.com", "/b/0"),
            ("<SECRET_1>", "jane@example.com", "/password"),
            ("<PHONE_1>", "2025550143", "/a/phone"),
            ("<PHONE_2>", "+44 20 7946 0123", "/a/also"),
        ]
    );
    assert_eq!(outgoing.counts, BTreeMap::from([(Kind::Email, 4), (Kind::Phone, 2), (Kind::Secret, 1)]));
}

#[test]
fn a_token_that_the_caller_wrote_is_left_alone_and_means_nothing_of_ours() {
    check(
        json!({ "text": "<EMAIL_1> is not jane@example.com, <SECRET_1>", "token": "<SECRET_1>", "secret": "x" }),
        json!({ "text": "<EMAIL_1> is not <EMAIL_2>, <SECRET_1>", "token": "<SECRET_1>", "secret": "<SECRET_2>" }),
    );
}

#[test]
fn a_key_is_redacted_too_and_costs_no_other_member_its_place() {
    let params = json!({ "jane@example.com": 1, "<EMAIL_1>": 2, "john@example.com": { "jane@example.com": 3 }, "+442079460123": 4 });
    let outgoing = redact_params(&params, &every_rule(), &[]);
    assert_eq!(outgoing.value, json!({ "<EMAIL_2>": 1, "<EMAIL_1>": 2, "<EMAIL_3>": { "<EMAIL_2>": 3 }, "<PHONE_1>": 4 }));
    assert_eq!(outgoing.map.iter().map(|replaced| &*replaced.pointer).collect::<Vec<_>>(), ["/<EMAIL_2>", "/<EMAIL_3>", "/<PHONE_1>"]);
    assert_eq!(restored(&outgoing), params);
}

#[test]
fn what_was_taken_out_is_never_printed() {
    let outgoing = redact_params(&json!({ "to": "jane@example.com" }), &every_rule(), &[]);
    assert!(!format!("{outgoing:?}").contains("jane"), "{outgoing:?}");
}

#[test]
fn a_token_in_a_key_or_name_says_nothing_about_the_value() {
    let token = "gh¦p_16C7e42F292c6912E7710c838347Ae178B4a".replace('¦', "");
    let params = json!({ (token.clone()): "plain", "+442079460123": "2025550143", "pair": { "name": token, "value": "plain" } });
    let expected = json!({ "<SECRET_1>": "plain", "<PHONE_1>": "2025550143", "pair": { "name": "<SECRET_1>", "value": "plain" } });
    check(params, expected.clone());
    check(expected.clone(), expected);
}

#[test]
fn what_is_exempt_passes_at_its_exact_place_and_nowhere_else() {
    let params = json!({
        "to": "jane@example.com", "cc": ["john@example.com"], "a/b": { "~": "jane@example.com" },
        "toto": "jane@example.com", "deep": { "to": "jane@example.com" }, "objects": [{ "to": "jane@example.com" }], "token": "x",
    });
    let exempt = ["/to", "/cc", "/a~1b/~0", "/deep", "/objects", "/token", "/nothing", ""].map(str::to_owned);
    assert_eq!(
        redact_params(&params, &every_rule(), &exempt).value,
        json!({
            "to": "jane@example.com", "cc": ["john@example.com"], "a/b": { "~": "jane@example.com" },
            "toto": "<EMAIL_1>", "deep": { "to": "<EMAIL_1>" }, "objects": [{ "to": "<EMAIL_1>" }], "token": "x",
        })
    );
    assert_eq!(redact_params(&json!("jane@example.com"), &every_rule(), &[String::new()]).value, json!("jane@example.com"));
    assert_eq!(redact_params(&params, &every_rule(), &["/cc/0".to_owned()]).value["cc"], json!(["john@example.com"]));
}

#[test]
fn what_stands_around_is_kept_to_the_letter() {
    for (text, expected) in [
        ("<jane@example.com>, then", "<<EMAIL_1>>, then"),
        ("mailto:jane@example.com?subject=x", "mailto:<EMAIL_1>?subject=x"),
        ("请联系jane@example.com谢谢", "请联系<EMAIL_1>谢谢"),
        ("写信 jane@example.com。谢谢", "写信 <EMAIL_1>。谢谢"),
        (r#"{"a":"x\njane@example.com\n"}"#, r#"{"a":"x\n<EMAIL_1>\n"}"#),
        ("?q=1&m=jane%40example.com&x=2", "?q=1&m=<EMAIL_1>&x=2"),
        ("x jane [at] example [dot] com y", "x <EMAIL_1> y"),
        ("(+44 20 7946 0123)", "(<PHONE_1>)"),
        ("(+44) 20 7946 0123.", "<PHONE_1>."),
        ("(020) 7946 0123, ok", "<PHONE_1>, ok"),
        ("+44 20 7946 0123 ext. 9 ok", "<PHONE_1> ok"),
        ("2026-11-15 10:30 020 7946 0123 2026-11-15", "2026-11-15 10:30 <PHONE_1> 2026-11-15"),
        ("postgres://u:p@db.example.com/x", "postgres://<SECRET_1>@db.example.com/x"),
        ("https://jane@example.com/ and jane@example.com", "https://jane@example.com/ and <EMAIL_1>"),
    ] {
        check(json!([text]), json!([expected]));
    }
}

#[test]
fn national_numbers_need_their_region() {
    let params = json!({ "text": "0800 1111 and (202) 555-0143" });
    for (regions, expected) in [
        (&[][..], "0800 1111 and (202) 555-0143"),
        (&["GB"], "<PHONE_1> and (202) 555-0143"),
        (&["US"], "0800 1111 and <PHONE_1>"),
        (&["US", "GB"], "<PHONE_1> and <PHONE_2>"),
    ] {
        assert_eq!(redact_params(&params, &rules(&[Kind::Phone], regions), &[]).value, json!({ "text": expected }), "{regions:?}");
    }
}

#[test]
fn the_region_of_a_space_never_hides_a_number_of_another() {
    for region in ["US", "GB", "FR", "DE", "JP"] {
        let outgoing = redact_params(&json!("+33 1 99 00 12 34"), &rules(&[Kind::Phone], &[region]), &[]);
        assert_eq!(outgoing.value, json!("<PHONE_1>"), "{region}");
    }
}

#[test]
fn rules_are_read_as_they_are_written_and_a_region_must_exist() {
    let written = json!({ "kinds": ["email", "phone"], "regions": ["GB", "DE"] });
    let read: Redaction = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(read, rules(&[Kind::Email, Kind::Phone], &["GB", "DE"]));
    assert_eq!(serde_json::to_value(&read).unwrap(), written);
    assert_eq!(serde_json::from_value::<Redaction>(json!({})).unwrap(), Redaction::default());
    for wrong in [json!({ "regions": ["ZZ"] }), json!({ "regions": ["gb"] }), json!({ "kinds": ["name"] }), json!({ "email": true })] {
        assert!(serde_json::from_value::<Redaction>(wrong).is_err());
    }
}

#[test]
fn more_than_is_looked_at_is_said_and_not_passed_over() {
    let many: Vec<String> = (0..=REDACTION_REPLACED_MAX).map(|number| format!("{number}@example.com")).collect();
    let outgoing = redact_params(&json!(many), &every_rule(), &[]);
    assert_eq!(outgoing.unreadable, [Unreadable { pointer: String::new(), because: Because::TooMany }]);
}

#[test]
fn much_that_is_almost_something_takes_no_longer() {
    const FILLER_BYTES: usize = 100 * 1024;
    for filler in [
        "@",
        "a@",
        "a@b",
        "a@b.",
        "a.b@",
        "[at]",
        "a (at) b ",
        "a[dot]",
        "%",
        "%25",
        "%40",
        "&#",
        "&amp;",
        "&#64;",
        "=4",
        "=40",
        "=\n",
        "\\u0040",
        "\"@",
        "+",
        "+1",
        "+1 ",
        "1 ",
        "0",
        "0 ",
        "(0",
        "01.",
        "12-",
        "020 7946 ",
        "call ",
        "\u{200b}",
        "a=",
        "://",
        "https://a@",
        "用",
        "@用.",
        "aGVsbG8gd29ybGQhIQ/",
        "QUFB\n",
        "data:image/png;base64,",
        "<EMAIL_1>",
        "<SECRET_",
        "git@a.b:c/",
    ] {
        let text = format!("{} jane@example.com", filler.repeat(FILLER_BYTES / filler.len()));
        let outgoing = redact_params(&json!({ "text": text }), &every_rule(), &[]);
        assert!(!outgoing.value.to_string().contains("jane@example.com") || !outgoing.unreadable.is_empty(), "after many {filler:?}");
    }
}

fn same_shape(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(_), Value::String(_)) => true,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_shape(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len() && left.values().zip(right.values()).all(|(left, right)| same_shape(left, right))
        }
        (left, right) => left == right,
    }
}

/// Texts in which everything that is searched for meets, overlaps and breaks off.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = vec![
        "jane",
        "@",
        "example",
        ".",
        "com",
        "jane@example.com",
        "＠",
        "%40",
        "%2E",
        "&#64;",
        "=40",
        "=\n",
        "\\u0040",
        "\\n",
        " [at] ",
        "(at)",
        " [dot] ",
        " dot ",
        " @ ",
        "\"",
        "'",
        "<",
        ">",
        "<EMAIL_1>",
        "<PHONE_2>",
        "<SECRET_1>",
        "+44 20 7946 0123",
        "+",
        "44",
        "020 7946 0123",
        "0",
        "12",
        "202",
        "555",
        "0143",
        "-",
        " ",
        "(",
        ")",
        "/",
        ":",
        ",",
        "=",
        "&",
        "?",
        "_",
        "call ",
        "order ",
        "phone=",
        "ext. 12",
        "https://",
        "git",
        ".git",
        "password",
        "token=",
        "api_key",
        "hunter2",
        "Bearer ",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "postgres://u:p@h",
        "amFuZUBleGFtcGxlLmNvbSBpcyBtZQ==",
        "dGVzdA",
        "\u{200b}",
        "é",
        "用户",
        "例子.测试",
        "中",
        "\n",
        "\\",
        "%",
        "{",
        "}",
        "[",
        "]",
        "2026-11-15",
        "Cookie: a=b",
        "EMAIL",
        "1>",
    ];
    prop_oneof![
        prop::collection::vec(prop::sample::select(pieces), 0..14).prop_map(|pieces| pieces.concat()),
        prop::collection::vec(any::<char>(), 0..24).prop_map(|characters| characters.into_iter().collect()),
        "[ -~]{0,60}",
        "[0-9+(). /-]{0,40}",
        "[a-z0-9.@%=&;#\\[\\] -]{0,60}",
    ]
}

fn any_params() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        prop::sample::select(vec!["to", "password", "phone", "id", "text", "value", "name", "cookies", "jane@example.com"])
            .prop_map(str::to_owned),
        any_text(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
        any_text().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 16, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_shape_is_always_kept_and_the_map_always_leads_back(params in any_params()) {
        let outgoing = redact_params(&params, &every_rule(), &[]);
        prop_assert!(same_shape(&outgoing.value, &params));
        prop_assert_eq!(restored(&outgoing), params);
        let tokens: BTreeSet<_> = outgoing.map.iter().map(|replaced| &replaced.token).collect();
        prop_assert_eq!(tokens.len(), outgoing.map.len());
        prop_assert_eq!(outgoing.map.is_empty(), outgoing.counts.is_empty());
    }

    #[test]
    fn redacting_twice_is_always_redacting_once(params in any_params()) {
        let once = redact_params(&params, &every_rule(), &[]).value;
        let twice = redact_params(&once, &every_rule(), &[]);
        prop_assert_eq!(&twice.value, &once);
        prop_assert!(twice.map.is_empty(), "{:?}", twice.map);
    }

    #[test]
    fn an_address_never_remains(
        local in "[a-z][a-z0-9]{0,10}([._+-][a-z0-9]{1,8}){0,2}",
        host in "[a-z][a-z0-9]{1,10}(-[a-z0-9]{1,4})?",
        top in prop::sample::select(vec!["com", "org", "example", "test", "co.uk"]),
        before in "([^@]{0,12}[ \n\"'(,:;<>|])?",
        after in "([ \n\"'),;<>|][^@]{0,12})?",
    ) {
        prop_assume!(!["git", "hg", "this", "super", "return", "break", "continue"].contains(&local.as_str()));
        prop_assume!(!before.ends_with("://"));
        let address = format!("{local}@{host}.{top}");
        let outgoing = redact_params(&json!([format!("{before}{address}{after}")]), &rules(&[Kind::Email], &[]), &[]);
        prop_assert!(!outgoing.value.to_string().contains(&address), "{}", outgoing.value);
    }

    #[test]
    fn a_number_with_a_plus_never_remains(
        country in prop::sample::select(vec![("+1", "202", "555", "01"), ("+44", "20", "7946", "01"), ("+61", "2", "5550", "12")]),
        last in "[0-9]{2}",
        dividers in prop::sample::select(vec!["", " ", "-", ".", "\u{a0}", "\u{2011}", " - "]),
        before in "([^0-9+_]{0,10}[ \n\"'(,:;<>|=])?",
        after in "([ \n\"'),;<>|][^0-9]{0,10})?",
    ) {
        let (code, area, exchange, line) = country;
        let number = [code, area, exchange, &format!("{line}{last}")].join(dividers);
        let outgoing = redact_params(&json!([format!("{before}{number}{after}")]), &rules(&[Kind::Phone], &[]), &[]);
        prop_assert!(!outgoing.value[0].as_str().unwrap_or_default().contains(&number), "{}", outgoing.value);
    }
}
