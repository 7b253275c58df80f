//! Listing the locks of a server.

use lock_core::driver::Lists;
use lock_core::{ErrorKind, Name};

use crate::case::{Case, case};
use crate::setting::Setting;
use crate::timing::{Answered, released};

pub(crate) const CASES: &[Case] = &[
    case!(a_list_shows_what_is_held_and_nothing_else, "list"; if |s| s.info.lists == Lists::Held),
    case!(a_server_that_lists_nothing_says_so, "list"; if |s| s.info.lists == Lists::Nothing),
];

async fn a_list_shows_what_is_held_and_nothing_else(s: Setting) {
    let (beginning, a, b) = (s.name(), s.client().await, s.client().await);
    // What has a meaning in patterns, paths and ranges of servers.
    let odd = ["", "/", "/x", "*", "%", "_", "[a]", "\\", "\u{ff}", "\u{10ffff}", ":lock~tt", "x:lock~7"];
    let named = |end: &str| Name::new(format!("{beginning}{end}")).expect("a short name");
    let mut names: Vec<Name> = odd.into_iter().map(named).collect();
    names.sort_unstable();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(s.hold_long_by(&a, name).await);
    }
    // Free again, and a name that begins otherwise.
    released(s.hold_by(&b, &named("free")).await).await;
    let other = Name::new(format!("other {beginning}")).expect("a short name");
    let elsewhere = s.hold_long_by(&b, &other).await;

    let listed = b.list(beginning.as_str()).answered().await;
    let shown: Vec<&Name> = listed.iter().map(|(name, _)| name).collect();
    assert_eq!(shown, names.iter().collect::<Vec<_>>());
    for ((name, inspection), guard) in listed.iter().zip(&guards) {
        let holder = inspection.holder.as_ref().expect("it is held");
        assert_eq!(holder.token, Some(guard.token()), "{name}: {holder:?}");
    }
    let others = b.list("other ").answered().await;
    assert!(others.iter().any(|(name, _)| *name == other), "{others:?}");
    let one = b.list(&format!("{beginning}*")).answered().await;
    assert_eq!(one.len(), 1, "no character of a beginning has a meaning: {one:?}");
    for guard in guards.into_iter().chain([elsewhere]) {
        released(guard).await;
    }
    assert!(b.list(beginning.as_str()).answered().await.is_empty());
}

async fn a_server_that_lists_nothing_says_so(s: Setting) {
    let refusal = s.client().await.list("").await.expect_err("it can't list");
    assert_eq!(refusal.kind(), ErrorKind::Unsupported, "{refusal}");
}
