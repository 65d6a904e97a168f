//! A regular file in the workspace, opened so that nothing else can pose as one.

use super::open::open_beneath;
use super::outcome::{not_regular, unchanged, unchanged_io};
use super::path::WorkspacePath;
use super::root::Workspace;
use crate::words::{refused, shown};
use countersign_core::Digest;
use countersign_core::limits::FILE_SNAPSHOT_BYTES_MAX;
use countersign_core::source::Error;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// How many bytes of a file are in memory at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// An open regular file with exactly one name. Its content is read by position, so several reads do not disturb each other.
pub(crate) struct Regular {
    file: File,
    path: WorkspacePath,
    pub(crate) bytes: u64,
    /// The permissions without the set-id bits.
    pub(crate) mode: Mode,
}

impl Regular {
    /// The file at `path`, whose folder has been reached already; `None` if there is none.
    pub(crate) fn find(workspace: &Workspace, folder: &OwnedFd, path: &WorkspacePath) -> Result<Option<Self>, Error> {
        const TRIES: usize = 32;
        workspace.check_spelling(folder, path.name(), path)?;
        for _ in 0..TRIES {
            match Self::look(folder, path)? {
                Look::Found(file) => return Ok(Some(file)),
                Look::Nothing => return Ok(None),
                Look::Replaced => {}
            }
        }
        Err(unchanged(Errno::AGAIN, path.as_str()))
    }

    fn look(folder: &OwnedFd, path: &WorkspacePath) -> Result<Look, Error> {
        // Checked before opening, because opening a device can already have an effect; and checked again after opening.
        match rustix::fs::statat(folder, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => check_regular(&stat, path)?,
            Err(Errno::NOENT) => return Ok(Look::Nothing),
            Err(errno) => return Err(unchanged(errno, path.as_str())),
        }
        // NONBLOCK, so that a pipe put there meanwhile cannot block us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = match open_beneath(folder, path.name(), flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(Look::Nothing),
            Err(errno) => return Err(unchanged(errno, path.as_str())),
        };
        let stat = rustix::fs::fstat(&opened).map_err(|errno| unchanged(errno, path.as_str()))?;
        check_regular(&stat, path)?;
        if stat.st_nlink == 0 {
            return Ok(Look::Replaced);
        }
        let mode = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Look::Found(Self { file: opened.into(), path: path.clone(), bytes, mode }))
    }

    /// The file at `path`, which must exist.
    pub(crate) fn get(workspace: &Workspace, folder: &OwnedFd, path: &WorkspacePath) -> Result<Self, Error> {
        Self::find(workspace, folder, path)?.ok_or_else(|| unchanged(Errno::NOENT, path.as_str()))
    }

    /// The whole content, if it is not longer than `bytes_max`.
    pub(crate) fn read(&self, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let mut content = Vec::with_capacity(usize::try_from(self.bytes.min(bytes_max)).unwrap_or(0));
        self.each_chunk(bytes_max, |chunk| {
            content.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(content)
    }

    pub(crate) fn digest(&self) -> Result<Digest, Error> {
        let mut hasher = Sha256::new();
        self.each_chunk(FILE_SNAPSHOT_BYTES_MAX, |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        Ok(Digest::new(hasher.finalize().into()))
    }

    /// Passes on the content from its beginning. Fails if it is longer than `bytes_max`, even if it grows meanwhile.
    pub(crate) fn each_chunk(&self, bytes_max: u64, mut each: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        self.check_size(self.bytes, bytes_max)?;
        // One byte more than the file has: if a small file has not grown, the read leaves room in the buffer, which shows the end.
        let mut chunk = vec![0; usize::try_from(self.bytes + 1).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES)];
        let mut position = 0;
        loop {
            let read = match self.file.read_at(&mut chunk, position) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unchanged_io(&error, self.path.as_str())),
            };
            position += read as u64;
            self.check_size(position, bytes_max)?;
            each(&chunk[..read])?;
            if read < chunk.len() && position == self.bytes {
                return Ok(());
            }
        }
    }

    fn check_size(&self, bytes: u64, bytes_max: u64) -> Result<(), Error> {
        if bytes <= bytes_max {
            return Ok(());
        }
        Err(refused("file_too_large", format!("`{}` has {bytes} bytes; at most {bytes_max} are allowed here", shown(self.path.as_str()))))
    }
}

/// The result of one look at a name.
enum Look {
    Found(Regular),
    Nothing,
    /// The opened file has lost its name to another file, which is as whole as this one was. Look again.
    Replaced,
}

fn check_regular(stat: &Stat, path: &WorkspacePath) -> Result<(), Error> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_nlink > 1 => {
            Err(refused("hard_link_refused", format!("`{}` has a second name, perhaps outside the workspace", shown(path.as_str()))))
        }
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(unchanged(Errno::LOOP, path.as_str())),
        FileType::Directory | FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
            Err(not_regular(path.as_str()))
        }
    }
}
