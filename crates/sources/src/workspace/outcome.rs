//! Converts errors of the file system to errors for the caller. No other file deals with error numbers.

use crate::words::{failed, refused, shown};
use countersign_core::source::Error;
use rustix::io::Errno;

/// The error for a failure at `path` before anything was changed.
pub(crate) fn unchanged(errno: Errno, path: &str) -> Error {
    let path = shown(path);
    match errno {
        Errno::NOENT => failed("file_not_found", format!("`{path}` does not exist")),
        Errno::LOOP | Errno::XDEV => {
            refused("path_outside_workspace", format!("`{path}` is or passes through a link, and a link may lead out of the workspace"))
        }
        Errno::NOTDIR => refused("path_not_allowed", format!("`{path}` passes through something that is not a folder")),
        Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
            refused("path_not_allowed", format!("`{path}` is not a name this file system can hold"))
        }
        Errno::ISDIR | Errno::NXIO | Errno::NODEV => not_regular(&path),
        Errno::NOSPC | Errno::DQUOT => {
            failed("disk_full", format!("no space is left to write `{path}`; nothing was changed, retrying is safe once there is room"))
        }
        errno => failed("file_io_failed", format!("`{path}` could not be used: {errno}; nothing was changed, retrying is safe")),
    }
}

/// The same for errors of the standard library, which carry the error number if they came from the system.
pub(crate) fn unchanged_io(error: &std::io::Error, path: &str) -> Error {
    unchanged(Errno::from_io_error(error).unwrap_or(Errno::IO), path)
}

/// The error for a failure after the change was made. The change stands, but it may not survive a power cut.
pub(crate) fn changed(errno: Errno, path: &str) -> Error {
    Error::Broken { source_id: "files".to_owned(), message: format!("`{}` was changed, then the disk answered: {errno}", shown(path)) }
}

pub(crate) fn not_regular(path: &str) -> Error {
    refused("not_a_regular_file", format!("`{}` is not a regular file", shown(path)))
}

pub(crate) fn content_changed(path: &str) -> Error {
    refused("content_changed", format!("`{}` is not what the call expects: read it again, then decide; nothing was changed", shown(path)))
}

/// The same for a change that is to be reverted.
pub(crate) fn changed_since(path: &str) -> Error {
    let why = "was changed after the call, and taking the call back would lose that change: it is refused, and nothing was changed";
    refused("content_changed", format!("`{}` {why}", shown(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::source::AfterError;

    #[test]
    fn each_error_number_has_its_code() {
        for (errno, code) in [
            (Errno::NOENT, "file_not_found"),
            (Errno::LOOP, "path_outside_workspace"),
            (Errno::XDEV, "path_outside_workspace"),
            (Errno::NOTDIR, "path_not_allowed"),
            (Errno::NAMETOOLONG, "path_not_allowed"),
            (Errno::ISDIR, "not_a_regular_file"),
            (Errno::NXIO, "not_a_regular_file"),
            (Errno::NOSPC, "disk_full"),
            (Errno::DQUOT, "disk_full"),
            (Errno::IO, "file_io_failed"),
            (Errno::ACCESS, "file_io_failed"),
            (Errno::ROFS, "file_io_failed"),
            (Errno::MFILE, "file_io_failed"),
        ] {
            let error = unchanged(errno, "notes.md");
            assert_eq!((error.code(), error.after()), (code, AfterError::NoEffect), "{error}");
            assert!(error.to_string().contains("`notes.md`"), "{error}");
        }
        assert_eq!(unchanged_io(&std::io::Error::from_raw_os_error(28), "x").code(), "disk_full");
        assert_eq!(unchanged_io(&std::io::Error::other("no number"), "x").code(), "file_io_failed");
    }

    #[test]
    fn an_error_after_the_change_leaves_the_effect_open() {
        assert_eq!(changed(Errno::IO, "notes.md").after(), AfterError::Unknown);
    }
}
