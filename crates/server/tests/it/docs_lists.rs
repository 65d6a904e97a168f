//! Compares what the docs list with what there is: a name that is on one side only fails here, and the message says where it is missing.

use api::Code;
use api::compat::announced;
use api::event_types::event_types;
use countersign_core::action::Class;
use countersign_core::principal::{Permission, Role};
use countersign_core::source::Source as _;
use countersign_core::{Action, AutomationId, OrgId, Principal, PrincipalId, SessionId, Status, Tier, Timestamp, TokenId, UserId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OPENAPI: &str = include_str!("../golden/openapi.json");

type Names = BTreeSet<String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("`{path}`: {error}"))
}

/// Every file below a folder whose name ends so, by its path from the root of the repository.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&path, ending));
        } else if path.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// What stands between two texts of a page.
fn between<'p>(page: &str, text: &'p str, begin: &str, end: &str) -> &'p str {
    let rest = text.split_once(begin).unwrap_or_else(|| panic!("`{page}` has no “{begin}”")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("`{page}` has no “{end}” after “{begin}”")).0
}

/// The words in backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of each row of the tables in a text, without heads and lines.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<_> = text.lines().collect();
    let is_line = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("|--"));
    let rows = (0..lines.len()).filter(|at| lines[*at].starts_with("| ") && !is_line(at + 1));
    rows.map(|at| lines[at].trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[track_caller]
fn same(page: &str, what: &str, listed: &Names, there: &Names) {
    let lacks: Vec<_> = there.difference(listed).collect();
    let has_too_many: Vec<_> = listed.difference(there).collect();
    assert!(lacks.is_empty() && has_too_many.is_empty(), "{what}: `{page}` lacks {lacks:?}, and has what does not exist: {has_too_many:?}");
}

fn names<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Names {
    names.into_iter().map(Into::into).collect()
}

/// Every builtin action, by its id.
async fn builtin_actions() -> BTreeMap<String, Arc<Action>> {
    let org = OrgId::new(Timestamp::from_micros(0), [0; 10]);
    let mut all = sources::builtin::definitions().unwrap();
    all.extend(runs::Builtin::new().unwrap().list(&org).await.unwrap());
    all.into_iter().map(|action| (action.id.to_string(), action)).collect()
}

#[tokio::test]
async fn the_builtin_actions_stand_where_the_docs_list_them() {
    let actions = builtin_actions().await;
    let ids = names(actions.keys().cloned());

    let page = "docs/concepts/modes-and-decisions.md";
    let text = read(page);
    for row in rows(between(page, &text, "## Tier and class", "## The cascade")) {
        let tier = Tier::parse(row[0]).unwrap();
        let mode = match tier.class() {
            Class::Read => "`allow`",
            Class::Write => "`require_approval`",
            Class::Danger => "`deny`",
        };
        assert_eq!((row[2], row[3]), (tier.class().as_str(), mode), "{page}: {tier}");
    }

    let mut listed = Names::new();
    for page in ["docs/concepts/files-and-http.md", "docs/concepts/documents.md"] {
        let text = read(page);
        for row in rows(&text).into_iter().filter(|row| row.get(1).is_some_and(|tier| Tier::parse(tier).is_some())) {
            let id = words(row[0]).next().unwrap();
            let tier = actions.get(id).map(|action| action.tier);
            assert_eq!(tier.map(Tier::as_str), Some(row[1]), "{page}: {id}");
            assert_eq!(row[2], if tier.map(Tier::class) == Some(Class::Read) { "runs" } else { "asks" }, "{page}: {id}");
            listed.insert(id.to_owned());
        }
    }
    same("docs/concepts/files-and-http.md` or `documents.md", "builtin actions", &listed, &ids);

    let page = "docs/concepts/idempotency.md";
    let text = read(page);
    let automatic = rows(between(page, &text, "## Automatic keys", "## When a call that failed"));
    let listed = automatic.iter().map(|row| format!("{} {}", words(row[0]).next().unwrap(), Vec::from_iter(words(row[1])).join(" ")));
    let there = actions.values().filter(|action| !action.idempotency_key_fields.is_empty());
    let there = there.map(|action| format!("{} {}", action.id, action.idempotency_key_fields.join(" ")));
    same(page, "actions with automatic keys", &names(listed), &names(there));

    let sources = names(actions.values().map(|action| action.id.source().to_owned()));
    let page = "docs/concepts/files-and-http.md";
    let listed = between(page, &read(page), "These sources come with the server:", ". They").to_owned();
    same(page, "builtin sources", &names(words(&listed)), &sources);
}

/// Names in backticks; one that begins with a dot goes on from the one before it.
fn dotted(text: &str) -> Names {
    let (mut found, mut before) = (Names::new(), "");
    for word in words(text) {
        if word.starts_with('.') {
            found.insert(format!("{before}{word}"));
        } else if let Some((begin, _)) = word.rsplit_once('.') {
            before = begin;
            found.insert(word.to_owned());
        }
    }
    found
}

fn our_events() -> Names {
    names(event_types().into_iter().map(|of| of.name))
}

#[test]
fn the_events_are_those_that_the_docs_list() {
    let page = "docs/concepts/live-stream.md";
    let text = read(page);
    let told = between(page, &text, "## What is told", "A name that begins with a dot");
    let listed = rows(told).into_iter().flat_map(|row| dotted(row[0]));
    same(page, "events", &listed.collect(), &our_events());

    let older = rows(between(page, &text, "under the name that an older contract has for them", "Ignore the names"));
    let listed = older.iter().flat_map(|row| words(row[0]).map(|ours| format!("{ours} {} {}", row[1], row[2])).collect::<Vec<_>>());
    let there = Status::ALL.into_iter().filter_map(|status| Some((status.event_name(), announced(status)?)));
    let there = there.map(|(ours, older)| format!("{ours} `{}` `{}`", older.name, older.status));
    let executed = "action.executed `ACTION_EXECUTED` `ok`, `error`, `skipped`, `quarantined`".to_owned();
    same(page, "older names of events", &names(listed), &names(there.chain([executed])));
}

/// Every metric of the product with its labels, as `name{label,label}`.
fn metrics() -> Names {
    let mut found = Names::new();
    let sources =
        fs::read_dir(root().join("crates")).unwrap().map(|entry| format!("crates/{}/src", entry.unwrap().file_name().to_str().unwrap()));
    for path in sources.flat_map(|folder| files(&folder, ".rs")) {
        let text = read(&path);
        for made in ["metrics::counter!(", "metrics::gauge!(", "metrics::histogram!("].iter().flat_map(|made| text.split(*made).skip(1)) {
            let (mut open, mut end) = (1, made.len());
            for (at, sign) in made.char_indices() {
                open += i32::from(sign == '(') - i32::from(sign == ')');
                if open == 0 {
                    end = at;
                    break;
                }
            }
            let parts: Vec<_> = made[..end].split('"').collect();
            let name = parts.get(1).unwrap_or_else(|| panic!("`{path}`: the name of a metric is not written out"));
            let labels = parts.windows(2).filter(|part| part[1].trim_start().starts_with("=>")).map(|part| part[0]);
            let labels = labels.collect::<Vec<_>>().join(",");
            found.insert(if labels.is_empty() { (*name).to_owned() } else { format!("{name}{{{labels}}}") });
        }
    }
    assert!(found.len() > 30, "{found:?}");
    found
}

#[test]
fn the_metrics_are_those_that_the_docs_list() {
    let page = "docs/guides/configuration.md";
    let text = read(page);
    let listed = rows(between(page, &text, "## Metrics", "## Several servers"));
    same(page, "metrics", &names(listed.iter().flat_map(|row| words(row[0]))), &metrics());
    let known: Names = metrics().iter().map(|metric| metric.split('{').next().unwrap().to_owned()).collect();
    for page in pages() {
        let text = read(&page);
        let named = words(&text).filter(|word| word.starts_with("countersign_")).map(|word| word.split('{').next().unwrap());
        let named = named.filter(|name| name.ends_with("_total") || name.ends_with("_seconds"));
        let unknown: Vec<_> = named.filter(|name| !known.contains(*name)).collect();
        assert!(unknown.is_empty(), "`{page}` names metrics that do not exist: {unknown:?}");
    }
}

/// The names that an error message lists in backticks after “expected”.
fn expected(refused: &str) -> Names {
    names(words(refused.split_once("expected").unwrap_or_else(|| panic!("{refused}")).1))
}

/// What the file of settings may have at this place.
fn keys(table: &str) -> Names {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("countersign.toml");
    fs::write(&file, format!("{table}\nnonsense = 1\n")).unwrap();
    let flags = server::Flags { config: Some(file), ..server::Flags::default() };
    expected(&server::Config::load(flags, std::iter::empty()).unwrap_err().to_string())
}

/// The variables that there are, if this one is refused as unknown.
fn refused_variable(name: &str) -> Option<String> {
    let named = [(name.to_owned(), "1".to_owned())].into_iter();
    let loaded = server::Config::load(server::Flags::default(), named);
    if let Err(server::ConfigError::UnknownVariable { known, .. }) = loaded { Some(known) } else { None }
}

#[test]
fn the_settings_are_those_that_the_docs_list() {
    let page = "docs/guides/configuration.md";
    let text = read(page);
    let named = text.split(|sign: char| !(sign.is_ascii_uppercase() || sign.is_ascii_digit() || sign == '_'));
    let named: Names = named.filter(|name| name.starts_with("COUNTERSIGN_") && !name.ends_with('_')).map(str::to_owned).collect();
    let there = refused_variable("COUNTERSIGN_NONSENSE").unwrap();
    for variable in there.split(", ") {
        let begin = variable.trim_end_matches('…');
        assert!(named.iter().any(|name| name == variable || begin != variable && name.starts_with(begin)), "`{page}` lacks `{variable}`");
    }
    for variable in &named {
        assert!(refused_variable(variable).is_none(), "`{page}` has `{variable}`, which the server does not know");
    }
    // What the command line reads is named here or on its own page, and the server ignores nothing else.
    let own = format!("{text}{}", read("docs/guides/command-line.md"));
    let read_by_cli = files("crates/commands/src", ".rs").iter().flat_map(|path| variables_in(&read(path))).collect::<Names>();
    for variable in read_by_cli.iter().filter(|variable| *variable != "COUNTERSIGN_COMPLETE") {
        assert!(own.contains(&format!("`{variable}`")), "neither `{page}` nor `docs/guides/command-line.md` has `{variable}`");
    }
    let config = read("crates/host/src/config.rs");
    let ignored = between("crates/host/src/config.rs", &config, "const CLIENT_VARIABLES: &[&str] = &[", "]").split('"').skip(1).step_by(2);
    let told = between(page, &text, "Lists in variables are separated by commas. ", "are settings of the command line");
    same(page, "variables of the command line", &names(words(told)), &names(ignored.map(|name| format!("COUNTERSIGN_{name}"))));
    let unread: Vec<_> = words(told).filter(|variable| !read_by_cli.contains(*variable)).collect();
    assert!(unread.is_empty(), "the command line reads no {unread:?}");

    let help = commands();
    let own = between("the help of `serve`", &help["serve"], "Options:", "-h, --help");
    let flags = own.lines().filter_map(|line| line.trim_start().strip_prefix("--")?.split(' ').next()).map(|flag| format!("--{flag}"));
    let flags: Names = flags.collect();
    let cell = |name: Option<String>| name.map_or_else(|| "–".to_owned(), |name| format!("`{name}`"));
    let row = |setting: server::DescribedSetting| {
        let flag = setting.key.as_ref().map(|key| format!("--{}", key.replace('_', "-"))).filter(|flag| flags.contains(flag));
        let variable = setting.variable.map(|variable| format!("COUNTERSIGN_{variable}"));
        format!("| {} | {} | {} | {} | {} |\n", setting.what, cell(flag), cell(variable), cell(setting.key), setting.default)
    };
    let there: String = server::Config::described().into_iter().map(row).collect();
    let table = between(page, &text, "| setting |", "\nA host in one of these lists");
    // The first two say where the others are.
    let first = table.match_indices('\n').nth(3).unwrap().0 + 1;
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(root().join(page), text.replace(&table[first..], &there)).unwrap();
    } else {
        assert_eq!(&table[first..], there, "`{page}`: UPDATE_EXPECT=1 writes the table");
    }
    let listed = rows(table).iter().flat_map(|row| words(row[1])).map(str::to_owned).collect();
    same(page, "flags of `serve`", &listed, &flags);

    for (heading, table, end) in [("[oidc]\n", "[oidc]", "[oidc.roles]"), ("[[mcp_commands]]\n", "[[mcp_commands]]", "```")] {
        let block = between(page, &text, heading, end);
        let mut listed: Names = block.lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect();
        listed.extend((end == "[oidc.roles]").then(|| "roles".to_owned()));
        same(page, table, &listed, &keys(table));
    }
}

