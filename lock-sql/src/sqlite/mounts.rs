//! Mounts, as the kernel lists them: the mount through which a file was opened, and the part of its file system that
//! the mount shows.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, statx};

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The part of its file system that is mounted.
    root: PathBuf,
    /// Where it is mounted.
    point: PathBuf,
    /// The type of its file system.
    pub(crate) kind: String,
}

impl Mount {
    /// The mount through which `file` was opened.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Mount> {
        Mount::numbered(id(file)?, || fs::read("/proc/self/mountinfo"))
    }

    /// Finds the mount with this number. The kernel returns the list in pieces, and a mount or an unmount meanwhile may
    /// hide a line. So the list is read a second time if the line is missing.
    fn numbered(id: u64, mut list: impl FnMut() -> io::Result<Vec<u8>>) -> io::Result<Mount> {
        for _ in 0..2 {
            let list = String::from_utf8_lossy(&list()?).into_owned();
            let found = list.lines().find_map(|line| parse(line).filter(|(number, _)| *number == id));
            if let Some((_, mount)) = found {
                return Ok(mount);
            }
        }
        Err(io::Error::other(format!("there is no mount {id}")))
    }

    /// Returns `path` as a path within this mount's file system; `None` if it is not in this mount.
    pub(crate) fn within(&self, path: &Path) -> Option<PathBuf> {
        Some(self.root.join(path.strip_prefix(&self.point).ok()?))
    }
}

/// Returns the number of the mount through which `file` was opened.
pub(crate) fn id(file: impl AsFd) -> io::Result<u64> {
    let file = file.as_fd();
    if let Ok(found) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
        && found.stx_mask & StatxFlags::MNT_ID.bits() != 0
    {
        return Ok(found.stx_mnt_id);
    }
    // Linux before 5.8, or a sandbox that forbids the call.
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("the kernel doesn't tell the mount of a file"))
}

/// Reads a line such as `36 35 0:21 /sys /proc/sys ro,relatime shared:1 - proc proc rw` (see proc(5)): the number, and
/// the mount.
fn parse(line: &str) -> Option<(u64, Mount)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut words = mount.split(' ');
    let id = words.next()?.parse().ok()?;
    let (root, point) = (words.nth(2)?.into(), words.next()?.into());
    Some((id, Mount { root, point, kind: file_system.split(' ').next()?.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mount_shows_is_told() {
        let at = Path::new("/proc/sys/kernel/random/boot_id");
        for (line, shown) in [
            ("22 27 0:21 / /proc rw - proc proc rw", Some("/sys/kernel/random/boot_id")),
            (
                "79 53 0:21 /sys /proc/sys ro,relatime shared:9 - proc proc rw",
                Some("/sys/kernel/random/boot_id"),
            ),
            (
                "79 53 0:21 /sys/kernel/random/uuid /proc/sys/kernel/random/boot_id rw - proc proc rw",
                Some("/sys/kernel/random/uuid"),
            ),
            ("80 53 0:30 / /mnt rw - tmpfs tmpfs rw", None),
        ] {
            let (_, mount) = parse(line).expect(line);
            assert_eq!(mount.within(at).as_deref(), shown.map(Path::new), "{line}");
        }
        assert_eq!(parse("79 53 0:21 /sys"), None);
    }

    #[test]
    fn a_list_lacking_the_mount_is_read_again() {
        let line = b"22 27 0:21 / /proc rw - proc proc rw\n".to_vec();
        for (lists, found) in [(vec![vec![], line.clone()], true), (vec![vec![], vec![], line], false)] {
            let mut lists = lists.into_iter();
            let mount = Mount::numbered(22, || Ok(lists.next().expect("a list")));
            assert_eq!(mount.is_ok_and(|mount| mount.kind == "proc"), found);
        }
    }

    #[test]
    fn the_kernel_is_asked() {
        let file = fs::File::open("/proc/self/mountinfo").unwrap();
        assert_eq!(Mount::of(&file).unwrap().kind, "proc");
    }
}
