//! The settings of a channel of the kind `slack`.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Slack's id of the channel, such as `C0123456789`, or its name.
    pub channel: String,
    /// The name of the secret with the bot's token.
    pub token: String,
    /// The name of the secret with which Slack signs its requests.
    pub signing_secret: String,
    /// Who may answer: Slack's id of a user, and the id or the name of the person here.
    #[serde(default)]
    pub users: BTreeMap<String, String>,
}

impl Settings {
    pub fn read(settings: &Value) -> Result<Self, String> {
        let settings = Self::deserialize(settings).map_err(|error| format!("the settings are not those of Slack: {error}"))?;
        let is_id = |id: &String| id.starts_with(['U', 'W']) && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        match settings.users.keys().find(|id| !is_id(id)) {
            Some(_) => Err("`users` names people by Slack's ids, such as `U0123456789`".to_owned()),
            None => Ok(settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn people_are_named_by_slacks_ids() {
        let settings = |users: Value| Settings::read(&json!({ "channel": "C1", "token": "t", "signing_secret": "s", "users": users }));
        assert!(settings(json!({ "U0123456789": "robin", "W1": "sam" })).is_ok());
        for wrong in [json!({ "robin": "robin" }), json!({ "": "robin" }), json!({ "U12 3": "robin" }), json!({ "u1": "robin" })] {
            assert!(settings(wrong.clone()).unwrap_err().contains("Slack's ids"), "{wrong}");
        }
    }
}
