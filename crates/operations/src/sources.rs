//! Sources that admins add: MCP servers elsewhere, and programs in the jail. A source is asked for its actions before it is added, and so are
//! changes of what its actions are.

mod settings;

use super::{Error, allowed, must, must_be_person, must_read, reviews, sight};
use crate::App;
use api::source::{EditSourceRequest, NewSourceRequest, ReviewedActionRequest, SourceReviewRequest};
use countersign_core::allowed::AllowedList;
use countersign_core::decision::Drift;
use countersign_core::ports::definitions::Wording;
use countersign_core::ports::sources::{AddedSource, SourceSettings};
use countersign_core::ports::{AddedSources, Breakers, Invocations, Rules};
use countersign_core::principal::Permission;
use countersign_core::source::{self, BUILTIN_SOURCES, KeptListing, Listings, Source, SourceRegistry};
use countersign_core::switch::SwitchScope;
use countersign_core::{Action, ActionId, Digest, OrgId, Principal, PrincipalId, SourceId, SpaceId};
use homes::added_sources::Made;
use homes::packages::findings_of;
use pipeline::{DefinitionNow, Eyes, Reviewed, SourceListing};
use policy::scan::Others;
use sources::mcp::{AllowedProgram, Known};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;
use store::{Added, Changed, NewAllowed, Page, PageRequest, Review};

/// A source that was asked for its actions before anything was written.
struct Tried {
    made: Made,
    actions: Vec<Arc<Action>>,
}

/// How a source answered when it was tried.
pub struct Tested {
    pub known: Result<Known, source::Error>,
    pub took_ms: u64,
}

/// An action that is not as it was reviewed: changed, new, or gone.
pub struct Differing {
    pub action: ActionId,
    pub review: Option<Review>,
    pub now: Option<DefinitionNow>,
    /// `None` if it is gone.
    pub drift: Option<Drift>,
}

pub async fn list(app: &App, by: &Principal, request: &PageRequest) -> Result<Page<AddedSource>, Error> {
    must_read(by)?;
    let mut page = app.store().list_sources(&by.org, &hidden(app, by).await?, request).await?;
    let spaces = sight::hidden(app, by).await?;
    page.items = page.items.into_iter().filter_map(|source| seen(source, &spaces)).collect();
    Ok(page)
}

/// A source by its name, also one that was removed.
pub async fn find(app: &App, by: &Principal, name: &str) -> Result<AddedSource, Error> {
    must_read(by)?;
    find_any(app, by, name).await
}

async fn find_any(app: &App, by: &Principal, name: &str) -> Result<AddedSource, Error> {
    let id = SourceId::parse(name).map_err(|_| unknown(name))?;
    let (found, hidden) = (app.store().find_source(&by.org, &id).await?, sight::hidden(app, by).await?);
    found.and_then(|source| seen(source, &hidden)).ok_or_else(|| unknown(name))
}

/// The names of the sources that are only for spaces which do not exist for this principal. So are the names of those that were removed, since
/// their reviews and consents stay, until something else has the name.
pub async fn hidden(app: &App, by: &Principal) -> Result<BTreeSet<String>, Error> {
    let (spaces, mut hidden) = (sight::hidden(app, by).await?, BTreeSet::new());
    if spaces.is_empty() {
        return Ok(hidden);
    }
    for source in app.store().all_sources(&by.org).await?.iter() {
        let is_hidden = seen(AddedSource::clone(source), &spaces).is_none();
        if is_hidden && (source.removed_at.is_none() || !app.pipeline().catalogue().has_source(&by.org, source.id.as_str()).await) {
            hidden.insert(source.id.to_string());
        }
    }
    Ok(hidden)
}

/// The refusal of an action that does not exist, or not for this principal. It suggests none of a source that they do not see.
pub async fn unknown_action(app: &App, by: &Principal, eyes: Eyes<'_>, named: &str) -> Error {
    let hidden = match hidden(app, by).await {
        Ok(hidden) => hidden,
        Err(error) => return error,
    };
    let mut unknown = app.pipeline().unknown_action(eyes, named).await;
    if let pipeline::Error::UnknownAction { suggestions, .. } = &mut unknown {
        suggestions.retain(|suggestion| suggestion.split('.').next().is_none_or(|source| !hidden.contains(source)));
    }
    unknown.into()
}

