//! The value of a lock's key on servers that only compare and set. Any client may have written it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_core::toolkit::Row;
use lock_core::{Label, Name, Owner};

fuzz_target!(|input: (i64, Option<u64>, i64, &[u8])| {
    let (stamp, number, now, value) = input;
    let name = Name::new("a").expect("one letter is a name");
    let _ = Row::notice(&name, value);
    let Ok(row) = Row::parse(value) else { return };
    assert_eq!(Row::parse(&row.to_bytes()).as_ref().ok(), Some(&row), "a row that was read can be written");
    let _ = row.holder(stamp, number, now);
    let ended = row.ended(stamp, number);
    assert!(ended.holder(stamp, number, now).is_none(), "a lock that was ended has a holder");
    let by = Owner::parse("000102030405060708090a0b0c0d0e0f").expect("32 digits are an owner");
    for next in [ended, row.taken(stamp, number, by, &Label::new("an operator"))] {
        assert_eq!(Row::parse(&next.to_bytes()).ok(), Some(next), "a row that follows can be read");
    }
});
