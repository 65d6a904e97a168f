//! Templates that would take all time or all memory of a process that renders them. Each dies in its worker, and the next render works.

use crate::workers::{Pool, pool};
use automation::limits::RENDER_CPU_MS;
use automation::template::{Context, Names, Renderer, Workers, check};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// How much a test's own memory may grow; a bomb inside it would take gigabytes.
const GROWTH_KB_MAX: u64 = 64 * 1024;

/// What stops a bomb.
#[derive(Clone, Copy, PartialEq)]
enum Stopped {
    /// It is refused when its definition is saved.
    AtSave,
    /// It ends with one of these.
    By(&'static [&'static str]),
}

/// Which limit comes first depends on the machine: steps, processor time, memory or output.
const WORK: Stopped = Stopped::By(&["template_time", "template_output"]);

fn chain(first: &str, next: impl Fn(usize) -> String, last: &str) -> String {
    let steps: String = (0..28).map(next).collect();
    format!("{first}{steps}{last}")
}

fn bombs() -> Vec<(&'static str, String, Stopped)> {
    let nested = |open: &str, inside: &str, close: &str, times: usize| format!("{}{inside}{}", open.repeat(times), close.repeat(times));
    let loops = "{% for b in a %}".repeat(6) + "x" + &"{% endfor %}".repeat(6);
    let shared =
        |name: &str| chain(&format!("{{% set {name}0=[1] %}}"), |at| format!("{{% set {name}{}=[{name}{at},{name}{at}] %}}", at + 1), "");
    vec![
        ("range", "{% for i in range(10**9) %}x{% endfor %}".into(), Stopped::AtSave),
        ("nested loops", format!("{{% set a = [1]*100 %}}{loops}"), WORK),
        ("a long loop", "{% for i in [1]*10**8 %}x{% endfor %}".into(), WORK),
        ("a long silent loop", "{% for i in [1]*10**8 %}{% endfor %}".into(), WORK),
        ("a recursive loop", "{% for i in [1,2] recursive %}{{ loop([1,2]) }}{% endfor %}".into(), Stopped::AtSave),
        ("deep parentheses", format!("{{{{ {} }}}}", nested("(", "1", ")", 400)), Stopped::AtSave),
        ("very deep parentheses", format!("{{{{ {} }}}}", nested("(", "1", ")", 4_000)), Stopped::AtSave),
        ("deep lists", format!("{{{{ {} }}}}", nested("[", "1", "]", 2_000)), Stopped::AtSave),
        ("deep ifs", nested("{% if 1 %}", "x", "{% endif %}", 300), Stopped::AtSave),
        ("deep denials", format!("{{{{ {}1 }}}}", "not ".repeat(1_900)), Stopped::AtSave),
        ("deep minus", format!("{{{{ {}1 }}}}", "-".repeat(8_000)), Stopped::AtSave),
        ("a long chain", format!("{{{{ 1{} }}}}", "+1".repeat(4_000)), Stopped::AtSave),
        ("many branches", format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(600)), Stopped::AtSave),
        ("a power tower", "{{ 9**9**9 }}".into(), Stopped::By(&["template_failed"])),
        ("the class of a value", "{{ run.__class__ }}".into(), Stopped::AtSave),
        ("the class of a value by item", "{{ run['__class__'] }}".into(), Stopped::AtSave),
        ("a method", "{{ 'a'.upper() }}".into(), Stopped::AtSave),
        ("a long text", "{{ 'A'*10**8 }}".into(), WORK),
        ("slices of a long text", "{{ ('A'*10**8)[::-1][::-1][::-1][::-1] | length }}".into(), WORK),
        ("concatenation", chain("{% set a0='A'*1000 %}", |at| format!("{{% set a{}=a{at}~a{at} %}}", at + 1), "{{ a28 | length }}"), WORK),
        (
            "addition of texts",
            chain("{% set a0='A'*1000 %}", |at| format!("{{% set a{}=a{at}+a{at} %}}", at + 1), "{{ a28 | length }}"),
            WORK,
        ),
        (
            "captures",
            chain(
                "{% set a0='A'*1000 %}",
                |at| format!("{{% set a{}%}}{{{{a{at}}}}}{{{{a{at}}}}}{{% endset %}}", at + 1),
                "{{ a28 | length }}",
            ),
            WORK,
        ),
        ("a long list printed", "{{ [1]*10**8 }}".into(), WORK),
        ("a long list joined", "{{ ([1]*10**8) | join }}".into(), WORK),
        ("a long list searched", "{{ 2 in [1]*10**8 }}".into(), WORK),
        ("long lists compared", "{{ [1]*10**8 == [1]*10**8 }}".into(), WORK),
        ("a long tuple", "{{ ((1,)*10**8) | length }}".into(), WORK),
        ("shared lists printed", format!("{}{{{{ a28 }}}}", shared("a")), WORK),
        ("shared lists compared", format!("{}{}{{{{ a28 == b28 }}}}", shared("a"), shared("b")), WORK),
        ("a growing replacement", "{{ ('A'*100000) | replace('A', 'B'*10000) }}".into(), Stopped::By(&["template_output"])),
        ("a dump of everything", "{{ debug() }}".into(), Stopped::AtSave),
    ]
}

