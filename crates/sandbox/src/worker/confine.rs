//! The worker's side: it takes its limits on, gives up everything else, and serves.

use super::{LIMITED, NAME, READY};
use crate::{filter, sys};
use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use rustix::process::{DumpableBehavior, Resource, Rlimit, setrlimit};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufReader, StdinLock, StdoutLock, Write};
use std::os::fd::AsFd;

const EXIT_FAILED: i32 = 70;
/// The newest Landlock whose rights the crate knows; an older kernel enforces what it has.
const ABI_WANTED: ABI = ABI::V6;

/// If this process was started as a worker, confines it, lets `serve` read requests and write answers until there are no more, and never
/// returns.
///
/// Must be called first in `main`: no thread may have been started and no descriptor opened before it.
pub fn serve_if_asked(serve: impl FnOnce(BufReader<StdinLock<'static>>, StdoutLock<'static>) -> io::Result<()>) {
    let mut args = std::env::args_os();
    if args.next().is_none_or(|name| name != NAME) {
        return;
    }
    let args: Vec<_> = args.filter_map(|arg| arg.into_string().ok()).collect();
    let done = match args.as_slice() {
        [word] if word == LIMITED => confine().and_then(|()| {
            let mut answers = io::stdout().lock();
            answers.write_all(READY.as_bytes())?;
            answers.flush()?;
            serve(BufReader::new(io::stdin().lock()), answers)
        }),
        [address_space, cpu_seconds] => take_limits(address_space, cpu_seconds),
        _ => Err(io::Error::other("not the arguments of a worker")),
    };
    std::process::exit(if done.is_ok() { 0 } else { EXIT_FAILED });
}

/// Sets the limits and starts the binary again: an allocator that has already taken its address space would not notice a limit.
fn take_limits(address_space: &str, cpu_seconds: &str) -> io::Result<()> {
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    let bounds = [
        (Resource::As, number(address_space)?),
        // Only for a worker whose server is gone while it computes.
        (Resource::Cpu, number(cpu_seconds)?),
        (Resource::Fsize, 0),
        (Resource::Memlock, 0),
        // With a limit of 0 the kernel still starts a core handler that is a pipe; with 1 it never does.
        (Resource::Core, 1),
    ];
    for (resource, most) in bounds {
        let most = rustix::process::getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    let this = File::open("/proc/self/exe")?;
    let text = |text: &str| CString::new(text).map_err(io::Error::other);
    Err(sys::exec(this.as_fd(), &[text(NAME)?, text(LIMITED)?], &[]))
}

/// Gives up files, network, and whatever else is not computing. The filter alone would do; Landlock is there in case it has a hole.
fn confine() -> io::Result<()> {
    sys::close_range(3, u32::MAX)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::set_no_new_privs(true)?;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_WANTED))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(ABI_WANTED)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI_WANTED)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(io::Error::other)?;
    filter::install(&filter::of_worker()).map_err(io::Error::other)
}
