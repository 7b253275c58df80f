//! The forms of a backend: the same server, used in another way that the URL's parameters choose.

use lock_core::toolkit::Location;

use crate::Outcome;
use crate::backend::Backend;
use crate::site::Site;
use crate::subjects::peers::Peer;
use crate::targets::Bound;

/// A form that is measured without being asked for.
#[derive(Clone, Copy, Debug)]
struct Known {
    parameters: &'static str,
    /// What its p50 uncontended may be, as a multiple of the plain form's.
    uncontended: Bound,
    /// Another library's lock that does the same.
    peer: Peer,
}

/// The forms of one Redis server.
const OF_REDIS: [Known; 3] = [
    Known { parameters: "layout=redisson", uncontended: Bound::AtMost(1.3), peer: Peer::RedissonLock },
    Known {
        parameters: "layout=redisson&fenced=1",
        uncontended: Bound::AtMost(1.3),
        peer: Peer::RedissonFenced,
    },
    Known { parameters: "fair=true", uncontended: Bound::AtMost(1.6), peer: Peer::RedissonFair },
];

/// The name of the form that the others are compared with.
pub(super) const PLAIN: &str = "plain";

/// A form, at a server that is there.
#[derive(Debug)]
pub(super) struct Form {
    /// Its name in the table: its parameters.
    pub(super) name: String,
    pub(super) site: Site,
    pub(super) uncontended: Option<Bound>,
    pub(super) peer: Option<Peer>,
}

impl Form {
    /// Connects to the plain form at `url`, then to each of the forms with these parameters; to all that are known, if
    /// there are none here.
    pub(super) async fn all_of(url: &str, asked: &[String]) -> Outcome<Vec<Form>> {
        let parameters = parameters_of(Backend::of(url)?, asked)?;
        let mut forms = vec![Form::at(PLAIN, url).await?];
        for parameters in parameters {
            let known = OF_REDIS.iter().find(|known| known.parameters == parameters);
            let form = Form::at(&parameters, &with(url, &parameters)).await?;
            let (uncontended, peer) = (known.map(|known| known.uncontended), known.map(|known| known.peer));
            forms.push(Form { uncontended, peer, ..form });
        }
        Ok(forms)
    }

    async fn at(name: &str, url: &str) -> Outcome<Form> {
        Ok(Form { name: name.to_owned(), site: Site::of(url).await?, uncontended: None, peer: None })
    }
}

fn parameters_of(backend: Backend, asked: &[String]) -> Outcome<Vec<String>> {
    match (asked, backend) {
        ([], Backend::Redis) => Ok(OF_REDIS.iter().map(|known| known.parameters.to_owned()).collect()),
        ([], _) => Err("--form: which parameters of the URL? Only Redis' forms are known here".into()),
        (asked, _) => asked.iter().map(|parameters| without_secret(parameters)).collect(),
    }
}

/// Checks that the parameters can be shown: they are the form's name.
fn without_secret(parameters: &str) -> Outcome<String> {
    match Location::parse(&with("", parameters))?.has_a_secret() {
        true => Err("--form: a secret has its place in the URL of --on".into()),
        false => Ok(parameters.to_owned()),
    }
}

/// Adds parameters to a URL.
fn with(url: &str, parameters: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_has_forms_and_other_backends_are_told_theirs() {
        assert_eq!(parameters_of(Backend::Redis, &[]).unwrap().len(), 3);
        assert!(parameters_of(Backend::Postgres, &[]).is_err());
        let asked = ["connections=2".to_owned()];
        assert_eq!(parameters_of(Backend::Postgres, &asked).unwrap(), asked);
        let refused = parameters_of(Backend::Redis, &["pass=hunter2".to_owned()]).unwrap_err();
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }

    #[test]
    fn parameters_are_added_to_those_that_are_there() {
        assert_eq!(with("redis://h", "fair=true"), "redis://h?fair=true");
        assert_eq!(with("redis://h?prefix=a", "fair=true"), "redis://h?prefix=a&fair=true");
    }
}
