//! Attempts on files: reaching files that were not given, and leaving entries on the stage that must be refused.

use crate::answer::{Attempt, errno, try_one};
use crate::sys::call;
use crate::{Place, say};
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};

pub(crate) const ALL: &[(&str, Attempt)] = &[
    ("fs_proc_self_root", proc_self_root),
    ("fs_proc_fd_dotdot", dotdot),
    ("fs_proc_of_server", proc_of_server),
    ("fs_symlink_in_stage", symlink_in_stage),
    ("fs_hardlink_from_outside", hardlink_from_outside),
    ("fs_hardlink_inside", hardlink_inside),
    ("fs_rename_across", rename_across),
    ("fs_metadata_outside", metadata_outside),
    ("fs_metadata_shown", metadata_shown),
    ("fs_metadata_own", metadata_own),
    ("fs_existence_oracle", existence_oracle),
    ("fs_truncate_outside", truncate_outside),
    ("fs_tmpfile_linkat", tmpfile_linkat),
    ("fs_open_by_handle", open_by_handle),
    ("fs_mknod", mknod),
    ("fs_fifo_in_stage", fifo_in_stage),
    ("fs_setid_bits", setid_bits),
    ("fs_odd_names", odd_names),
    ("fs_name_with_newline", name_with_newline),
    ("fs_name_of_bytes", name_of_bytes),
    ("fs_volume", volume),
    ("fs_many_files", many_files),
    ("fs_scratch", scratch),
    ("fs_scratch_volume", scratch_volume),
    ("fs_deep", deep),
    ("fs_unreadable", unreadable),
    ("fs_write_own_package", write_own_package),
    ("fs_overlay_whiteout", overlay_whiteout),
    ("fs_kept", kept),
    ("fs_seen", seen),
];

pub(crate) fn text(path: &str) -> CString {
    CString::new(path).unwrap_or_default()
}

fn open(path: &str) -> Result<(), i32> {
    errno(fs::File::open(path)).map(drop)
}

fn open_to_write(path: &str) -> Result<(), i32> {
    errno(fs::OpenOptions::new().write(true).open(path)).map(drop)
}

fn proc_self_root(place: &Place) {
    try_one("read", || open(&format!("/proc/self/root{}", place.victim)));
    try_one("write", || open_to_write(&format!("/proc/1/root{}", place.victim)));
}

fn dotdot(place: &Place) {
    try_one("cwd", || open(&format!("/proc/self/cwd/../../../../../..{}", place.victim)));
    try_one("fd", || open(&format!("/proc/self/fd/2/../../../../..{}", place.victim)));
    try_one("stage", || open(&format!("{}/../../../..{}", place.stage, place.victim)));
}

fn proc_of_server(place: &Place) {
    for what in ["environ", "mem", "root", "cwd"] {
        try_one(what, || errno(fs::metadata(format!("/proc/{}/{what}", place.server))).map(drop));
    }
    try_one("init", || errno(fs::read("/proc/1/environ")).map(drop));
}

fn symlink_in_stage(place: &Place) {
    try_one("symlink", || errno(symlink(&place.victim, format!("{}/link", place.stage))));
}

fn hardlink_from_outside(place: &Place) {
    try_one("victim", || errno(fs::hard_link(&place.victim, format!("{}/hard", place.stage))));
    try_one("visible", || errno(fs::hard_link(format!("{}/os-release", place.visible), format!("{}/hard-visible", place.stage))));
}

fn hardlink_inside(place: &Place) {
    let (one, two) = (format!("{}/one", place.stage), format!("{}/two", place.stage));
    try_one("link", || errno(fs::write(&one, "1")).and_then(|()| errno(fs::hard_link(&one, &two))));
}

fn rename_across(place: &Place) {
    let own = format!("{}/own", place.stage);
    try_one("in", || errno(fs::rename(&place.victim, &own)));
    try_one("out", || {
        errno(fs::write(&own, "1")).and_then(|()| errno(fs::rename(&own, format!("{}/countersign-was-here", place.visible))))
    });
    try_one("refer", || {
        let folder = format!("{}/folder", place.stage);
        errno(fs::write(&own, "1"))?;
        errno(fs::create_dir(&folder)).and_then(|()| errno(fs::rename(&own, format!("{folder}/own"))))
    });
}

