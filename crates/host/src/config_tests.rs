use super::*;

fn load(flags: Flags, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::load(flags, env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.toml");
    std::fs::write(
        &file,
        "listen = \"127.0.0.1:3\"\n[limits]\ninvocations_per_minute = 7\nspace_invocations_per_minute = 9\n[http]\nallowed_hosts = [\"api.example.com\"]\n",
    )
    .unwrap();
    let config = Some(file);
    let from_file = load(Flags { config: config.clone(), ..Flags::default() }, &[]).unwrap();
    assert_eq!(
        (from_file.listen.as_str(), from_file.invocations_per_minute),
        ("127.0.0.1:3", RateLimits { session: 7, person: None, space: Some(9) })
    );
    assert_eq!(from_file.http_allowed_hosts.len(), 1);
    let env = [("COUNTERSIGN_LISTEN", "127.0.0.1:2"), ("COUNTERSIGN_TOKEN", "for the command line")];
    let from_env = load(Flags { config: config.clone(), ..Flags::default() }, &env).unwrap();
    assert_eq!(from_env.listen, "127.0.0.1:2");
    let from_flag = load(Flags { config, listen: Some("127.0.0.1:1".into()), ..Flags::default() }, &env).unwrap();
    assert_eq!(from_flag.listen, "127.0.0.1:1");
}

#[test]
fn an_unknown_key_is_an_error_wherever_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["lisen = \"x\"", "[limits]\nper_minute = 3", "[nonsense]", "listen = 7"] {
        let file = folder.path().join("bad.toml");
        std::fs::write(&file, text).unwrap();
        let error = load(Flags { config: Some(file), ..Flags::default() }, &[]).unwrap_err();
        assert!(matches!(error, ConfigError::Invalid { .. }), "{text}: {error}");
    }
    let error = load(Flags::default(), &[("COUNTERSIGN_LISTENN", "x")]).unwrap_err();
    assert!(error.to_string().contains("COUNTERSIGN_LISTENN") && error.to_string().contains("COUNTERSIGN_LISTEN,"), "{error}");
}

#[test]
fn what_the_parts_of_a_reward_count_is_the_operators_to_say() {
    let weights = |env: &[_]| load(Flags::default(), env).unwrap().reward_weights;
    assert_eq!(weights(&[]), RewardWeights { success: 600_000, quality: 300_000, cost: 50_000, latency: 50_000 });
    let set = [("COUNTERSIGN_REWARD_WEIGHTS", "quality=0, latency = 0.25")];
    assert_eq!(weights(&set), RewardWeights { success: 600_000, quality: 0, cost: 50_000, latency: 250_000 });
}

