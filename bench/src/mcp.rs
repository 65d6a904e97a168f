//! A tool of an MCP server, called through our server and beside that directly, in turns; the same call beside ten thousand other actions; and
//! the memory that a server takes which lies. The tool does next to nothing, so that the rest shows.

use crate::child::{Running, Server, start_upstream};
use crate::cpu::{self, Watched};
use crate::http::{self, Connection, HttpCaller};
use crate::load::{Time, drive};
use crate::measure::Plan;
use crate::place::Place;
use crate::progress;
use crate::stats::{Spread, Window};
use crate::upstream;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const CALLERS: [usize; 3] = [1, 8, 32];
/// Callers of the call beside many actions.
const CATALOGUE_CALLERS: usize = 8;
/// The tools of a small server; and the servers, with their tools, that make a catalogue large.
pub(crate) const FEW: usize = 10;
const WIDE: (usize, usize) = (10, 1_000);
/// All actions of the large catalogue besides the few.
pub(crate) const MANY: usize = WIDE.0 * WIDE.1;

/// Everything measured about MCP servers.
pub(crate) struct Measured {
    pub(crate) cells: Vec<Cell>,
    /// The call beside few actions, and beside many.
    pub(crate) catalogues: Vec<[Window; 2]>,
    pub(crate) grown: Vec<Grown>,
}

/// One kind of call on one engine with one number of callers: sent directly, and through our server.
pub(crate) struct Cell {
    pub(crate) engine: &'static str,
    pub(crate) kind: Kind,
    pub(crate) callers: usize,
    pub(crate) turns: Vec<[Window; 2]>,
}

/// What the tool counts as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Also the name of the source.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    const fn tier(self) -> &'static str {
        match self {
            Self::Read => "R1",
            Self::Write => "R3",
        }
    }
}

/// How much more memory our process had at most while a server lied.
pub(crate) struct Grown {
    pub(crate) what: &'static str,
    pub(crate) mb: f64,
}

impl Cell {
    pub(crate) fn spread(&self, figure: impl Fn(&[Window; 2]) -> f64) -> Spread {
        Spread::of(self.turns.iter().map(figure))
    }
}

impl Measured {
    /// A figure of the call beside many actions, as a multiple of that beside few.
    pub(crate) fn beside_many(&self, figure: fn(&Window) -> f64) -> Spread {
        Spread::of(self.catalogues.iter().map(|[few, many]| figure(many) / figure(few)))
    }
}

pub(crate) async fn measure(places: &[Place], folder: &Path, plan: Plan) -> Result<Measured> {
    let upstream = start_upstream()?;
    let mut cells = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let database = place.fresh(&folder.join(format!("mcp-{number}"))).await?;
        let server = Governing::start(&database.data, database.url.as_deref(), &upstream).await?;
        for kind in Kind::ALL {
            for callers in CALLERS {
                progress(&format!("{}: {} of an MCP server at {callers} callers", place.engine_name(), kind.as_str()));
                let watched = Watched::process(server.server.id()).and_children_of(place.parent());
                let mut turns = Vec::new();
                for _ in 0..plan.repetitions {
                    let direct = directly(&upstream, kind, callers, plan.server).await?;
                    turns.push([direct, server.calls(kind, callers, plan.server, &watched).await?]);
                }
                cells.push(Cell { engine: place.engine_name(), kind, callers, turns });
            }
        }
        server.server.stop()?;
    }
    let catalogues = catalogues(folder, &upstream, plan).await?;
    let grown = grown(folder, &upstream).await?;
    Ok(Measured { cells, catalogues, grown })
}

/// Our server, with a source for each kind of call.
pub(crate) struct Governing {
    pub(crate) server: Server,
    pub(crate) owner: String,
}

