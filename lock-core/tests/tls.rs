//! This test is a program with two providers of cryptography.

use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::ErrorKind;
use lock_core::toolkit::check_tls_provider;
use rustls::crypto::{aws_lc_rs, ring};

#[test]
fn a_program_with_two_providers_is_told_to_choose() {
    static PANICKED: AtomicBool = AtomicBool::new(false);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| PANICKED.store(true, Ordering::SeqCst)));
    // Either provider would do.
    drop(aws_lc_rs::default_provider());
    let error = check_tls_provider();
    std::panic::set_hook(usual);
    assert!(!PANICKED.load(Ordering::SeqCst), "a program may end with its first panic");
    let error = error.expect_err("rustls can't choose");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("install_default()"), "{error}");
    ring::default_provider().install_default().expect("no provider was installed before");
    check_tls_provider().expect("a provider is installed");
}
