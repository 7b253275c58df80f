//! The setup that TLS by rustls needs of a program.

use rustls::crypto::CryptoProvider;

use crate::error::{Error, Result};

/// Checks whether a TLS connection can be configured. Meant for backends whose client library leaves the choice of a
/// cryptography provider to rustls, before their first connection.
///
/// rustls panics if a program has installed no provider and contains two of them, or none (its `CryptoProvider`
/// documentation, *Using the per-process default `CryptoProvider`*). A library must not choose for the program. If there
/// is one, this installs it, as rustls would at the first connection. It never panics, and asks no code that does: a
/// program may abort on a panic, or report it.
///
/// # Errors
///
/// `Unsupported`, with what to do, if the program has to choose.
pub fn check_tls_provider() -> Result<()> {
    if CryptoProvider::get_default().is_some() {
        return Ok(());
    }
    let there_are = match built_in() {
        (Some(only), None) | (None, Some(only)) => {
            // Another thread may have installed one meanwhile, which is as good.
            only.install_default().ok();
            return Ok(());
        }
        (Some(_), Some(_)) => "two TLS providers, and rustls can't choose",
        (None, None) => "no TLS provider",
    };
    Err(Error::unsupported(format!(
        "this program contains {there_are}; say which at the start of main: \
         rustls::crypto::ring::default_provider().install_default()"
    )))
}

/// Stands for rustls' module of that name in a program without it.
#[allow(dead_code, reason = "rustls may have it")]
mod ring {
    pub(super) fn default_provider() {}
}

/// Stands for rustls' module of that name in a program without it.
#[allow(dead_code, reason = "rustls may have it")]
mod aws_lc_rs {
    pub(super) fn default_provider() {}
}

/// Returns ring and aws-lc, if rustls was built with them. Only its features say that, and those are no features of this
/// crate: what rustls exports hides the modules of the same name that stand outside of this function.
fn built_in() -> (Option<CryptoProvider>, Option<CryptoProvider>) {
    #[allow(unused_imports, clippy::wildcard_imports, reason = "it may export the two names or not")]
    use rustls::crypto::*;

    trait Provider {
        fn found(self) -> Option<CryptoProvider>;
    }
    impl Provider for () {
        fn found(self) -> Option<CryptoProvider> {
            None
        }
    }
    impl Provider for CryptoProvider {
        fn found(self) -> Option<CryptoProvider> {
            Some(self)
        }
    }
    #[allow(clippy::unit_arg, reason = "a provider that is not there is nothing")]
    (ring::default_provider().found(), aws_lc_rs::default_provider().found())
}
