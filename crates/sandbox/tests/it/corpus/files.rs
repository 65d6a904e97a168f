//! Attempts on files.

use super::Row;
use super::Without::{Is, Nothing, Other};

pub(super) const ROWS: &[Row] = &[
    Row { attempt: "fs_proc_self_root", answers: &[("read", "ENOENT", "ENOENT", Is("ok")), ("write", "ENOENT", "ENOENT", Is("ok"))] },
    Row {
        attempt: "fs_proc_fd_dotdot",
        answers: &[
            ("cwd", "ENOENT", "ENOENT", Is("ok")),
            ("fd", "ENOTDIR", "ENOTDIR", Is("ENOTDIR")),
            ("stage", "ENOENT", "ENOENT", Is("ok")),
        ],
    },
    Row {
        attempt: "fs_proc_of_server",
        answers: &[
            ("environ", "ENOENT", "ENOENT", Is("ok")),
            ("mem", "ENOENT", "ENOENT", Is("ok")),
            ("root", "ENOENT", "ENOENT", Is("ok")),
            ("cwd", "ENOENT", "ENOENT", Is("ok")),
            ("init", "ENOENT", "ENOENT", Is("ok")),
        ],
    },
    Row { attempt: "fs_symlink_in_stage", answers: &[("symlink", "ok", "ok", Is("ok"))] },
    Row {
        attempt: "fs_hardlink_from_outside",
        answers: &[("victim", "ENOENT", "ENOENT", Is("ok")), ("visible", "EXDEV", "EXDEV", Is("ok"))],
    },
    Row { attempt: "fs_hardlink_inside", answers: &[("link", "ok", "ok", Is("ok"))] },
    Row {
        attempt: "fs_rename_across",
        answers: &[("in", "ENOENT", "ENOENT", Is("ok")), ("out", "EXDEV", "EXDEV", Is("ok")), ("refer", "EXDEV", "EXDEV", Is("ok"))],
    },
    Row {
        attempt: "fs_metadata_outside",
        answers: &[
            ("chmod", "ENOENT", "ENOENT", Is("ok")),
            ("fchmodat2", "ENOENT", "ENOENT", Other),
            ("chown", "EPERM", "EPERM", Is("ok")),
            ("utimensat", "ENOENT", "ENOENT", Is("ok")),
            ("setxattr", "EPERM", "SIGSYS", Other),
        ],
    },
    Row {
        attempt: "fs_metadata_own",
        answers: &[
            ("chmod_stage", "ok", "ok", Is("ok")),
            ("utimensat_stage", "ok", "ok", Is("ok")),
            ("chmod_scratch", "ok", "ok", Is("ok")),
            ("utimensat_scratch", "ok", "ok", Is("ok")),
        ],
    },
    Row {
        attempt: "fs_existence_oracle",
        answers: &[
            ("stat_there", "ENOENT", "ENOENT", Is("ok")),
            ("inotify_there", "ENOENT", "ENOENT", Is("ok")),
            ("stat_missing", "ENOENT", "ENOENT", Is("ENOENT")),
            ("inotify_missing", "ENOENT", "ENOENT", Is("ENOENT")),
        ],
    },
    Row { attempt: "fs_truncate_outside", answers: &[("victim", "ENOENT", "ENOENT", Is("ok")), ("open", "ENOENT", "ENOENT", Is("ok"))] },
    Row { attempt: "fs_tmpfile_linkat", answers: &[("outside", "EROFS", "EROFS", Is("ok")), ("link", "EROFS", "EROFS", Is("ok"))] },
    Row { attempt: "fs_open_by_handle", answers: &[("name", "EPERM", "SIGSYS", Is("ok")), ("open", "EPERM", "SIGSYS", Other)] },
    Row {
        attempt: "fs_mknod",
        answers: &[
            ("block", "EPERM", "EPERM", Is("ok")),
            ("character", "EPERM", "EPERM", Is("ok")),
            ("socket", "EPERM", "EPERM", Is("ok")),
        ],
    },
    Row { attempt: "fs_fifo_in_stage", answers: &[("fifo", "ok", "ok", Is("ok"))] },
    Row {
        attempt: "fs_setid_bits",
        answers: &[
            ("open_suid", "EPERM", "EPERM", Is("ok")),
            ("mkdir_suid", "EPERM", "EPERM", Is("ok")),
            ("fchmod_suid", "EPERM", "EPERM", Is("ok")),
            ("chmod_suid", "EPERM", "EPERM", Is("ok")),
            ("fchmodat_suid", "EPERM", "EPERM", Is("ok")),
            ("fchmodat2_suid", "EPERM", "EPERM", Other),
            ("open_sgid", "EPERM", "EPERM", Is("ok")),
            ("mkdir_sgid", "EPERM", "EPERM", Is("ok")),
            ("fchmod_sgid", "EPERM", "EPERM", Is("ok")),
            ("chmod_sgid", "EPERM", "EPERM", Is("ok")),
            ("fchmodat_sgid", "EPERM", "EPERM", Is("ok")),
            ("fchmodat2_sgid", "EPERM", "EPERM", Other),
            ("mknod_suid", "EPERM", "EPERM", Is("ok")),
            ("mknod_sgid", "EPERM", "EPERM", Is("ok")),
            ("tmpfile_suid", "EPERM", "EPERM", Is("ok")),
            ("tmpfile_sgid", "EPERM", "EPERM", Is("ok")),
            ("sticky", "ok", "ok", Is("ok")),
        ],
    },
    Row {
        attempt: "fs_odd_names",
        answers: &[
            ("\"a\"", "ok", "ok", Is("ok")),
            ("\"A\"", "ok", "ok", Is("ok")),
            ("\"a.\"", "ok", "ok", Is("ok")),
            ("\"a \"", "ok", "ok", Is("ok")),
            ("\"caf\u{e9}\"", "ok", "ok", Is("ok")),
            ("\"cafe\\u{301}\"", "ok", "ok", Is("ok")),
            ("\"-rf\"", "ok", "ok", Is("ok")),
            ("\"..a\"", "ok", "ok", Is("ok")),
            ("\"CON\"", "ok", "ok", Is("ok")),
            ("long", "ENAMETOOLONG", "ENAMETOOLONG", Is("ENAMETOOLONG")),
            ("nul", "ok", "ok", Is("ok")),
        ],
    },
    Row { attempt: "fs_name_with_newline", answers: &[("newline", "ok", "ok", Is("ok"))] },
    Row { attempt: "fs_name_of_bytes", answers: &[("bytes", "ok", "ok", Is("ok"))] },
    Row {
        attempt: "fs_volume",
        answers: &[
            ("sparse", "EFBIG", "EFBIG", Nothing),
            ("one_file", "ENOSPC", "ENOSPC", Nothing),
            ("total", "ENOSPC", "ENOSPC", Nothing),
        ],
    },
    Row { attempt: "fs_many_files", answers: &[("files", "ENOSPC", "ENOSPC", Nothing)] },
    Row {
        attempt: "fs_scratch",
        answers: &[
            ("write", "ok", "ok", Is("ok")),
            ("read", "ok", "ok", Is("ok")),
            ("to_stage", "EXDEV", "EXDEV", Is("ok")),
            ("link_to_stage", "EXDEV", "EXDEV", Nothing),
            ("device", "EPERM", "EPERM", Is("ok")),
        ],
    },
    Row { attempt: "fs_scratch_volume", answers: &[("total", "ENOSPC", "ENOSPC", Nothing), ("files", "ENOSPC", "ENOSPC", Nothing)] },
    Row { attempt: "fs_deep", answers: &[("deep", "ok", "ok", Is("ok"))] },
    Row { attempt: "fs_unreadable", answers: &[("mode", "ok", "ok", Is("ok"))] },
    Row {
        attempt: "fs_write_own_package",
        answers: &[
            ("write", "EACCES", "EACCES", Is("ok")),
            ("append", "EACCES", "EACCES", Is("ok")),
            ("rename", "EROFS", "EROFS", Is("ok")),
            ("beside", "EROFS", "EROFS", Is("ok")),
            ("remove", "EROFS", "EROFS", Is("ok")),
        ],
    },
    Row { attempt: "fs_overlay_whiteout", answers: &[("device", "EPERM", "EPERM", Is("ok")), ("xattr", "EPERM", "SIGSYS", Other)] },
];
