//! The meaning of the setting `synchronous_standby_names` for a grant: the number of standbys that have it
//! when it counts.

/// The standbys that a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Synchronous {
    /// The number of standbys that have the grant on the disk when it counts.
    pub(super) awaited: usize,
    /// The number of standbys that the setting names; `None` if it names any (`*`).
    named: Option<usize>,
}

impl Synchronous {
    /// Reads the setting: `a, b`, `2 (a, b)`, `FIRST 2 (a, b)`, `ANY 2 (a, b)`. `None` if it is empty, or has another
    /// form.
    pub(super) fn read(setting: &str) -> Option<Synchronous> {
        let setting = setting.trim();
        let (awaited, list) = match setting.strip_suffix(')').and_then(|inner| inner.split_once('(')) {
            Some((how, list)) => (how.split_whitespace().next_back()?.parse().ok()?, list),
            None => (1, setting),
        };
        let names = names(list);
        let named = (!names.contains(&"*")).then_some(names.len());
        (!names.is_empty()).then_some(Synchronous { awaited, named })
    }

    /// Returns whether each standby that is named, and each that is connected, has a grant when it counts.
    pub(super) fn covers(self, connected: usize) -> bool {
        self.named.is_some_and(|named| named <= self.awaited) && connected <= self.awaited
    }
}

/// Returns the names of a list. Splits it at its commas, except within quotes.
fn names(list: &str) -> Vec<&str> {
    let mut is_quoted = false;
    list.split(|c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    })
    .map(str::trim)
    .filter(|name| !name.is_empty())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_of_them_are_all() {
        for (setting, connected, covers) in [
            ("a", 1, true),
            ("a", 2, false),
            ("a, b", 2, false),
            ("FIRST 1 (a, b)", 1, false),
            ("ANY 1 (a, b)", 2, false),
            ("any 2 (a, \"b, c\")", 2, true),
            ("FIRST 2 (a, b)", 2, true),
            ("2(a,b)", 3, false),
            ("*", 1, false),
            ("FIRST 1 (*)", 1, false),
        ] {
            let read = Synchronous::read(setting).expect(setting);
            assert_eq!(read.covers(connected), covers, "{setting}, {connected} connected: {read:?}");
        }
        for nothing in ["", " ", "FIRST x (a)", "()"] {
            assert_eq!(Synchronous::read(nothing), None, "{nothing}");
        }
    }
}
