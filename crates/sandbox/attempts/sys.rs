//! The calls of the attempts, raw: what a hostile program would do.

#![expect(unsafe_code, reason = "an attempt calls the kernel as an attacker would, past every library")]

/// Becomes an ordinary user, for good.
pub(crate) fn become_id(id: u32) -> Result<(), String> {
    // SAFETY: plain numbers and an empty list; called before any thread is started.
    let code = unsafe { libc::setgroups(0, std::ptr::null()).min(libc::setresgid(id, id, id)).min(libc::setresuid(id, id, id)) };
    if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().to_string()) }
}
