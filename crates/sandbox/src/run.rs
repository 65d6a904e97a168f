//! One run, from a spec to an outcome. This file holds the order: check, open, limit, spawn, watch, conclude.

use crate::cgroup::{Bounds, Cpu, Leaf};
use crate::error::{Error, Step};
use crate::filter::{self, Filters, Sockets};
use crate::jailer::{Jailer, Kit, Spare};
use crate::orders::{Bound, Orders, Packet, Rlimits, Sized};
use crate::outcome::{CgroupBackend, Cost, Ended, Facts, Outcome};
use crate::probes::{LANDLOCK_ABI_MIN, Probes, UID_FIRST};
use crate::program::Digests;
use crate::pump::{self, Finished, Running};
use crate::spec::{FOLDER, Input, Life, Profile, Spec};
use crate::stage::Stage;
use crate::streams::OnLog;
use crate::uids::{Lease, Uids};
use crate::{check, folder, jail, word};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

#[derive(Clone, Debug)]
pub struct Options {
    /// Lets the profile `default` run on a kernel whose Landlock is missing or too old for us. Every outcome then says so.
    pub allow_degraded: bool,
    /// When the server is root, programs run as uids from this pool: `uid_count` uids starting at `uid_first`.
    pub uid_first: u32,
    pub uid_count: u32,
    /// How many jails are started ahead of time, per profile. Each saves the next run a few milliseconds and holds a little memory.
    pub spares: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { allow_degraded: false, uid_first: UID_FIRST, uid_count: 4096, spares: 1 }
    }
}

/// Ends a run from elsewhere.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<OwnedFd>);

