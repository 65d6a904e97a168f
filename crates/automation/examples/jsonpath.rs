//! Answers lines of `{"path": …, "value": …}` with lines of `{"selected": …}`, `{}` for nothing, or `{"code": …}` for a path that is
//! refused. `scripts/jsonpath.sh` compares them with what another library says.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "its lines are read by a script, and it ends if it cannot go on")]

use automation::select::Path;
use serde_json::{Value, json};

fn main() {
    for line in std::io::stdin().lines() {
        let question: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let answer = match Path::parse(question["path"].as_str().unwrap()) {
            Err(mistake) => json!({ "code": mistake.code }),
            Ok(path) => {
                let mut left = usize::MAX;
                let found = path.select(&question["value"], &mut left).unwrap();
                found.map_or_else(|| json!({}), |selected| json!({ "selected": selected }))
            }
        };
        println!("{answer}");
    }
}
