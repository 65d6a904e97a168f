//! Attempts to take more than the limits allow: time, memory, output.

use crate::answer::{Attempt, name, try_one};
use crate::sys;
use crate::{Place, say};
use std::io::Write;

pub(crate) const ALL: &[(&str, Attempt)] = &[
    ("nothing", nothing),
    ("time_spin", spin),
    ("time_sleep", sleep),
    ("time_ignore", ignore),
    ("mem_private", mem_private),
    ("mem_shared", mem_shared),
    ("mem_dropped", mem_dropped),
    ("mem_page_tables", mem_page_tables),
    ("mem_sockets", mem_sockets),
    ("mem_reserved", mem_reserved),
    ("mem_children", mem_children),
    ("mem_heap", mem_heap),
    ("mem_stage", mem_stage),
    ("mem_scratch", mem_scratch),
    ("mem_pipes", mem_pipes),
    ("mem_page_cache", mem_page_cache),
    ("out_flood", flood),
    ("out_flood_stderr", flood_stderr),
    ("out_bytes", bytes),
    ("out_closed", closed),
    ("out_abyss", abyss),
    ("killed", killed),
];

/// The most memory an attempt takes: more than any test allows, but too little to hurt a host on which no limit worked.
const MOST: usize = 1 << 30;

fn nothing(_: &Place) {}

fn spin(_: &Place) {
    say("begun=ok");
    loop {
        std::hint::spin_loop();
    }
}

fn sleep(_: &Place) {
    say("begun=ok");
    sys::sleep_for_ever();
}

fn ignore(_: &Place) {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGXCPU, libc::SIGALRM] {
        sys::ignore(signal);
    }
    say("begun=ok");
    sys::sleep_for_ever();
}

fn mem_private(_: &Place) {
    let (taken, error) = sys::fill(libc::MAP_PRIVATE, MOST);
    say(&format!("taken={taken}\nstopped={}", name(error)));
    sys::sleep_for_ever();
}

fn mem_shared(_: &Place) {
    let (taken, error) = sys::fill(libc::MAP_SHARED, MOST);
    say(&format!("taken={taken}\nstopped={}", name(error)));
    if taken > 0 {
        sys::sleep_for_ever();
    }
}

/// Shared memory stays in memory when no process maps it any more.
fn mem_dropped(_: &Place) {
    let (taken, error) = sys::fill_and_drop(MOST / 4);
    say(&format!("taken={taken}\nstopped={}", name(error)));
}

/// Page tables are memory of the kernel. The processes together have more of them than any test allows.
fn mem_page_tables(_: &Place) {
    for _ in 0..4 {
        let _ = sys::leave_child(|| {
            sys::fill_page_tables(MOST / 16 / 4096);
            sys::sleep_for_ever();
        });
    }
    sys::sleep_for_ever();
}

/// Data waiting in a socket is memory of the kernel, and every process has sockets of its own.
fn mem_sockets(_: &Place) {
    try_one("grown", || {
        let bytes = [4_i32 << 20];
        let (level, option) = (i64::from(libc::SOL_SOCKET), i64::from(libc::SO_SNDBUF));
        sys::call(libc::SYS_setsockopt, &[&i64::from(pair()?[0]), &level, &option, &bytes, &4_i64]).map(drop)
    });
    for _ in 0..4 {
        let _ = sys::leave_child(|| {
            fill_sockets(MOST / 16);
            sys::sleep_for_ever();
        });
    }
    sys::sleep_for_ever();
}

fn fill_sockets(most: usize) {
    let piece = vec![1_u8; 64 << 10];
    let mut held = 0;
    while let (true, Ok(ends)) = (held < most, pair()) {
        for end in ends {
            while let Ok(written) = sys::call(libc::SYS_write, &[&i64::from(end), &(piece.as_ptr() as i64), &(piece.len() as i64)]) {
                held += usize::try_from(written).unwrap_or(0);
            }
        }
    }
}