/// The variables of ours that code names in quotes.
fn variables_in(code: &str) -> Names {
    let named = code.split("\"COUNTERSIGN_").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0));
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    names(named.filter(is_name).map(|name| format!("COUNTERSIGN_{name}")))
}

#[test]
fn who_may_do_what_is_what_the_docs_say() {
    let page = "docs/concepts/identity.md";
    let text = read(page);
    let at = Timestamp::from_micros(0);
    let who = |id: PrincipalId, role: Option<Role>| Principal {
        org: OrgId::new(at, [0; 10]),
        id,
        name: "x".into(),
        role,
        owner: None,
        session: None,
        scopes: Permission::ALL.to_vec(),
        token: None,
        device: None,
    };
    let person = |role| who(PrincipalId::User(UserId::new(at, [1; 10])), Some(role));
    let columns = [
        vec![person(Role::Viewer)],
        vec![person(Role::Member)],
        vec![person(Role::Approver)],
        vec![person(Role::Admin), person(Role::Owner)],
        vec![who(PrincipalId::Agent(SessionId::new(at, [2; 10])), None)],
        vec![who(PrincipalId::Service(TokenId::new(at, [3; 10])), None)],
        vec![who(PrincipalId::Automation(AutomationId::new(at, [4; 10])), None)],
    ];
    let mut listed = Names::new();
    for row in rows(between(page, &text, "## Principals", "Some of this takes a person")) {
        let name = words(row[0]).next().unwrap();
        let permission = Permission::parse(name).unwrap_or_else(|| panic!("`{page}` has no permission `{name}`"));
        listed.insert(name.to_owned());
        assert_eq!(row.len(), columns.len() + 1, "{page}: {name}");
        for (said, column) in row[1..].iter().zip(&columns) {
            let may = !["no", "**never**"].contains(said);
            assert!(column.iter().all(|principal| principal.may(permission) == may), "{page}: `{name}`: {said}: {}", column[0].id);
        }
    }
    same(page, "permissions", &listed, &names(Permission::ALL.map(Permission::as_str)));
    let roles = Role::ALL.map(Role::as_str).join(" < ");
    assert!(text.contains(&roles), "`{page}` does not have the roles: {roles}");
}

