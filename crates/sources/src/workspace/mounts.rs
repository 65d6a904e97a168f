//! Finds the mounts inside the workspace. A mount can show any content under a name that seems to belong to the workspace.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Every mount below this folder, by its path relative to it. A mount whose name is not UTF-8 cannot be named by a call, so its parent
/// stands for it.
pub(crate) fn mounts_below(folder: &Path) -> io::Result<Vec<String>> {
    Ok(below(&std::fs::read("/proc/self/mountinfo")?, folder))
}

fn below(mountinfo: &[u8], folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for line in mountinfo.split(|byte| *byte == b'\n') {
        // The fifth word is the mount point.
        let Some(place) = line.split(|byte| *byte == b' ').nth(4).map(unescaped) else { continue };
        let Some(rest) = place.strip_prefix(folder.as_os_str().as_bytes()) else { continue };
        let names: Option<Vec<_>> = rest.strip_prefix(b"/").map(|rest| rest.split(|byte| *byte == b'/').collect());
        let known = names.into_iter().flatten().map_while(|name| std::str::from_utf8(name).ok()).filter(|name| !name.is_empty());
        let path = known.collect::<Vec<_>>().join("/");
        if rest.starts_with(b"/") && rest.len() > 1 {
            found.push(path);
        }
    }
    found
}

/// Decodes a space, a tab, a line break and a backslash, which mountinfo writes as a backslash and three octal digits.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match digits {
            Some(digits) => {
                bytes.push(digits.iter().fold(0_u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_below_is_named_and_as_it_is_spelled() {
        let line = |place: &str| format!("36 35 98:0 / {place} rw,noatime master:1 - ext4 /dev/root rw\n");
        let places = [
            "/",
            "/data",
            "/data/work",
            "/data/work/a",
            "/data/work/b/c",
            "/data/workshop",
            "/data/work/with\\040space",
            "/data/work/back\\134slash",
        ];
        let text: String = places.map(line).concat();
        let found = below(text.as_bytes(), Path::new("/data/work"));
        assert_eq!(found, ["a", "b/c", "with space", "back\\slash"]);
        let odd = [b"36 35 98:0 / /data/work/a/\xff/b rw - ext4 /dev/root rw\n".as_slice(), b"nonsense\n\n"].concat();
        assert_eq!(below(&odd, Path::new("/data/work")), ["a"], "under the last name that can be said");
    }
}
