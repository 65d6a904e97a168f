//! Steps 7 to 14, and the end of step 6: the process that becomes the program gives up its rights. Each step needs rights that a later step
//! takes away, so the order is fixed.

use super::{Failure, at, identity, mounts};
use crate::error::Step;
use crate::orders::{Orders, Packet, fd};
use crate::{filter, sys};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

pub(super) fn become_program(packet: &Packet, program: &OwnedFd, proc: bool) -> Result<Infallible, Failure> {
    let orders = &packet.orders;
    identity::die_with_parent(None)?;
    sys::default_signals();
    let texts = |texts: &[String]| -> Result<Vec<CString>, Failure> {
        texts.iter().map(|text| CString::new(text.as_str())).collect::<Result<_, _>>().map_err(at(Step::Exec, "reading the arguments"))
    };
    let (args, env) = (texts(&orders.args)?, texts(&orders.env)?);

    mounts::hide_list()?; // 6
    limit(orders)?; // 7
    drop_capabilities()?; // 8
    let start = orders.starts_in.as_deref().unwrap_or(Path::new("/stage"));
    rustix::process::chdir(start).map_err(at(Step::Directory, format_args!("entering `{}`", start.display())))?; // 9
    rustix::process::umask(Mode::from_raw_mode(0o077));
    close(orders)?; // 10
    rustix::thread::set_no_new_privs(true).map_err(at(Step::NoNewPrivileges, "giving up new privileges"))?; // 11
    if let Some(abi) = orders.landlock_abi {
        restrict(abi, orders, program, proc)?; // 12
    }
    for bytes in packet.blobs.iter().take(orders.filters.len()) {
        filter::install(bytes).map_err(at(Step::Seccomp, "installing a filter"))?; // 13
    }
    Err(Failure::new(Step::Exec, "executing the program", sys::exec(program.as_fd(), &args, &env))) // 14
}

/// 7. Sets the limits of one process.
fn limit(orders: &Orders) -> Result<(), Failure> {
    let limits = &orders.limits;
    let mut all = vec![
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nofile, limits.open_files),
        (Resource::Nproc, limits.processes),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
        (Resource::Stack, 8 << 20),
        // With a limit of 0 the kernel still starts a core handler that is a pipe; with 1 it never does.
        (Resource::Core, 1),
        (Resource::Rtprio, 0),
        (Resource::Nice, 0),
        (Resource::Sigpending, 1024),
    ];
    all.extend(limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds)));
    all.extend(limits.address_space.map(|bytes| (Resource::As, bytes)));
    all.extend(limits.data.map(|bytes| (Resource::Data, bytes)));
    for (resource, most) in all {
        // Never above the hard limit the server was given: the jail may not raise it.
        let most = rustix::process::getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        // SIGXCPU comes at the soft limit; a second later, the hard limit kills the process.
        let first = if resource == Resource::Cpu { most.saturating_sub(1).max(1) } else { most };
        let limit = Rlimit { current: Some(first), maximum: Some(most) };
        setrlimit(resource, limit).map_err(at(Step::Limits, format_args!("limiting `{resource:?}`")))?;
    }
    Ok(())
}

/// 8. Drops every capability, makes sure that none can come back, and checks it with the kernel.
fn drop_capabilities() -> Result<(), Failure> {
    let failed = |error: rustix::io::Errno| Failure::new(Step::Capabilities, "giving up capabilities", error);
    let mut number = 0;
    while sys::drop_from_bounding_set(number).map_err(at(Step::Capabilities, "giving up the bounding set"))? {
        number += 1;
    }
    rustix::thread::clear_ambient_capability_set().map_err(failed)?;
    rustix::thread::set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )
    .map_err(failed)?;
    forget_capabilities().map_err(failed)?;
    let left = rustix::thread::capabilities(None).map_err(failed)?;
    if (left.effective | left.permitted | left.inheritable).is_empty() {
        Ok(())
    } else {
        Err(Failure::new(Step::Capabilities, "giving up capabilities", "some are left"))
    }
}

/// Drops capabilities in the processes that only wait and never execute anything; for those, this is enough.
pub(super) fn forget_capabilities() -> Result<(), rustix::io::Errno> {
    let none = CapabilitySets { effective: CapabilitySet::empty(), permitted: CapabilitySet::empty(), inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, none)
}

/// 10. Leaves open the three streams, the egress if there is one, and the descriptors that the exec closes by itself.
fn close(orders: &Orders) -> Result<(), Failure> {
    let first = if orders.egress { fd::EGRESS + 1 } else { fd::EGRESS };
    for (from, to) in [(first as u32, fd::EXEC as u32 - 1), (fd::CONTROL_KEPT as u32 + 1, u32::MAX)] {
        sys::close_range(from, to).map_err(at(Step::Descriptors, "closing what is not the program's"))?;
    }
    Ok(())
}

/// 12. Landlock: the kernel's own list of allowed paths, in addition to the mounts.
fn restrict(abi: i32, orders: &Orders, program: &OwnedFd, proc: bool) -> Result<(), Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Failure::new(Step::Landlock, what, error);
    let abi = ABI::from(abi);
    let read = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let write = AccessFs::from_all(abi)
        & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::Refer | AccessFs::IoctlDev);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        // A program that sees a network is alone in it: its namespace decides what there is to reach.
        .and_then(|ruleset| if orders.network.is_some() { Ok(ruleset) } else { ruleset.handle_access(AccessNet::from_all(abi)) })
        .and_then(|ruleset| ruleset.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .map_err(|error| failed("making the rules", &error))?;

    let mut allow = |path: &str, access: BitFlags<AccessFs>| -> Result<(), Failure> {
        let fd = PathFd::new(path).map_err(|error| failed("opening a path", &error))?;
        // A rule on a file may only contain rights that apply to files.
        let directory = std::fs::metadata(path).is_ok_and(|found| found.is_dir());
        let access = if directory { access } else { access & AccessFs::from_file(abi) };
        (&mut ruleset).add_rule(PathBeneath::new(fd, access)).map_err(|error| failed("adding a path", &error))?;
        Ok(())
    };
    for bind in &orders.binds {
        // Its files may be moved between its folders, as those of a stage, which is read at the end, may not.
        allow(&bind.jail.to_string_lossy(), if bind.is_writable { write | AccessFs::Refer } else { read })?;
    }
    let root = Path::new("/");
    let beside: BTreeSet<&Path> =
        orders.inputs.iter().map(|input| input.path.parent().filter(|parent| *parent != root).unwrap_or(&input.path)).collect();
    for path in beside {
        allow(&path.to_string_lossy(), AccessFs::ReadFile | AccessFs::ReadDir)?;
    }
    for device in mounts::DEVICES {
        allow(device, AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    if proc {
        allow("/proc", AccessFs::ReadFile | AccessFs::ReadDir)?;
    }
    allow("/stage", write)?;
    allow("/tmp", write)?;
    (&mut ruleset)
        .add_rule(PathBeneath::new(program, AccessFs::ReadFile | AccessFs::Execute))
        .map_err(|error| failed("adding the program", &error))?;
    let status = ruleset.restrict_self().map_err(|error| failed("enforcing the rules", &error))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => Err(failed("enforcing the rules", &"they hold only in part")),
    }
}