/// The values of an enumeration of the API.
fn values(schema: &str) -> Names {
    let openapi: Value = serde_json::from_str(OPENAPI).unwrap();
    let values = openapi["components"]["schemas"][schema]["enum"].as_array().unwrap_or_else(|| panic!("`{schema}` is no enumeration"));
    names(values.iter().filter_map(Value::as_str))
}

#[test]
fn a_table_of_words_has_all_of_them() {
    for (page, begin, end, schema) in [
        ("concepts/batches.md", "Each part reports its effect", "A part in doubt", "PartEffect"),
        ("concepts/connections.md", "| kind | sends |", "The value of all", "ConnectionKind"),
        ("concepts/events.md", "| kind | what |", "What is kept of", "LetterKind"),
        ("concepts/grants.md", "| `missed` | |", "## One use", "NearMiss"),
        ("concepts/invocation.md", "| status | means |", "A final status never changes", "Status"),
        ("concepts/modes-and-decisions.md", "| mode | means |", "Of two modes", "Mode"),
        ("concepts/modes-and-decisions.md", "| band | runs without approval |", "A space can be set", "Band"),
        ("concepts/modes-and-decisions.md", "| gate | checks |", "The first four", "Gate"),
        ("concepts/modes-and-decisions.md", "| class | of |", "## Explain", "SafetyClass"),
        ("concepts/observe.md", "| `observed` | |", "\n\n", "Observed"),
        ("concepts/receipts.md", "| kind | means |", "An entry is written", "EntryKind"),
    ] {
        let page = format!("docs/{page}");
        let text = read(&page);
        let cells: Vec<_> = rows(between(&page, &text, begin, end)).iter().map(|row| row[0].replace('`', "")).collect();
        same(&page, schema, &names(cells.iter().flat_map(|cell| cell.split(", "))), &values(schema));
    }
    let page = "docs/concepts/policies.md";
    let text = read(page);
    let groups = words(between(page, &text, "| group | holds |", "## Require approval")).filter_map(|word| word.strip_prefix("effect:"));
    same(page, "Effect", &names(groups), &values("Effect"));
    let page = "docs/concepts/artifacts.md";
    let text = read(page);
    let said = between(page, &text, "## What is said of one", "An agent sees");
    let member = |begin, end| names(words(between(page, said, begin, end)));
    same(page, "ArtifactKind", &member("| `kind` | ", " | "), &values("ArtifactKind"));
    same(page, "ArtifactRetention", &member("| `retention` | ", " | "), &values("ArtifactRetention"));
    same(page, "Visibility", &names(rows(said).iter().skip(2).flat_map(|row| words(row[1]))), &values("Visibility"));
}

