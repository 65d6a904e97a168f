//! What a kind of channel is: the settings that it takes, and the wire that it tells by. The command line and the web UI make their forms from
//! the settings.

use super::Wire;
use crate::limits::{CHANNEL_RECIPIENTS_MAX, CHANNEL_TEXT_BYTES_MAX};
use countersign_core::Clock;
use countersign_core::channel::{ChannelSetting, SettingShape};
use countersign_core::ports::Secrets;
use countersign_core::ports::secrets::SecretName;
use serde_json::Value;
use sources::mail::{Mailer, Senders};
use sources::oauth::Own;
use sources::outbound::Outbound;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    /// How it tells, in a few words.
    pub title: &'static str,
    /// The first says where it tells.
    pub settings: &'static [ChannelSetting],
    pub(crate) wire: fn(&Parts) -> Arc<dyn Wire>,
}

/// What wires are made of.
pub(crate) struct Parts {
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) outbound: Arc<Outbound>,
    pub(crate) mailer: Arc<Mailer>,
    pub(crate) senders: Arc<dyn Senders>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Where people reach this server.
    pub(crate) address: Own,
    /// Where Slack is, if it is elsewhere than usual.
    pub(crate) slack_api_url: Option<String>,
}

impl Kind {
    /// The flag of one of its settings on the command line. That of the first also says which kind it is.
    pub fn flag(&self, setting: &ChannelSetting) -> &'static str {
        if self.settings.first().is_some_and(|first| first.name == setting.name) { self.name } else { setting.flag.unwrap_or(setting.name) }
    }

    /// Checks the settings of a channel of this kind. Returns the names of the secrets in it, or what is wrong.
    pub fn check(&self, settings: &Value) -> Result<BTreeSet<SecretName>, String> {
        let given = settings.as_object().ok_or_else(|| unfit("they are no object"))?;
        if let Some(unknown) = given.keys().find(|name| self.settings.iter().all(|setting| setting.name != *name)) {
            let known: Vec<_> = self.settings.iter().map(|setting| format!("`{}`", setting.name)).collect();
            return Err(unfit(&format!("unknown field `{unknown}`, expected one of {}", known.join(", "))));
        }
        let mut secrets = BTreeSet::new();
        for setting in self.settings {
            match given.get(setting.name).filter(|value| !value.is_null()) {
                Some(value) => secrets.extend(check(setting, value)?),
                None if setting.is_required => return Err(unfit(&format!("missing field `{}`", setting.name))),
                None => {}
            }
        }
        Ok(secrets)
    }

    /// The people of ours whom settings that fit name.
    pub fn people<'a>(&self, settings: &'a Value) -> impl Iterator<Item = (&'static str, &'a str)> {
        let maps = self.settings.iter().filter(|setting| setting.shape == SettingShape::People);
        maps.flat_map(move |setting| {
            let people = settings.get(setting.name).and_then(Value::as_object).into_iter().flat_map(|map| map.values());
            people.filter_map(Value::as_str).map(move |person| (setting.name, person))
        })
    }
}

fn unfit(why: &str) -> String {
    format!("the settings do not fit the kind: {why}")
}

/// Returns the name of the secret that the value is, if it is one.
fn check(setting: &ChannelSetting, value: &Value) -> Result<Option<SecretName>, String> {
    let name = setting.name;
    let texts: Option<Vec<&str>> = match (setting.shape, value) {
        (SettingShape::Secret, Value::String(secret)) => return secret_named(name, secret).map(Some),
        (SettingShape::Text, Value::String(text)) => Some(vec![text]),
        (SettingShape::Recipients, Value::Array(all)) => all.iter().map(Value::as_str).collect(),
        (SettingShape::People, Value::Object(all)) => {
            all.iter().flat_map(|(theirs, ours)| [Some(theirs.as_str()), ours.as_str()]).collect()
        }
        _ => None,
    };
    let texts = texts.ok_or_else(|| {
        let expected = match setting.shape {
            SettingShape::Text | SettingShape::Secret => "a text",
            SettingShape::Recipients => "a list of texts",
            SettingShape::People => "an object of texts",
        };
        unfit(&format!("`{name}` is not {expected}"))
    })?;
    match setting.shape {
        SettingShape::Recipients if texts.is_empty() || texts.len() > CHANNEL_RECIPIENTS_MAX => {
            return Err(format!("`{name}` names 1 to {CHANNEL_RECIPIENTS_MAX} people"));
        }
        SettingShape::Recipients if texts.iter().collect::<BTreeSet<_>>().len() < texts.len() => {
            return Err(format!("`{name}` names somebody twice"));
        }
        SettingShape::People if texts.len() > 2 * CHANNEL_RECIPIENTS_MAX => {
            return Err(format!("`{name}` has at most {CHANNEL_RECIPIENTS_MAX} members"));
        }
        SettingShape::Text | SettingShape::Secret | SettingShape::Recipients | SettingShape::People => {}
    }
    // A line break would begin another header of a message.
    if texts.iter().any(|text| text.is_empty() || text.len() > CHANNEL_TEXT_BYTES_MAX || text.chars().any(char::is_control)) {
        return Err(format!("a text of the settings has 1 to {CHANNEL_TEXT_BYTES_MAX} bytes, and no control characters"));
    }
    Ok(None)
}

