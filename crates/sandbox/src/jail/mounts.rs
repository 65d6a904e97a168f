//! Step 6: the program's file system. It has a read-only root in memory, the requested parts of the host (read-only), the stage, and the
//! scratch.

use super::target::{attach, make_parents, make_target, place};
use super::{Failure, at, view};
use crate::error::Step;
use crate::orders::{Bound, Orders, Packet, Sized};
use crate::spec::{SCRATCH_BYTES_MAX, SCRATCH_FILES_MAX};
use crate::sys;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, mount_change, open_tree, unmount,
};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

/// The devices in the jail. None of them stores data or has an effect. `/dev/zero` is not among them: mapped as shared, it is memory that
/// no process is charged for.
pub(super) const DEVICES: [&str; 2] = ["/dev/null", "/dev/urandom"];

const READ_ONLY: u64 = MountAttrFlags::MOUNT_ATTR_RDONLY.bits() as u64;
const NO_SUID: u64 = MountAttrFlags::MOUNT_ATTR_NOSUID.bits() as u64;
const NO_DEVICES: u64 = MountAttrFlags::MOUNT_ATTR_NODEV.bits() as u64;
const NO_EXEC: u64 = MountAttrFlags::MOUNT_ATTR_NOEXEC.bits() as u64;

/// The mount flags of every file system we make: no setuid programs, no devices, no executables.
const PLAIN: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV).union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Space for the directory entries of the root, in addition to the bytes of the inputs.
const ROOT_BYTES: u64 = 1 << 20;

/// A part of the host, detached and not yet mounted in the jail.
pub(super) struct Tree {
    pub(super) fd: OwnedFd,
    pub(super) target: String,
    pub(super) kind: FileType,
    /// The entries to show; `None` shows all.
    only: Option<Vec<String>>,
}

/// The result of `build`.
pub(super) struct Mounted {
    pub(super) stage: OwnedFd,
    pub(super) scratch: OwnedFd,
    pub(super) proc: bool,
}

/// Detaches from the host the trees that the program may see, and makes them read-only, but for the folder that is the program's own.
///
/// When the server is an ordinary user, the jail does this in its own namespaces. When the server is root, the server does it, because it
/// may see paths that the jail's uid cannot.
pub(super) fn open_trees(binds: &[Bound]) -> Result<Vec<Tree>, Failure> {
    let mut trees = vec![];
    for bind in binds {
        let write = if bind.is_writable { NO_EXEC } else { READ_ONLY };
        trees.push(open_one(&bind.host, &bind.jail, bind.only.as_ref(), write | NO_SUID | NO_DEVICES)?);
    }
    for device in DEVICES {
        trees.push(open_one(Path::new(device), Path::new(device), None, READ_ONLY | NO_SUID | NO_EXEC)?);
    }
    Ok(trees)
}

/// The same trees, detached by the server and sent as descriptors: the binds first, then the devices.
pub(super) fn given(orders: &Orders, fds: Vec<OwnedFd>) -> Result<Vec<Tree>, Failure> {
    let binds = orders.binds.iter().map(|bind| (bind.jail.as_path(), bind.only.as_ref()));
    let targets = binds.chain(DEVICES.iter().map(|device| (Path::new(*device), None)));
    if fds.len() != orders.binds.len() + DEVICES.len() {
        return Err(Failure::new(Step::Mounts, "taking what is to be shown", "a part is missing"));
    }
    fds.into_iter().zip(targets).map(|(fd, (target, only))| tree(fd, target, only)).collect()
}

