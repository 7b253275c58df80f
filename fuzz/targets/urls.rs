//! Each backend reads a URL by the call that sends nothing. No error shows a password.

#![no_main]

use libfuzzer_sys::fuzz_target;

const PASSWORD: &str = "correct-horse-battery";

fuzz_target!(|input: (u8, &str)| {
    let (scheme, rest) = input;
    let scheme = onelock::SCHEMES[usize::from(scheme) % onelock::SCHEMES.len()];
    // A certificate's file is read: these have no end.
    if rest.contains("/dev") || rest.contains("/proc") {
        return;
    }
    let _ = onelock::schema(rest);
    if let Err(error) = onelock::schema(&format!("{scheme}://user:{PASSWORD}@{rest}")) {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
});