/// The source without the spaces that are hidden; `None` if it is for those only.
fn seen(mut source: AddedSource, hidden: &BTreeSet<SpaceId>) -> Option<AddedSource> {
    let is_for_some = source.settings.spaces.as_ref().is_none_or(|spaces| spaces.iter().any(|space| !hidden.contains(space)));
    if let Some(spaces) = &mut source.settings.spaces {
        spaces.retain(|space| !hidden.contains(space));
    }
    (is_for_some || hidden.is_empty()).then_some(source)
}

async fn find_present(app: &App, by: &Principal, name: &str) -> Result<AddedSource, Error> {
    let found = find_any(app, by, name).await?;
    if found.removed_at.is_none() { Ok(found) } else { Err(unknown(name)) }
}

fn unknown(name: &str) -> Error {
    Error::UnknownSource { name: name.chars().filter(|character| !character.is_control()).take(80).collect() }
}

/// Adds a source, if it can be asked for its actions. Whoever adds it has looked at it: that is the first review of each of its actions.
pub async fn add(app: &App, by: &Principal, mut request: NewSourceRequest) -> Result<AddedSource, Error> {
    must(by, Permission::ManagePolicy)?;
    let id = settings::name_of(&request.name)?;
    if request.package.as_deref() == Some(id.as_str()) {
        return Err(Error::invalid("a source needs another name than its package"));
    }
    must_be_free(app, by, &id).await?;
    let (program, allow) = operators_part(app, by, &mut request).await?.unzip();
    let settings = settings::of_request(app, by, &id, request, program.as_ref()).await?;
    let tried = try_out(app, &by.org, &id, &settings, program.as_ref()).await?;
    let sources_max = app.parts.added.sources_max();
    let added = match app.store().add_source(&by.org, id.clone(), settings, &by.id, sources_max, allow).await? {
        Added::Done(added) => added,
        Added::TooManyAllowed => return Err(allowed::too_many(AllowedList::Commands)),
        Added::Taken => return Err(Error::SourceTaken { name: id.to_string() }),
        Added::TooMany => return Err(Error::TooManySources { sources_max }),
    };
    let half = |why: Error| Error::interrupted(&why, half_done(&id, "added"), format!("sources/{id}"));
    take_over(app, &by.org, &added, &tried).await.map_err(half)?;
    review_new(app, by, &id, &tried).await.map_err(half)?;
    Ok(added)
}

/// What an operator allows with a source that they add: its program, which is tried first and allowed in the same write as the source is added.
async fn operators_part(app: &App, by: &Principal, request: &mut NewSourceRequest) -> Result<Option<(AllowedProgram, NewAllowed)>, Error> {
    let Some(mut allow) = request.allow.take() else { return Ok(None) };
    match &request.command {
        None => request.command = Some(allow.command.clone()),
        Some(command) if allow.command.is_empty() => allow.command.clone_from(command),
        Some(command) if *command == allow.command => {}
        Some(_) => return Err(Error::invalid("`allow` is for another `command` than that of the source")),
    }
    let variables = request.env.iter().map(|variable| &variable.name);
    allowed::of_source(app, by, &allow, variables).await.map(Some)
}

fn half_done(id: &SourceId, done: &str) -> String {
    format!("source `{id}` is {done}, and its actions may not all be reviewed")
}

/// The store decides in the end; asking here first spares a connection to a source that cannot be added.
async fn must_be_free(app: &App, by: &Principal, id: &SourceId) -> Result<(), Error> {
    let others = match &app.parts.homes {
        Some(homes) => homes.sources(&by.org).await,
        None => Default::default(),
    };
    let added = app.store().added_sources(&by.org).await?;
    let is_taken = BUILTIN_SOURCES.contains(&id.as_str())
        || others.iter().any(|source| source.id() == id)
        || added.iter().any(|source| source.id == *id);
    if is_taken {
        return Err(Error::SourceTaken { name: id.to_string() });
    }
    let sources_max = app.parts.added.sources_max();
    if added.len() as u64 >= u64::from(sources_max) { Err(Error::TooManySources { sources_max }) } else { Ok(()) }
}

