//! What TLS through rustls needs of a program.

use std::panic::catch_unwind;

use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;

use crate::error::{Error, Result};

/// Whether a TLS connection can be configured: for backends whose client leaves the choice of a provider of cryptography
/// to rustls, to be asked before it does.
///
/// rustls panics if a program contains two and has installed neither (its `CryptoProvider` documentation, *Using the
/// per-process default `CryptoProvider`*); a library must not choose for it. `Unsupported` says what to do.
pub fn check_tls_provider() -> Result<()> {
    if CryptoProvider::get_default().is_some() {
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
