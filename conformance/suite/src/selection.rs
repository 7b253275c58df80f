//! Which tests the command line asks for.

use libtest_mimic::{Arguments, Trial};

/// The options that take the next word as their value, unless the value stands behind a `=`.
const WITH_VALUE: [&str; 6] = ["--skip", "--test-threads", "--logfile", "--format", "--color", "-Z"];

/// The arguments of `cargo test`. They may have any number of tests' names, or parts of names.
#[derive(Debug)]
pub(crate) struct Selection {
    /// The arguments without the names.
    pub(crate) arguments: Arguments,
    names: Vec<String>,
}

impl Selection {
    /// Returns what this program was started with.
    pub(crate) fn from_args() -> Selection {
        Selection::parse(std::env::args())
    }

    /// Parses the words of a command line; the first one is the program's own name.
    fn parse(words: impl IntoIterator<Item = String>) -> Selection {
        let (mut options, mut names) = (Vec::new(), Vec::new());
        let mut words = words.into_iter();
        options.extend(words.next());
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                names.push(word);
                continue;
            }
            let has_value = WITH_VALUE.contains(&word.as_str());
            options.push(word);
            options.extend(has_value.then(|| words.next()).flatten());
        }
        Selection { arguments: Arguments::from_iter(options), names }
    }

    /// Returns those of these tests that are asked for: all, if none is named.
    pub(crate) fn of(&self, mut trials: Vec<Trial>) -> Vec<Trial> {
        trials.retain(|trial| {
            self.names.is_empty() || self.names.iter().any(|name| self.is(trial.name(), name))
        });
        trials
    }

    fn is(&self, trial: &str, name: &str) -> bool {
        if self.arguments.exact { trial == name } else { trial.contains(name) }
    }

    /// Returns whether not all tests are asked for, or none is to be run.
    pub(crate) fn is_partial(&self) -> bool {
        !self.names.is_empty() || !self.arguments.skip.is_empty() || self.arguments.list
    }
}

#[cfg(test)]
mod tests {
    use libtest_mimic::Trial;

    use super::Selection;

    fn selected(words: &[&str]) -> Vec<String> {
        let words = ["program"].iter().chain(words).map(|&word| word.to_owned());
        let trials = ["lease::a", "lease::ab", "names::a", "clock::c"];
        let trials = trials.map(|name| Trial::test(name, || Ok(())));
        Selection::parse(words).of(trials.into()).iter().map(|trial| trial.name().to_owned()).collect()
    }

    #[test]
    fn each_name_selects() {
        assert_eq!(selected(&[]).len(), 4);
        assert_eq!(selected(&["lease::"]), ["lease::a", "lease::ab"]);
        assert_eq!(selected(&["names::", "clock"]), ["names::a", "clock::c"]);
        assert_eq!(selected(&["--exact", "lease::a", "clock::c"]), ["lease::a", "clock::c"]);
        assert_eq!(selected(&["lease::b"]), [""; 0]);
    }

    #[test]
    fn values_of_options_are_no_names() {
        assert_eq!(selected(&["--test-threads", "1", "--skip", "lease::ab", "lease", "clock"]).len(), 3);
        assert_eq!(selected(&["--test-threads=1", "clock"]), ["clock::c"]);
    }
}
