//! The names of targets in a table: each has its own, and none shows a secret.

use std::collections::BTreeSet;

use lock_core::toolkit::Location;

/// Returns `name` with the parameters of the URL: `redis layout=redisson`. Of a URL that has a secret parameter, no
/// parameter is shown: an `&` in the secret may look like the next one.
pub(crate) fn with_parameters(name: &str, url: &str) -> String {
    let has_a_secret = Location::parse(url).map_or(true, |location| location.has_a_secret());
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let shown = query.split('&').filter(|part| !has_a_secret && !part.is_empty());
    std::iter::once(name).chain(shown).collect::<Vec<_>>().join(" ")
}

/// Returns how wide the names of these targets are at most. Names of kinds are short.
pub(crate) fn widest(on: &[String]) -> usize {
    let urls = on.iter().filter_map(|on| Some((on.split_once(':')?.0, on)));
    urls.map(|(scheme, url)| with_parameters(scheme, url).chars().count()).max().unwrap_or(0)
}

/// The names that targets have.
#[derive(Debug, Default)]
pub(crate) struct Labels(BTreeSet<String>);

impl Labels {
    /// Returns this name if no other target has it, else the name with a number behind it.
    pub(crate) fn distinct(&mut self, name: &str) -> String {
        let mut label = name.to_owned();
        let mut nth = 1;
        while !self.0.insert(label.clone()) {
            nth += 1;
            label = format!("{name} ({nth})");
        }
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_named_after_its_parameters() {
        let label = |url| with_parameters("redis", url);
        assert_eq!(label("redis://h"), "redis");
        assert_eq!(label("redis://h?layout=redisson&fenced=1"), "redis layout=redisson fenced=1");
        assert_eq!(label("redis://u:hunter2@h/1?&fair=true"), "redis fair=true");
    }

    #[test]
    fn a_secret_parameter_is_in_no_name() {
        let label = |url| with_parameters("redis", url);
        assert_eq!(label("redis+unix:///s?fair=true&pass=hunter&2=x"), "redis");
        assert_eq!(label("redis://h?fair=true&fair=true"), "redis", "what the library refuses is not shown");
    }

    #[test]
    fn the_widest_name_is_that_of_a_url() {
        let on = ["redis", "redis://u:hunter2@h", "redis://h?fair=true"].map(str::to_owned);
        assert_eq!((widest(&on), widest(&on[..1])), ("redis fair=true".len(), 0));
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let mut labels = Labels::default();
        let names =
            ["redis", "redis", "redis fair=true", "redis (2)", "redis"].map(|name| labels.distinct(name));
        assert_eq!(names, ["redis", "redis (2)", "redis fair=true", "redis (2) (2)", "redis (3)"]);
    }
}
