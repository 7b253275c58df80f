//! Files of this library beside the database, on which processes have locks of the operating system. Such a lock ends
//! with its process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the path of the file beside `database` whose name is the database's between `before` and `after`.
pub(crate) fn path(database: &Path, before: &str, after: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(before);
    name.push(database.file_name().unwrap_or_default());
    name.push(after);
    database.with_file_name(name)
}

/// Opens a file, and creates it if it is missing. Anything but a regular file is refused without waiting, for example
/// for the reader of a FIFO.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32);
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}
