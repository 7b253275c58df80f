//! By its magic number, which `statfs` tells.

use std::io;
use std::path::Path;

use super::FileSystem;

/// The file system of what is at `path`.
pub(crate) fn find(path: &Path) -> io::Result<FileSystem> {
    // 32 bits wide on every architecture, whatever the field is.
    Ok(of(rustix::fs::statfs(path)?.f_type as u32))
}

fn of(magic: u32) -> FileSystem {
    if let Some((_, name)) = LOCAL.iter().find(|(m, _)| *m == magic) {
        return FileSystem::Local(name);
    }
    let foreign = FOREIGN.iter().find(|(m, _)| *m == magic);
    FileSystem::Foreign(foreign.map_or_else(|| format!("type {magic:#x}"), |(_, name)| (*name).to_owned()))
}

/// As `linux/magic.h` and statfs(2) have them.
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
