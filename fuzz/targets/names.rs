//! Names, prefixes, labels, owners and durations: texts that users and servers give.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_core::toolkit::Prefix;
use lock_core::{Label, MAX_LABEL, Name, Owner, OwnerBytes, parse_duration};

fuzz_target!(|input: (&str, &str)| {
    let (one, other) = input;
    if let (Ok(prefix), Ok(name)) = (Prefix::new(one), Name::new(other)) {
        let key = prefix.key(&name);
        assert_eq!(prefix.name(key.as_bytes()), Some(name), "a name comes back from its key");
    }
    for label in [Label::new(one), Label::read(one)] {
        assert!(label.len() <= MAX_LABEL && !label.contains(char::is_control), "{label:?}");
        assert_eq!(Label::read(&label), label, "a label that was written can be read");
    }
    if let Some(owner) = Owner::parse(one) {
        assert_eq!(Owner::parse(&owner.to_string()), Some(owner));
    }
    let shown = OwnerBytes::new(one.as_bytes()).to_string();
    assert!(!shown.contains(char::is_control), "{shown:?}");
    let _ = parse_duration(one);
});
