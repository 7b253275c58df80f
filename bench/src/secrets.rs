//! Keeps the secrets of a URL out of the report.

use lock_core::toolkit::Location;

/// The parts of a URL that no text of the report may show.
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    pub(crate) fn of(url: &str) -> Secrets {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let written =
            login(base).and_then(|login| login.split_once(':')).map(|(_, password)| password.to_owned());
        let location = Location::parse(url).ok();
        let decoded = location.as_ref().and_then(|location| location.login().ok()??.password);
        // Of a URL that has a secret parameter, no parameter is shown: an `&` in the secret may look like the next one.
        let parameters = match &location {
            Some(location) if !location.has_a_secret() => Vec::new(),
            _ => query.split('&').filter_map(|part| Some(part.split_once('=')?.1.to_owned())).collect(),
        };
        let secrets = written.into_iter().chain(decoded).chain(parameters);
        let mut secrets: Vec<String> = secrets.filter(|secret| !secret.is_empty()).collect();
        // A secret may be a part of another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Secrets(secrets)
    }

    /// Returns the text with `…` in place of each secret.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }
}

/// Returns the URL without its login and its parameters.
pub(crate) fn shown(url: &str) -> String {
    let base = url.split_once('?').map_or(url, |(base, _)| base);
    match login(base) {
        Some(login) => base.replacen(&format!("{login}@"), "", 1),
        None => base.to_owned(),
    }
}

/// Returns the part before the hosts' `@`.
fn login(base: &str) -> Option<&str> {
    let rest = base.split_once("://")?.1;
    let authority = rest.split('/').next().unwrap_or(rest);
    Some(authority.rsplit_once('@')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_text() {
        let url = "redis://me:hunt%40er@h:6379/1?prefix=a";
        assert_eq!(shown(url), "redis://h:6379/1");
        let secrets = Secrets::of(url);
        assert_eq!(
            secrets.hide("no login hunt@er at redis://me:hunt%40er@h, prefix a"),
            "no login … at redis://me:…@h, prefix a"
        );
    }

    #[test]
    fn a_secret_parameter_is_in_no_text() {
        let url = "redis+unix:///run/redis.sock?user=u&pass=hunter";
        assert_eq!(shown(url), "redis+unix:///run/redis.sock");
        assert!(!Secrets::of(url).hide("the password hunter is wrong").contains("hunter"));
    }

    #[test]
    fn without_a_login_everything_is_shown() {
        for url in ["memory://", "sqlite:/a@b.db", "unix:///a@b", "redlock://h:1,h:2/"] {
            assert_eq!(shown(url), url);
        }
    }
}
