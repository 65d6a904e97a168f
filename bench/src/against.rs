//! Another build of the server beside this one, in turns: what a call costs, as a multiple of what it costs there.

use crate::child::{Call, Server, server_binary};
use crate::cpu::Watched;
use crate::measure::{CALLERS, Plan};
use crate::place::Place;
use crate::progress;
use crate::stats::{Spread, Window};
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// One kind of call with one number of callers.
pub(crate) struct Compared {
    pub(crate) engine: &'static str,
    pub(crate) call: Call,
    pub(crate) callers: usize,
    /// CPU time per call: of the other build, and of this one.
    pub(crate) cpu_us: [Spread; 2],
    /// This build's CPU time and median latency, as multiples of the other's in the same turn.
    pub(crate) cpu_ratio: Spread,
    pub(crate) p50_ratio: Spread,
}

pub(crate) async fn measure(place: &Place, folder: &Path, other: &Path, plan: Plan) -> Result<Vec<Compared>> {
    let (there, here) = (place.fresh(&folder.join("there")).await?, place.fresh(&folder.join("here")).await?);
    let there = Server::start_build(other, &there.data, there.url.as_deref(), &[]).await?;
    let here = Server::start_build(&server_binary()?, &here.data, here.url.as_deref(), &[]).await?;
    let count = Arc::new(AtomicU64::new(0));
    let mut compared = Vec::new();
    for call in Call::ALL {
        for server in [&there, &here] {
            server.warm_up(call, 200).await?;
        }
        for callers in CALLERS {
            progress(&format!("{}: {}, {callers} callers", place.engine_name(), call.as_str()));
            let window = async |server: &Server| {
                let watched = Watched::process(server.id()).and_children_of(place.parent());
                server.measure(call, callers, plan.server, &watched, &count).await
            };
            let mut turns: Vec<[Window; 2]> = Vec::new();
            for turn in 0..plan.repetitions * 3 {
                // Whichever is second finds a warmer machine, so they change places.
                turns.push(if turn % 2 == 0 {
                    let there = window(&there).await?;
                    [there, window(&here).await?]
                } else {
                    let here = window(&here).await?;
                    [window(&there).await?, here]
                });
            }
            let each = |figure: fn(&[Window; 2]) -> f64| Spread::of(turns.iter().map(figure));
            compared.push(Compared {
                engine: place.engine_name(),
                call,
                callers,
                cpu_us: [each(|[there, _]| there.cpu_us), each(|[_, here]| here.cpu_us)],
                cpu_ratio: each(|[there, here]| here.cpu_us / there.cpu_us),
                p50_ratio: each(|[there, here]| here.p50_ms / there.p50_ms),
            });
        }
    }
    there.stop()?;
    here.stop()?;
    Ok(compared)
}
