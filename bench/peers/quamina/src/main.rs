//! quamina beside our matcher: reads what the example `filters workload` of `countersign-automation` prints, adds the patterns, matches the
//! events for a while on one thread, and prints the figures as a line of JSON.

#[path = "../../../../crates/automation/examples/filters/memory.rs"]
mod memory;

use quamina::QuaminaBuilder;
use std::hint::black_box;
use std::io::Read;
use std::time::{Duration, Instant};

const MEASURED: Duration = Duration::from_millis(1_500);
/// Its own limit is 10 MB a field, which is reached before 100,000 patterns.
const BYTES_MAX: usize = 8 << 30;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let (mut patterns, mut events) = (Vec::new(), Vec::new());
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("pattern", json)) => patterns.push(json),
            Some(("event", json)) => events.push(json.as_bytes()),
            _ => return Err(format!("`{line}` is neither a pattern nor an event").into()),
        }
    }
    let before = memory::allocated();
    let began = Instant::now();
    let mut quamina = QuaminaBuilder::<u32>::new().with_arena_byte_budget(BYTES_MAX).build()?;
    for (number, pattern) in (0..).zip(&patterns) {
        quamina.add_pattern(number, pattern)?;
    }
    let add_per_second = patterns.len() as f64 / began.elapsed().as_secs_f64();
    // The first event also pays for what adding puts off, so that all are matched once before the time is taken.
    let mut matches = 0;
    for event in &events {
        matches += quamina.matches_for_event(event)?.len();
    }
    let (mut turns, began, cpu_began) = (0, Instant::now(), cpu_seconds()?);
    while began.elapsed() < MEASURED {
        for event in events.iter().cycle().skip(turns % events.len()).take(1_000) {
            black_box(quamina.matches_for_event(event)?);
        }
        turns += 1_000;
    }
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), cpu_seconds()? - cpu_began);
    let bytes = memory::allocated().saturating_sub(before);
    println!(
        "{{\"per_second\":{},\"per_cpu_second\":{},\"matches\":{},\"bytes\":{bytes},\"add_per_second\":{add_per_second}}}",
        turns as f64 / seconds,
        turns as f64 / cpu_seconds,
        matches as f64 / events.len() as f64,
    );
    Ok(())
}

/// What this thread has used of the processor.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: u64 = text.split(' ').next().ok_or("no processor time")?.parse()?;
    Ok(nanoseconds as f64 / 1e9)
}
