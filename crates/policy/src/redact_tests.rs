//! Tests of what is removed from a call before it is stored, and of what is left alone.

use crate::redact::{MARK, redact, redact_text};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Examples contain a `¦`, so that no secret scanner takes them for real.
fn joined(example: &str) -> String {
    example.replace('¦', "")
}

const JWT: &str = "ey¦JhbGciOiJIUzI1NiJ9.ey¦JzdWIiOiIxMjM0In0.c2lnbmF0dXJlLW9mLXRoaXM";

#[test]
fn a_text_under_a_telling_key_is_taken_out_whatever_it_is() {
    for key in [
        "password",
        "Password",
        "PASSWORD",
        "passwd",
        "passphrase",
        "passcode",
        "secret",
        "token",
        "authorization",
        "Authorization",
        "proxy-authorization",
        "api_key",
        "apiKey",
        "apikey",
        "APIKEY",
        "API_KEY",
        "x-api-key",
        "X-API-Key",
        "cookie",
        "Cookie",
        "set-cookie",
        "Set-Cookie",
        "private_key",
        "privateKey",
        "private_key_pem",
        "access_key",
        "accessKey",
        "secret_access_key",
        "AWS_SECRET_ACCESS_KEY",
        "client_secret",
        "clientSecret",
        "credential",
        "credentials",
        "session_token",
        "sessionToken",
        "bearer",
        "bearer_token",
        "access_token",
        "accesstoken",
        "refresh_token",
        "id_token",
        "auth_token",
        "x-auth-token",
        "csrfToken",
        "GITHUB_TOKEN",
        "TOKEN_PROD",
        "db_password",
        "dbPassword",
        "DBPassword",
        "userpassword",
        "password2",
        "new_password",
        "password_confirmation",
        "old.password",
        "webhook_secret",
        "secretKey",
        "signing_key",
        "encryptionKey",
        "basic_auth",
        "secret_id",
        "db_pwd",
        "jwt",
        "otp",
        "apiKeys",
        "access_tokens",
        "user[password]",
        "oauth2_token",
        "seed phrase",
        "recovery_codes",
        "AccountKey",
    ] {
        check(json!({ key: "hunter2", "other": "stays" }), json!({ key: MARK, "other": "stays" }));
        check(json!({ "deep": [{ key: ["a", ["b"], 3, true, null] }] }), json!({ "deep": [{ key: [MARK, [MARK], 3, true, null] }] }));
    }
}

#[test]
fn a_key_that_only_sounds_alike_takes_nothing_out() {
    for key in [
        "max_tokens",
        "maxTokens",
        "token_count",
        "tokenCount",
        "tokens_used",
        "tokens",
        "total_tokens",
        "input_tokens",
        "token_limit",
        "tokens_per_minute",
        "tokenizer",
        "tokenization",
        "tokenized",
        "token_type",
        "tokenType",
        "token_url",
        "token_endpoint",
        "token_id",
        "token_expires_at",
        "next_page_token",
        "nextPageToken",
        "NextToken",
        "continuation_token",
        "stop_token",
        "author",
        "authored_by",
        "authority",
        "authorized",
        "authorization_url",
        "authorization_endpoint",
        "secretary",
        "secret_name",
        "secret_arn",
        "secretRef",
        "secrets_path",
        "secret_version",
        "keyboard",
        "key",
        "keys",
        "keyword",
        "public_key",
        "publicKey",
        "ssh_public_key",
        "primary_key",
        "foreign_key",
        "idempotency_key",
        "issue_key",
        "sort_key",
        "key_id",
        "private_key_id",
        "private_key_path",
        "monkey",
        "turkey",
        "passenger",
        "passport",
        "passive",
        "password_policy",
        "password_length",
        "passwordless",
        "has_password",
        "is_secret",
        "show_password",
        "cookie_policy",
        "cookie_consent",
        "cookiecutter",
        "credential_type",
        "credentials_file",
        "pwd",
        "OLD_PWD",
        "code",
        "bear",
        "forbearer",
        "session_id",
        "description",
        "text",
        "url",
        "",
    ] {
        let value = json!({ key: "hunter2", "list": [{ key: ["a", "b"] }] });
        check(value.clone(), value);
    }
}

