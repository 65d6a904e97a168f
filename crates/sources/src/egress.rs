//! The network access of a program in the jail: decides which of its requests may be sent, sends those, and counts all of them. The log shows
//! only the method, the host and the status of a request, since a path or a query may be secret.

use crate::limits::HTTP_REQUEST_BYTES_MAX;
use crate::web::{Allowed, Deadline, Ended, Exchange, HostList, HostRule, Sent, Step, Target, headers};
use crate::words::{refused, shown};
use countersign_core::egress::{Egress, OTHER, Refused, Request, Response};
use countersign_core::jail::Meter;
use countersign_core::limits::{CALL_TIMEOUT_MS, EGRESS_RESPONSE_BYTES_MAX};
use countersign_core::source::{AfterError, CallContext, Error};
use countersign_core::{ActionId, Future, InvocationId, SourceId};
use ipnet::IpNet;
use parking_lot::Mutex;
use reqwest::Method;
use reqwest::header::HeaderMap;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Which HTTP methods a program may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Methods {
    /// GET and HEAD, which change nothing.
    Safe,
    Any,
}

/// The hosts that the operator allows programs to reach, and the HTTP client for them.
#[derive(Debug)]
pub(crate) struct Network {
    exchange: Exchange,
    allowed: Allowed,
}

/// The settings in which an operator names the hosts, and networks that are not public.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedIn {
    pub(crate) hosts: &'static str,
    pub(crate) networks: &'static str,
}

impl Network {
    pub(crate) fn new(hosts: Vec<HostRule>, networks: Vec<IpNet>, named_in: NamedIn) -> Result<Self, crate::Error> {
        let hosts = HostList { rules: hosts, setting: named_in.hosts, who: "an operator" };
        let allowed = Allowed::new(hosts, networks, named_in.networks);
        Ok(Self { exchange: Exchange::new("network", &allowed)?, allowed })
    }

    pub(crate) const fn allowed(&self) -> &Allowed {
        &self.allowed
    }

    /// The first of these hosts that the operator's rules do not cover completely.
    pub(crate) fn first_missing<'h>(&self, hosts: &'h [HostRule]) -> Option<&'h HostRule> {
        let is_covered = |host: &HostRule| self.allowed.lists.iter().all(|list| list.rules.iter().any(|rule| rule.covers(host)));
        hosts.iter().find(|host| !is_covered(host))
    }
}

/// The network access of one program.
#[derive(Debug)]
pub(crate) struct WayOut {
    network: Arc<Network>,
    /// The hosts that both the action and the operator allow.
    allowed: Allowed,
    /// The hosts as the definition writes them, which is how they are counted.
    hosts: Vec<(HostRule, String)>,
    methods: Methods,
    meter: Meter,
    /// The call that the program runs for; absent for one that stays for many.
    invocation: Option<InvocationId>,
    /// The action, or the source, that the program belongs to.
    whose: String,
    timeout_ms: u64,
    changes: Mutex<Changes>,
}

/// Counts the requests that may have changed something.
#[derive(Debug, Default)]
struct Changes {
    let_out: u32,
    unanswered: u32,
}

impl WayOut {
    /// For one run of a package's script.
    pub(crate) fn of_call(network: &Arc<Network>, context: &CallContext, action: &ActionId, hosts: &[HostRule], methods: Methods) -> Self {
        let own = HostList { rules: hosts.to_vec(), setting: "hosts", who: "whoever wrote the action" };
        Self {
            allowed: network.allowed.and(own),
            network: Arc::clone(network),
            hosts: hosts.iter().map(|host| (host.clone(), host.to_string())).collect(),
            methods,
            meter: context.meter.clone(),
            invocation: Some(context.invocation.clone()),
            whose: action.to_string(),
            timeout_ms: context.timeout_ms,
            changes: Mutex::default(),
        }
    }

    /// For a program that stays for many calls. The receipts of the calls do not count its requests: nobody knows
    /// which call a request belongs to.
    pub(crate) fn of_source(network: &Arc<Network>, source: &SourceId) -> Self {
        Self {
            allowed: network.allowed.clone(),
            network: Arc::clone(network),
            hosts: Vec::new(),
            methods: Methods::Any,
            meter: Meter::default(),
            invocation: None,
            whose: source.to_string(),
            timeout_ms: CALL_TIMEOUT_MS,
            changes: Mutex::default(),
        }
    }

