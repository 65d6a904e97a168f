//! The abilities of this host, found by trying each once at the start. `countersign doctor` shows them.

use crate::cgroup::Cgroups;
use crate::orders::JAIL_NAME;
use crate::outcome::CgroupBackend;
use crate::spec::Profile;
use crate::{memory, sys};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::CString;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The oldest Landlock ABI that is accepted: the first that keeps signals and abstract sockets inside the jail.
pub(crate) const LANDLOCK_ABI_MIN: i32 = 6;

/// The default first uid of the pool: above every range that hosts assign to people, services or containers.
pub const UID_FIRST: u32 = 1_879_048_192;

/// One ability of the host that the jail depends on.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    pub name: &'static str,
    pub value: String,
    /// What the value means for the operator.
    pub consequence: String,
    /// The profiles that are not available because of this.
    pub disables: Vec<Profile>,
}

/// Every probe, in the order in which the jail needs them.
#[derive(Debug, Serialize)]
pub struct Probes {
    pub probes: Vec<Probe>,
    #[serde(skip)]
    pub(crate) cgroups: Arc<Cgroups>,
    #[serde(skip)]
    pub(crate) landlock_abi: i32,
    #[serde(skip)]
    pub(crate) is_root: bool,
    #[serde(skip)]
    pub(crate) memory_is_countable: bool,
}

const BOTH: &[Profile] = &Profile::ALL;
const HIGH: &[Profile] = &[Profile::HighIsolation];
const NONE: &[Profile] = &[];

impl Probes {
    /// Tries everything. `helper` is the program that becomes the jail; it tries what the server must not do to itself.
    pub fn now(helper: &Path) -> Self {
        let cgroups = Arc::new(Cgroups::find());
        let (landlock_abi, errata) = sys::landlock().unwrap_or((0, 0));
        let is_root = rustix::process::geteuid().is_root();
        let memory_is_countable = memory::is_countable();
        let tried = try_in_helper(helper);

        let mut probes = vec![];
        let mut add = |name, value: String, good: bool, disables: &[Profile], consequence: &str| {
            let disables = if good { vec![] } else { disables.to_vec() };
            probes.push(Probe { name, value, consequence: consequence.to_owned(), disables });
        };
        let (says, enough) = (format!("abi {landlock_abi}, errata {errata:#x}"), landlock_abi >= LANDLOCK_ABI_MIN);
        add(
            "landlock",
            says,
            enough,
            BOTH,
            "below 6, signals and abstract sockets are not kept inside; `allow_degraded` lets `default` do without",
        );
        for (name, disables, consequence) in [
            ("namespaces", BOTH, "user, mount, pid, network, ipc and uts; without them there is no jail"),
            ("more_namespaces", HIGH, "cgroup and time, which `high_isolation` adds"),
            ("tmpfs", BOTH, "the stage is a file system in memory, made in the jail's own namespace"),
            ("overlay", NONE, "needed only by code that edits in place"),
            ("proc", NONE, "a `/proc` of its own processes; without it a program has none"),
        ] {
            let value = tried.get(name).cloned().unwrap_or_else(|| "not tried: the helper said nothing".to_owned());
            let good = value == "ok";
            add(name, value, good, disables, consequence);
        }
        let actions = [
            ("kill_process", 0x8000_0000),
            ("errno", 0x0005_0000),
            ("user_notif", 0x7fc0_0000),
            ("log", 0x7ffc_0000),
            ("trap", 0x0003_0000),
        ];
        let known: Vec<_> = actions.iter().filter(|(_, action)| sys::seccomp_knows(*action)).map(|(name, _)| *name).collect();
        let enough = ["kill_process", "errno"].iter().all(|name| known.contains(name));
        add("seccomp", known.join(", "), enough, BOTH, "the filter answers with an error or kills; nothing else is used");
        let calls = [
            ("pidfd_open", libc::SYS_pidfd_open),
            ("close_range", libc::SYS_close_range),
            ("open_tree", libc::SYS_open_tree),
            ("mount_setattr", libc::SYS_mount_setattr),
            ("openat2", libc::SYS_openat2),
            ("execveat", libc::SYS_execveat),
        ];
        let missing: Vec<_> = calls.iter().filter(|(_, number)| !sys::exists(*number)).map(|(name, _)| *name).collect();
        let says = if missing.is_empty() { "all there".into() } else { format!("missing: {}", missing.join(", ")) };
        add("system_calls", says, missing.is_empty(), BOTH, "the jail is built with them, and has no second way");
        let resolve = resolve_refuses();
        add(
            "openat2_resolve",
            if resolve { "refuses".into() } else { "does not refuse".into() },
            resolve,
            BOTH,
            "how a stage is read without leaving it",
        );
        let backend = cgroups.backend != CgroupBackend::None;
        let says = match cgroups.backend {
            CgroupBackend::V2 => "v2".to_owned(),
            CgroupBackend::V1 => format!("v1 ({})", cgroups.why),
            CgroupBackend::None => format!("none ({})", cgroups.why),
        };
        add("cgroup", says, backend, HIGH, "bounds memory and processes; without it `default` looks at memory every 50 ms");
        let says = if memory_is_countable { "readable" } else { "not readable" };
        add("process_children", says.into(), backend || memory_is_countable, BOTH, "how memory is counted where no cgroup does it");
        let mapped = !is_root || is_mapped(UID_FIRST);
        let says = if !is_root {
            "an ordinary user"
        } else if mapped {
            "root, pool uids mapped"
        } else {
            "root, pool uids not mapped"
        };
        add(
            "uid",
            says.into(),
            is_root && mapped,
            HIGH,
            "root gives each run a uid of its own; an ordinary user has only its own, which `high_isolation` does not take",
        );
        for (name, path, consequence) in [
            ("io_uring_disabled", "/proc/sys/kernel/io_uring_disabled", "the filter refuses io_uring whatever this says"),
            ("memfd_noexec", "/proc/sys/vm/memfd_noexec", "the filter refuses memfd_create whatever this says"),
            ("user_namespaces_max", "/proc/sys/user/max_user_namespaces", "one is used for each run"),
            ("security_modules", "/sys/kernel/security/lsm", "others add to the jail and take nothing from it"),
            ("core_pattern", "/proc/sys/kernel/core_pattern", "a jailed program never dumps"),
        ] {
            let value = std::fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
            add(name, value, true, NONE, consequence);
        }
        let ia32 = if Path::new("/proc/sys/abi/vsyscall32").exists() { "on" } else { "off" };
        add("ia32", ia32.into(), true, NONE, "32-bit and x32 calls kill the program");
        let devices: Vec<_> = ["/dev/kvm", "/dev/fuse", "/dev/net/tun"].into_iter().filter(|path| Path::new(path).exists()).collect();
        add("devices", devices.join(" "), true, NONE, "present on the host, absent in the jail");
        Self { probes, cgroups, landlock_abi, is_root, memory_is_countable }
    }

