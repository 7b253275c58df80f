//! The parts of a URL that all backends read in the same way.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_core::toolkit::{Location, unescape};

fuzz_target!(|url: &str| {
    let _ = unescape(url);
    let Ok(mut location) = Location::parse(url) else { return };
    let again = Location::parse(location.base()).expect("a URL without its parameters is one");
    assert_eq!(again.base(), location.base());
    let _ = (location.login(), location.hosts(1), location.path().len());
    let query = location.clone().take_query(&["prefix", "a", "b"]);
    let read = Location::parse(&format!("x://host?{query}")).expect("a query that was written can be read");
    for name in ["prefix", "a", "b"] {
        assert_eq!(read.clone().take(name), location.clone().take(name));
    }
    let _ = (location.take_common(), location.take_flag("a"), location.take_duration("b"));
    let _ = location.finish("prefix, a, b");
});