#[test]
fn values_that_make_no_sense_are_named() {
    for (name, value) in [
        ("COUNTERSIGN_INVOCATIONS_PER_MINUTE", "many"),
        ("COUNTERSIGN_PERSON_INVOCATIONS_PER_MINUTE", "-1"),
        ("COUNTERSIGN_MAX_SOURCES", "many"),
        ("COUNTERSIGN_MAX_SOURCES", "1001"),
        ("COUNTERSIGN_LOG_FORMAT", "xml"),
        ("COUNTERSIGN_ALLOW_DEGRADED", "yes"),
        ("COUNTERSIGN_LOG_LEVEL", "loud"),
        ("COUNTERSIGN_LOG_LEVEL", "info,store=loud"),
        ("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "10.0.0.0/99"),
        ("COUNTERSIGN_HTTP_ALLOWED_HOSTS", "not a host"),
        ("COUNTERSIGN_PACKAGE_ALLOWED_HOSTS", "https://example.com/path"),
        ("COUNTERSIGN_PACKAGE_ALLOWED_NETWORKS", "10.0.0.0/99"),
        ("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", "https://example.com/path"),
        ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", "10.0.0.0/99"),
        ("COUNTERSIGN_TRUSTED_PROXIES", "10.0.0.1"),
        ("COUNTERSIGN_PROXY_HEADERS", "x-forwarded-for, x-real-ip"),
        ("COUNTERSIGN_TLS_CERT", "/a/certificate/without/a/key"),
        ("COUNTERSIGN_TLS_KEY", "/a/key/without/a/certificate"),
        ("COUNTERSIGN_PUBLIC_URL", "countersign.example.com"),
        ("COUNTERSIGN_PUBLIC_URL", "https://"),
        ("COUNTERSIGN_PUBLIC_URL", "https://countersign.example.com/?x"),
        ("COUNTERSIGN_REWARD_WEIGHTS", "success"),
        ("COUNTERSIGN_REWARD_WEIGHTS", "beauty=0.5"),
        ("COUNTERSIGN_REWARD_WEIGHTS", "success=1.5"),
        ("COUNTERSIGN_REWARD_WEIGHTS", "success=NaN"),
        ("COUNTERSIGN_EMAIL_SERVER", "smtps://mail.example.com"),
        ("COUNTERSIGN_EMAIL_FROM", "countersign@example.com"),
        ("COUNTERSIGN_EMAIL_USERNAME", "a user without a password"),
        ("COUNTERSIGN_EMAIL_PASSWORD_FILE", "/a/password/without/a/user"),
        ("COUNTERSIGN_EMAIL_ALLOWED_SERVERS", "mail.example.com"),
    ] {
        assert!(matches!(load(Flags::default(), &[(name, value)]), Err(ConfigError::InvalidValue { .. })), "{name}={value}");
    }
    assert!(load(Flags::default(), &[("COUNTERSIGN_LOG_LEVEL", "info,store=debug")]).is_ok());
    let missing = Flags { config: Some("/nowhere/countersign.toml".into()), ..Flags::default() };
    assert!(matches!(load(missing, &[]), Err(ConfigError::Unreadable { .. })));
}

#[test]
fn the_headers_of_proxies_are_all_or_those_that_are_named() {
    let headers = |env: &[_]| load(Flags::default(), env).unwrap().proxy_headers;
    assert_eq!(headers(&[]), ProxyHeader::ALL);
    let named = headers(&[("COUNTERSIGN_PROXY_HEADERS", "X-Forwarded-For, x-forwarded-proto")]);
    assert_eq!(named, [ProxyHeader::XForwardedFor, ProxyHeader::XForwardedProto]);
}

#[test]
fn what_packages_may_ask_is_said_apart_from_what_we_may() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.toml");
    let text = "package_allowed_hosts = [\"api.example.com\", \"http://10.1.2.3:8080\"]\npackage_allowed_networks = [\"10.1.0.0/16\"]\n";
    std::fs::write(&file, text).unwrap();
    let config = load(Flags { config: Some(file.clone()), ..Flags::default() }, &[]).unwrap();
    let hosts: Vec<_> = config.package_allowed_hosts.iter().map(ToString::to_string).collect();
    assert_eq!((hosts, config.package_allowed_networks.len()), (vec!["api.example.com".into(), "http://10.1.2.3:8080".into()], 1));
    assert!(config.http_allowed_hosts.is_empty() && config.http_allowed_networks.is_empty());
    let env = [("COUNTERSIGN_PACKAGE_ALLOWED_HOSTS", "one.example.com, two.example.com"), ("COUNTERSIGN_PACKAGE_ALLOWED_NETWORKS", "")];
    let config = load(Flags { config: Some(file), ..Flags::default() }, &env).unwrap();
    assert_eq!((config.package_allowed_hosts.len(), config.package_allowed_networks.len()), (2, 0));
}

#[test]
fn what_connections_may_reach_and_where_people_come_back_to_is_the_operators_to_say() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.toml");
    let text = "source_allowed_hosts = [\"mcp.example.com\"]\nsource_allowed_networks = [\"10.1.0.0/16\"]\npublic_url = \"https://cs.example.com/\"\n";
    std::fs::write(&file, text).unwrap();
    let config = load(Flags { config: Some(file), ..Flags::default() }, &[]).unwrap();
    assert_eq!((config.source_allowed_hosts.len(), config.source_allowed_networks.len()), (1, 1));
    assert_eq!(config.public_url.as_deref(), Some("https://cs.example.com"));
    assert!(config.http_allowed_hosts.is_empty() && config.package_allowed_hosts.is_empty());
    let config = load(Flags::default(), &[("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", "a.example.com, b.example.com")]).unwrap();
    assert_eq!((config.source_allowed_hosts.len(), config.public_url, config.slack_api_url), (2, None, None));
    let config = load(Flags::default(), &[("COUNTERSIGN_SLACK_API_URL", "https://slack.internal/api/")]).unwrap();
    assert_eq!(config.slack_api_url.as_deref(), Some("https://slack.internal/api"));
    let refused = load(Flags::default(), &[("COUNTERSIGN_SLACK_API_URL", "slack.internal")]).unwrap_err().to_string();
    assert!(refused.contains("`slack_api_url` is not valid"), "{refused}");
    for (address, network) in [("127.0.0.1", "`127.0.0.1/32`"), ("::1", "`::1/128`")] {
        let refused = load(Flags::default(), &[("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", address)]).unwrap_err().to_string();
        assert!(refused.contains(&format!("write {network}")), "{refused}");
    }
}