fn metadata_outside(place: &Place) {
    let victim = text(&place.victim);
    let here = i64::from(libc::AT_FDCWD);
    try_one("chmod", || errno(fs::set_permissions(&place.victim, fs::Permissions::from_mode(0o777))));
    try_one("fchmodat2", || call(libc::SYS_fchmodat2, &[&here, &victim, &0o777_i64, &0_i64]).map(drop));
    try_one("chown", || call(libc::SYS_chown, &[&victim, &1_i64, &1_i64]).map(drop));
    try_one("utimensat", || call(libc::SYS_utimensat, &[&here, &victim, &0_i64, &0_i64]).map(drop));
    try_one("setxattr", || call(libc::SYS_setxattr, &[&victim, &text("user.a"), &text("b"), &1_i64, &0_i64]).map(drop));
}

/// Tries to change files that are visible and readable and that, where possible, belong to the program's own user.
fn metadata_shown(_: &Place) {
    let here = i64::from(libc::AT_FDCWD);
    for (label, path) in [("victim", "/shown/victim"), ("folder", "/shown"), ("input", "/package/execute.js"), ("device", "/dev/null")] {
        let path = text(path);
        try_one(&format!("chmod_{label}"), || call(libc::SYS_chmod, &[&path, &0o777_i64]).map(drop));
        try_one(&format!("fchmodat_{label}"), || call(libc::SYS_fchmodat, &[&here, &path, &0o777_i64]).map(drop));
        try_one(&format!("fchmod_{label}"), || {
            let file = call(libc::SYS_openat, &[&here, &path, &i64::from(libc::O_RDONLY)])?;
            call(libc::SYS_fchmod, &[&file, &0o777_i64]).map(drop)
        });
        try_one(&format!("utimensat_{label}"), || call(libc::SYS_utimensat, &[&here, &path, &0_i64, &0_i64]).map(drop));
    }
}

/// Changes that a program may make to its own files.
fn metadata_own(place: &Place) {
    let here = i64::from(libc::AT_FDCWD);
    for (label, folder) in [("stage", &place.stage), ("scratch", &place.scratch)] {
        let own = format!("{folder}/own");
        let path = text(&own);
        try_one(&format!("chmod_{label}"), || {
            errno(fs::write(&own, "own"))?;
            call(libc::SYS_chmod, &[&path, &0o640_i64])?;
            call(libc::SYS_fchmodat, &[&here, &path, &0o644_i64])?;
            let found = errno(fs::metadata(&own))?.permissions().mode() & 0o7777;
            if found == 0o644 { Ok(()) } else { Err(libc::EINVAL) }
        });
        try_one(&format!("utimensat_{label}"), || call(libc::SYS_utimensat, &[&here, &path, &0_i64, &0_i64]).map(drop));
    }
}

fn existence_oracle(place: &Place) {
    let missing = format!("{}-that-is-not-there", place.victim);
    for (label, path) in [("there", &place.victim), ("missing", &missing)] {
        try_one(&format!("stat_{label}"), || errno(fs::metadata(path)).map(drop));
        try_one(&format!("inotify_{label}"), || {
            let queue = call(libc::SYS_inotify_init1, &[&0_i64])?;
            call(libc::SYS_inotify_add_watch, &[&queue, &text(path), &2_i64]).map(drop)
        });
    }
}

fn truncate_outside(place: &Place) {
    try_one("victim", || call(libc::SYS_truncate, &[&text(&place.victim), &0_i64]).map(drop));
    try_one("open", || errno(fs::File::create(&place.victim)).map(drop));
}

fn tmpfile_linkat(place: &Place) {
    let unnamed = |folder: &str| errno(fs::OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(folder));
    try_one("outside", || unnamed(&place.visible).map(drop));
    try_one("link", || {
        let file = unnamed(&place.stage)?;
        let from = text(&format!("/proc/self/fd/{}", file.as_raw_fd()));
        let here = i64::from(libc::AT_FDCWD);
        call(
            libc::SYS_linkat,
            &[&here, &from, &here, &text(&format!("{}/countersign-was-here", place.visible)), &i64::from(libc::AT_SYMLINK_FOLLOW)],
        )
        .map(drop)
    });
}

fn open_by_handle(place: &Place) {
    let handle = [[128_u32; 40]];
    let mount = [0_i32];
    let here = i64::from(libc::AT_FDCWD);
    try_one("name", || call(libc::SYS_name_to_handle_at, &[&here, &text(&place.stage), &handle, &mount, &0_i64]).map(drop));
    try_one("open", || call(libc::SYS_open_by_handle_at, &[&here, &handle, &0_i64]).map(drop));
}

fn mknod(place: &Place) {
    for (label, kind) in [("block", libc::S_IFBLK), ("character", libc::S_IFCHR)] {
        let path = text(&format!("{}/{label}", place.stage));
        try_one(label, || call(libc::SYS_mknod, &[&path, &i64::from(kind | 0o600), &0x103_i64]).map(drop));
    }
    let path = text(&format!("{}/socket", place.stage));
    try_one("socket", || call(libc::SYS_mknod, &[&path, &i64::from(libc::S_IFSOCK | 0o600), &0_i64]).map(drop));
}

