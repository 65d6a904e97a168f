//! Control groups: limits on memory and processes that a program cannot evade.
//!
//! Each run gets a group of its own, called a leaf. With cgroup v1 the leaf lies under the server's own group, so that the limits of the
//! server apply to its jails too. With v2 a group that has processes cannot have children with limits, so the leaf lies beside the server's
//! group, and the limits of their common parent apply to both. Version 2 is used where it has the controllers, else version 1, else none;
//! without cgroups the caller falls back to resource limits, or refuses the run.

use crate::error::{Error, Step};
use crate::outcome::CgroupBackend;
use parking_lot::Mutex;
use rustix::event::EventfdFlags;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the group that holds our leaves.
const OURS: &str = "countersign";

/// The period of the processor quota: a share is used up within it, and renewed for the next.
const CPU_PERIOD_US: u64 = 100_000;

/// Whether a run has a limited share of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cpu {
    Bounded,
    Unbounded,
}

#[derive(Debug)]
pub(crate) struct Cgroups {
    pub(crate) backend: CgroupBackend,
    /// The folders in which leaves are made: one for version 2; for version 1, that of `memory`, then that of `pids`.
    bases: Vec<PathBuf>,
    /// The folder where the processor can be limited: the same folder in version 2, a hierarchy of its own in version 1.
    cpu: Option<PathBuf>,
    /// Why a better backend is not used; shown to the operator.
    pub(crate) why: String,
    /// Shows other servers that the leaves of this one are in use.
    alive: Option<Alive>,
    made: AtomicU64,
    /// Leaves that could not be removed yet.
    left: Mutex<Vec<PathBuf>>,
}

/// The limits of a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u64,
    /// The share of one processor for all processes together. No effect where no group limits the processor.
    pub(crate) cpu_percent: Option<u32>,
}

impl Drop for Cgroups {
    /// Removes our groups. A group that still has leaves, ours or another server's, stays.
    fn drop(&mut self) {
        self.remove_left();
        self.alive = None;
        // In version 2 the group carries settings that another server beside us relies on.
        if self.backend == CgroupBackend::V1 {
            for base in self.bases.iter().chain(&self.cpu) {
                let _ = fs::remove_dir(base);
            }
        }
    }
}

/// The group of one run; removed when dropped.
#[derive(Debug)]
pub(crate) struct Leaf {
    owner: Arc<Cgroups>,
    folders: Vec<PathBuf>,
    /// The folder that limits the processor, if that was asked for and is possible.
    cpu: Option<PathBuf>,
}

impl Cgroups {
    /// Finds a backend by trying to write to it, and removes leaves that dead servers have left.
    pub(crate) fn find() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut why = vec![];
        let (mut backend, mut bases, mut alive) = (CgroupBackend::None, vec![], None);
        for (candidate, groups) in [(CgroupBackend::V2, v2(&mounts, &own)), (CgroupBackend::V1, v1(&mounts, &own))] {
            let prepared = groups.and_then(|groups| prepare(candidate, groups));
            match prepared.and_then(|bases| Ok((Alive::in_first(&bases)?, bases))) {
                Ok((held, prepared)) => {
                    (backend, bases, alive) = (candidate, prepared, Some(held));
                    break;
                }
                Err(reason) => why.push(reason),
            }
        }
        let cpu = match backend {
            CgroupBackend::V2 => bases.first().filter(|base| share_cpu(base).is_ok()).cloned(),
            CgroupBackend::V1 => {
                v1_group(&mounts, &own, "cpu").and_then(|group| prepare(backend, vec![group])).ok().and_then(|mut one| one.pop())
            }
            CgroupBackend::None => None,
        };
        let cgroups = Self { backend, bases, cpu, why: why.join("; "), alive, made: AtomicU64::new(0), left: Mutex::new(vec![]) };
        cgroups.sweep();
        cgroups
    }

    /// Makes a group for one run. Entering another hierarchy takes time, so only runs with a limited processor enter that of `cpu`.
    pub(crate) fn leaf(self: &Arc<Self>, cpu: Cpu) -> Result<Option<Leaf>, Error> {
        if self.backend == CgroupBackend::None {
            return Ok(None);
        }
        self.remove_left();
        let name = format!("{}.{}", owner_name(), self.made.fetch_add(1, Ordering::Relaxed));
        let cpu = self.cpu.as_ref().filter(|_| cpu == Cpu::Bounded);
        let mut leaf = Leaf { owner: self.clone(), folders: vec![], cpu: cpu.map(|base| base.join(&name)) };
        let failed = |error: io::Error| Error::Unavailable { step: Step::Cgroup, why: format!("making a cgroup: {error}") };
        for base in self.bases.iter().chain(cpu.filter(|base| !self.bases.contains(base))) {
            let folder = base.join(&name);
            make(&folder).map_err(failed)?;
            leaf.folders.push(folder);
        }
        Ok(Some(leaf))
    }

    /// Removes the leaves of servers that are gone, also of those in other pid namespaces. Those leaves are empty, because jails die with
    /// their server.
    fn sweep(&self) {
        let Some(first) = self.bases.first() else { return };
        for sign in groups_in(first).filter(|folder| folder.extension().is_some_and(|end| end == ALIVE)) {
            // The lock is kept until the folder is gone, so that a server that has made it and not locked it yet notices.
            if let Ok(lock) = fs::File::open(&sign)
                && lock.try_lock().is_ok()
            {
                let _ = fs::remove_dir(&sign);
            }
        }
        for folder in self.bases.iter().chain(&self.cpu).flat_map(|base| groups_in(base)) {
            if owner_of(&folder).is_some_and(|owner| !first.join(format!("{owner}.{ALIVE}")).exists()) {
                let _ = fs::remove_dir(&folder);
            }
        }
    }

    fn remove_left(&self) {
        self.left.lock().retain(|folder| fs::remove_dir(folder).is_err() && folder.exists());
    }
}

