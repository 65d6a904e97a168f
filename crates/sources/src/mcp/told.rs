//! What a server tells without being asked: that one of its lists changed, or a resource, a line for a log, or something of its own.

use super::object::object;
use crate::limits::SOURCE_EVENT_BYTES_MAX;
use crate::words::shown;
use countersign_core::ports::events::{
    SOURCE_LOGGED, SOURCE_NOTIFIED, SOURCE_PROMPTS_CHANGED, SOURCE_RESOURCE_UPDATED, SOURCE_RESOURCES_CHANGED, SOURCE_TOOLS_CHANGED,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;

/// SECURITY: the server wrote the data, which is bounded here. Whoever passes it on takes secrets out.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The event that tells of it.
    pub event: &'static str,
    pub data: Value,
}

/// Hears what a server tells. It is called where messages are read, so it waits for nothing.
pub type Hearer = Arc<dyn Fn(Told) + Send + Sync>;

#[derive(Deserialize)]
struct Updated {
    uri: String,
}

#[derive(Deserialize)]
struct Logged {
    #[serde(default)]
    level: Value,
    #[serde(default)]
    logger: Value,
    #[serde(default)]
    data: Value,
}

impl Told {
    /// What a notification tells; `None` if that is nothing for others, or makes no sense. What is too long is left out, and the rest told.
    pub(super) fn of(method: &str, params: Option<&RawValue>) -> Option<Self> {
        let text = params.map_or("{}", RawValue::get);
        let (text, is_cut) = if text.len() > SOURCE_EVENT_BYTES_MAX { ("{}", true) } else { (text, false) };
        let (event, mut data) = match method {
            "notifications/tools/list_changed" => (SOURCE_TOOLS_CHANGED, json!({})),
            "notifications/resources/list_changed" => (SOURCE_RESOURCES_CHANGED, json!({})),
            "notifications/prompts/list_changed" => (SOURCE_PROMPTS_CHANGED, json!({})),
            "notifications/resources/updated" => (SOURCE_RESOURCE_UPDATED, json!({ "uri": object::<Updated>(text)?.uri })),
            "notifications/message" => {
                let Logged { level, logger, data } = object(text)?;
                let named = (!logger.is_null()).then(|| ("logger".to_owned(), logger));
                let rest = [("level".to_owned(), level), ("message".to_owned(), data)];
                (SOURCE_LOGGED, rest.into_iter().chain(named).collect())
            }
            _ => {
                let params: Value = serde_json::from_str(text).ok()?;
                (SOURCE_NOTIFIED, json!({ "method": shown(method), "params": params }))
            }
        };
        if let (true, Some(members)) = (is_cut, data.as_object_mut()) {
            members.insert("cut".to_owned(), Value::Bool(true));
        }
        Some(Self { event, data })
    }
}