fn fifo_in_stage(place: &Place) {
    let path = text(&format!("{}/fifo", place.stage));
    try_one("fifo", || call(libc::SYS_mknod, &[&path, &i64::from(libc::S_IFIFO | 0o600), &0_i64]).map(drop));
}

fn setid_bits(place: &Place) {
    let path = |name: &str| format!("{}/{name}", place.stage);
    for (label, bits) in [("suid", 0o4700), ("sgid", 0o2700)] {
        try_one(&format!("open_{label}"), || errno(fs::OpenOptions::new().write(true).create(true).mode(bits).open(path(label))).map(drop));
        try_one(&format!("mkdir_{label}"), || call(libc::SYS_mkdir, &[&text(&path(&format!("d{label}"))), &i64::from(bits)]).map(drop));
        try_one(&format!("fchmod_{label}"), || {
            let file = errno(fs::File::create(path(&format!("f{label}"))))?;
            call(libc::SYS_fchmod, &[&i64::from(file.as_raw_fd()), &i64::from(bits)]).map(drop)
        });
        let own = text(&path(&format!("f{label}")));
        let here = i64::from(libc::AT_FDCWD);
        try_one(&format!("chmod_{label}"), || call(libc::SYS_chmod, &[&own, &i64::from(bits)]).map(drop));
        try_one(&format!("fchmodat_{label}"), || call(libc::SYS_fchmodat, &[&here, &own, &i64::from(bits)]).map(drop));
        try_one(&format!("fchmodat2_{label}"), || call(libc::SYS_fchmodat2, &[&here, &own, &i64::from(bits), &0_i64]).map(drop));
        let made = text(&path(&format!("m{label}")));
        try_one(&format!("mknod_{label}"), || {
            call(libc::SYS_mknodat, &[&i64::from(libc::AT_FDCWD), &made, &i64::from(libc::S_IFREG | bits), &0_i64]).map(drop)
        });
        try_one(&format!("tmpfile_{label}"), || {
            errno(fs::OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).mode(bits).open(&place.stage)).map(drop)
        });
    }
    try_one("sticky", || {
        let file = errno(fs::File::create(path("sticky")))?;
        call(libc::SYS_fchmod, &[&i64::from(file.as_raw_fd()), &0o1600_i64]).map(drop)
    });
}

fn odd_names(place: &Place) {
    // Each is a name of its own, although some file systems would treat two of them as the same.
    for name in ["a", "A", "a.", "a ", "caf\u{e9}", "cafe\u{301}", "-rf", "..a", "CON"] {
        try_one(&format!("{name:?}"), || errno(fs::write(format!("{}/{name}", place.stage), name)));
    }
    try_one("long", || errno(fs::write(format!("{}/{}", place.stage, "a".repeat(256)), "")));
    // To the kernel the name ends at the NUL; the rest is ignored.
    try_one("nul", || {
        let path = [format!("{}/nul\0after", place.stage).into_bytes()];
        let flags = i64::from(libc::O_CREAT | libc::O_WRONLY);
        let file = call(libc::SYS_openat, &[&i64::from(libc::AT_FDCWD), &(path[0].as_ptr() as i64), &flags, &0o600_i64])?;
        call(libc::SYS_write, &[&file, &text("nul"), &3_i64]).map(drop)
    });
}

fn name_with_newline(place: &Place) {
    try_one("newline", || errno(fs::write(format!("{}/a\nb", place.stage), "")));
}

fn name_of_bytes(place: &Place) {
    let name = std::path::Path::new(&place.stage).join(std::ffi::OsStr::from_bytes(b"a\xffb"));
    try_one("bytes", || errno(fs::write(name, "")));
}

fn volume(place: &Place) {
    crate::sys::ignore(libc::SIGXFSZ);
    try_one("sparse", || {
        let file = errno(fs::File::create(format!("{}/sparse", place.stage)))?;
        errno(file.set_len(i64::MAX as u64))
    });
    try_one("one_file", || {
        let mut file = errno(fs::File::create(format!("{}/one", place.stage)))?;
        let piece = vec![1_u8; 1 << 20];
        (0..10 << 10).try_for_each(|_| errno(file.write_all(&piece)))
    });
    try_one("total", || {
        let piece = vec![1_u8; 1 << 20];
        (0..10 << 10).try_for_each(|number| errno(fs::write(format!("{}/part-{number}", place.stage), &piece)))
    });
}

fn many_files(place: &Place) {
    try_one("files", || (0..1_000_000).try_for_each(|number| errno(fs::write(format!("{}/{number}", place.stage), ""))));
}

