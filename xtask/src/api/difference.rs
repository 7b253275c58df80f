//! Compares listings. The order of their lines has no meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::FOLDER;
use super::listing::Listings;

/// Returns the lines that differ, below the names of their files. `None` if no line does.
pub(super) fn between(committed: &Listings, now: &Listings) -> Option<String> {
    let mut said = String::new();
    for name in committed.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
        let text = |listings: &Listings| listings.get(name).cloned().unwrap_or_default();
        let lines = differing(&text(committed), &text(now));
        if !lines.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(said, "{FOLDER}/{name}.txt\n{}", lines.join("\n"));
        }
    }
    (!said.is_empty()).then_some(said)
}

/// Returns the lines of which one text has more than the other: `  - gone`, `  + new`. Those of one item are neighbours.
fn differing(committed: &str, now: &str) -> Vec<String> {
    let mut surplus: BTreeMap<&str, i64> = BTreeMap::new();
    committed.lines().for_each(|line| *surplus.entry(line).or_default() -= 1);
    now.lines().for_each(|line| *surplus.entry(line).or_default() += 1);
    let differing = surplus.into_iter().filter(|(_, surplus)| *surplus != 0);
    differing.map(|(line, surplus)| format!("  {} {line}", if surplus < 0 { '-' } else { '+' })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "pub mod a\npub fn a::f(&self) -> u8\npub fn a::g()\n";

    fn listings(texts: &[(&str, &str)]) -> Listings {
        texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn the_same_lines_are_no_difference_whatever_their_order() {
        assert_eq!(between(&listings(&[("a", ONE)]), &listings(&[("a", ONE)])), None);
        assert!(differing("a\nb\n", "b\r\na\r\n").is_empty());
    }

    #[test]
    fn added_removed_and_changed_lines_are_told() {
        assert_eq!(differing(ONE, &format!("{ONE}pub fn a::h()\n")), ["  + pub fn a::h()"]);
        assert_eq!(differing(ONE, &ONE.replace("pub fn a::g()\n", "")), ["  - pub fn a::g()"]);
        let changed = differing(ONE, &ONE.replace("u8", "u9"));
        assert_eq!(changed, ["  - pub fn a::f(&self) -> u8", "  + pub fn a::f(&self) -> u9"]);
        assert_eq!(differing("a\na\n", "a\n"), ["  - a"], "each occurrence counts");
    }

    #[test]
    fn a_crate_that_is_on_one_side_only_differs_in_all_its_lines() {
        let (a, b) = (listings(&[("a", "x\n")]), listings(&[("b", "y\n")]));
        let said = between(&a, &b).expect("they differ");
        assert_eq!(said, "docs/public-api/a.txt\n  - x\ndocs/public-api/b.txt\n  + y\n");
    }
}