impl Cancel {
    pub fn new() -> Result<Self, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        rustix::event::eventfd(0, flags).map(|fd| Self(Arc::new(fd))).map_err(|error| Error::host("make a cancellation", error))
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub fn cancel(&self) {
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// Where programs run. A clone is cheap; making one is not, because it keeps what was found out about the host.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

struct Inner {
    probes: Probes,
    jailer: Jailer,
    options: Options,
    filters: [Filters; 2],
    /// The filters of `Default` for a program that sees a network.
    filters_with_network: Filters,
    digests: Digests,
}

impl Sandbox {
    /// `helper` is a program whose `main` begins with `main_if_asked`: usually the server itself, `/proc/self/exe`.
    pub fn new(probes: Probes, helper: &Path, options: Options) -> Result<Self, Error> {
        let helper = CString::new(helper.as_os_str().as_bytes()).map_err(|error| Error::host("name the helper", error))?;
        let build = |profile, sockets| {
            let built = filter::build(profile, probes.cgroups.backend, sockets);
            built.map_err(|why| Error::Unavailable { step: Step::Seccomp, why: why.to_string() })
        };
        let filters = [build(Profile::Default, Sockets::None)?, build(Profile::HighIsolation, Sockets::None)?];
        let filters_with_network = build(Profile::Default, Sockets::Inet)?;
        let uids = probes.is_root.then(|| Arc::new(Uids::new(options.uid_first, options.uid_count)));
        let jailer = Jailer::new(Kit { helper, cgroups: probes.cgroups.clone(), uids }, options.spares)?;
        Ok(Self(Arc::new(Inner { probes, jailer, options, filters, filters_with_network, digests: Digests::default() })))
    }

    pub fn probes(&self) -> &Probes {
        &self.0.probes
    }

    /// Whether this host can offer the profile; if not, the error says why.
    pub fn offers(&self, profile: Profile) -> Result<(), Error> {
        match self.0.probes.against(profile, self.0.options.allow_degraded) {
            None => Ok(()),
            Some(probe) => Err(Error::Unavailable {
                step: Step::Orders,
                why: format!("profile `{profile}` needs `{}`, which is `{}` here", probe.name, probe.value),
            }),
        }
    }

    /// Runs a program. Dropping the future kills it.
    pub async fn run(&self, spec: Spec, on_log: Option<OnLog>) -> Result<Outcome, Error> {
        struct CancelOnDrop(Cancel);
        impl Drop for CancelOnDrop {
            fn drop(&mut self) {
                self.0.cancel();
            }
        }
        let guard = CancelOnDrop(Cancel::new()?);
        let (sandbox, cancel) = (self.clone(), guard.0.clone());
        // The jail dies with the thread that spawned it, so one thread spawns and stays until the end.
        let joined = tokio::task::spawn_blocking(move || sandbox.run_blocking(spec, on_log, Some(&cancel))).await;
        drop(guard);
        joined.unwrap_or_else(|error| Err(Error::Host { what: "watch the program", why: error.to_string(), started: true }))
    }

    /// Does the same as `run`, on the calling thread.
    pub fn run_blocking(&self, mut spec: Spec, on_log: Option<OnLog>, cancel: Option<&Cancel>) -> Result<Outcome, Error> {
        // The caller's time starts here, so the setup of the run counts towards it.
        let deadline = Instant::now() + spec.limits.wall;
        let Begun { running, leaf, lease: _lease, out_of_memory, mut facts } = self.begin(&mut spec, Life::OneRun)?;
        let started = running.started;
        let watch = pump::Watch {
            limits: spec.limits,
            deadline,
            look_at_memory: leaf.is_none(),
            stdin: spec.stdin,
            cancel: cancel.map(Cancel::as_fd),
            out_of_memory,
            on_log,
            resident: None,
        };
        let finished = pump::run(running, watch);
        let starved = leaf.as_ref().is_some_and(Leaf::ran_out_of_memory);
        self.0.jailer.refill(spec.profile, leaf);
        let mut finished = finished?;
        let ended = ended(&mut finished, starved)?;
        let Some((root, proc)) = finished.stage else { return Err(never_ready(ended)) };
        facts.proc = proc;
        Ok(Outcome {
            ended,
            result: finished.result,
            log: finished.log,
            cost: Cost::new(finished.usage.cpu, finished.usage.max_rss_bytes, started.elapsed()),
            facts,
            stage: Stage::new(root, spec.stage.files_max, spec.stage.bytes_max),
        })
    }

    /// Does everything up to the point where a jail has its orders and is at work.
    pub(crate) fn begin(&self, spec: &mut Spec, life: Life) -> Result<Begun, Error> {
        let inner = &*self.0;
        self.offers(spec.profile)?;
        check::check(spec, life)?;
        let program = inner.digests.open(&spec.program)?;
        let filters = inner.filters(spec);
        let facts = inner.facts(spec.profile, filters);
        let orders = inner.orders(spec, life, filters);
        let blobs: Vec<&[u8]> =
            filters.programs.iter().map(Vec::as_slice).chain(bytes_of(&spec.inputs)).chain(bytes_of(&spec.stage.initial)).collect();
        let orders = Packet::seal(&orders, &blobs).map_err(|error| Error::host("write the orders", error))?;

        let (running, leaf, lease) = inner.start(spec, life, &orders, &program, Instant::now())?;
        // Only the program may hold its end of the egress: a copy of ours would keep it open after the program's death.
        spec.egress = None;
        match leaf.as_ref().map(Leaf::out_of_memory_events).transpose() {
            Ok(events) => Ok(Begun { running, leaf, lease, out_of_memory: events.flatten(), facts }),
            Err(error) => {
                let error = Error::Host { what: "watch the cgroup", why: error.to_string(), started: true };
                Err(running.abandon(error))
            }
        }
    }
}

/// A jail at work, with the cgroup and the uid that belong to it until it ends.
pub(crate) struct Begun {
    pub(crate) running: Running,
    pub(crate) leaf: Option<Leaf>,
    pub(crate) lease: Option<Lease>,
    pub(crate) out_of_memory: Option<OwnedFd>,
    pub(crate) facts: Facts,
}

/// The processes of the jail itself, which count towards the limit beside those the program starts.
const OWN_PROCESSES: u64 = 2;

/// How far one process can pass the memory limit where no cgroup counts, if the server does not get to look for a while: its data, and the
/// page tables of its address space, which take a 512th of it, to twice the limit each.
const DATA_TIMES: u64 = 2;
const ADDRESS_SPACE_TIMES: u64 = 2 * 512;
/// A smaller memory limit counts as this much there: interpreters map far more than they touch.
const UNCOUNTED_BYTES_MIN: u64 = 256 << 20;

impl Inner {
    fn filters(&self, spec: &Spec) -> &Filters {
        let [default, high_isolation] = &self.filters;
        match (spec.profile, &spec.network) {
            (Profile::Default, None) => default,
            (Profile::Default, Some(_)) => &self.filters_with_network,
            (Profile::HighIsolation, _) => high_isolation,
        }
    }

    fn facts(&self, profile: Profile, filters: &Filters) -> Facts {
        let abi = self.probes.landlock_abi;
        let enforced = abi >= LANDLOCK_ABI_MIN;
        let more: &[&str] = if profile == Profile::HighIsolation { &["cgroup", "time"] } else { &[] };
        let names = ["user", "mnt", "pid", "net", "ipc", "uts"];
        Facts {
            profile,
            landlock_abi: if enforced { abi.min(LANDLOCK_ABI_MAX) } else { 0 },
            seccomp_sha256: filters.sha256.clone(),
            namespaces: names.iter().chain(more).map(|name| (*name).to_owned()).collect(),
            cgroup_backend: self.probes.cgroups.backend,
            proc: false,
            degraded: if enforced { vec![] } else { vec!["landlock".to_owned()] },
        }
    }

    fn orders(&self, spec: &Spec, life: Life, filters: &Filters) -> Orders {
        let abi = self.probes.landlock_abi.min(LANDLOCK_ABI_MAX);
        let sized = |inputs: &[Input]| inputs.iter().map(|input| Sized { path: input.path.clone(), bytes: input.bytes.len() }).collect();
        let uncounted = self.probes.cgroups.backend == CgroupBackend::None;
        let bound = |times: u64| {
            let of_memory = || uncounted.then(|| spec.limits.memory_bytes.max(UNCOUNTED_BYTES_MIN).saturating_mul(times));
            spec.limits.address_space_bytes.or_else(of_memory)
        };
        let of_file = || spec.program.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = spec.name.clone().unwrap_or_else(of_file);
        Orders {
            trees_given: self.probes.is_root,
            binds: bounds(spec),
            inputs: sized(&spec.inputs),
            stage_bytes_max: spec.stage.bytes_max,
            stage_files_max: spec.stage.files_max,
            stage_initial: sized(&spec.stage.initial),
            args: std::iter::once(name).chain(spec.args.iter().cloned()).collect(),
            env: spec.env.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            starts_in: spec.starts_in.clone().or_else(|| spec.folder.as_ref().map(|_| FOLDER.into())),
            limits: Rlimits {
                address_space: bound(ADDRESS_SPACE_TIMES),
                data: bound(DATA_TIMES),
                cpu_seconds: (life == Life::OneRun).then(|| spec.limits.cpu.as_secs().max(1).saturating_add(1)),
                file_bytes: spec.limits.file_bytes,
                open_files: spec.limits.open_files.into(),
                processes: u64::from(spec.limits.processes) + OWN_PROCESSES,
            },
            landlock_abi: (abi >= LANDLOCK_ABI_MIN).then_some(abi),
            filters: filters.programs.iter().map(Vec::len).collect(),
            egress: spec.egress.is_some(),
            network: spec.network.as_ref().map(|network| network.ports.clone()),
            is_resident: life != Life::OneRun,
        }
    }

    /// Takes a jail, sets its limits and sends it its orders.
    fn start(&self, spec: &Spec, life: Life, orders: &OwnedFd, program: &OwnedFd, started: Instant) -> Result<Started, Error> {
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| Error::host("make a pipe", error));
        let ((stdin, stdin_ours), (stdout_ours, stdout), (stderr_ours, stderr)) = (pipe()?, pipe()?, pipe()?);
        let mut fds = vec![orders.as_fd(), program.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        fds.extend(spec.egress.as_ref().map(OwnedFd::as_fd));
        let trees = if self.probes.is_root { jail::open_trees(&bounds(spec))? } else { vec![] };
        fds.extend(trees.iter().map(OwnedFd::as_fd));
        let (cpu, mut spare) = match life {
            Life::OneRun => (Cpu::Unbounded, self.jailer.take(spec.profile)?),
            Life::Resident { .. } => (Cpu::Bounded, self.jailer.take_new(spec.profile, Cpu::Bounded)?),
        };
        if self.give(&spare, spec, life, &fds)?.is_err() {
            // The spare died while it waited. If a new one dies as well, that is no accident.
            spare.dismiss();
            spare = self.jailer.take_new(spec.profile, cpu)?;
            if let Err(error) = self.give(&spare, spec, life, &fds)? {
                spare.dismiss();
                return Err(Error::host("give the jail its orders", error));
            }
        }
        let Spare { pid, handle, control, leaf, lease, .. } = spare;
        let (stdin, stdout, stderr) = (Some(stdin_ours), Some(stdout_ours), stderr_ours);
        Ok((Running { pid, handle, control, stdin, stdout, stderr, started }, leaf, lease))
    }

    fn give(&self, spare: &Spare, spec: &Spec, life: Life, fds: &[BorrowedFd<'_>]) -> Result<Result<(), Errno>, Error> {
        if let (Some(own), Some(lease)) = (&spec.folder, &spare.lease) {
            folder::give(own, lease.uid).map_err(|error| Error::host("give the program its folder", error))?;
        }
        match &spare.leaf {
            Some(leaf) => {
                let processes = u64::from(spec.limits.processes) + OWN_PROCESSES;
                let cpu_percent = match life {
                    Life::OneRun => None,
                    Life::Resident { cpu_percent } => Some(cpu_percent),
                };
                leaf.bound(Bounds { memory_bytes: spec.limits.memory_bytes, processes, cpu_percent })?;
            }
            None if !self.probes.memory_is_countable => {
                return Err(Error::Unavailable { step: Step::Cgroup, why: "nothing here can bound memory".into() });
            }
            None => {}
        }
        Ok(word::give_orders(spare.control.as_fd(), fds))
    }
}

/// The newest Landlock ABI whose access rights we know.
const LANDLOCK_ABI_MAX: i32 = 9;

type Started = (Running, Option<Leaf>, Option<Lease>);

fn bounds(spec: &Spec) -> Vec<Bound> {
    let bound = |host: &PathBuf, jail: &Path, only| Bound { host: host.clone(), jail: jail.to_owned(), only, is_writable: false };
    let whole = spec.read_only.iter().map(|bind| bound(&bind.host, &bind.jail, None));
    let parts = spec.views.iter().map(|view| bound(&view.host, &view.jail, Some(view.only.clone())));
    let own = spec.folder.iter().map(|folder| Bound { is_writable: true, ..bound(folder, Path::new(FOLDER), None) });
    whole.chain(parts).chain(own).collect()
}

fn bytes_of(inputs: &[Input]) -> impl Iterator<Item = &[u8]> {
    inputs.iter().map(|input| input.bytes.as_slice())
}

/// How the run ended. Called when every process of it is dead.
pub(crate) fn ended(finished: &mut Finished, out_of_memory: bool) -> Result<Ended, Error> {
    if let Some((step, why)) = finished.failed.take() {
        return Err(Error::Unavailable { step, why });
    }
    let killed = Ended::Signalled(libc::SIGKILL);
    Ok(if out_of_memory { Ended::OutOfMemory } else { finished.stopped.or(finished.said).unwrap_or(killed) })
}

/// The error for a run whose jail ended before the program started.
pub(crate) fn never_ready(ended: Ended) -> Error {
    match ended {
        // The run was stopped before even the jail was ready.
        Ended::TimedOut | Ended::Cancelled | Ended::OutOfMemory => {
            Error::Unavailable { step: Step::Init, why: format!("the jail was not ready when the run ended as `{ended:?}`") }
        }
        Ended::Exited(_) | Ended::Signalled(_) | Ended::Flooded => {
            Error::Unavailable { step: Step::Orders, why: "the jail ended without a word".into() }
        }
    }
}