#[tokio::test]
async fn render_bombs_die() {
    let (pool, context) = (pool(), Context::new([("run".to_owned(), json!({ "id": "run_1" }))]).unwrap());
    let renderer = Renderer::new(pool.clone());
    serves_on(&renderer, &context).await;
    let before = memory_kb();
    for (name, source, stopped) in bombs() {
        let checked = check(&source, &Names::default());
        let began = Instant::now();
        match (stopped, checked) {
            (Stopped::AtSave, Err(mistakes)) => {
                assert!(mistakes.iter().all(|mistake| mistake.code.starts_with("template_")), "{name}: {mistakes:?}");
                // Whatever the check says, the worker withstands it.
                withstands(&pool, &source).await;
            }
            (Stopped::By(codes), Ok(template)) => {
                assert!(!template.is_trivial(), "{name}");
                let error = renderer.render(&template, &context).await.expect_err(name);
                assert!(codes.contains(&error.code()), "{name}: {error:?}");
            }
            (_, checked) => panic!("{name}: {checked:?}"),
        }
        // A worker that is not killed for its processor time is killed after this time on the clock, or hangs.
        assert!(began.elapsed() < Duration::from_secs(5), "{name} took {:?}", began.elapsed());
        let grown = memory_kb().saturating_sub(before);
        assert!(grown < GROWTH_KB_MAX, "{name}: the host grew by {grown} KB");
        serves_on(&renderer, &context).await;
    }
    // The worker's own clock is read; on a busy host it is read late, and never so late.
    let killed_after = pool.killed_after();
    let most = Duration::from_millis(2 * RENDER_CPU_MS);
    assert!(!killed_after.is_empty() && killed_after.iter().all(|cpu| *cpu < most), "{killed_after:?}");
}

async fn serves_on(renderer: &Renderer, context: &Context) {
    let honest = check("{% for one in [1, 2] %}{{ run.id }} {% endfor %}", &Names::default()).unwrap();
    assert_eq!(renderer.render(&honest, context).await.unwrap(), "run_1 run_1 ");
}

/// Renders a source that the check refuses, as if the check had let it pass.
async fn withstands(pool: &Pool, source: &str) {
    let request = json!({ "form": "text", "source": source, "context": { "run": { "id": "run_1" } } });
    if let Ok(answer) = pool.ask(request.to_string()).await {
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer.get("failed").is_some() || answer["done"].as_str().is_some_and(|text| text.len() < 100), "{source}: {answer}");
    }
}

/// The most memory that this process has held.
fn memory_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_worker_that_is_busy_is_killed_at_its_processor_time() {
    let (pool, context) = (pool(), Context::default());
    let renderer = Renderer::new(pool);
    serves_on(&renderer, &Context::new([("run".to_owned(), json!({ "id": "run_1" }))]).unwrap()).await;
    let endless = check("{{ [1]*10**8 == [1]*10**8 }}", &Names::default()).unwrap();
    let error = renderer.render(&endless, &context).await.unwrap_err();
    assert_eq!(error.code(), "template_time", "{error:?}");
}

#[tokio::test]
async fn a_worker_that_needs_more_memory_than_it_may_have_dies() {
    let (pool, context) = (pool(), Context::default());
    let renderer = Renderer::new(pool);
    let large = check("{% set a='A'*10**8 %}{% set b=a~a %}{{ b | length }}", &Names::default()).unwrap();
    let error = renderer.render(&large, &context).await.unwrap_err();
    assert!(["template_time", "template_output"].contains(&error.code()), "{error:?}");
}
