//! TLS needs one provider of cryptography per process; ours is ring.

use std::panic::catch_unwind;

use lock_core::{Error, Result};
use redis::ConnectionAddr;
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;

/// Whether a TLS connection can be configured. rustls panics, inside redis, if a program contains two providers and
/// has installed neither; a library must not choose for it.
pub(crate) fn check_provider(client: &redis::Client) -> Result<()> {
    let tls = matches!(client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. });
    if !tls || CryptoProvider::get_default().is_some() {
        return Ok(());
    }
    // With one provider only, this makes it the default, as the first connection would.
    match catch_unwind(ClientConfig::builder) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::unsupported(
            "this program contains two TLS providers, and rustls can't choose; say which at the start of main: \
             rustls::crypto::ring::default_provider().install_default()",
        )),
    }
}
