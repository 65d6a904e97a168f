//! The orders that the server sends to the jail, in a sealed file: one line of JSON, then the bytes whose lengths it gives.

use countersign_core::limits::RELAY_PORTS_MAX;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// The descriptor numbers inside the jail.
pub(crate) mod fd {
    use std::os::fd::RawFd;
    /// The control socket when the jail starts.
    pub(crate) const CONTROL: RawFd = 4;
    /// The first number that the server did not assign.
    pub(crate) const REST: u32 = 5;
    /// The program's egress.
    pub(crate) const EGRESS: RawFd = 3;
    /// The program file until the exec, which closes it.
    pub(crate) const EXEC: RawFd = 700;
    /// The control socket, from the start of the jail until the exec.
    pub(crate) const CONTROL_KEPT: RawFd = 701;
}

/// The least number of descriptors that come with the orders: the orders, the program and its three streams. The egress follows if there is
/// one, then the trees of the host that are shown.
pub(crate) const FDS: usize = 5;
/// The largest number of descriptors that may come with the orders.
pub(crate) const FDS_MAX: usize = 128;

/// The sockets of every network: the two for questions, and the two that hear what is refused.
pub(crate) const NETWORK_FDS: usize = 4;
/// The largest number of sockets of a network.
pub(crate) const NETWORK_FDS_MAX: usize = NETWORK_FDS + RELAY_PORTS_MAX;

/// The name under which a process is started to become the jail.
pub(crate) const JAIL_NAME: &str = "countersign-jail";

/// What a jail must know before its orders arrive. It is passed as arguments.
#[derive(Debug)]
pub(crate) struct Errand {
    /// The pid of the server, which must still be our parent.
    pub(crate) server: i32,
    /// The uid and gid to switch to, when the server is root.
    pub(crate) become_id: Option<u32>,
    pub(crate) namespaces: i32,
    /// The cgroup files to which the jail writes its pid.
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
    /// Whether the server detached the trees of the host itself and sent them along.
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
    /// The ABI to enforce; `None` where Landlock is missing with the operator's permission.
    pub(crate) landlock_abi: Option<i32>,
    /// The length of each filter in bytes.
    pub(crate) filters: Vec<usize>,
    pub(crate) egress: bool,
    /// The ports of the network that the program sees; `None` where it sees none.
    pub(crate) network: Option<Vec<u16>>,
    /// Whether the jail reports when the program has started.
    pub(crate) is_resident: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Bound {
    pub(crate) host: PathBuf,
    pub(crate) jail: PathBuf,
    /// The entries to show; `None` shows all.
    pub(crate) only: Option<Vec<String>>,
    /// Whether the program may write there. Then it may execute nothing.
    pub(crate) is_writable: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sized {
    pub(crate) path: PathBuf,
    pub(crate) bytes: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rlimits {
    pub(crate) address_space: Option<u64>,
    /// Private memory that a process can write to, whether it has touched it or not.
    pub(crate) data: Option<u64>,
    /// `None` for a resident, which has no time limit; its cgroup limits its share of the processor.
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) file_bytes: u64,
    pub(crate) open_files: u64,
    pub(crate) processes: u64,
}

/// The orders with the bytes that follow them: filters, inputs, then the stage's initial files.
pub(crate) struct Packet {
    pub(crate) orders: Orders,
    pub(crate) blobs: Vec<Vec<u8>>,
}

impl Packet {
    /// Writes the orders to a file that cannot be changed afterwards.
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