/// The words of every command, joined as in `event-dlq-list`, with its help and that of the whole program.
fn commands() -> BTreeMap<String, String> {
    let folder = "crates/commands/tests/golden/help";
    let whole = read(&format!("{folder}/countersign.txt"));
    let groups: String = files(folder, ".txt").iter().map(|path| read(path)).collect();
    let pages = groups.split("=== countersign ").skip(1).map(|page| page.split_once('\n').unwrap());
    pages.map(|(words, help)| (words.replace(' ', "-"), format!("{help}{whole}"))).chain([(String::new(), whole.clone())]).collect()
}

/// Every page of the docs, and those at the root of the repository.
fn pages() -> Vec<String> {
    let mut pages = files("docs", ".md");
    pages.extend(["README.md", "ARCHITECTURE.md"].map(str::to_owned));
    pages
}

#[test]
fn the_commands_that_a_table_of_the_guide_names_exist() {
    let known = commands();
    let page = "docs/guides/command-line.md";
    let text = read(page);
    for row in rows(between(page, &text, "## Control what is allowed", "A policy file is TOML")) {
        let name = words(row[0]).next().unwrap().split(' ').next().unwrap();
        assert!(known.contains_key(name), "{page}: there is no command `{name}`");
    }
}

/// What a heading is called in a link, by the rules of GitHub.
fn anchor(heading: &str) -> String {
    let mut text = heading.trim().replace(['`', '*'], "").to_lowercase();
    while let Some((begin, rest)) = text.split_once('[').filter(|(_, rest)| rest.contains("](")) {
        let (label, rest) = rest.split_once("](").unwrap();
        text = format!("{begin}{label}{}", rest.split_once(')').map_or("", |(_, rest)| rest));
    }
    text.chars().filter(|sign| sign.is_alphanumeric() || "_- ".contains(*sign)).map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

/// The lines of a page that are no code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        is_code ^= line.starts_with("```");
        !is_code && !line.starts_with("```")
    })
}