/// Writes temporary files to the scratch, and leaves them there.
fn scratch(place: &Place) {
    let aside = format!("{}/aside", place.scratch);
    say(&format!("found={}", fs::read_dir(&place.scratch).into_iter().flatten().count()));
    try_one("write", || errno(fs::create_dir(format!("{}/folder", place.scratch))).and_then(|()| errno(fs::write(&aside, "put aside"))));
    try_one("read", || errno(fs::read(&aside)).map(drop));
    try_one("to_stage", || errno(fs::rename(&aside, format!("{}/aside", place.stage))));
    try_one("link_to_stage", || errno(fs::hard_link(format!("{}/aside", place.scratch), format!("{}/linked", place.stage))));
    try_one("device", || {
        call(libc::SYS_mknod, &[&text(&format!("{}/null", place.scratch)), &i64::from(libc::S_IFCHR | 0o600), &0x103_i64]).map(drop)
    });
}

fn scratch_volume(place: &Place) {
    let piece = vec![1_u8; 1 << 20];
    try_one("total", || (0..10 << 10).try_for_each(|number| errno(fs::write(format!("{}/part-{number}", place.scratch), &piece))));
    for entry in fs::read_dir(&place.scratch).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
    try_one("files", || (0..1_000_000).try_for_each(|number| errno(fs::write(format!("{}/{number}", place.scratch), ""))));
    say(&format!("left={}", fs::read_dir(&place.scratch).into_iter().flatten().count()));
}

fn deep(place: &Place) {
    try_one("deep", || errno(fs::create_dir_all(format!("{}/{}", place.stage, "d/".repeat(64)))));
}

fn unreadable(place: &Place) {
    try_one("mode", || {
        errno(fs::OpenOptions::new().write(true).create(true).mode(0o200).open(format!("{}/unreadable", place.stage))).map(drop)
    });
}

fn write_own_package(place: &Place) {
    let own = if place.stage == "/stage" { "/package/execute.js".to_owned() } else { format!("{}/execute.js", place.stage) };
    if place.stage != "/stage" {
        let _ = fs::write(&own, "");
    }
    try_one("write", || open_to_write(&own));
    try_one("append", || errno(fs::OpenOptions::new().append(true).open(&own)).map(drop));
    try_one("rename", || errno(fs::rename(&own, format!("{own}.away"))).and_then(|()| errno(fs::rename(format!("{own}.away"), &own))));
    try_one("beside", || errno(fs::write(format!("{own}.more"), "")));
    try_one("remove", || errno(fs::remove_file(&own)));
}

fn overlay_whiteout(place: &Place) {
    let path = text(&format!("{}/whiteout", place.stage));
    try_one("device", || call(libc::SYS_mknod, &[&path, &i64::from(libc::S_IFCHR), &0_i64]).map(drop));
    let folder = text(&place.stage);
    try_one("xattr", || call(libc::SYS_setxattr, &[&folder, &text("user.overlay.opaque"), &text("y"), &1_i64, &0_i64]).map(drop));
}

/// The behaviour of a harmless program.
fn kept(place: &Place) {
    let write = || {
        errno(fs::create_dir_all(format!("{}/folder", place.stage)))?;
        errno(fs::write(format!("{}/folder/file.txt", place.stage), "what it wrote"))?;
        errno(fs::write(format!("{}/gone", place.stage), ""))?;
        errno(fs::remove_file(format!("{}/gone", place.stage)))
    };
    try_one("written", write);
    let mut all = String::new();
    let _ = std::io::Read::read_to_string(&mut std::io::stdin(), &mut all);
    say(&format!("stdin={all}"));
    let _ = writeln!(std::io::stderr(), "first line\nsecond \u{1b}[31mline");
}

/// Lists everything below the folder that is shown, with the contents it can read; and lists it again after the test has changed something
/// there.
fn seen(_: &Place) {
    say(&format!("before={}", everything_shown()));
    if std::env::var_os("AGAIN").is_some() {
        let _ = writeln!(std::io::stderr(), "looked");
        while fs::metadata("/shown/free/go").is_err() {
            std::thread::yield_now();
        }
        say(&format!("after={}", everything_shown()));
    }
}

fn everything_shown() -> String {
    let mut ahead = vec![std::path::PathBuf::from("/shown")];
    let mut found = vec![];
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                ahead.push(path);
                continue;
            }
            let text = fs::read_to_string(&path);
            found.push(format!("{}:{}", path.display(), text.as_deref().unwrap_or("-")));
        }
    }
    found.sort();
    found.join(" ").replace("/shown/", "")
}