    /// The same, narrowed to hosts that its own manifest names too.
    #[must_use]
    pub(crate) fn only(self, hosts: &[HostRule]) -> Self {
        let own = HostList { rules: hosts.to_vec(), setting: "hosts", who: "whoever wrote the package" };
        Self { allowed: self.allowed.and(own), ..self }
    }

    /// Whether a request that may have changed something was sent.
    pub(crate) fn may_have_changed(&self) -> bool {
        self.changes.lock().let_out > 0
    }

    /// Whether the run ended before the answer to such a request arrived.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.changes.lock().unanswered > 0
    }

    async fn ask(&self, request: Request) -> Result<Response, Refused> {
        let asked = Asked { method: request.method.clone(), url: Url::parse(&request.url).ok() };
        let (method, target, headers) = self.judge(&request).map_err(|error| self.refuse(&asked, &error))?;
        // The end of the run also ends this request. Until then one answer may take as long as a whole call.
        let deadline = Deadline::after(Duration::from_millis(self.timeout_ms), self.timeout_ms);
        let exchange = &self.network.exchange;
        let response = if is_safe(&method) {
            // The first request may be answered and its redirect then refused.
            let (mut under_way, mut is_answered) = (UnderWay::new(self), false);
            let told = |step: Step<'_>| match step {
                Step::Asking(target) => under_way.begin(asked.at(target)),
                Step::Answered(answered) => {
                    is_answered = answered.is_ok();
                    under_way.end(answered);
                }
            };
            let followed = exchange.follow(method, target, headers, &self.allowed, deadline, told).await;
            followed.map_err(|error| if is_answered { self.refuse(&asked, &error) } else { sentence(&asked, &error) })?
        } else {
            let sent = Sent { method, headers, body: Some(request.body), is_read: false };
            let mut under_way = UnderWay::new(self);
            under_way.begin(asked.at(&target));
            self.begin_change();
            let answered = exchange.send(sent, &target, &self.allowed, deadline).await;
            self.end_change(&answered);
            under_way.end(&answered);
            answered.map_err(|error| sentence(&asked, &error))?
        };
        let (status, received) = (response.status().as_u16(), headers::received(response.headers()));
        let body = exchange.read(response, EGRESS_RESPONSE_BYTES_MAX, deadline).await;
        match body.ended {
            Ended::Whole => Ok(Response { status, headers: received.into_iter().collect(), body: body.bytes }),
            Ended::Cut => Err(Refused(format!("it answered {status}, with more than {EGRESS_RESPONSE_BYTES_MAX} bytes"))),
            Ended::Failed(error) => Err(sentence(&asked, &error)),
        }
    }

    /// Every check that can be made before the request is sent.
    fn judge(&self, request: &Request) -> Result<(Method, Target, HeaderMap), Error> {
        let method = METHODS.into_iter().find(|method| method.as_str() == request.method).ok_or_else(|| {
            let known = METHODS.map(|method| method.to_string()).join(", ");
            refused("method_not_allowed", format!("`{}` does not go out; {known} do", shown(&request.method)))
        })?;
        if !is_safe(&method) && self.methods == Methods::Safe {
            let why = "only GET and HEAD may go out here: what changes something elsewhere is for R3 and R4 without files, in `execute`";
            return Err(refused("method_not_allowed", format!("`{method}` may not: {why}")));
        }
        let target = Target::check(&request.url, &self.allowed)?;
        let headers = headers::checked(request.headers.iter().map(|(name, value)| (name, value)))?;
        if is_safe(&method) {
            if !request.body.is_empty() {
                return Err(refused("body_not_allowed", format!("a {method} carries no body")));
            }
            // Some servers let these headers override the method.
            if let Some(name) = OVERRIDES.into_iter().find(|name| headers.contains_key(*name)) {
                return Err(refused("header_not_allowed", format!("header `{name}` cannot be set: it makes another method of a {method}")));
            }
        }
        if request.body.len() > HTTP_REQUEST_BYTES_MAX {
            return Err(refused("body_too_large", format!("the body is longer than {HTTP_REQUEST_BYTES_MAX} bytes")));
        }
        Ok((method, target, headers))
    }

    /// Called before the request is sent: if the run is cut off in between, the request counts as sent.
    fn begin_change(&self) {
        let mut changes = self.changes.lock();
        changes.let_out += 1;
        changes.unanswered += 1;
    }

    fn end_change(&self, answered: &Result<reqwest::Response, Error>) {
        let mut changes = self.changes.lock();
        changes.unanswered -= 1;
        if answered.as_ref().is_err_and(|error| error.after() == AfterError::NoEffect) {
            changes.let_out -= 1;
        }
    }

    /// The host rule of the definition that covers this request.
    fn named(&self, asked: &Asked) -> &str {
        let of = |url: &Url| self.hosts.iter().find(|(rule, _)| rule.allows(url));
        asked.url.as_ref().and_then(of).map_or(OTHER, |(_, name)| name)
    }

    /// Counts and logs a request that was sent. If its address was refused, it was not sent and counts as refused.
    fn tell(&self, asked: &Asked, answered: &Result<reqwest::Response, Error>) {
        match answered {
            Err(error @ Error::Refused { .. }) => drop(self.refuse(asked, error)),
            Ok(response) => {
                self.meter.made(self.named(asked));
                self.log(asked, &response.status().as_u16().to_string());
            }
            Err(error) => {
                self.meter.made(self.named(asked));
                self.log(asked, error.code());
            }
        }
    }

    fn refuse(&self, asked: &Asked, error: &Error) -> Refused {
        self.meter.refused(self.named(asked));
        let (host, code) = (asked.host(), error.code());
        tracing::warn!(invocation = self.call(), whose = self.whose, method = asked.method, host, refused = code, "egress");
        sentence(asked, error)
    }

    fn log(&self, asked: &Asked, answered: &str) {
        let host = asked.host();
        tracing::info!(invocation = self.call(), whose = self.whose, method = asked.method, host, answered, "egress");
    }

    fn call(&self) -> Option<&str> {
        self.invocation.as_ref().map(InvocationId::as_str)
    }
}