impl Leaf {
    /// The files into which the jail writes its pid.
    pub(crate) fn procs(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// Whether the kernel killed a process of this leaf because it ran out of memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let file = match self.owner.backend {
            CgroupBackend::V2 => "memory.events",
            CgroupBackend::V1 => "memory.oom_control",
            CgroupBackend::None => return false,
        };
        let text = self.folders.first().and_then(|folder| fs::read_to_string(folder.join(file)).ok()).unwrap_or_default();
        text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
    }

    /// A descriptor that is readable as soon as the kernel kills a process of this leaf for lack of memory. `None` in version 2, where the
    /// kernel kills the whole leaf at once.
    pub(crate) fn out_of_memory_events(&self) -> io::Result<Option<OwnedFd>> {
        let (CgroupBackend::V1, Some(folder)) = (self.owner.backend, self.folders.first()) else { return Ok(None) };
        let events = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let control = fs::File::open(folder.join("memory.oom_control"))?;
        fs::write(folder.join("cgroup.event_control"), format!("{} {}", events.as_raw_fd(), control.as_raw_fd()))?;
        Ok(Some(events))
    }

    /// Sets the limits of the next run, before it starts.
    pub(crate) fn bound(&self, bounds: Bounds) -> Result<(), Error> {
        self.write(bounds).map_err(|error| Error::Unavailable { step: Step::Cgroup, why: format!("bounding a cgroup: {error}") })
    }

    fn write(&self, bounds: Bounds) -> io::Result<()> {
        let memory = self.folders.first().ok_or(io::ErrorKind::NotFound)?;
        let pids = self.folders.get(1).unwrap_or(memory);
        let bytes = bounds.memory_bytes.to_string();
        match self.owner.backend {
            CgroupBackend::V2 => {
                fs::write(memory.join("memory.max"), &bytes)?;
                // The file is missing where the kernel has no swap; then there is nothing to limit.
                optional(fs::write(memory.join("memory.swap.max"), "0"))?;
                // If one process is killed, kill them all: a program that lost one of its processes cannot be trusted with the rest.
                fs::write(memory.join("memory.oom.group"), "1")?;
            }
            CgroupBackend::V1 => {
                fs::write(memory.join("memory.limit_in_bytes"), &bytes)?;
                optional(fs::write(memory.join("memory.memsw.limit_in_bytes"), &bytes))?;
            }
            CgroupBackend::None => {}
        }
        if let (Some(cpu), Some(percent)) = (&self.cpu, bounds.cpu_percent) {
            let quota = u64::from(percent) * (CPU_PERIOD_US / 100);
            match self.owner.backend {
                CgroupBackend::V2 => fs::write(cpu.join("cpu.max"), format!("{quota} {CPU_PERIOD_US}"))?,
                CgroupBackend::V1 => {
                    fs::write(cpu.join("cpu.cfs_period_us"), CPU_PERIOD_US.to_string())?;
                    fs::write(cpu.join("cpu.cfs_quota_us"), quota.to_string())?;
                }
                CgroupBackend::None => {}
            }
        }
        fs::write(pids.join("pids.max"), bounds.processes.to_string())
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        for folder in self.folders.drain(..) {
            // A dead process may not have left the group yet. Then the next run or the next start of the server removes the group.
            if fs::remove_dir(&folder).is_err() {
                self.owner.left.lock().push(folder);
            }
        }
    }
}

/// How often a folder is made anew that another server removes meanwhile.
const TRIES: usize = 16;