impl Tree {
    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

fn open_one(host: &Path, jail: &Path, only: Option<&Vec<String>>, attributes: u64) -> Result<Tree, Failure> {
    let failed = |error: rustix::io::Errno| Failure::new(Step::Mounts, format_args!("showing `{}`", host.display()), error);
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let fd = open_tree(CWD, host, flags).map_err(failed)?;
    // `mount_setattr` applies to the whole tree. The older `mount` call makes only the top of a recursive mount read-only.
    sys::mount_set(fd.as_fd(), attributes, true).map_err(at(Step::Mounts, format_args!("securing `{}`", host.display())))?;
    tree(fd, jail, only)
}

fn tree(fd: OwnedFd, jail: &Path, only: Option<&Vec<String>>) -> Result<Tree, Failure> {
    let stat = rustix::fs::statat(&fd, c"", AtFlags::EMPTY_PATH).map_err(at(Step::Mounts, format_args!("showing `{}`", jail.display())))?;
    Ok(Tree { fd, target: relative(jail)?, kind: FileType::from_raw_mode(stat.st_mode), only: only.cloned() })
}

/// The mounts that are the same for every run, made before the orders arrive.
pub(super) struct Ground {
    /// A `/proc` that shows only the program's own processes; `None` where the kernel refuses to mount one here.
    proc: Option<OwnedFd>,
    /// The scratch. Its limits are the same for every run.
    scratch: OwnedFd,
}

impl Ground {
    pub(super) fn new() -> Result<Self, Failure> {
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .map_err(at(Step::Mounts, "keeping mounts to ourselves"))?;
        // At high numbers, away from the descriptors that come with the orders.
        let proc = own_proc().and_then(|proc| rustix::io::fcntl_dupfd_cloexec(proc, AWAY)).ok();
        let scratch = tmpfs(SCRATCH_BYTES_MAX, SCRATCH_FILES_MAX + 1, "0700", PLAIN)?;
        let scratch = rustix::io::fcntl_dupfd_cloexec(scratch, AWAY).map_err(at(Step::Mounts, "keeping the scratch"))?;
        Ok(Self { proc, scratch })
    }
}

/// Higher than every descriptor number that is given to a program.
const AWAY: i32 = 64;

/// Builds the new root and moves into it. The old root cannot be reached afterwards.
pub(super) fn build(packet: &Packet, trees: Vec<Tree>, ground: Ground) -> Result<Mounted, Failure> {
    let orders = &packet.orders;
    let inputs: u64 = orders.inputs.iter().map(|input| input.bytes as u64 + 4096).sum();
    let parts: u64 = trees.iter().flat_map(|tree| &tree.only).flatten().map(|part| 1 + part.split('/').count() as u64).sum();
    let names = 256 + 32 * (orders.inputs.len() + trees.len()) as u64 + parts;
    let root = tmpfs(ROOT_BYTES + inputs, names, "0755", PLAIN)?;
    attach(&root, CWD, "/").map_err(at(Step::Mounts, "mounting the root"))?;

    for directory in ["stage", "tmp", "proc", "dev"] {
        rustix::fs::mkdirat(&root, directory, Mode::from_raw_mode(0o755)).map_err(at(Step::Mounts, "making the root"))?;
    }
    for tree in trees {
        make_target(&root, &tree.target, tree.kind)?;
        match &tree.only {
            None => place(&root, &tree.fd, &tree.target)?,
            Some(only) => view::show(&root, &tree.fd, &tree.target, only)?,
        }
    }
    let (inputs, initial) = blobs(packet)?;
    for (input, bytes) in orders.inputs.iter().zip(inputs) {
        write_file(root.as_fd(), input, bytes, 0o444)?;
    }

    let stage = tmpfs(orders.stage_bytes_max, orders.stage_files_max.saturating_add(1), "0700", PLAIN)?;
    attach(&stage, root.as_fd(), "stage").map_err(at(Step::Mounts, "mounting the stage"))?;
    attach(&ground.scratch, root.as_fd(), "tmp").map_err(at(Step::Mounts, "mounting the scratch"))?;
    for (file, bytes) in orders.stage_initial.iter().zip(initial) {
        write_file(stage.as_fd(), file, bytes, 0o600)?;
    }
    let proc = ground.proc.is_some_and(|proc| attach(&proc, root.as_fd(), "proc").is_ok());

    sys::mount_set(root.as_fd(), READ_ONLY, false).map_err(at(Step::Mounts, "making the root read-only"))?;
    move_in(&root)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let stage = rustix::fs::open("/stage", flags, Mode::empty()).map_err(at(Step::Mounts, "opening the stage"))?;
    Ok(Mounted { stage, scratch: ground.scratch, proc })
}

/// The bytes of the inputs, and the bytes of the stage's initial files.
type Blobs<'a> = (&'a [Vec<u8>], &'a [Vec<u8>]);

fn blobs(packet: &Packet) -> Result<Blobs<'_>, Failure> {
    let rest = packet.blobs.get(packet.orders.filters.len()..);
    rest.and_then(|rest| rest.split_at_checked(packet.orders.inputs.len()))
        .ok_or_else(|| Failure::new(Step::Mounts, "reading the inputs", "the orders are cut short"))
}

