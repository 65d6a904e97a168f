//! Measures what it costs to run a program that does nothing: alone, in the jail, and in bubblewrap. It is started by a small process and
//! by one with 512 MiB of memory, because a server may have as much, and a child made by copying its parent would pay for that.

use crate::package::{Installed, PAUSE};
use crate::progress;
use crate::stats::Spread;
use anyhow::{Context, Result, ensure};
use sandbox::{Bind, Options, Probes, Profile, Program, Sandbox, Spec};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const TRUE: &str = "/bin/true";
const LARGE_MIB: usize = 512;

/// The ways to run it, in the order they are reported.
pub(crate) const WAYS: [Way; 5] =
    [Way::Alone, Way::Jail(Profile::Default), Way::Jail(Profile::HighIsolation), Way::ColdJail, Way::Bubblewrap];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `posix_spawn`, and nothing else.
    Alone,
    Jail(Profile),
    /// Under `default`, with no jail prepared in advance.
    ColdJail,
    /// The code of a package, called through the server.
    Package(Profile),
    /// `bwrap --unshare-all`.
    Bubblewrap,
}

impl Way {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "posix_spawn of /bin/true",
            Self::Jail(Profile::Default) => "our jail, default",
            Self::Jail(Profile::HighIsolation) => "our jail, high_isolation",
            Self::ColdJail => "our jail, default, none ready",
            Self::Package(Profile::Default) => "a package at the server, default",
            Self::Package(Profile::HighIsolation) => "a package at the server, high_isolation",
            Self::Bubblewrap => "bwrap --unshare-all",
        }
    }
}

/// One way to run it, from one parent: the p50 of each repetition, in milliseconds.
pub(crate) struct Spawned {
    pub(crate) way: Way,
    pub(crate) resident_mib: usize,
    pub(crate) p50s_ms: Vec<f64>,
}

impl Spawned {
    pub(crate) fn p50_ms(&self) -> Spread {
        Spread::of(self.p50s_ms.iter().copied())
    }
}

/// Measures all ways. `server` is the product's own binary, which starts the jails.
pub(crate) async fn measure(server: &Path, folder: &Path, rounds: usize, repetitions: usize) -> Result<Vec<Spawned>> {
    progress("a program that does nothing: alone, in the jail, in bubblewrap");
    let open =
        |spares| Sandbox::new(Probes::now(server), server, Options { spares, ..Options::default() }).context("no jail can be had here");
    let sandboxes = Sandboxes { ready: open(1)?, cold: open(0)? };
    let digest = sandbox::digest_of(Path::new(TRUE)).context("hashing the program")?;
    let mut measured = Vec::new();
    for resident_mib in [0, LARGE_MIB] {
        let ballast = vec![1_u8; resident_mib << 20];
        let mut of = WAYS.map(|way| Spawned { way, resident_mib, p50s_ms: Vec::new() });
        for _ in 0..repetitions {
            // All ways are measured in every round, so that a disturbance of the machine affects all of them.
            let mut times = WAYS.map(|_| Vec::with_capacity(rounds));
            for _ in 0..rounds {
                for (way, times) in WAYS.into_iter().zip(&mut times) {
                    tokio::time::sleep(PAUSE).await;
                    let start = Instant::now();
                    let is_done = once(way, &sandboxes, digest);
                    times.push(start.elapsed().as_secs_f64() * 1_000.0);
                    ensure!(is_done, "`{}` did not end well", way.name());
                }
            }
            for (spawned, times) in of.iter_mut().zip(&mut times) {
                times.sort_by(f64::total_cmp);
                spawned.p50s_ms.push(times[times.len() / 2]);
            }
        }
        black_box(&ballast);
        measured.extend(of);
        if resident_mib == 0 {
            measured.extend(packages(folder, rounds, repetitions).await?);
        }
    }
    Ok(measured)
}

/// Two sandboxes: one that prepares a jail in advance, and one that does not.
struct Sandboxes {
    ready: Sandbox,
    cold: Sandbox,
}

async fn packages(folder: &Path, rounds: usize, repetitions: usize) -> Result<Vec<Spawned>> {
    let mut installed = Installed::new(folder).await?;
    let mut of = [Profile::Default, Profile::HighIsolation].map(|profile| (profile, Vec::new()));
    for _ in 0..repetitions {
        for (profile, p50s_ms) in &mut of {
            let mut times = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                times.push(installed.call(*profile).await?);
            }
            times.sort_by(f64::total_cmp);
            p50s_ms.push(times[times.len() / 2]);
        }
    }
    installed.stop()?;
    Ok(of.into_iter().map(|(profile, p50s_ms)| Spawned { way: Way::Package(profile), resident_mib: 0, p50s_ms }).collect())
}

#[expect(clippy::disallowed_methods, reason = "what the jail is compared with is started directly")]
fn once(way: Way, sandboxes: &Sandboxes, digest: [u8; 32]) -> bool {
    match way {
        Way::Alone => Command::new(TRUE).status().is_ok_and(|status| status.success()),
        Way::Jail(profile) => jailed(&sandboxes.ready, profile, digest),
        Way::ColdJail => jailed(&sandboxes.cold, Profile::Default, digest),
        // `packages` measures these.
        Way::Package(_) => false,
        Way::Bubblewrap => Command::new("bwrap")
            .args(["--unshare-all", "--ro-bind", "/", "/", TRUE])
            .stdin(Stdio::null())
            .status()
            .is_ok_and(|status| status.success()),
    }
}

fn jailed(sandbox: &Sandbox, profile: Profile, digest: [u8; 32]) -> bool {
    let mut spec = Spec::new(profile, Program { path: TRUE.into(), digest });
    let libraries = ["/usr/lib", "/lib", "/lib64"].into_iter().filter(|path| Path::new(path).is_dir());
    spec.read_only = libraries.map(|path| Bind { host: path.into(), jail: path.into() }).collect();
    sandbox.run_blocking(spec, None, None).is_ok_and(|outcome| outcome.ended == sandbox::Ended::Exited(0))
}
