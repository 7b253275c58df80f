//! Finds a file system by the magic number from `statfs`, and other facts about files and mounts that the kernel
//! reports.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, fstat, makedev, open, statx};

use super::{FileSystem, Status};
use crate::sqlite::mounts;

/// Returns the file system of what is at `path`.
pub(crate) fn find(path: &Path) -> io::Result<FileSystem> {
    // The number has 32 bits on every architecture, whatever the width of the field.
    Ok(of(rustix::fs::statfs(path)?.f_type as u32))
}

/// Returns whether `file` is a mount of its own, rather than part of the mount that its folder is in.
pub(crate) fn is_mounted_by_itself(file: &Path, folder: &Path) -> io::Result<bool> {
    // A descriptor with `PATH` gives no access to the file, so closing it drops no POSIX locks.
    let look = |path: &Path| open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let (file, folder) = (look(file)?, look(folder)?);
    match (mounts::id(&file), mounts::id(&folder)) {
        (Ok(file), Ok(folder)) => Ok(file != folder),
        // In a sandbox without `/proc`, the devices are compared: most such mounts are of another disk, too.
        _ => Ok(fstat(&file)?.st_dev != fstat(&folder)?.st_dev),
    }
}

/// Returns whether this process has mapped a file that was at `path` and was removed, and has not mapped the
/// file that is there now.
pub(crate) fn has_mapped_removed(path: &Path) -> bool {
    let Ok(maps) = fs::read("/proc/self/maps") else { return false };
    let now = format!(" {}", path.display()).replace('\n', "\\012");
    let removed = format!("{now} (deleted)");
    let maps = String::from_utf8_lossy(&maps);
    let has = |end: &str| maps.lines().any(|line| line.ends_with(end));
    has(&removed) && !has(&now)
}

/// Returns what tells the file at `path` from another one.
///
/// Does not ask for its times. If a process has asked for a file's times, Linux from 6.13 on gives its next write a time of
/// its own, and every `fsync` of that file then writes its inode, too: a third more time for each commit of SQLite.
pub(crate) fn status(path: &Path) -> io::Result<Status> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK;
    match statx(CWD, path, AtFlags::empty(), wanted) {
        Ok(found) => Ok(Status {
            id: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            names: found.stx_nlink.into(),
        }),
        // An old kernel, or a sandbox, may not have the call.
        Err(_) => super::status_with_times(path),
    }
}

fn of(magic: u32) -> FileSystem {
    if let Some((_, name)) = LOCAL.iter().find(|(m, _)| *m == magic) {
        return FileSystem::Local(name);
    }
    let foreign = FOREIGN.iter().find(|(m, _)| *m == magic);
    FileSystem::Foreign(foreign.map_or_else(|| format!("type {magic:#x}"), |(_, name)| (*name).to_owned()))
}

/// The numbers are from `linux/magic.h` and statfs(2).
const LOCAL: &[(u32, &str)] = &[
    (0xEF53, "ext2, ext3 or ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "f2fs"),
    (0x2FC1_2FC1, "zfs"),
    (0x0102_1994, "tmpfs"),
    (0x794C_7630, "overlayfs"),
];

const FOREIGN: &[(u32, &str)] = &[
    (0x6969, "nfs"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x517B, "smb"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x6A65_6A63, "virtiofs"),
    (0x00C3_6400, "ceph"),
    (0x0116_1970, "gfs2"),
    (0x7461_636F, "ocfs2"),
    (0x786F_4256, "vboxsf"),
    (0x5346_414F, "afs"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_be_local_is_local() {
        for magic in [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x2FC1_2FC1, 0x0102_1994, 0x794C_7630] {
            assert!(matches!(of(magic), FileSystem::Local(_)), "{magic:#x}");
        }
        for (magic, name) in [
            (0x6969, "nfs"),
            (0xFF53_4D42, "cifs"),
            (0x6573_5546, "fuse"),
            (0x0102_1997, "9p"),
            (0x6A65_6A63, "virtiofs"),
            (0x00C3_6400, "ceph"),
            (0x1234, "type 0x1234"),
        ] {
            assert_eq!(of(magic), FileSystem::Foreign(name.to_owned()));
        }
    }

    #[test]
    fn the_kernel_is_asked() {
        assert_eq!(find(Path::new("/proc")).unwrap(), FileSystem::Foreign("type 0x9fa0".to_owned()));
        assert!(find(Path::new("/no/such/folder")).is_err());
    }
}