impl Governing {
    pub(crate) async fn start(data: &Path, database: Option<&str>, upstream: &Running) -> Result<Self> {
        let origin = format!("http://{}", upstream.address);
        let settings = [("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", origin.as_str()), ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", "127.0.0.1/32")];
        let server = Server::start_with(data, database, &settings).await?;
        let owner = std::fs::read_to_string(data.join("owner.token")).context("the owner's token")?.trim().to_owned();
        let governing = Self { server, owner };
        for kind in Kind::ALL {
            governing.add(kind.as_str(), &format!("{origin}/mcp/{}/{FEW}", kind.as_str()), kind.tier()).await?;
            governing.ask("PUT", &format!("modes/{}", action(kind.as_str())), &json!({ "mode": "allow" })).await?;
            governing.ask("POST", "consents", &json!({ "purpose": format!("action:{}", action(kind.as_str())) })).await?;
        }
        Ok(governing)
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        Connection::open(self.server.address()).await?.ask(method, &format!("/api/v1/{path}"), &self.owner, body).await
    }

    async fn add(&self, name: &str, url: &str, tier: &str) -> Result<()> {
        self.ask("POST", "sources", &json!({ "name": name, "url": url, "default_tier": tier })).await?;
        Ok(())
    }

    fn request(&self, action: &str) -> Vec<u8> {
        let path = format!("/api/v1/sessions/{}/actions/invoke", self.server.session);
        http::request("POST", &path, &self.server.token, &json!({ "action": action, "params": { "text": "hello" } }))
    }

    async fn calls(&self, kind: Kind, callers: usize, time: Time, watched: &Watched) -> Result<Window> {
        let request = self.request(&action(kind.as_str()));
        let open =
            HttpCaller::open(callers, self.server.address(), &Arc::new(AtomicU64::new(0)), Arc::new(move |_| request.clone())).await?;
        drive(open, time, watched).await
    }

    /// Calls an action and waits for the answer, whatever it is.
    async fn call_badly(&self, action: &str) -> Result<()> {
        Connection::open(self.server.address()).await?.exchange(&self.request(action)).await?;
        Ok(())
    }
}

/// The action that is called of a source.
pub(crate) fn action(source: &str) -> String {
    format!("{source}.{}", upstream::tool_name(source, 7))
}

/// The same call sent to the MCP server itself.
pub(crate) async fn directly(upstream: &Running, kind: Kind, callers: usize, time: Time) -> Result<Window> {
    let request = http::request("POST", &format!("/mcp/{}/{FEW}", kind.as_str()), "none", &upstream::call(kind.as_str()));
    let open = HttpCaller::open(callers, upstream.address, &Arc::new(AtomicU64::new(0)), Arc::new(move |_| request.clone())).await?;
    drive(open, time, &Watched::process(upstream.id())).await
}

/// Two servers, one of which has many more actions, in turns.
async fn catalogues(folder: &Path, upstream: &Running, plan: Plan) -> Result<Vec<[Window; 2]>> {
    progress(&format!("adding {MANY} actions of MCP servers"));
    let few = Governing::start(&folder.join("mcp-few"), None, upstream).await?;
    let many = Governing::start(&folder.join("mcp-many"), None, upstream).await?;
    let (servers, tools) = WIDE;
    for number in 0..servers {
        let name = format!("wide{number}");
        many.add(&name, &format!("http://{}/mcp/{name}/{tools}", upstream.address), "R1").await?;
    }
    let mut turns = Vec::new();
    for turn in 0..plan.repetitions * 3 {
        let window = async |governing: &Governing| {
            governing.calls(Kind::Read, CATALOGUE_CALLERS, plan.server, &Watched::process(governing.server.id())).await
        };
        // Whichever is second finds a warmer machine, so they change places.
        turns.push(if turn % 2 == 0 {
            let few = window(&few).await?;
            [few, window(&many).await?]
        } else {
            let many = window(&many).await?;
            [window(&few).await?, many]
        });
    }
    few.server.stop()?;
    many.server.stop()?;
    Ok(turns)
}

/// The peak of our process while a server lies, beyond what it had before.
async fn grown(folder: &Path, upstream: &Running) -> Result<Vec<Grown>> {
    progress("memory while an MCP server lies");
    let governing = Governing::start(&folder.join("mcp-bad"), None, upstream).await?;
    for how in ["large", "endless", "crowded"] {
        governing.add(how, &format!("http://{}/bad/{how}", upstream.address), "R1").await?;
    }
    let mut grown = Vec::new();
    for (what, how, at_once) in [
        ("an answer of 50 MB", "large", 1),
        ("8 answers of 50 MB at once", "large", 8),
        ("a stream without an end", "endless", 1),
        ("8 streams without an end at once", "endless", 8),
    ] {
        let before = cpu::resident_mb(governing.server.id())?;
        cpu::forget_peak(governing.server.id())?;
        let action = action(how);
        futures_util::future::try_join_all((0..at_once).map(|_| governing.call_badly(&action))).await?;
        grown.push(Grown { what, mb: cpu::peak_mb(governing.server.id())? - before });
    }
    Connection::open(upstream.address).await?.exchange(&http::request("POST", "/turn", "none", &json!({}))).await?;
    let before = cpu::resident_mb(governing.server.id())?;
    cpu::forget_peak(governing.server.id())?;
    let refresh = http::request("POST", "/api/v1/sources/crowded/refresh", &governing.owner, &json!({}));
    Connection::open(governing.server.address()).await?.exchange(&refresh).await?;
    grown.push(Grown { what: "a listing of 10,000 tools", mb: cpu::peak_mb(governing.server.id())? - before });
    governing.server.stop()?;
    Ok(grown)
}
