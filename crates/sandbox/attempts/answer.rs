//! How an attempt reports its result: `label=` and then `ok`, the name of an error, or the signal that ended it.

use crate::{Place, say, sys};

pub(crate) type Attempt = fn(&Place);

/// Tries one thing in a child process, so that a kill is reported as an answer too.
pub(crate) fn try_one(label: &str, attempt: impl FnOnce() -> Result<(), i32>) {
    let answer = match sys::in_child(|| attempt().err().unwrap_or(0)) {
        Err(error) => format!("no child: {error}"),
        Ok(sys::Child::Answered(0)) => "ok".to_owned(),
        Ok(sys::Child::Answered(errno)) => name(errno),
        Ok(sys::Child::Signalled(libc::SIGSYS)) => "SIGSYS".to_owned(),
        Ok(sys::Child::Signalled(signal)) => format!("signal {signal}"),
    };
    say(&format!("{label}={answer}"));
}

/// The errno of an IO result.
pub(crate) fn errno<T>(result: std::io::Result<T>) -> Result<T, i32> {
    result.map_err(|error| error.raw_os_error().unwrap_or(-1))
}

pub(crate) fn name(errno: i32) -> String {
    let known = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::ESRCH, "ESRCH"),
        (libc::EBADF, "EBADF"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EACCES, "EACCES"),
        (libc::EFAULT, "EFAULT"),
        (libc::EEXIST, "EEXIST"),
        (libc::EXDEV, "EXDEV"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::EFBIG, "EFBIG"),
        (libc::ENOSPC, "ENOSPC"),
        (libc::EROFS, "EROFS"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::ENAMETOOLONG, "ENAMETOOLONG"),
        (libc::EMFILE, "EMFILE"),
        (libc::EISCONN, "EISCONN"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
    ];
    known.iter().find(|(number, _)| *number == errno).map_or_else(|| errno.to_string(), |(_, name)| (*name).to_owned())
}
