//! Checks that a test pins everything that users can call, set, read or be told of. `docs/pinned.md` says which test,
//! and is compared with the sources in both directions.

mod api;
mod metrics;
mod parameters;

use std::collections::{BTreeMap, BTreeSet};

use crate::documents::{cases, code, is_test, read};
use crate::workspace::root;

const DOCUMENT: &str = "docs/pinned.md";

/// Items, spelled as in `docs/pinned.md`.
type Items = BTreeSet<String>;

/// Checks the document. `Err` lists items that no test pins, items that no longer exist, and pins that don't exist.
pub(crate) fn check() -> Result<(), String> {
    let text = read(&root().join(DOCUMENT))?;
    let cases = cases()?;
    let pins = |name: &str| cases.contains(name) || is_test(name);
    let mut wrong = Vec::new();
    let api = api::offered()?;
    let (events, calls): (Items, Items) = api.into_iter().partition(|item| api::is_of_events(item));
    for (heading, items) in [
        ("The public API", calls),
        ("Events", events),
        ("URL parameters", parameters::read_of_urls()?),
        ("Metrics", metrics::counted()?),
    ] {
        wrong.extend(compare(heading, &items, &rows(&text, heading)?, pins));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Returns what is wrong with these rows as a table of these items.
fn compare(
    heading: &str,
    items: &Items,
    rows: &BTreeMap<String, Vec<String>>,
    pins: impl Fn(&str) -> bool,
) -> Vec<String> {
    let unpinned = items.iter().filter(|item| rows.get(*item).is_none_or(Vec::is_empty));
    let mut wrong: Vec<String> =
        unpinned.map(|item| format!("{heading}: nothing pins {item}, by {DOCUMENT}")).collect();
    let gone = rows.keys().filter(|item| !items.contains(*item));
    wrong.extend(gone.map(|item| format!("{heading}: {item} is in {DOCUMENT}, and nowhere else")));
    for (item, by) in rows {
        let missing = by.iter().filter(|pin| !pins(pin));
        wrong.extend(missing.map(|pin| format!("{heading}: {item} is pinned by {pin}, which is no test")));
    }
    wrong
}

/// Returns the rows of the tables under a heading: an item, and the tests that pin it. `Err` if an item is there twice.
fn rows(text: &str, heading: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut rows = BTreeMap::new();
    let mut under = "";
    for line in text.lines() {
        if let Some(found) = line.strip_prefix("## ") {
            under = found;
        }
        let Some((item, by)) = line.strip_prefix("| `").and_then(|rest| rest.split_once("` |")) else {
            continue;
        };
        if under != heading {
            continue;
        }
        let by = code(by).map(str::to_owned).collect();
        if rows.insert(item.to_owned(), by).is_some() {
            return Err(format!("{DOCUMENT} has two rows for {item}"));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "## One\n\n| item | pinned by |\n|---|---|\n| `a` | `x::y`, and `p/q::r` |\n| `b` | |\n\n\
        ## Two\n| `c` | `x::y` |\n";

    fn items(items: &[&str]) -> Items {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn rows_are_those_under_their_heading() {
        let one = rows(TEXT, "One").expect("no row twice");
        assert_eq!(one["a"], ["x::y", "p/q::r"]);
        assert!(one["b"].is_empty());
        assert_eq!(one.len(), 2);
        assert_eq!(rows(TEXT, "Two").expect("no row twice").len(), 1);
        assert!(rows("## One\n| `a` | `x` |\n| `a` | `x` |\n", "One").is_err());
    }

    #[test]
    fn what_nothing_pins_and_what_is_gone_and_pins_that_are_none_are_told() {
        let one = rows(TEXT, "One").expect("no row twice");
        let wrong = |here: &[&str], tests: &[&str]| {
            compare("One", &items(here), &one, |pin: &str| tests.contains(&pin)).join("\n")
        };
        let all = ["x::y", "p/q::r"];
        assert_eq!(wrong(&["a", "b"], &all), "One: nothing pins b, by docs/pinned.md");
        assert!(wrong(&["a", "b", "d"], &all).contains("nothing pins d"));
        assert!(wrong(&["b"], &all).contains("a is in docs/pinned.md, and nowhere else"));
        assert!(wrong(&["a", "b"], &["x::y"]).contains("a is pinned by p/q::r, which is no test"));
    }

    #[test]
    fn the_table_is_true() {
        check().expect("the table is true");
    }
}