#[test]
fn less_isolation_is_taken_only_where_an_operator_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.toml");
    std::fs::write(&file, "allow_degraded = true\n").unwrap();
    let flags = || Flags { config: Some(file.clone()), ..Flags::default() };
    let elsewhere = Flags { data: Some(folder.path().join("data")), ..Flags::default() };
    assert!(!load(elsewhere.clone(), &[]).unwrap().allow_degraded);
    assert!(load(flags(), &[]).unwrap().allow_degraded);
    assert!(!load(flags(), &[("COUNTERSIGN_ALLOW_DEGRADED", "false")]).unwrap().allow_degraded);
    assert!(load(elsewhere, &[("COUNTERSIGN_ALLOW_DEGRADED", "true")]).unwrap().allow_degraded);
}

#[test]
fn which_programs_are_mcp_servers_is_said_in_the_file_and_checked_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.toml");
    let loaded = |text: &str| {
        std::fs::write(&file, text).unwrap();
        load(Flags { config: Some(file.clone()), ..Flags::default() }, &[])
    };
    let all = "max_sources = 3\n[[mcp_commands]]\ncommand = [\"node\", \"/opt/mcp/index.js\", \"/stage\"]\nreadable = [\"/opt/mcp\"]\n\
               env = [\"LOG_LEVEL\"]\nhosts = [\"https://api.github.com\"]\nworkspace = true\nmemory_mb = 256\nopen_files = 4096\nfolder_mb = 8\nstart_seconds = 90\n";
    let config = loaded(all).unwrap();
    let program = &config.mcp_commands[0];
    assert_eq!((config.max_sources, program.command.len(), program.memory_mb, program.workspace), (3, 3, 256, true));
    assert_eq!((program.open_files, program.folder_mb, program.start_seconds), (4096, Some(8), 90));
    assert_eq!(program.hosts[0].to_string(), "api.github.com");
    let bare = loaded("[[mcp_commands]]\ncommand = [\"kit\"]\n").unwrap();
    let program = &bare.mcp_commands[0];
    assert_eq!((bare.max_sources, program.memory_mb, program.workspace, program.readable.len()), (20, 512, false, 0));
    assert_eq!((program.open_files, program.folder_mb, program.start_seconds), (1024, None, 60));
    for (text, words) in [
        ("[[mcp_commands]]\n", "command"),
        ("[[mcp_commands]]\ncommand = [\"npx\", \"-y\", \"kit\"]\n", "names no version"),
        ("[[mcp_commands]]\ncommand = [\"kit\"]\nopen_files = 1\n", "`open_files` must be"),
        ("[[mcp_commands]]\ncommand = [\"kit\"]\nnetwork = true\n", "network"),
        ("[[mcp_commands]]\ncommand = [\"kit\"]\nhosts = [\"*\"]\n", "`*` is not a host rule"),
        ("[[mcp_commands]]\ncommand = []\n", "`mcp_commands[0]` is not valid: `command` names no program"),
        ("[[mcp_commands]]\ncommand = [\"a\"]\n[[mcp_commands]]\ncommand = [\"a\"]\n", "`mcp_commands[1]` is not valid: an earlier one"),
        ("[[mcp_commands]]\ncommand = [\"kit\"]\nreadable = [\"/\"]\n", "in `readable`"),
        ("max_sources = 5000\n", "`max_sources` is not valid: 5000 is more than 1000"),
    ] {
        let error = loaded(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn each_queue_has_its_own_workers() {
    let workers = |env: &[_]| {
        load(Flags::default(), env)
            .map(|config| config.workers.queues().map(|(queue, workers)| format!("{queue} {workers}")).collect::<Vec<_>>())
    };
    assert_eq!(workers(&[]).unwrap(), ["fast 16", "long 4", "medium 16"]);
    let set = [("COUNTERSIGN_WORKERS_FAST", "2"), ("COUNTERSIGN_WORKERS_LONG", "0"), ("COUNTERSIGN_WORKERS_GPU", "1")];
    assert_eq!(workers(&set).unwrap(), ["fast 2", "gpu 1", "long 0", "medium 16"]);
    let error = workers(&[("COUNTERSIGN_WORKERS_AUTO", "1")]).unwrap_err().to_string();
    assert!(error.starts_with("`workers.auto` is not valid"), "{error}");
    let error = workers(&[("COUNTERSIGN_WORKERS_MEDIUM", "5000")]).unwrap_err().to_string();
    assert_eq!(error, "`workers.medium` is not valid: 5000 is more than 1000");
}

#[test]
fn artifacts_are_in_the_data_folder_or_in_a_bucket_that_is_said_whole() {
    assert!(load(Flags::default(), &[]).unwrap().artifacts.bucket.is_none());
    let named = [
        ("COUNTERSIGN_ARTIFACTS_URL", "s3://reports.example/countersign/one/"),
        ("COUNTERSIGN_ARTIFACTS_ENDPOINT", "http://127.0.0.1:9000/"),
        ("COUNTERSIGN_ARTIFACTS_ACCESS_KEY_ID", "key"),
        ("COUNTERSIGN_ARTIFACTS_SECRET_ACCESS_KEY", "canary-7731"),
    ];
    let bucket = load(Flags::default(), &named).unwrap().artifacts.bucket.unwrap();
    assert_eq!((bucket.name.as_str(), bucket.prefix.as_str()), ("reports.example", "countersign/one"));
    assert_eq!(bucket.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
    assert!(matches!(bucket.login.as_ref().unwrap().secret, KeySecret::Text(_)));
    assert!(!format!("{bucket:?}").contains("7731"));
    for (env, words) in [
        (vec![("COUNTERSIGN_ARTIFACTS_URL", "https://bucket.example.com")], "`s3://bucket/prefix`"),
        (vec![("COUNTERSIGN_ARTIFACTS_URL", "s3://a")], "3 to 63"),
        (vec![("COUNTERSIGN_ARTIFACTS_URL", "s3://bucket/../x")], "a prefix has"),
        (vec![("COUNTERSIGN_ARTIFACTS_ENDPOINT", "http://127.0.0.1:9000")], "`artifacts.url`"),
        (named[..3].to_vec(), "`artifacts.access_key_id`"),
    ] {
        let error = load(Flags::default(), &env).unwrap_err().to_string();
        assert!(error.contains(words), "{env:?}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.toml");
    std::fs::write(&file, "[artifacts]\nurl = \"s3://bucket\"\nregion = \"eu-central-1\"\n").unwrap();
    let bucket = load(Flags { config: Some(file.clone()), ..Flags::default() }, &[]).unwrap().artifacts.bucket.unwrap();
    assert_eq!((bucket.name.as_str(), bucket.prefix.as_str(), bucket.region.as_deref()), ("bucket", "", Some("eu-central-1")));
    std::fs::write(&file, "[artifacts]\nurl = \"s3://bucket\"\nsecret_access_key = \"in the file\"\n").unwrap();
    assert!(load(Flags { config: Some(file), ..Flags::default() }, &[]).is_err(), "a file of settings is no place for a secret");
}

#[test]
fn mail_goes_through_the_server_that_is_named_and_a_password_over_tls_only() {
    let config = load(Flags::default(), &[]).unwrap();
    assert!(config.email.sender.is_none() && config.email.allowed_servers.is_empty());
    let named = [
        ("COUNTERSIGN_EMAIL_SERVER", "smtp://mail.example.com"),
        ("COUNTERSIGN_EMAIL_FROM", "countersign@example.com"),
        ("COUNTERSIGN_EMAIL_USERNAME", "countersign"),
        ("COUNTERSIGN_EMAIL_PASSWORD_FILE", "/run/secrets/mail"),
        ("COUNTERSIGN_EMAIL_ALLOWED_SERVERS", "smtps://a.example.com, smtp://127.0.0.1:25?tls=none"),
    ];
    let email = load(Flags::default(), &named).unwrap().email;
    let sender = email.sender.unwrap();
    assert_eq!(
        (sender.server.to_string().as_str(), sender.from.to_string().as_str()),
        ("smtp://mail.example.com:587", "countersign@example.com")
    );
    assert_eq!(sender.login.unwrap().username, "countersign");
    assert_eq!(email.allowed_servers.len(), 2);
    for (at, value) in [(0, "http://mail.example.com"), (0, "smtp://mail.example.com?tls=none"), (1, "Countersign <a@example.com>")] {
        let mut wrong = named;
        wrong[at].1 = value;
        assert!(matches!(load(Flags::default(), &wrong), Err(ConfigError::InvalidValue { .. })), "{value}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mail.toml");
    std::fs::write(&file, "[email]\nserver = \"smtps://mail.example.com\"\nfrom = \"countersign@example.com\"\n").unwrap();
    let from_file = load(Flags { config: Some(file), ..Flags::default() }, &[]).unwrap();
    assert_eq!(from_file.email.sender.unwrap().server.to_string(), "smtps://mail.example.com:465");
}

#[test]
fn where_people_sign_in_is_said_whole_or_not_at_all() {
    assert!(load(Flags::default(), &[]).unwrap().oidc.is_none());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.toml");
    let loaded = |text: &str, env: &[(&str, &str)]| {
        std::fs::write(&file, text).unwrap();
        load(Flags { config: Some(file.clone()), ..Flags::default() }, env)
    };
    let whole = "[oidc]\nissuer = \"https://login.example.com/realms/a\"\nclient_id = \"countersign\"\nclient_secret_file = \"/run/secrets/oidc\"\n\
                 [oidc.roles]\n\"cn=ops,ou=a\" = \"admin\"\n";
    let oidc = loaded(whole, &[]).unwrap().oidc.unwrap();
    assert_eq!(
        (oidc.name.as_str(), oidc.groups_claim.as_str(), oidc.scopes.join(" ").as_str()),
        ("login.example.com", "groups", "openid profile email")
    );
    assert_eq!(oidc.roles["cn=ops,ou=a"], countersign_core::principal::Role::Admin);
    assert!(matches!(oidc.client_secret, Some(ClientSecret::File(_))));
    let env = [
        ("COUNTERSIGN_OIDC_NAME", "Example SSO"),
        ("COUNTERSIGN_OIDC_CLIENT_SECRET", "canary-7731"),
        ("COUNTERSIGN_OIDC_SCOPES", "groups"),
        ("COUNTERSIGN_OIDC_ROLES", "a=b=viewer, ops = owner"),
    ];
    let oidc = loaded(whole, &env).unwrap().oidc.unwrap();
    assert_eq!((oidc.name.as_str(), oidc.scopes.join(" ").as_str()), ("Example SSO", "openid groups"));
    assert_eq!(oidc.roles.keys().collect::<Vec<_>>(), ["a=b", "ops"]);
    assert!(matches!(oidc.client_secret, Some(ClientSecret::Text(_))));
    assert!(!format!("{oidc:?}").contains("7731"));
    for (text, env, named) in [
        ("[oidc]\nclient_id = \"x\"\n", None, "`oidc.issuer`"),
        ("[oidc]\nissuer = \"https://a.example.com\"\n[oidc.roles]\na = \"admin\"\n", None, "`oidc.client_id`"),
        ("[oidc]\nissuer = \"https://a.example.com\"\nclient_id = \"x\"\n", None, "`oidc.roles`"),
        (whole, Some(("COUNTERSIGN_OIDC_ROLES", "ops=root")), "`root` is not one of viewer, member"),
        (whole, Some(("COUNTERSIGN_OIDC_ROLES", "ops")), "such as `ops=admin`"),
        (whole, Some(("COUNTERSIGN_OIDC_ALLOWED_HOSTS", "not a host")), "`oidc.allowed_hosts`"),
        ("[oidc]\nclient_secret = \"in the file\"\n", None, "client_secret"),
    ] {
        let error = loaded(text, env.as_slice()).unwrap_err().to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
}