async fn try_out(
    app: &App,
    org: &OrgId,
    id: &SourceId,
    settings: &SourceSettings,
    program: Option<&AllowedProgram>,
) -> Result<Tried, Error> {
    let made = app.parts.added.make(org, id, settings, program).await?;
    let actions = made.source.refresh().await.map_err(Error::Source)?.actions;
    Ok(Tried { made, actions })
}

/// Hands over what was tried. The listing is kept as well: if the source cannot be asked a moment later, an earlier listing under this name
/// would have other tiers.
async fn take_over(app: &App, org: &OrgId, added: &AddedSource, tried: &Tried) -> Result<(), Error> {
    let listing = KeptListing { actions: tried.actions.clone(), listed_at: app.store().now().await? };
    app.store().keep_listing(org, &added.id, listing).await?;
    app.parts.added.take_over(org, added, tried.made.clone()).await;
    Ok(())
}

/// SECURITY: an action in whose definition the scan found something is not reviewed with the others, since whoever adds a source has not been
/// shown it. Its calls need an approval until a person has read it. So do those of an action that the source has since defined otherwise. What
/// is found in the instructions of the server holds for every action.
async fn review_new(app: &App, by: &Principal, id: &SourceId, tried: &Tried) -> Result<(), Error> {
    let mut others = app.pipeline().actions_now(&by.org).await;
    others.retain(|action| action.id.source() != id.as_str());
    let in_guide = |guide: Cow<'_, str>| policy::scan::scan_guide(&guide, &Others::new(others.iter().map(AsRef::as_ref)));
    if tried.made.source.guide().map(in_guide).is_some_and(|found| !found.is_empty()) {
        return Ok(());
    }
    let findings = findings_of(&tried.actions, &others);
    for action in tried.actions.iter().filter(|action| findings.iter().all(|found| found.action != action.id.as_str())) {
        app.pipeline().review_installed(by, &action.id, Some(policy::digest::textual(action))).await?;
    }
    Ok(())
}

/// Changes what is set about a source. If that changes what its actions are, the source is asked for them first, and actions that were
/// reviewed stay so: the edit is a person's own review of what it changes.
pub async fn edit(app: &App, by: &Principal, name: &str, request: EditSourceRequest) -> Result<AddedSource, Error> {
    must(by, Permission::ManagePolicy)?;
    let before = find_present(app, by, name).await?;
    let stale = || Error::SourceChanged { name: name.to_owned() };
    if request.version.is_some_and(|version| version != before.version) {
        return Err(stale());
    }
    let set: Vec<_> = request.tiers.iter().filter(|(_, tier)| tier.is_some()).map(|(tool, _)| tool.clone()).collect();
    let settings = settings::edited(app, by, &before, request).await?;
    if settings == before.settings {
        return Ok(before);
    }
    let (id, org) = (before.id.clone(), &by.org);
    let tried = if settings::changes_actions(&before.settings, &settings) {
        let tried = try_out(app, org, &id, &settings, None).await?;
        must_offer(app, by, &id, &tried, &set).await?;
        Some((settled(app, by, &id).await?, tried))
    } else {
        None
    };
    let changed = match app.store().change_source(org, &id, before.version, settings, &by.id).await? {
        Changed::Done(changed) => changed,
        Changed::Stale => return Err(stale()),
        Changed::Gone => return Err(unknown(name)),
    };
    if let Some((settled, tried)) = tried {
        let half = |why: Error| Error::interrupted(&why, half_done(&id, "changed"), format!("sources/{id}"));
        take_over(app, org, &changed, &tried).await.map_err(half)?;
        review_again(app, by, &settled, &tried.actions).await.map_err(half)?;
    }
    app.parts.added.let_go(org, app.pipeline().catalogue()).await;
    Ok(changed)
}

/// A tier for a tool that does not exist would protect nothing and look as if it did.
async fn must_offer(app: &App, by: &Principal, id: &SourceId, tried: &Tried, tools: &[String]) -> Result<(), Error> {
    match tools.iter().find(|tool| tried.actions.iter().all(|action| action.id.name() != tool.as_str())) {
        Some(tool) => Err(Error::unknown_action(app, &by.org, &format!("{id}.{tool}")).await),
        None => Ok(()),
    }
}