/// A request in progress. It is counted and logged even if the run ends before the answer.
struct UnderWay<'w> {
    way_out: &'w WayOut,
    asked: Option<Asked>,
}

impl<'w> UnderWay<'w> {
    const fn new(way_out: &'w WayOut) -> Self {
        Self { way_out, asked: None }
    }

    fn begin(&mut self, asked: Asked) {
        self.asked = Some(asked);
    }

    fn end(&mut self, answered: &Result<reqwest::Response, Error>) {
        if let Some(asked) = self.asked.take() {
            self.way_out.tell(&asked, answered);
        }
    }
}

impl Drop for UnderWay<'_> {
    /// The run ended before the answer.
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.way_out.meter.made(self.way_out.named(&asked));
            self.way_out.log(&asked, "broken_off");
        }
    }
}

/// The methods a script may use.
const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

fn is_safe(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// The parts of a request that may be logged: its method, and the host of its URL.
struct Asked {
    method: String,
    url: Option<Url>,
}

impl Asked {
    fn at(&self, target: &Target) -> Self {
        Self { method: self.method.clone(), url: Some(target.url().clone()) }
    }

    fn host(&self) -> String {
        shown(self.url.as_ref().and_then(Url::host_str).unwrap_or_default())
    }
}

/// Why there is no answer, as a sentence for the script.
fn sentence(asked: &Asked, error: &Error) -> Refused {
    let host = asked.host();
    Refused(match error {
        Error::Unreachable { message, .. } => format!("`{host}` could not be reached: {message}; nothing was sent"),
        Error::TimedOut { .. } => format!("`{host}` did not answer in time; it may have been done"),
        Error::Broken { message, .. } => format!("the connection to `{host}` broke: {message}; it may have been done"),
        Error::Busy { .. }
        | Error::NoTurn { .. }
        | Error::Reported { .. }
        | Error::Refused { .. }
        | Error::Failed { .. }
        | Error::WorkspaceElsewhere
        | Error::PreviewUnsupported { .. } => error.to_string(),
    })
}

impl Egress for WayOut {
    fn request(&self, request: Request) -> Future<'_, Result<Response, Refused>> {
        Box::pin(self.ask(request))
    }

    fn refused(&self, Refused(why): &Refused) {
        self.meter.refused(OTHER);
        tracing::warn!(invocation = self.call(), whose = self.whose, refused = why, "egress");
    }
}
