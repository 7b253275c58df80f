//! What TLS by rustls needs of a program.

use std::panic::catch_unwind;

use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;

use crate::error::{Error, Result};

/// Checks whether a TLS connection can be configured. Meant for backends whose client library leaves the choice of a
/// cryptography provider to rustls, before their first connection.
///
/// rustls panics if a program contains two providers and has installed neither (its `CryptoProvider` documentation,
/// *Using the per-process default `CryptoProvider`*). A library must not choose for the program.
///
/// # Errors
///
/// `Unsupported`, with what to do, if rustls can't choose.
pub fn check_tls_provider() -> Result<()> {
    if CryptoProvider::get_default().is_some() {
        return Ok(());
    }
    // If there is only one provider, this makes it the default, as the first connection would.
    match catch_unwind(ClientConfig::builder) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::unsupported(
            "this program contains two TLS providers, and rustls can't choose; say which at the start of main: \
             rustls::crypto::ring::default_provider().install_default()",
        )),
    }
}