/// Whoever gives the value itself, of a secret of any kind, is not told it back.
fn secret_named(field: &str, name: &str) -> Result<SecretName, String> {
    let mut prefixes = super::KINDS.iter().flat_map(|kind| kind.settings).filter_map(|setting| setting.secret_prefix);
    let is_value = prefixes.any(|prefix| name.starts_with(prefix));
    SecretName::parse(name).filter(|_| !is_value).ok_or_else(|| format!("`{field}` must be the name of a secret, not its value"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KINDS, kind};
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn forms_can_be_made_of_the_settings_of_every_kind() {
        let mut flags = BTreeMap::new();
        for kind in &KINDS {
            assert!(kind.settings[0].is_required && kind.settings[0].shape != SettingShape::Secret, "{}", kind.name);
            for setting in kind.settings {
                let flag = kind.flag(setting);
                assert_eq!(flags.insert(flag, kind.name), None, "--{flag} is a flag of two kinds: one of them says another `flag`");
                assert_eq!(setting.shape == SettingShape::Recipients, setting.name == "to", "{} {}", kind.name, setting.name);
                assert!(setting.needs.is_none_or(|needs| kind.settings.iter().any(|other| other.name == needs)), "{}", setting.name);
                assert!(!setting.label.is_empty() && !setting.help.is_empty(), "{} {}", kind.name, setting.name);
            }
        }
    }

    #[test]
    fn settings_fit_their_kind_and_name_secrets() {
        let names = |texts: &[&str]| texts.iter().map(|text| SecretName::parse(text).unwrap()).collect::<BTreeSet<_>>();
        let hook = json!({ "url": "https://example.com/hook", "secret": "hook" });
        let slack = json!({ "channel": "C1", "token": "bot", "signing_secret": "sign", "users": { "U1": "robin" } });
        let mail =
            json!({ "to": ["a@example.com"], "from": "c@example.com", "server": "smtps://mail:465", "username": "u", "password": "pw" });
        for (name, settings, secrets) in [
            ("webhook", hook.clone(), names(&["hook"])),
            ("slack", slack.clone(), names(&["bot", "sign"])),
            ("email", mail.clone(), names(&["pw"])),
            ("email", json!({ "to": ["a"], "from": "c", "server": "smtp://mail" }), names(&[])),
            ("email", json!({ "to": ["a"] }), names(&[])),
        ] {
            assert_eq!(kind(name).unwrap().check(&settings), Ok(secrets), "{settings}");
        }
        let but = |settings: &Value, field: &str, value: Value| {
            let mut changed = settings.clone();
            changed[field] = value;
            changed
        };
        for (name, settings, expected) in [
            ("webhook", json!({}), "missing field"),
            ("webhook", json!(null), "do not fit"),
            ("webhook", slack.clone(), "do not fit"),
            ("webhook", but(&hook, "more", json!(1)), "unknown field"),
            ("webhook", but(&hook, "secret", json!("a/b")), "`secret` must be the name"),
            ("webhook", but(&hook, "secret", json!("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")), "not its value"),
            ("slack", but(&slack, "token", json!("xoxb-1-2-abc")), "not its value"),
            ("slack", but(&slack, "api_url", json!("https://elsewhere.example.com/api")), "unknown field"),
            ("webhook", but(&hook, "url", json!(1)), "`url` is not a text"),
            ("webhook", but(&hook, "url", json!("")), "1 to"),
            ("slack", but(&slack, "channel", json!("C1\nX")), "no control characters"),
            ("email", but(&mail, "to", json!([])), "`to` names"),
            ("email", but(&mail, "to", json!(["a", "a"])), "twice"),
            ("email", but(&mail, "from", json!("a\r\nBcc: b")), "no control characters"),
        ] {
            let refused = kind(name).unwrap().check(&settings).unwrap_err();
            assert!(refused.contains(expected), "{settings}: {refused}");
        }
    }
}
