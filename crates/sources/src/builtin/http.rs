//! `http`: requests to the hosts that an operator has allowed, and to no others. `web` decides what is allowed.

mod calls;
mod definition;

use crate::builtin::{Builtin, Open, read_params, source_id, unknown_action};
use crate::web::HostRule;
use calls::Calls;
use countersign_core::source::{Asked, CallContext, Error, Output, Reconciled, Source};
use countersign_core::{Action, ActionId, Future, OrgId, SourceId};
use ipnet::IpNet;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

pub(super) const BUILTIN: Builtin =
    Builtin { actions: definition::actions, open: Open::Once(|parts| Ok(Some(Arc::new(Http::new(parts.http.clone())?)))) };

/// The hosts and networks that the operator allows. The default allows nothing.
#[derive(Clone, Debug, Default)]
pub struct HttpConfig {
    pub allowed_hosts: Vec<HostRule>,
    /// Networks that are not public but may be reached, such as `10.1.0.0/16`. Addresses of cloud metadata services stay refused.
    pub allowed_networks: Vec<IpNet>,
}

/// The source `http`.
pub struct Http {
    id: SourceId,
    actions: Vec<Arc<Action>>,
    calls: Calls,
}

impl Http {
    /// Requires an installed rustls provider and, if an https host is allowed, the system's certificates.
    pub fn new(config: HttpConfig) -> Result<Self, crate::Error> {
        Ok(Self { id: source_id("http")?, actions: definition::actions()?, calls: Calls::new(config)? })
    }

    async fn perform(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Output, Error> {
        match action.as_str() {
            "http.get" => self.calls.get(context, &read_params(action, params)?).await,
            "http.request" => self.calls.request(context, read_params(action, params)?).await,
            _ => Err(unknown_action(action)),
        }
    }
}

impl Http {
    /// Sends a request again if it had an idempotency key. The provider then returns its earlier answer. But if the first request never
    /// arrived, the provider performs it now, so asking again must be announced first (`Reconciled::ByAskingAgain`).
    async fn find_out(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Reconciled, Error> {
        if action.as_str() != "http.request" {
            return Ok(Reconciled::Unknown);
        }
        let request: calls::Request = read_params(action, params)?;
        if !request.has_key() {
            return Ok(Reconciled::Unknown);
        }
        if !context.may_ask_again {
            return Ok(Reconciled::ByAskingAgain);
        }
        Ok(match self.calls.request(context, request).await {
            Ok(output) if calls::tells(&output) => Reconciled::Happened(output),
            Ok(_) | Err(_) => Reconciled::Unknown,
        })
    }
}

impl Source for Http {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn title(&self) -> &str {
        "HTTP"
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        Some(include_str!("http/guide.md").into())
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        Box::pin(std::future::ready(Ok(self.actions.clone())))
    }

    /// The host and port: each host fails independently of the others.
    fn target(&self, _action: &ActionId, params: &Value) -> Option<String> {
        let url = url::Url::parse(params.get("url")?.as_str()?).ok()?;
        let host = url.host_str()?.to_owned();
        Some(url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
    }

    fn check<'a>(&'a self, asked: Asked<'a>) -> Future<'a, Result<(), Error>> {
        let url = asked.params.and_then(|params| params.get("url")?.as_str());
        Box::pin(std::future::ready(url.map_or(Ok(()), |url| self.calls.check(url))))
    }

    fn call<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(self.perform(context, action, params))
    }

    fn reconcile<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Reconciled, Error>> {
        Box::pin(self.find_out(context, action, params))
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