/// Makes a leaf, and the group around it if it is missing: another server may have found that group empty and removed it.
fn make(folder: &Path) -> io::Result<()> {
    let mut made = fs::create_dir_all(folder);
    for _ in 1..TRIES {
        match &made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => made = fs::create_dir_all(folder),
            Ok(()) | Err(_) => break,
        }
    }
    made
}

fn optional(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// What the name of the folder of a living server ends with.
const ALIVE: &str = "alive";

/// A folder beside the leaves that this server keeps locked, from before its first leaf until after its last. The lock ends with the server,
/// however it ends, and is seen from every namespace: whoever can take it knows that the server is dead.
#[derive(Debug)]
struct Alive {
    folder: PathBuf,
    lock: fs::File,
}

impl Alive {
    fn in_first(bases: &[PathBuf]) -> Result<Self, String> {
        let base = bases.first().ok_or("no cgroup to be alive in")?;
        Self::hold(base).map_err(|error| format!("`{}` cannot be locked: {error}", base.display()))
    }

    fn hold(base: &Path) -> io::Result<Self> {
        let folder = base.join(format!("{}.{ALIVE}", owner_name()));
        for _ in 0..TRIES {
            make(&folder)?;
            let Ok(lock) = fs::File::open(&folder) else { continue };
            lock.lock_shared()?;
            // Another server may have swept the folder away before it was locked.
            if fs::metadata(&folder).is_ok_and(|now| lock.metadata().is_ok_and(|held| held.ino() == now.ino())) {
                return Ok(Self { folder, lock });
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        // It stays while another sandbox of this process needs it.
        if self.lock.try_lock().is_ok() {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// The name of this server: its pid namespace, its pid, and its start time, which tells it from a later process of the same pid.
fn owner_name() -> String {
    let namespace = fs::read_link("/proc/self/ns/pid").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
    let namespace: String = namespace.chars().filter(char::is_ascii_digit).collect();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The process name in brackets may contain anything, so the fields are counted after the last bracket.
    let start = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(19)).unwrap_or("0");
    format!("{namespace}-{}-{start}", std::process::id())
}

/// The server that made a group; `None` if no server did.
fn owner_of(folder: &Path) -> Option<&str> {
    let (owner, _) = folder.file_name()?.to_str()?.split_once('.')?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (owner.split('-').count() == 3 && owner.split('-').all(is_number)).then_some(owner)
}

fn groups_in(base: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Where version 2 can hold our leaves: in the parent of our own group, because a group with processes cannot have children with limits.
fn v2(mounts: &str, own: &str) -> Result<Vec<PathBuf>, String> {
    let mount = mount_of(mounts, |kind, _| kind == "cgroup2").ok_or("no cgroup v2 is mounted")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let group = Path::new(path).parent().map_or_else(|| mount.clone(), |parent| mount.join(parent));
    Ok(vec![group])
}

/// Where version 1 can hold our leaves: in our own group, in the hierarchy of each controller.
fn v1(mounts: &str, own: &str) -> Result<Vec<PathBuf>, String> {
    ["memory", "pids"].into_iter().map(|controller| v1_group(mounts, own, controller)).collect()
}

fn v1_group(mounts: &str, own: &str, controller: &str) -> Result<PathBuf, String> {
    let mount = mount_of(mounts, |kind, options| kind == "cgroup" && options.split(',').any(|option| option == controller))
        .ok_or_else(|| format!("no cgroup v1 with `{controller}` is mounted"))?;
    let path = own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|one| one == controller).then_some(path)
    });
    let group = mount.join(path.unwrap_or("/").trim_start_matches('/'));
    Ok(if group.is_dir() { group } else { mount })
}

/// Version 2: enables limits on the processor for the leaves of our group.
fn share_cpu(base: &Path) -> io::Result<()> {
    let group = base.parent().ok_or(io::ErrorKind::NotFound)?;
    fs::write(group.join("cgroup.subtree_control"), "+cpu")?;
    fs::write(base.join("cgroup.subtree_control"), "+cpu")
}

fn mount_of(mounts: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, _, options) = (after.next()?, after.next()?, after.next()?);
        wanted(kind, options).then(|| before.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}

/// Makes our group and proves that leaves can be made and limited in it.
fn prepare(backend: CgroupBackend, groups: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    let mut bases = vec![];
    for group in groups {
        let shown = group.display().to_string();
        let failed = |error: io::Error| format!("`{shown}` cannot be used: {error}");
        let base = group.join(OURS);
        if backend == CgroupBackend::V2 {
            let offered = fs::read_to_string(group.join("cgroup.controllers")).map_err(failed)?;
            for controller in ["memory", "pids"] {
                if !offered.split_whitespace().any(|one| one == controller) {
                    return Err(format!("`{shown}` has no `{controller}` controller"));
                }
            }
            fs::write(group.join("cgroup.subtree_control"), "+memory +pids").map_err(failed)?;
        }
        match fs::create_dir(&base) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
        if backend == CgroupBackend::V2 {
            fs::write(base.join("cgroup.subtree_control"), "+memory +pids").map_err(failed)?;
        }
        let probe = base.join(format!("{}.probe", owner_name()));
        make(&probe).map_err(failed)?;
        let _ = fs::remove_dir(&probe);
        bases.push(base);
    }
    Ok(bases)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn leaves_lie_beside_us_in_version_2() {
        for (own, expected) in [
            ("0::/", "/sys/fs/cgroup/unified"),
            ("0::/system.slice", "/sys/fs/cgroup/unified/"),
            ("5:pids:/\n0::/unit.service/server", "/sys/fs/cgroup/unified/unit.service"),
        ] {
            assert_eq!(v2(MOUNTS, own).unwrap(), [PathBuf::from(expected)], "{own}");
        }
        assert!(v2("", "0::/").is_err());
    }

    #[test]
    fn leaves_lie_below_us_in_version_1() {
        let expected = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"].map(PathBuf::from);
        assert_eq!(v1(MOUNTS, "4:memory:/nowhere\n8:pids:/").unwrap(), expected);
        assert!(v1(MOUNTS.lines().next().unwrap(), "").is_err());
    }

    fn made_up(bases: Vec<PathBuf>) -> Cgroups {
        let (cpu, alive) = (bases.first().cloned(), Alive::in_first(&bases).ok());
        Cgroups { backend: CgroupBackend::V2, bases, cpu, why: String::new(), alive, made: AtomicU64::new(0), left: Mutex::default() }
    }

    #[test]
    fn only_leaves_of_the_dead_are_removed_whatever_pid_namespace_they_were_made_in() {
        let folder = tempfile::tempdir().unwrap();
        let own = owner_name();
        let lives = ["2-1-1.alive", "2-1-1.0", "something.else", "nothing", "1-1.0"].map(str::to_owned);
        let dead = ["1-1-1.alive", "1-1-1.0", "1-1-1.7", "3-1-1.0"].map(str::to_owned);
        for name in lives.iter().chain(&dead).chain([&format!("{own}.0")]) {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let lock = fs::File::open(folder.path().join("2-1-1.alive")).unwrap();
        lock.lock_shared().unwrap();
        let (cgroups, beside) = (made_up(vec![folder.path().to_owned()]), made_up(vec![folder.path().to_owned()]));
        let left = || {
            cgroups.sweep();
            let mut left: Vec<_> = groups_in(folder.path()).map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
            left.sort();
            left
        };
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        let ours = [format!("{own}.0"), format!("{own}.{ALIVE}")];
        let expected = sorted(lives.iter().chain(&ours).cloned().collect());
        assert_eq!(left(), expected);
        // Another sandbox of this process ends, and what is ours stays.
        drop(beside);
        assert_eq!(left(), expected);
        drop(lock);
        assert_eq!(left(), sorted(lives.iter().skip(2).chain(&ours).cloned().collect()));
        drop(cgroups);
        assert!(!folder.path().join(format!("{own}.{ALIVE}")).exists());
    }

    #[test]
    fn a_made_up_version_2_is_bounded_and_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.controllers"), "cpu memory pids").unwrap();
        let bases = prepare(CgroupBackend::V2, vec![folder.path().to_owned()]).unwrap();
        let leaf = Arc::new(made_up(bases)).leaf(Cpu::Bounded).unwrap().unwrap();
        assert_eq!(leaf.folders.len(), 1, "the processor is bounded in the same group");
        leaf.bound(Bounds { memory_bytes: 4096, processes: 7, cpu_percent: Some(150) }).unwrap();
        let read = |name: &str| fs::read_to_string(leaf.folders[0].join(name)).unwrap();
        assert_eq!((read("memory.max").as_str(), read("pids.max").as_str(), read("memory.swap.max").as_str()), ("4096", "7", "0"));
        assert_eq!(read("cpu.max"), "150000 100000");
        for (events, expected) in [("low 0\noom 1\noom_kill 0\n", false), ("oom_kill 2\n", true), ("", false)] {
            fs::write(leaf.folders[0].join("memory.events"), events).unwrap();
            assert_eq!(leaf.ran_out_of_memory(), expected, "{events}");
        }
        fs::write(folder.path().join("cgroup.controllers"), "cpu pids").unwrap();
        assert!(prepare(CgroupBackend::V2, vec![folder.path().to_owned()]).unwrap_err().contains("has no `memory` controller"));
    }
}
