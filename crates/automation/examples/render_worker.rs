//! A render worker: what the tests start as one. Started by hand, it checks and renders the requests on its standard input, and is not confined;
//! `scripts/templates.sh` compares its answers with Jinja's.

use automation::template::worker::serve;
use automation::template::{Names, check};
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};

/// The product's own, since memory that runs out is what a worker must survive or die of.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> io::Result<()> {
    sandbox::worker::serve_if_asked(serve);
    let mut answers = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let request: Value = serde_json::from_str(&line)?;
        let members = request["context"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
        let names = Names { inputs: None, outputs: members.collect(), in_on_failure: true };
        match check(request["source"].as_str().unwrap_or_default(), &names) {
            Ok(_) => serve(line.as_bytes(), &mut answers)?,
            Err(mistakes) => writeln!(answers, "{}", json!({ "refused": mistakes }))?,
        }
    }
    Ok(())
}