fn tmpfs(bytes: u64, names: u64, mode: &str, attributes: MountAttrFlags) -> Result<OwnedFd, Failure> {
    let failed = |error: rustix::io::Errno| Failure::new(Step::Mounts, "making a file system in memory", error);
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed)?;
    for (key, value) in [("size", bytes.to_string()), ("nr_inodes", names.to_string()), ("mode", mode.to_owned())] {
        fsconfig_set_string(context.as_fd(), key, value).map_err(failed)?;
    }
    fsconfig_create(context.as_fd()).map_err(failed)?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(failed)
}

fn own_proc() -> Result<OwnedFd, rustix::io::Errno> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "subset", "pid")?;
    fsconfig_set_string(context.as_fd(), "hidepid", "2")?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

pub(super) fn try_tmpfs() -> Result<(), Failure> {
    tmpfs(ROOT_BYTES, 16, "0700", MountAttrFlags::MOUNT_ATTR_NOSUID).map(drop)
}

pub(super) fn try_proc() -> Result<(), String> {
    own_proc().map(drop).map_err(|error| error.to_string())
}

/// Whether the kernel would mount an overlay for us: it must know the file system and allow it in a user namespace.
pub(super) fn try_overlay() -> Result<(), String> {
    fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map(drop).map_err(|error| error.to_string())
}

/// `pivot_root(".", ".")` puts the old root on top of the new one, and the unmount takes it away at once. So the old root needs no
/// directory.
fn move_in(root: &OwnedFd) -> Result<(), Failure> {
    let failed = |error: rustix::io::Errno| Failure::new(Step::Mounts, "leaving the host's root", error);
    rustix::process::fchdir(root).map_err(failed)?;
    rustix::process::pivot_root(".", ".").map_err(failed)?;
    unmount(".", UnmountFlags::DETACH).map_err(failed)?;
    rustix::process::chdir("/").map_err(failed)
}

/// Gives this process a mount namespace of its own, and keeps it in the root of the old one. `/proc` lists only mounts that can be reached
/// from the root, and none of the new namespace can: so the list, which would tell where on the host each folder lies, is empty.
pub(super) fn hide_list() -> Result<(), Failure> {
    let failed = |error: rustix::io::Errno| Failure::new(Step::Mounts, "hiding the list of mounts", error);
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    sys::unshare(libc::CLONE_NEWNS).map_err(at(Step::Mounts, "hiding the list of mounts"))?;
    rustix::process::fchdir(&root).map_err(failed)?;
    rustix::process::chroot(".").map_err(failed)
}

fn write_file(root: BorrowedFd<'_>, file: &Sized, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    let path = relative(&file.path)?;
    make_parents(root, &path)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::WRONLY | OFlags::NOFOLLOW;
    let fd =
        rustix::fs::openat(root, &path, flags, Mode::from_raw_mode(mode)).map_err(at(Step::Mounts, format_args!("making `{path}`")))?;
    std::fs::File::from(fd).write_all(bytes).map_err(at(Step::Mounts, format_args!("writing `{path}`")))
}

/// The path without its leading `/`. The server has checked the path already, but a mistake here would escape the jail, so it is checked
/// again.
fn relative(path: &Path) -> Result<String, Failure> {
    let mut parts = vec![];
    for part in path.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => parts.push(name.to_str().ok_or_else(|| odd(path))?),
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => return Err(odd(path)),
        }
    }
    if parts.is_empty() { Err(odd(path)) } else { Ok(parts.join("/")) }
}

fn odd(path: &Path) -> Failure {
    Failure::new(Step::Mounts, format_args!("placing `{}`", path.display()), "not a plain path")
}