fn pair() -> Result<[i32; 2], i32> {
    let ends = [[0_i32; 2]];
    let kind = i64::from(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    sys::call(libc::SYS_socketpair, &[&i64::from(libc::AF_UNIX), &kind, &0_i64, &ends])?;
    Ok(ends[0])
}

/// Memory that is only reserved: far more than a process could ever use, and far more than it may use.
fn mem_reserved(_: &Place) {
    try_one("address_space", || sys::reserve(2 << 40, libc::PROT_NONE));
    try_one("data", || sys::reserve(2 << 30, libc::PROT_READ | libc::PROT_WRITE));
    try_one("like_an_interpreter", || sys::reserve(64 << 30, libc::PROT_NONE));
}

fn mem_children(_: &Place) {
    for _ in 0..8 {
        let _ = sys::leave_child(|| {
            sys::fill(libc::MAP_PRIVATE, MOST / 8);
            sys::sleep_for_ever();
        });
    }
    sys::sleep_for_ever();
}

fn mem_heap(_: &Place) {
    let (taken, error) = sys::fill_heap(MOST);
    say(&format!("taken={taken}\nstopped={}", name(error)));
    sys::sleep_for_ever();
}

/// Files on the stage are memory too.
fn mem_stage(place: &Place) {
    fill(&place.stage);
}

fn mem_scratch(place: &Place) {
    fill(&place.scratch);
}

fn fill(folder: &str) {
    sys::ignore(libc::SIGXFSZ);
    let piece = vec![1_u8; 1 << 20];
    let held = (0..MOST >> 20).take_while(|number| std::fs::write(format!("{folder}/{number}"), &piece).is_ok()).count();
    say(&format!("held={held}"));
    sys::sleep_for_ever();
}

/// Data waiting in a pipe is memory of the kernel, not of a process.
fn mem_pipes(_: &Place) {
    let piece = vec![1_u8; 1 << 20];
    let mut held = 0_usize;
    let mut made = 0_usize;
    let stopped = loop {
        let ends = [[0_i32; 2]];
        if let Err(error) = sys::call(libc::SYS_pipe2, &[&ends, &i64::from(libc::O_NONBLOCK)]) {
            break error;
        }
        let end = i64::from(ends[0][1]);
        let _ = sys::call(libc::SYS_fcntl, &[&end, &i64::from(libc::F_SETPIPE_SZ), &(1 << 20)]);
        while let Ok(written) = sys::call(libc::SYS_write, &[&end, &(piece.as_ptr() as i64), &(piece.len() as i64)]) {
            held += usize::try_from(written).unwrap_or(0);
        }
        made += 1;
    };
    say(&format!("made={made}\nheld={held}\nstopped={}", name(stopped)));
}

/// Reads more bytes of the host's files than it may hold in memory: the kernel caches them, and must drop them again.
fn mem_page_cache(place: &Place) {
    let mut ahead = vec![std::path::PathBuf::from(&place.visible)];
    let mut read = 0_u64;
    while let (Some(folder), true) = (ahead.pop(), read < (256 << 20)) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => ahead.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    let copied = std::fs::File::open(entry.path()).and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
                    read += copied.unwrap_or(0);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    say(&format!("read_enough={}", read >= (64 << 20)));
}

fn flood(_: &Place) {
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..1024 {
        if std::io::stdout().write_all(&piece).is_err() {
            return;
        }
    }
}

fn flood_stderr(_: &Place) {
    let piece = [b'b'; 1023];
    for _ in 0..1 << 20 {
        if std::io::stderr().write_all(&piece).and_then(|()| std::io::stderr().write_all(b"\n")).is_err() {
            return;
        }
    }
}

fn bytes(_: &Place) {
    let _ = std::io::stdout().write_all(b"\xff\x00\xfe");
    let _ = std::io::stderr().write_all(b"\x1b]0;taken\x07\xff\xe2\x80\xae\r\n");
}

fn closed(place: &Place) {
    for fd in 0..3_i64 {
        let _ = sys::call(libc::SYS_close, &[&fd]);
    }
    let _ = std::fs::write(format!("{}/after", place.stage), "still here");
}

/// Nests folders so deeply that a recursive walk of them would overflow its stack. Each level costs more than the one before, so this uses
/// fewer levels than the unit test of the stage.
fn abyss(_: &Place) {
    let (folder, here) = (crate::files::text("d"), i64::from(libc::AT_FDCWD));
    let down = || sys::call(libc::SYS_mkdirat, &[&here, &folder, &0o700_i64]).and_then(|_| sys::call(libc::SYS_chdir, &[&folder]));
    let deep = (0..4_000).take_while(|_| down().is_ok()).count();
    say(&format!("deep={deep}"));
}

fn killed(_: &Place) {
    try_one("own", || sys::call(libc::SYS_kill, &[&i64::from(std::process::id()), &i64::from(libc::SIGKILL)]).map(drop));
    let _ = sys::call(libc::SYS_kill, &[&i64::from(std::process::id()), &i64::from(libc::SIGKILL)]);
}
