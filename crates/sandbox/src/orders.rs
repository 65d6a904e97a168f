//! What the server tells the jail, in a sealed file: a line of JSON, then the bytes it counts.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Which descriptor is what, in the jail.
pub(crate) mod fd {
    use std::os::fd::RawFd;
    /// Where the control socket is when the jail starts.
    pub(crate) const CONTROL: RawFd = 4;
    /// The first number that was not ours to give.
    pub(crate) const REST: u32 = 5;
    /// Where a program finds its egress.
    pub(crate) const EGRESS: RawFd = 3;
    /// Where the program waits for its exec: above what it may open afterwards, so that it can never fill this number again.
    pub(crate) const EXEC: RawFd = 700;
    /// Where the control socket is kept until the exec.
    pub(crate) const CONTROL_KEPT: RawFd = 701;
}

/// How many descriptors come with the orders at least: the orders themselves, the program and its three streams. Its egress follows, if
/// it has one, and then what is to be shown of the host.
pub(crate) const FDS: usize = 5;
/// The most that may come.
pub(crate) const FDS_MAX: usize = 128;

/// The name a process is started under to become the jail.
pub(crate) const JAIL_NAME: &str = "countersign-jail";

/// What a jail must know before it has orders: its arguments.
#[derive(Debug)]
pub(crate) struct Errand {
    /// Who must still be our parent.
    pub(crate) server: i32,
    /// The uid and gid to become, when the server is root.
    pub(crate) become_id: Option<u32>,
    pub(crate) namespaces: i32,
    /// Files to write our pid to.
    pub(crate) cgroup_procs: Vec<PathBuf>,
}

impl Errand {
    pub(crate) fn args(&self) -> Vec<OsString> {
        let id = self.become_id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let mut args = vec![self.server.to_string().into(), id.into(), self.namespaces.to_string().into()];
        args.extend(self.cgroup_procs.iter().map(|path| path.clone().into_os_string()));
        args
    }

    pub(crate) fn read(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut next = || args.next()?.into_string().ok();
        let (server, id, namespaces) = (next()?.parse().ok()?, next()?, next()?.parse().ok()?);
        let become_id = if id == "-" { None } else { Some(id.parse().ok()?) };
        Some(Self { server, become_id, namespaces, cgroup_procs: args.map(PathBuf::from).collect() })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Whether what is to be shown of the host was cut out by the server and sent along.
    pub(crate) trees_given: bool,
    pub(crate) binds: Vec<Bound>,
    pub(crate) inputs: Vec<Sized>,
    pub(crate) stage_bytes_max: u64,
    pub(crate) stage_files_max: u64,
    pub(crate) stage_initial: Vec<Sized>,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) starts_in: Option<PathBuf>,
    pub(crate) limits: Rlimits,
    /// The version to enforce, or nothing where the operator allowed it to be missing.
    pub(crate) landlock_abi: Option<i32>,
    /// Bytes of each filter.
    pub(crate) filters: Vec<usize>,
    pub(crate) egress: bool,
    /// Whether the jail says when the program has begun.
    pub(crate) is_resident: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Bound {
    pub(crate) host: PathBuf,
    pub(crate) jail: PathBuf,
    /// What of it is shown; `None` shows all.
    pub(crate) only: Option<Vec<String>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sized {
    pub(crate) path: PathBuf,
    pub(crate) bytes: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rlimits {
    pub(crate) address_space: Option<u64>,
    /// A resident has no end of its time; its cgroup bounds its share.
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) file_bytes: u64,
    pub(crate) open_files: u64,
    pub(crate) processes: u64,
}

/// Orders with the bytes that follow them: filters, inputs, then what is on the stage at first.
pub(crate) struct Packet {
    pub(crate) orders: Orders,
    pub(crate) blobs: Vec<Vec<u8>>,
}

impl Packet {
    /// Writes a file that nobody can change any more.
    pub(crate) fn seal(orders: &Orders, blobs: &[&[u8]]) -> io::Result<OwnedFd> {
        use rustix::fs::{MemfdFlags, SealFlags};
        let file = rustix::fs::memfd_create(c"orders", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut head = serde_json::to_vec(orders)?;
        head.push(b'\n');
        let mut file = std::fs::File::from(file);
        io::Write::write_all(&mut file, &head)?;
        for blob in blobs {
            io::Write::write_all(&mut file, blob)?;
        }
        io::Seek::rewind(&mut file)?;
        rustix::fs::fcntl_add_seals(file.as_fd(), SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(file.into())
    }

    pub(crate) fn open(file: OwnedFd) -> io::Result<Self> {
        let mut all = vec![];
        io::Read::read_to_end(&mut std::fs::File::from(file), &mut all)?;
        let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "the orders are cut short");
        let end = all.iter().position(|byte| *byte == b'\n').ok_or_else(short)?;
        let (head, mut rest) = all.split_at(end + 1);
        let orders: Orders = serde_json::from_slice(head)?;
        let files = orders.inputs.iter().chain(&orders.stage_initial).map(|file| file.bytes);
        let mut blobs = vec![];
        for bytes in orders.filters.iter().copied().chain(files) {
            let (blob, after) = rest.split_at_checked(bytes).ok_or_else(short)?;
            blobs.push(blob.to_vec());
            rest = after;
        }
        Ok(Self { orders, blobs })
    }
}
