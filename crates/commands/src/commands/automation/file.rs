//! Reads the definition of an automation from a file, as JSON or YAML.

use crate::commands::action::params;
use crate::shared::*;
use countersign_core::limits::DEFINITION_BYTES_MAX;
use serde_json::Value;
use std::path::Path;

/// The definition in a file, or on stdin for `-`. A file that ends in `.yaml` or `.yml` is YAML, and any other is JSON.
pub(super) async fn read(file: &str, terminal: &Terminal) -> Result<Value, Failure> {
    if file == "-" {
        return params::exact(&terminal.read_stdin(DEFINITION_BYTES_MAX as u64).await?, "stdin is");
    }
    let path = Path::new(file);
    let about = std::fs::metadata(path).map_err(|error| Failure::file(path, &error))?;
    if about.len() > DEFINITION_BYTES_MAX as u64 {
        return Err(Failure::new(Exit::Invalid, format!("`{file}` is larger than a definition can be: {DEFINITION_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml" | "yml") => serde_saphyr::from_str(&text)
            .map_err(|error| Failure::new(Exit::Invalid, format!("`{file}` is not YAML that can be read")).cause(error.to_string().trim())),
        Some(_) | None => params::exact(&text, &format!("`{file}` is")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Input, Settings, Times};
    use serde_json::json;
    use std::sync::Arc;

    #[tokio::test]
    async fn the_same_definition_in_both_syntaxes() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { format: crate::output::Format::Auto, times: Times::Utc, input: Input::Never, colours: None };
        let terminal = Terminal::new(settings, Arc::new(host::SystemClock), crate::world::World::of_process());
        let expected = json!({ "name": "digest", "plan": [{ "step_id": "a", "action": "files.list" }] });
        for (name, text) in [
            ("a.json", r#"{"name": "digest", "plan": [{"step_id": "a", "action": "files.list"}]}"#),
            ("a.yaml", "name: digest\nplan:\n  - step_id: a\n    action: files.list\n"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(path.to_str().unwrap(), &terminal).await.unwrap(), expected, "{name}");
        }
        let large = folder.path().join("large.json");
        std::fs::write(&large, r#"{"n": 9007199254740993}"#).unwrap();
        assert_eq!(read(large.to_str().unwrap(), &terminal).await.unwrap(), json!({ "n": 9_007_199_254_740_993_u64 }));
        let twice = folder.path().join("twice.json");
        std::fs::write(&twice, r#"{"name": "a", "name": "b"}"#).unwrap();
        assert_eq!(read(twice.to_str().unwrap(), &terminal).await.unwrap_err().exit, Exit::Usage);
        assert_eq!(read("nowhere.json", &terminal).await.unwrap_err().exit, Exit::NotFound);
    }
}