/// What a server says of an action and of all its actions, and the code that performs it.
type Said = [Option<Digest>; 3];

fn said_of(action: &Action) -> Said {
    [action.upstream_sha256, action.guide_sha256, action.package_sha256]
}

/// Actions that are as they were reviewed, if whoever asks can review them: what the server says of each, and how its texts were reviewed.
async fn settled(app: &App, by: &Principal, id: &SourceId) -> Result<Vec<(ActionId, Said, Wording)>, Error> {
    let mut settled = Vec::new();
    if !matches!(by.id, PrincipalId::User(_)) {
        return Ok(settled);
    }
    for action in listing_of(app, &by.org, id).await.map(|listing| listing.actions).unwrap_or_default() {
        let review = app.store().find_review(&by.org, &action.id).await?;
        let now = app.pipeline().definition_of(&by.org, &action.id).await?;
        if let (Some(review), Some(now)) = (review, now)
            && now.drift_from(&review.pin) == Drift::None
        {
            settled.push((action.id.clone(), said_of(&action), review.pin.wording));
        }
    }
    Ok(settled)
}

/// Reviews actions anew that differ only in what was set about them. What the server itself says otherwise is a drift.
async fn review_again(app: &App, by: &Principal, settled: &[(ActionId, Said, Wording)], actions: &[Arc<Action>]) -> Result<(), Error> {
    for (id, said, wording) in settled {
        if let Some(now) = actions.iter().find(|action| action.id == *id && said_of(action) == *said) {
            let shown = policy::digest::textual(now);
            match app.pipeline().review(by, id, Some(shown), *wording).await? {
                Reviewed::Done | Reviewed::OtherDefinition => {}
            }
        }
    }
    Ok(())
}

/// Removes a source. Its receipts and the definitions that it had stay readable; its connection or program ends with its last call.
pub async fn remove(app: &App, by: &Principal, name: &str) -> Result<AddedSource, Error> {
    must(by, Permission::ManagePolicy)?;
    let id = SourceId::parse(name).map_err(|_| unknown(name))?;
    let removed = app.store().remove_source(&by.org, &id, &by.id).await?.ok_or_else(|| unknown(name))?;
    // What is gone fails no longer: neither the source nor its actions, whose keys begin with its name and a dot.
    let of_source = |key: &str| key.split('.').next() == Some(id.as_str());
    for failing in app.store().list_breakers(&by.org).await?.iter().filter(|failing| of_source(&failing.key)) {
        app.store().close_breaker(&by.org, &failing.key).await?;
    }
    app.parts.added.let_go(&by.org, app.pipeline().catalogue()).await;
    app.parts.added.forget_folder(&by.org, &id).await;
    Ok(removed)
}

/// Connects to a source anew and asks it for its actions. Nothing of the answer is kept.
pub async fn test(app: &App, by: &Principal, name: &str) -> Result<Tested, Error> {
    must(by, Permission::ManagePolicy)?;
    let added = find_present(app, by, name).await?;
    let source = app.parts.added.make(&by.org, &added.id, &added.settings, None).await?.source;
    let asked = Instant::now();
    let listed = source.refresh().await;
    let took_ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
    let known = listed.map(|listed| source.known().unwrap_or(Known { version: String::new(), listed }));
    Ok(Tested { known, took_ms })
}

/// Asks a source for its actions now. It reaches out for whoever asks, so reading alone does not suffice.
pub async fn refresh(app: &App, by: &Principal, name: &str) -> Result<AddedSource, Error> {
    must(by, Permission::ManagePolicy)?;
    let added = find_present(app, by, name).await?;
    must_not_be_stopped(app, &by.org, &added.id).await?;
    if app.pipeline().catalogue().refresh(&by.org, added.id.as_str()).await.is_none() {
        return Err(unknown(name));
    }
    Ok(added)
}