fn anchors(text: &str) -> Names {
    let headings = prose(text).filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches('#')));
    let named = text.split("<a id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    headings.chain(named).collect()
}

#[test]
fn every_link_leads_to_a_page_and_a_place_on_it() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = read(&page);
        let folder = Path::new(&page).parent().unwrap();
        // A heading that is a link in backticks is none.
        let links = prose(&text).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains(':') && !link.contains(' ') && !link.is_empty()) {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { root().join(&page) } else { root().join(folder).join(file) };
            let leads = path.exists() && (place.is_empty() || fs::read_to_string(&path).is_ok_and(|text| anchors(&text).contains(place)));
            if !leads {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Every key, and every name among the values, of a JSON document: what an API field, one of its values or a schema is called.
fn vocabulary(value: &Value, found: &mut Names) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                found.insert(name.clone());
                vocabulary(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| vocabulary(item, found)),
        // A sentence is a description, and no name.
        Value::String(text) if !text.contains(' ') => {
            found.insert(text.clone());
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[tokio::test]
async fn our_words_beside_those_of_older_contracts_exist() {
    let page = "docs/concepts/words-of-older-contracts.md";
    let text = read(page);
    let openapi: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut known = our_events();
    vocabulary(&openapi, &mut known);
    vocabulary(&automation::definition::schema(), &mut known);
    known.extend(builtin_actions().await.into_keys());
    known.extend(metrics().iter().map(|metric| metric.split('{').next().unwrap().to_owned()));
    known.extend(Code::ALL.iter().map(|code| code.as_str().to_owned()));
    known.extend(keys(""));
    known.extend(
        ["http", "limits"].iter().flat_map(|table| keys(&format!("[{table}]")).into_iter().map(move |key| format!("{table}.{key}"))),
    );
    known.extend(keys("[limits]"));
    let config = server::Config::load(server::Flags::default(), std::iter::empty()).unwrap();
    known.extend(config.workers.queues().map(|(queue, _)| queue.to_owned()));
    // A mark in results, a file of packages and a folder of the sandbox, which no list has.
    known.extend(names(["_truncated", "action.json", "/tmp"]));
    let manifest = read("crates/sources/src/package/manifest.rs");
    let (commands, all_help) = (commands(), commands().into_values().collect::<String>());
    let exists = |word: &str| {
        if let Some((method, path)) = word.split_once(" /") {
            return openapi["paths"][format!("/{path}")].get(method.to_lowercase()).is_some();
        }
        if word.starts_with("countersign ") {
            let name = word.split(' ').skip(1).take_while(|word| !word.starts_with('-')).collect::<Vec<_>>().join("-");
            return commands.contains_key(&name);
        }
        if word.starts_with("--") {
            return all_help.contains(word);
        }
        // A pattern, such as `files.*` or `<source>.<name>`.
        let is_field = || manifest.contains(&format!("\"{word}\""));
        known.contains(word) || is_field() || api::compat::is_decision(word) || word.contains(['*', '<'])
    };
    let mut unknown = Vec::new();
    let mut count = 0;
    for row in rows(&text) {
        assert_eq!(row.len(), 3, "{page}: {row:?}");
        assert!(!row[0].is_empty() && !row[1].is_empty() && !row[2].is_empty(), "{page}: {row:?}");
        unknown.extend(words(row[1]).filter(|word| !exists(word)).map(|word| format!("`{word}` of “{}”", row[0])));
        count += 1;
    }
    assert!(unknown.is_empty(), "{page} has words of ours that do not exist:\n{}", unknown.join("\n"));
    assert!(count > 180, "{count}");
}
