//! The courier delivers what is due. Each channel has a task of its own, which has a few deliveries under way and no more: a channel that
//! hangs keeps only itself waiting, and what waits is in the store, not in memory.

use super::kind::Parts;
use super::sample::sample;
use super::slack::SlackWire;
use super::{DeliveryError, KINDS, Notice, Who, Wire, unfit};
use crate::limits::{
    COURIER_SECONDS, DELIVERIES_AT_ONCE, DELIVERY_ATTEMPT_SECONDS, DELIVERY_GIVE_UP_SECONDS, DELIVERY_RETRY_MS, DELIVERY_RETRY_MS_MAX,
};
use countersign_core::channel::{Channel, Delivery, Moment};
use countersign_core::invocation::Deadline;
use countersign_core::ports::{Invocations, Principals, Rules};
use countersign_core::principal::Permission;
use countersign_core::{ChannelId, Clock, DeliveryId, Invocation, OrgId, Principal, Random, Timestamp, random_bytes, source};
use durable::{Claims, Ladder};
use futures_util::future::join_all;
use ipnet::IpNet;
use parking_lot::Mutex;
use pipeline::Pipeline;
use pipeline::limits::LINK_SECONDS_MAX;
use serde_json::Value;
use sources::mail::{Mailer, Senders};
use sources::oauth::Own;
use sources::outbound::Outbound;
use sources::web::HostRule;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use store::limits::DELIVERY_PROBLEM_CHARS_MAX;
use store::{ClaimedDelivery, DeliveryEnd, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long to wait between the attempts of a delivery.
const LADDER: Ladder = Ladder { base_ms: DELIVERY_RETRY_MS, cap_ms: DELIVERY_RETRY_MS_MAX };
/// Even the shortest wait gives the other side time to recover.
const WAIT_MS_MIN: u64 = 1_000;
/// Links of deliveries that are repeated, kept so that an attempt makes no new one. More are forgotten, and made anew.
const LINKS_MAX: usize = 1_000;

/// What a courier needs.
pub struct CourierConfig {
    pub store: Store,
    pub pipeline: Pipeline,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Where people reach this server.
    pub address: Own,
    /// The hosts and networks that channels may reach.
    pub allowed_hosts: Vec<HostRule>,
    pub allowed_networks: Vec<IpNet>,
    /// Sends mail through the servers that the operator has named.
    pub mailer: Arc<Mailer>,
    /// Through which server the mail of an org goes, if its channel names none.
    pub senders: Arc<dyn Senders>,
    /// Where Slack is, if it is elsewhere than usual.
    pub slack_api_url: Option<String>,
    /// How long one attempt may take.
    pub patience: Duration,
}

impl CourierConfig {
    /// How long one attempt may take, where nobody says.
    pub const PATIENCE: Duration = Duration::from_secs(DELIVERY_ATTEMPT_SECONDS);
}

/// Delivers the notices of this server's orgs. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Courier(Arc<Inner>);

struct Inner {
    store: Store,
    pipeline: Pipeline,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    address: Own,
    patience: Duration,
    wires: BTreeMap<&'static str, Arc<dyn Wire>>,
    slack: Arc<SlackWire>,
    outbound: Arc<Outbound>,
    /// The channels that a task of this server delivers for.
    busy: Claims<ChannelId>,
    links: Mutex<HashMap<DeliveryId, String>>,
}

impl Courier {
    /// Requires an installed rustls provider and, if an https host is allowed, the system's certificates.
    pub fn new(config: CourierConfig) -> Result<Self, sources::Error> {
        let CourierConfig {
            store,
            pipeline,
            clock,
            random,
            address,
            allowed_hosts,
            allowed_networks,
            mailer,
            senders,
            slack_api_url,
            patience,
        } = config;
        let outbound = Arc::new(Outbound::new(allowed_hosts, allowed_networks)?);
        let parts = Parts {
            secrets: Arc::new(store.clone()),
            outbound: Arc::clone(&outbound),
            mailer,
            senders,
            clock: Arc::clone(&clock),
            address: address.clone(),
            slack_api_url,
        };
        let wires = KINDS.iter().map(|kind| (kind.name, (kind.wire)(&parts))).collect();
        let slack = Arc::new(SlackWire::of(&parts));
        let (busy, links) = (Claims::default(), Mutex::default());
        Ok(Self(Arc::new(Inner { store, pipeline, clock, random, address, patience, wires, slack, outbound, busy, links })))
    }

    /// From here on, channels may reach these hosts and networks, and no others.
    pub fn allow(&self, hosts: Vec<HostRule>, networks: Vec<IpNet>) -> Result<(), sources::Error> {
        self.0.outbound.allow(hosts, networks)
    }

    /// The wire on which people in Slack are also told why an answer of theirs was refused.
    pub fn slack(&self) -> Arc<SlackWire> {
        Arc::clone(&self.0.slack)
    }

    /// Why a channel of this kind cannot have these settings, which fit the kind.
    pub async fn refusal(&self, org: &OrgId, kind: &str, settings: &Value) -> Option<source::Error> {
        let Some(wire) = self.0.wires.get(kind) else {
            return Some(unfit(format!("this server has no channels of the kind `{kind}`")));
        };
        match wire.refusal(settings) {
            Some(refusal) => Some(refusal),
            None => wire.secret_refusal(org, settings).await.map(unfit),
        }
    }

    /// Sends a test message to each recipient of a channel now, once. Returns what went wrong first, if anything did.
    pub async fn test(&self, channel: &Channel, by: &Principal) -> Result<(), String> {
        let (now, random) = (self.0.clock.now(), random_bytes(&*self.0.random));
        let invocation = sample(by, &channel.name, now, random).ok_or_else(|| "a test message could not be made".to_owned())?;
        for recipient in channel.recipients() {
            let channel = channel.only_to(recipient.as_deref());
            let notice = Notice {
                org: channel.org.clone(),
                invocation: Box::new(invocation.clone()),
                moment: Moment::Pending,
                made_at: now,
                link: None,
                who: Who { requester: by.name.clone(), ..Who::default() },
                is_test: true,
            };
            self.send(&channel, &notice, None).await.map_err(DeliveryError::problem)?;
        }
        Ok(())
    }

    /// Delivers until the server stops.
    pub async fn run(self, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let mut told = None;
        loop {
            let looked = self.look(|org, channel| {
                let (courier, stop) = (self.clone(), stop.clone());
                tasks.spawn(async move {
                    tokio::select! {
                        delivered = courier.deliver_for(&org, &channel) => {
                            if let Err(error) = delivered {
                                tracing::warn!(%error, %channel, "notices wait for the store");
                            }
                        }
                        // What was under way is claimed again later, by this server or another.
                        () = stop.cancelled() => {}
                    }
                });
            });
            // What prevents it is told once.
            let problem = looked.await.err().map(|error| error.to_string());
            if let Some(problem) = problem.as_ref().filter(|problem| told.as_ref() != Some(*problem)) {
                tracing::warn!(problem, "notices wait; they are looked for again");
            }
            told = problem;
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(COURIER_SECONDS)) => {}
                () = stop.cancelled() => break,
            }
        }
        tasks.close();
        tasks.wait().await;
    }

    /// Delivers everything that is due now, and returns when that is done.
    pub async fn deliver_due(&self) -> Result<(), store::Error> {
        let due = Mutex::new(Vec::new());
        self.look(|org, channel| due.lock().push((org, channel))).await?;
        let due = due.into_inner();
        let delivered = join_all(due.iter().map(|(org, channel)| self.deliver_for(org, channel))).await;
        delivered.into_iter().collect()
    }

    /// Fills the outbox of each org, and hands over the channels that have something due.
    async fn look(&self, found: impl Fn(OrgId, ChannelId)) -> Result<(), store::Error> {
        let store = &self.0.store;
        for org in store.list_orgs().await?.into_iter().filter(|org| org.disabled_at.is_none()) {
            while store.fill_outbox(&org.id).await? {}
            for channel in store.list_due_channels(&org.id).await? {
                found(org.id.clone(), channel);
            }
        }
        Ok(())
    }

    /// Delivers what is due for one channel, unless another task of this server does.
    async fn deliver_for(&self, org: &OrgId, channel: &ChannelId) -> Result<(), store::Error> {
        let Ok(_busy) = self.0.busy.claim(channel) else { return Ok(()) };
        loop {
            let claimed = self.0.store.claim_deliveries(org, channel, DELIVERIES_AT_ONCE).await?;
            if claimed.is_empty() {
                return Ok(());
            }
            let channel = self.0.store.find_channel(org, channel).await?.filter(|channel| channel.removed_at.is_none());
            let ended = join_all(claimed.iter().map(|claimed| self.deliver(org, channel.as_ref(), claimed))).await;
            ended.into_iter().collect::<Result<(), _>>()?;
        }
    }

    async fn deliver(&self, org: &OrgId, channel: Option<&Channel>, claimed: &ClaimedDelivery) -> Result<(), store::Error> {
        let delivery = &claimed.delivery;
        let end = match channel {
            Some(channel) => self.attempt(channel, claimed).await?,
            None => DeliveryEnd::Skipped,
        };
        let outcome = match &end {
            DeliveryEnd::Sent(_) => "sent",
            DeliveryEnd::Skipped => "skipped",
            DeliveryEnd::Again { .. } => "failed",
            DeliveryEnd::Dead { problem } => {
                tracing::warn!(%org, channel = %delivery.channel, delivery = %delivery.id, problem, "a notice was given up");
                "dead"
            }
        };
        if !matches!(end, DeliveryEnd::Again { .. }) {
            self.0.links.lock().remove(&delivery.id);
        }
        let kind = channel.map_or("none", |channel| &channel.kind).to_owned();
        metrics::counter!("countersign_deliveries_total", "kind" => kind, "outcome" => outcome).increment(1);
        self.0.store.end_delivery(org, &delivery.id, end).await.map(|_is_ours| ())
    }

    /// Tries a delivery once.
    async fn attempt(&self, channel: &Channel, claimed: &ClaimedDelivery) -> Result<DeliveryEnd, store::Error> {
        let delivery = &claimed.delivery;
        // The org may keep the call no longer.
        let Some(invocation) = self.0.store.find_invocation(&channel.org, &delivery.invocation).await? else {
            return Ok(DeliveryEnd::Skipped);
        };
        if !self.may_tell(channel, delivery, &invocation).await? {
            return Ok(DeliveryEnd::Skipped);
        }
        let moment = match (delivery.moment.is_over(invocation.status), &delivery.retried_by, &delivery.problem) {
            (false, _, _) => delivery.moment,
            // Whoever asks for it once more is told what there is to tell now.
            (true, Some(_), _) => Moment::of(invocation.status).unwrap_or(Moment::Decided),
            (true, None, None) => return Ok(DeliveryEnd::Skipped),
            (true, None, Some(problem)) => {
                return Ok(DeliveryEnd::Dead {
                    problem: short(&format!("the call needs nobody any more, and nobody was told of it: {problem}")),
                });
            }
        };
        let link = self.link(delivery, moment, &invocation).await?;
        let who = Who::of(&self.0.store, &invocation).await?;
        let (org, made_at) = (channel.org.clone(), delivery.created_at);
        let notice = Notice { org, invocation: Box::new(invocation), moment, made_at, link, who, is_test: false };
        let channel = channel.only_to(delivery.recipient.as_deref());
        Ok(match self.send(&channel, &notice, claimed.earlier.as_ref()).await {
            Ok(remembered) => DeliveryEnd::Sent(remembered),
            Err(DeliveryError::Never(problem)) => DeliveryEnd::Dead { problem: short(&problem) },
            Err(DeliveryError::Again(problem)) => self.again(delivery, &problem, WAIT_MS_MIN),
            Err(DeliveryError::Later { problem, asked_ms }) => self.again(delivery, &problem, asked_ms),
        })
    }

    /// Whether the recipient may hear of the call. What happens in a space with members is for them: only channels that are for this space tell
    /// of it, and what goes to people by their names goes to members. A space may have closed, and a member left, since the notice was made.
    async fn may_tell(&self, channel: &Channel, delivery: &Delivery, invocation: &Invocation) -> Result<bool, store::Error> {
        let Some(space) = self.0.store.find_space(&channel.org, &invocation.space).await? else {
            return Ok(false);
        };
        if space.members.is_none() {
            return Ok(true);
        }
        if channel.space.as_ref() != Some(&space.id) {
            return Ok(false);
        }
        let Some(recipient) = delivery.recipient.as_deref() else {
            return Ok(true);
        };
        Ok(self.0.store.find_active_user(&channel.org, recipient).await?.is_some_and(|person| space.lets_in(Some(&person.id))))
    }

    /// The person with this name, as the bearer of a token that a link of theirs can stand on.
    async fn person(&self, org: &OrgId, name: &str) -> Result<Option<Principal>, store::Error> {
        match self.0.store.find_token_of(org, name).await? {
            Some(token) => self.0.store.find_bearer(org, &token).await,
            None => Ok(None),
        }
    }

    /// Hands a notice to the wire, for as long as an attempt may take.
    async fn send(&self, channel: &Channel, notice: &Notice, earlier: Option<&Value>) -> Result<Option<Value>, DeliveryError> {
        let Some(wire) = self.0.wires.get(channel.kind.as_str()) else {
            return Err(DeliveryError::Never(format!("this server has no channels of the kind `{}`", channel.kind)));
        };
        match tokio::time::timeout(self.0.patience, wire.deliver(channel, notice, earlier)).await {
            Ok(delivered) => delivered,
            Err(_elapsed) => Err(DeliveryError::Again(format!("there was no answer within {:?}", self.0.patience))),
        }
    }

    /// Tries again later, unless it has failed for too long. Whoever asks for a longer wait than there is between two attempts is not believed.
    fn again(&self, delivery: &Delivery, problem: &str, asked_ms: u64) -> DeliveryEnd {
        let (now, problem) = (self.0.clock.now(), short(problem));
        if delivery.tried_at.is_some_and(|at| at.plus_seconds(DELIVERY_GIVE_UP_SECONDS) <= now) {
            return DeliveryEnd::Dead { problem };
        }
        let asked_ms = asked_ms.clamp(WAIT_MS_MIN, DELIVERY_RETRY_MS_MAX);
        let wait = LADDER.wait(delivery.attempts, u64::from_be_bytes(random_bytes(&*self.0.random)), asked_ms);
        let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        DeliveryEnd::Again { due_at: Timestamp::from_micros(now.as_micros().saturating_add(micros)), problem }
    }

    /// The recipients of mail who never get a link of their own, as people and their tokens are now.
    pub async fn unlinked(&self, channel: &Channel) -> Result<Vec<String>, store::Error> {
        let mut unlinked = Vec::new();
        for recipient in channel.recipients().into_iter().flatten() {
            let person = self.person(&channel.org, &recipient).await?;
            if person.is_none_or(|person| !person.may(Permission::Approve)) {
                unlinked.push(recipient);
            }
        }
        Ok(unlinked)
    }

    /// The address at which the recipient answers the call. Only an address of mail that is the name of a person has one: that mail reaches
    /// the person in whose name the link answers, and nobody else.
    async fn link(&self, delivery: &Delivery, moment: Moment, invocation: &Invocation) -> Result<Option<String>, store::Error> {
        let Some(recipient) = delivery.recipient.as_deref().filter(|recipient| moment == Moment::Pending && recipient.contains('@')) else {
            return Ok(None);
        };
        if let Some(made) = self.0.links.lock().get(&delivery.id) {
            return Ok(Some(made.clone()));
        }
        let Some(person) = self.person(&invocation.org, recipient).await? else {
            return Ok(None);
        };
        let left = match invocation.deadline {
            Some(Deadline::At(at)) => at.millis_since(self.0.clock.now()) / 1_000,
            Some(Deadline::Stopped { .. }) | None => LINK_SECONDS_MAX,
        };
        let made = match self.0.pipeline.make_link_for(&delivery.channel, &person, &invocation.id, left.min(LINK_SECONDS_MAX)).await {
            Ok(made) => format!("{}/answer/{}", self.0.address.address(), made.text),
            // They may not answer it, or not by a link.
            Err(why) => {
                tracing::debug!(%why, delivery = %delivery.id, "a notice goes out without a link");
                return Ok(None);
            }
        };
        let mut links = self.0.links.lock();
        if links.len() >= LINKS_MAX {
            links.clear();
        }
        links.insert(delivery.id.clone(), made.clone());
        Ok(Some(made))
    }
}

/// As much of a problem as is kept.
fn short(problem: &str) -> String {
    policy::redact_text(&problem.chars().take(DELIVERY_PROBLEM_CHARS_MAX).collect::<String>()).replace('\0', "")
}