    /// The probe that makes this profile unavailable, if any. Ignores a protection that the operator allows to be missing.
    pub fn against(&self, profile: Profile, allow_degraded: bool) -> Option<&Probe> {
        let forgiven = |probe: &Probe| allow_degraded && profile == Profile::Default && probe.name == "landlock";
        self.probes.iter().find(|probe| probe.disables.contains(&profile) && !forgiven(probe))
    }
}

/// Whether `openat2` can refuse to leave a directory and to follow links. The stage depends on it.
fn resolve_refuses() -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(proc) = rustix::fs::open("/proc", flags | OFlags::DIRECTORY, Mode::empty()) else { return false };
    let open = |path, resolve| rustix::fs::openat2(proc.as_fd(), path, flags, Mode::empty(), resolve).map(drop);
    open("..", ResolveFlags::BENEATH) == Err(Errno::XDEV)
        && open("self/exe", ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS) == Err(Errno::LOOP)
        && open("..", ResolveFlags::NO_XDEV) == Err(Errno::XDEV)
}

/// Whether this uid is mapped in our user namespace.
fn is_mapped(uid: u32) -> bool {
    std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default().lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers[..], [inside, _, count] if (inside..inside + count).contains(&u64::from(uid)))
    })
}

/// Starts the helper, which tries on itself the things that cannot be undone.
fn try_in_helper(helper: &Path) -> std::collections::BTreeMap<String, String> {
    let tried = || -> std::io::Result<String> {
        let (reader, writer) = std::io::pipe()?;
        let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        let program = CString::new(helper.as_os_str().as_bytes())?;
        let name = CString::new(JAIL_NAME)?;
        let fds = [(null.as_fd(), 0), (writer.as_fd(), 1), (null.as_fd(), 2)];
        let pid = sys::spawn(&program, &[&name, c"try"], &fds)?;
        drop(writer);
        let mut said = String::new();
        let read = reader.take(64 << 10).read_to_string(&mut said);
        sys::reap(pid)?;
        read.map(|_| said)
    };
    let said = tried().unwrap_or_default();
    said.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_landlock_is_ever_forgiven_and_only_in_default() {
        let probe =
            |name, disables: &[Profile]| Probe { name, value: String::new(), consequence: String::new(), disables: disables.to_vec() };
        for (name, allow_degraded, profile, refused) in [
            ("landlock", false, Profile::Default, true),
            ("landlock", true, Profile::Default, false),
            ("landlock", true, Profile::HighIsolation, true),
            ("namespaces", true, Profile::Default, true),
            ("cgroup", true, Profile::HighIsolation, true),
        ] {
            let probes = Probes {
                probes: vec![probe(name, BOTH)],
                cgroups: Arc::new(Cgroups::find()),
                landlock_abi: 0,
                is_root: false,
                memory_is_countable: true,
            };
            assert_eq!(probes.against(profile, allow_degraded).is_some(), refused, "{name} {allow_degraded} {profile}");
        }
    }
}
