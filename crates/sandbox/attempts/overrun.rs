//! Attempts to take more than was given: time, memory, output.

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
    ("mem_children", mem_children),
    ("out_flood", flood),
    ("out_flood_stderr", flood_stderr),
    ("out_bytes", bytes),
    ("out_closed", closed),
    ("killed", killed),
];

/// The most that is ever taken: more than any test allows, less than would hurt a host where nothing held.
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
    sys::sleep_for_ever();
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

fn killed(_: &Place) {
    try_one("own", || sys::call(libc::SYS_kill, &[&i64::from(std::process::id()), &i64::from(libc::SIGKILL)]).map(drop));
    let _ = sys::call(libc::SYS_kill, &[&i64::from(std::process::id()), &i64::from(libc::SIGKILL)]);
}