#[test]
fn a_secret_is_known_by_its_own_form() {
    for (text, expected) in [
        ("-----BEGIN PRI¦VATE KEY-----\nMIIEvQ\nabc\n-----END PRI¦VATE KEY-----", "[redacted]"),
        ("a -----BEGIN RSA PRI¦VATE KEY-----\\nMII\\n-----END RSA PRI¦VATE KEY----- b", "a [redacted] b"),
        ("-----BEGIN OPENSSH PRI¦VATE KEY-----\nb3BlbnNzaC1rZXktdjEA and then it was cut", "[redacted]"),
        ("-----BEGIN PGP PRI¦VATE KEY BLOCK-----\n\nlQ\n-----END PGP PRI¦VATE KEY BLOCK-----\n", "[redacted]\n"),
        (
            "-----BEGIN EC PRI¦VATE KEY-----\nx\n-----END EC PRI¦VATE KEY-----\n-----BEGIN PUBLIC KEY-----\ny",
            "[redacted]\n-----BEGIN PUBLIC KEY-----\ny",
        ),
        ("curl -H 'Authorization: Bear¦er abc123def'", "curl -H 'Authorization: Bearer [redacted]'"),
        ("Authorization: Bear¦er abcdefgh", "Authorization: Bearer [redacted]"),
        ("authorization=bear¦er abcdefgh", "authorization=bearer [redacted]"),
        ("Authorization: Tok¦en abcdefghij", "Authorization: Token [redacted]"),
        ("\"Authorization\": \"Bas¦ic dXNlcjpwYXNz\"", "\"Authorization\": \"[redacted]\""),
        ("sent bear¦er AbCdEfGhIjKl", "sent bearer [redacted]"),
        ("BEAR¦ER mF_9.B5f-4.1JqM", "BEARER [redacted]"),
        ("Bas¦ic dXNlcjpwYXNzd29yZA==", "Basic [redacted]"),
        ("Bas¦ic dXNlcjpwYXNzd29yZA", "Basic [redacted]"),
        ("Cookie: sid=31d4d96e; theme=dark", "Cookie: [redacted]"),
        ("Set-Cookie: sid=31d4d96e; Path=/\nnext", "Set-Cookie: [redacted]\nnext"),
        ("id AKIA¦IOSFODNN7EXAMPLE.", "id [redacted]."),
        ("xAKIA¦IOSFODNN7EXAMPLEx", "x[redacted]x"),
        ("ASIA¦Y34FZKBOKMUTVV7A", "[redacted]"),
        ("ghp¦_16C7e42F292c6912E7710c838347Ae178B4a", "[redacted]"),
        ("remote: gho¦_16C7e42F292c6912E7710c838347Ae178B4a!", "remote: [redacted]!"),
        ("ghs¦_16C7e42F292c6912E7710c838347Ae178B4a", "[redacted]"),
        ("ghu¦_16C7e42F292c6912E7710c838347Ae178B4a", "[redacted]"),
        ("ghr¦_16C7e42F292c6912E7710c838347Ae178B4a", "[redacted]"),
        ("github¦_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ", "[redacted]"),
        ("gl¦pat-aBcDeFgHiJkLmNoPqRsT", "[redacted]"),
        ("gl¦rt-aBcDeFgHiJkLmNoPqRsT", "[redacted]"),
        ("xox¦b-123456789012-abcdefGHIJKL", "[redacted]"),
        ("xox¦p-123456789012-abcdefGHIJKL", "[redacted]"),
        ("xapp¦-1-A0123456789-0123456789012-abcdef", "[redacted]"),
        ("https://hooks.slack.com/serv¦ices/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", "https://hooks.slack.com/services/[redacted]"),
        ("sk¦_live_4eC39HqLyjWDarjtT1zdp7dc", "[redacted]"),
        ("rk¦_live_4eC39HqLyjWDarjtT1zdp7dc", "[redacted]"),
        ("whsec¦_abcdefghijklmnopqrstuvwx", "[redacted]"),
        ("sk¦-abcdefghijklmnopqrstuvwxyz012345", "[redacted]"),
        ("sk¦-proj-abcdefghijklmnopqrst", "[redacted]"),
        ("sk¦-or-v1-0123456789abcdef0123456789abcdef", "[redacted]"),
        ("key=sk¦-ant-api03-abc_DEF-123", "key=[redacted]"),
        ("AIza¦SyA-1234567890abcdefghijklmnopqrstu", "[redacted]"),
        ("ya29¦.a0AfH6SMBx1234567890", "[redacted]"),
        ("GOCSPX¦-abcdefghijklmnopqrstuvwx", "[redacted]"),
        ("//registry.npmjs.org/:_authToken=npm¦_abcdefghijklmnopqrstuvwxyz0123456789", "//registry.npmjs.org/:_authToken=[redacted]"),
        ("pypi¦-AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAwMA", "[redacted]"),
        ("hvs¦.CAESIJ1234567890abcdefgh", "[redacted]"),
        ("SG¦.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG", "[redacted]"),
        ("lin¦_api_abcdefghijklmnopqrstuvwxyz01234567890123", "[redacted]"),
        ("sntryu¦_0123456789abcdef0123456789abcdef0123456789abcdef", "[redacted]"),
        ("hf¦_abcdefghijklmnopqrstuvwxyzABCDEFGH", "[redacted]"),
        ("xox¦b-abcdefghij", "[redacted]"),
        ("sk¦-ant-abcdefgh", "[redacted]"),
        ("otp=1", "otp=[redacted]"),
        (JWT, "[redacted]"),
        ("at ey¦JhbGciOiJub25lIn0.ey¦JzdWIiOiIxIn0. end", "at [redacted] end"),
        ("session_ey¦JhbGciOiJIUzI1NiJ9.ey¦JzdWIiOiIxMjM0In0.c2ln", "session_[redacted]"),
        ("heyey¦JhbGciOiJIUzI1NiJ9.ey¦JzdWIiOiIxMjM0In0.c2ln", "h[redacted]"),
        ("cs¦_agent_01j9zq6w3v5k8m2n4p7r9s1t3v", "[redacted]"),
        ("cs¦_hook_q7-Zk2_9xLr4Vn8-Tb3_Yw6Mc1-Fh5_Js0Dp7Ga2eR", "[redacted]"),
        ("cs¦_0123456789abcdef0123456789abcdef", "[redacted]"),
        ("postgres://app:s3cr3t@db:5432/x", "postgres://[redacted]@db:5432/x"),
        ("redis://:s3cr3t@cache:6379", "redis://[redacted]@cache:6379"),
        ("https://user:p@ss@host/path@2", "https://[redacted]@host/path@2"),
        (
            "mongodb+srv://u:p%40x@c.example.net/?w=1 and amqp://g:h@i",
            "mongodb+srv://[redacted]@c.example.net/?w=1 and amqp://[redacted]@i",
        ),
        ("GET https://api.example.com/v1?page=2&api_key=abc&limit=5", "GET https://api.example.com/v1?page=2&api_key=[redacted]&limit=5"),
        ("https://example.com/cb#access_token=abc&token_type=bearer", "https://example.com/cb#access_token=[redacted]&token_type=bearer"),
        ("grant_type=password&username=a&password=b", "grant_type=password&username=a&password=[redacted]"),
        ("password=b", "password=[redacted]"),
        ("Server=db;User Id=sa;Password=hunter2;Encrypt=yes", "Server=db;User Id=sa;Password=[redacted];Encrypt=yes"),
        (
            "HOST=a\nexport DB_PASSWORD='hun ter2'\nAPI_KEY=abc # old\nPORT=1",
            "HOST=a\nexport DB_PASSWORD=[redacted]\nAPI_KEY=[redacted] # old\nPORT=1",
        ),
        ("docker run -e API_KEY=abc -e PORT=1 x", "docker run -e API_KEY=[redacted] -e PORT=1 x"),
        ("echo 'API_KEY=abc' >> .env", "echo 'API_KEY=[redacted]' >> .env"),
        ("set API_KEY=abc", "set API_KEY=[redacted]"),
        ("Server=db;Uid=sa;Pwd=hunter2;Encrypt=yes", "Server=db;Uid=sa;Pwd=[redacted];Encrypt=yes"),
        (r#"{"user":"a","password":"hun\"ter2","n":1}"#, r#"{"user":"a","password":"[redacted]","n":1}"#),
        (r#"cut: {"user": "a", "client_secret" : "hunt"#, r#"cut: {"user": "a", "client_secret" : "[redacted]"#),
        (r#"{"body":"{\"token\":\"hunter2\",\"page\":\"2\"}"}"#, r#"{"body":"{\"token\":\"[redacted]\",\"page\":\"2\"}"}"#),
        ("{'user': 'a', 'password': 'hunter2'}", "{'user': 'a', 'password': '[redacted]'}"),
    ] {
        let text = joined(text);
        assert_eq!(redact_text(&text), expected, "{text}");
        check(json!([{ "text": text }]), json!([{ "text": expected }]));
    }
}

#[test]
fn what_is_not_certain_is_left_alone() {
    for text in [
        "",
        " ",
        "hello world",
        "the quick brown fox",
        "Bearer token",
        "bearer tokens are used",
        "Bearer authentication is required.",
        "the bearer of this letter",
        "Bearer token-based auth",
        "bearer responsibilities",
        "Basic authentication",
        "basic understanding of it",
        "Basic plan",
        "Visual Basic program",
        "Basic dGhpcyBpcyB3b3Jkcw==",
        "Authorization: required",
        "authorization: none",
        "?token=bearer",
        "cookie: a small cake",
        "Cookies are used",
        "the AKIA prefix",
        "AKIA123",
        "AKIA-IOSFODNN7EXAMPLE",
        "ASIAPACIFICHEADQUARTERSOFFICE",
        "ghp_short",
        "ghp_",
        "github_pattern_matching",
        "a glpat-x",
        "xoxo-hugs",
        "xoxb-1",
        "sk-SK",
        "sk-learn",
        "task-abcdefghijklmnopqrstuv1",
        "sk-some-long-package-name-with-words",
        "sk_live_",
        "pk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "AIzaShort",
        "npm_config_registry",
        "npm_lifecycle_event=build",
        "npm install",
        "eyJ",
        "eyebrow.raised.twice",
        "eyewitness-account.of-the.accident",
        "eyJub3QiOiJqd3QifQ.eyJzdWIiOiIxIn0.c2ln",
        "1.2.3",
        "www.example.com",
        "cs_",
        "cs_CZ",
        "cs_some_long_identifier_in_a_program",
        "docs_0123456789abcdef0123456789abcdef",
        "metrics_01j9zq6w3v5k8m2n4p7r9s1t3v",
        "https://example.com/a:b@c",
        "http://localhost:8080/x",
        "https://user@example.com/",
        "git@github.com:org/repo.git",
        "mailto:a@b.c",
        "a:b@c",
        "file:///etc/hosts",
        "time 12:30@noon",
        "https://example.com/?page_token=abc&max_tokens=5&author=me",
        "https://example.com/?q=password",
        "a=b&c=d",
        "x = token",
        "MAX_TOKENS=100",
        "AUTHOR=me",
        "SECRET_NAME=prod/db",
        "PATH=/usr/bin",
        "PWD=/root cd .. && OLDPWD=/",
        "password: see the vault",
        "let token = lexer.next();",
        r#"{"max_tokens":"5","author":"me","token_type":"bearer"}"#,
        r#"{"password":5,"token":null}"#,
        "{'author': 'me'}",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----",
        "0123456789abcdef0123456789abcdef01234567",
        "inv_01j9zq6w3v5k8m2n4p7r9s1t3v",
        "tok_01j9zq6w3v5k8m2n4p7r9s1t3v",
        "550e8400-e29b-41d4-a716-446655440000",
        "SG.short.x",
        "[redacted]",
        "lorem@ipsum.example",
        "日本語の文章 🙂",
    ] {
        assert_eq!(redact_text(text), text);
        check(json!({ "text": text, "list": [text] }), json!({ "text": text, "list": [text] }));
    }
}

#[test]
fn what_is_no_text_is_never_taken_out() {
    let value =
        json!({ "password": 5, "token": null, "secret": true, "api_key": { "rotated": 3 }, "cookie": [], "empty": { "password": "" } });
    check(value.clone(), value);
}

#[test]
fn a_collection_of_secrets_is_taken_out_at_any_depth_and_an_object_under_a_secret_key_is_judged_by_its_own_keys() {
    check(
        json!({ "cookies": { "sid": "a", "more": [{ "x": "b" }] }, "secrets": ["c"],
            "password": { "policy": "long", "value": "d", "password": "e" } }),
        json!({ "cookies": { "sid": MARK, "more": [{ "x": MARK }] }, "secrets": [MARK],
            "password": { "policy": "long", "value": "d", "password": MARK } }),
    );
}

#[test]
fn the_value_of_a_named_pair_is_judged_by_its_name() {
    check(
        json!({ "headers": [{ "name": "X-Api-Key", "value": "a" }, { "name": "accept", "value": "b" },
            { "key": "cookie", "value": ["c"] }] }),
        json!({ "headers": [{ "name": "X-Api-Key", "value": MARK }, { "name": "accept", "value": "b" },
            { "key": "cookie", "value": [MARK] }] }),
    );
}

#[test]
fn a_key_that_is_a_secret_is_replaced_and_costs_no_other_member_its_place() {
    let (first, second) = (joined("gh¦p_16C7e42F292c6912E7710c838347Ae178B4a"), joined("gh¦p_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    check(
        json!({ (first): 1, "[redacted] 2": 2, (second): 3, "plain": 4 }),
        json!({ "[redacted]": 1, "[redacted] 2": 2, "[redacted] 3": 3, "plain": 4 }),
    );
}

#[test]
fn what_was_taken_out_is_counted_by_kind() {
    let text = joined("AKIA¦IOSFODNN7EXAMPLE and AKIA¦IOSFODNN7EXAMPLF at postgres://a:b@c");
    let redacted = redact(&json!({ "password": "x", "tokens": [text], "token": ["y", MARK, ""] }));
    assert_eq!(redacted.counts.into_iter().collect::<Vec<_>>(), [("aws_key", 2), ("named", 2), ("url_credentials", 1)]);
}

#[test]
fn a_secret_after_much_that_is_almost_one_is_still_found() {
    const FILLER_BYTES: usize = 300 * 1024;
    let secret = joined("gh¦p_16C7e42F292c6912E7710c838347Ae178B4a");
    for filler in [
        "a",
        "ey",
        "eyJ",
        "eyJhbGciOi.",
        "\"",
        "\"a\":\"",
        "\\\"",
        "'a':'",
        "a://",
        "a://b:c",
        "x:y@",
        "-----BEGIN ",
        "a=b&",
        "?",
        "Bearer ",
        "sk-",
        "cs_",
        "AKIA",
        "\n",
        " ",
        "A=",
        "é",
    ] {
        let text = format!("{} {secret}", filler.repeat(FILLER_BYTES / filler.len()));
        assert!(!redact_text(&text).contains(&secret), "after many {filler:?}");
    }
}

/// Checks that the value becomes `expected`, and that redacting it again changes nothing.
fn check(value: Value, expected: Value) {
    let redacted = redact(&value);
    assert_eq!(redacted.value, expected);
    assert_eq!(redacted.counts.is_empty(), value == expected, "{:?}", redacted.counts);
    assert_eq!(redact(&expected).value, expected);
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

/// A secret that is certain by its form.
fn any_secret() -> impl Strategy<Value = String> {
    prop_oneof![
        "AKIA[A-Z0-9]{16}",
        "gh[opsur]_[A-Za-z0-9]{36}",
        "github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
        "glpat-[A-Za-z0-9_-]{20}",
        "xox[bpars]-[0-9]{12}-[A-Za-z0-9]{24}",
        "[sr]k_live_[A-Za-z0-9]{24}",
        "sk-ant-api03-[A-Za-z0-9_-]{93}AA",
        "sk-[a-z]{10}[0-9][A-Za-z0-9]{37}",
        "AIza[A-Za-z0-9_-]{35}",
        "npm_[A-Za-z0-9]{36}",
        "cs_[a-z]{4,8}_[a-z]{12}[0-9][a-z0-9]{13}",
        "eyJhbGciOiJIUzI1NiJ9\\.eyJ[A-Za-z0-9_-]{20,40}\\.[A-Za-z0-9_-]{43}",
        "-----BEGIN (RSA )?PRIVATE KEY-----\n[A-Za-z0-9+/]{20,60}\n-----END (RSA )?PRIVATE KEY-----",
    ]
}

/// Texts in which rules meet, overlap and break off.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "password",
            "token",
            "api_key",
            "\"",
            "\\\"",
            "'",
            ":",
            ": ",
            "=",
            "&",
            "?",
            "#",
            ";",
            "; ",
            "://",
            "@",
            "/",
            "\n",
            " ",
            ".",
            "\\",
            "a",
            "B7",
            "Bearer ",
            "Basic ",
            "dXNlcjpwYXNz",
            "Authorization: ",
            "Cookie: ",
            "a=b",
            "SECRET=",
            "export ",
            "https",
            "user",
            "ghp_",
            "AKIA",
            "ASIA",
            "eyJhbGciOiJIUzI1NiJ9",
            "ey",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "sk-",
            "cs_",
            "[redacted]",
            "[redacted",
            "]",
            "hooks.slack.com/services/",
            "é",
        ])
        .prop_map(str::to_owned),
        "[A-Za-z0-9]{1,40}",
        any_secret(),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

fn any_json(text: impl Strategy<Value = String> + Clone + 'static) -> impl Strategy<Value = Value> {
    let key = prop_oneof![text.clone(), prop::sample::select(vec!["password", "cookies", "name", "value", "text"]).prop_map(str::to_owned)];
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), any::<i64>().prop_map(Value::from), text.prop_map(Value::from)];
    leaf.prop_recursive(3, 16, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn redaction_always_keeps_the_shape(value in any_json(any_text().boxed())) {
        prop_assert!(same_shape(&redact(&value).value, &value));
    }

    #[test]
    fn redacting_twice_is_always_redacting_once(value in any_json(any_text().boxed())) {
        let once = redact(&value).value;
        let twice = redact(&once);
        prop_assert_eq!(&twice.value, &once);
        prop_assert!(twice.counts.is_empty());
    }

    #[test]
    fn a_planted_secret_never_remains(
        secret in any_secret(),
        before in "[^A-Za-z0-9_]{0,20}|(?s).{0,20}[ \n\"'(,:=/>]",
        after in "[ \n\"'),;<&].{0,20}|",
        value in any_json("[a-z]{0,8}".boxed()),
        place in 0..4usize,
    ) {
        let text = format!("{before}{secret}{after}");
        let planted = match place {
            0 => json!([value, text]),
            1 => json!({ "a": value, "text": { "deep": [text] } }),
            2 => json!({ "a": { (text): value } }),
            _ => json!({ "body": json!({ "inner": text }).to_string() }),
        };
        let printed = redact(&planted).value.to_string();
        let escaped = Value::from(secret.clone()).to_string();
        prop_assert!(!printed.contains(secret.as_str()) && !printed.contains(escaped.trim_matches('"')), "{}", printed);
    }

    #[test]
    fn a_secret_under_a_telling_key_never_remains(
        secret in "[A-Za-z0-9!$%/+_. -]{9,40}",
        key in prop::sample::select(vec!["password", "api_key", "clientSecret", "Authorization", "set-cookie", "private_key"]),
        nested in any::<bool>(),
    ) {
        let value = if nested { json!({ "request": { "body": json!({ key: secret }).to_string() } }) } else { json!([{ key: [secret] }]) };
        let printed = redact(&value).value.to_string();
        prop_assert!(!printed.contains(secret.as_str()), "{}", printed);
    }
}