/// Marks definitions of a source as reviewed, each if it still is the one that was shown.
pub async fn review(app: &App, by: &Principal, name: &str, request: SourceReviewRequest) -> Result<Vec<ActionId>, Error> {
    must(by, Permission::ManagePolicy)?;
    must_be_person(by, "reviews a definition")?;
    let id = find_present(app, by, name).await?.id;
    let wording = if request.ignore_wording { Wording::Ignored } else { Wording::Reviewed };
    if request.actions.is_empty() {
        return Err(Error::invalid("`actions` names at least one action"));
    }
    let mut wanted = Vec::with_capacity(request.actions.len());
    for ReviewedActionRequest { action, textual } in request.actions {
        let shown = Digest::parse(&textual).ok_or_else(|| Error::invalid("`textual` is not 64 hex characters"))?;
        if ActionId::parse(&action).is_ok_and(|action| action.source() == id.as_str()) {
            wanted.push((action, shown));
        } else {
            return Err(Error::unknown_action(app, &by.org, &action).await);
        }
    }
    let mut reviewed = Vec::with_capacity(wanted.len());
    for (action, shown) in wanted {
        match reviews::review(app, by, &action, Some(shown), wording).await {
            Ok(action) => reviewed.push(action),
            Err(error) if reviewed.is_empty() => return Err(error),
            Err(error) => {
                let done: Vec<_> = reviewed.iter().map(|action| format!("`{action}`")).collect();
                let done = format!("reviewed {}", done.join(", "));
                return Err(Error::interrupted(&error, done, format!("sources/{id}/drift")));
            }
        }
    }
    Ok(reviewed)
}

/// Every action of a source that is not as it was reviewed.
pub async fn drift(app: &App, by: &Principal, name: &str) -> Result<Vec<Differing>, Error> {
    must_read(by)?;
    let id = find_present(app, by, name).await?.id;
    differing(app, by, &id).await
}

async fn differing(app: &App, by: &Principal, id: &SourceId) -> Result<Vec<Differing>, Error> {
    let org = &by.org;
    let mut differing = Vec::new();
    let listed = listing_of(app, org, id).await.map(|listing| listing.actions).unwrap_or_default();
    for action in &listed {
        let drift = app.pipeline().standing(org, None, action).await?.drift;
        if drift != Drift::None {
            let review = app.store().find_review(org, &action.id).await?;
            let now = app.pipeline().definition_of(org, &action.id).await?;
            differing.push(Differing { action: action.id.clone(), review, now, drift: Some(drift) });
        }
    }
    let is_listed = |review: &Review| listed.iter().any(|action| action.id == review.action);
    for review in reviews_of(app, org, id).await?.into_iter().filter(|review| !is_listed(review)) {
        differing.push(Differing { action: review.action.clone(), review: Some(review), now: None, drift: None });
    }
    Ok(differing)
}

/// Every review of the actions of a source, by name.
async fn reviews_of(app: &App, org: &OrgId, id: &SourceId) -> Result<Vec<Review>, Error> {
    let mut reviews = Vec::new();
    // The ids of its actions begin with its name and a dot, and are listed one after the other.
    let mut request = PageRequest { limit: 100, after: Some(format!("{id}.")) };
    loop {
        let page = app.store().list_reviews(org, &BTreeSet::new(), &request).await?;
        let has_others = page.items.iter().any(|review| review.action.source() != id.as_str());
        reviews.extend(page.items.into_iter().filter(|review| review.action.source() == id.as_str()));
        match page.next.filter(|_| !has_others) {
            Some(next) => request.after = Some(next),
            None => return Ok(reviews),
        }
    }
}

/// What the source listed last, or why it could not.
async fn listing_of(app: &App, org: &OrgId, id: &SourceId) -> Option<SourceListing> {
    app.pipeline().catalogue().list(org).await.into_iter().find(|listing| listing.id == id.as_str())
}

/// Refuses what a kill switch stops for everybody.
async fn must_not_be_stopped(app: &App, org: &OrgId, id: &SourceId) -> Result<(), Error> {
    let covers = |scope: &SwitchScope| match scope {
        SwitchScope::Org => true,
        SwitchScope::Source(source) => source == id,
        SwitchScope::Space(_) | SwitchScope::Session(_) | SwitchScope::Action(_) => false,
    };
    let switches = app.store().list_switches(org).await?;
    match switches.iter().find(|switch| covers(&switch.scope)) {
        Some(switch) => Err(Error::Stopped { scope: switch.scope.clone(), reason: switch.reason.clone() }),
        None => Ok(()),
    }
}
