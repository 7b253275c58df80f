//! The service manager that has started this program (sd_notify(3)).

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;

/// A service manager that listens.
#[derive(Clone, Debug)]
pub(crate) struct ServiceManager(OsString);

impl ServiceManager {
    /// Returns the one that has started this program, if it wants to be notified of this program's state.
    pub(crate) fn of_this_process() -> Option<ServiceManager> {
        env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()).map(ServiceManager)
    }

    /// Sends assignments, such as `STATUS=…`, one on each line. Never waits. If the manager has gone, nothing happens.
    pub(crate) fn notify(&self, state: &str) {
        let _: io::Result<usize> = self.send(state.as_bytes());
    }

    fn send(&self, state: &[u8]) -> io::Result<usize> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        match self.0.as_bytes() {
            // Linux: a name outside of the file system.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            [b'@', name @ ..] => {
                use std::os::linux::net::SocketAddrExt;
                use std::os::unix::net::SocketAddr;

                socket.send_to_addr(state, &SocketAddr::from_abstract_name(name)?)
            }
            _ => socket.send_to(state, &self.0),
        }
    }
}
