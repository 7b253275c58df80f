//! A URL has parameters of this library and those of the `mongodb` crate.

use lock_core::toolkit::Location;
use lock_core::{Error, Result};
use mongodb::error::Error as MongoError;
use mongodb::options::{Acknowledgment, ConnectionString};

use crate::errors;

/// Parses a URL: the parameters with these names, and what the `mongodb` crate reads of the rest.
///
/// # Errors
///
/// `Invalid` if it is not a MongoDB URL, or has a parameter that would weaken a lock. `Unsupported` for `mongodb+srv://`
/// without the feature `srv`.
pub(crate) fn parse(url: &str, names: &[&str]) -> Result<(Location, ConnectionString)> {
    let whole = Location::parse(url)?;
    let (ours, theirs) = split(whole.base(), url, names)?;
    #[cfg(not(feature = "srv"))]
    if whole.scheme() == "mongodb+srv" {
        return Err(Error::unsupported("mongodb+srv:// needs the feature `srv` of lock-mongo, which is off"));
    }
    let theirs = ConnectionString::parse(&theirs).map_err(|e| Error::invalid(words(&whole, &e)))?;
    refuse_weaker(&theirs)?;
    Ok((ours.part_of(&whole), theirs))
}

/// Splits a URL, whose text before the `?` is `base`, into this library's parameters, and a URL with the others, which the `mongodb` crate reads.
fn split(base: &str, url: &str, names: &[&str]) -> Result<(Location, String)> {
    let (_, query) = url.split_once('?').unwrap_or((url, ""));
    let is_ours = |part: &&str| names.contains(&part.split('=').next().unwrap_or(part));
    let (ours, theirs): (Vec<&str>, Vec<&str>) =
        query.split('&').filter(|part| !part.is_empty()).partition(is_ours);
    let slash = match base.split_once("://") {
        Some((_, rest)) if !rest.contains('/') => "/",
        _ => "",
    };
    let question_mark = if theirs.is_empty() { "" } else { "?" };
    let ours = Location::parse(&format!("{base}?{}", ours.join("&")))?;
    Ok((ours, format!("{base}{slash}{question_mark}{}", theirs.join("&"))))
}

/// Returns the text of the `mongodb` crate's error about a URL, if it holds no secret.
///
/// The crate names the wrong part and never the password, but it quotes other parameters: the settings of the
/// authentication mechanism, which may contain a session token, and a piece of a secret that contains a `&`.
fn words(url: &Location, error: &MongoError) -> String {
    let words = errors::words(error);
    match url.has_a_secret() || words.to_ascii_lowercase().contains("mechanism") {
        true => {
            "not a MongoDB URL: a parameter can't be used (not quoted: the URL may hold a secret)".to_owned()
        }
        false => format!("not a MongoDB URL: {words}"),
    }
}

/// Refuses parameters that this library sets itself, unless they say `w=majority`, `journal=true` or
/// `retryWrites=true`.
fn refuse_weaker(url: &ConnectionString) -> Result<()> {
    let weaker = |what: &str| {
        Err(Error::invalid(format!(
            "the URL sets {what}; remove that: locks are always written with w=majority, journal=true and \
             retryWrites=true, and read from the primary"
        )))
    };
    if let Some(concern) = &url.write_concern {
        let is_majority = matches!(concern.w, None | Some(Acknowledgment::Majority));
        if !is_majority || concern.journal == Some(false) || concern.w_timeout.is_some() {
            return weaker("w, journal or wtimeoutMS");
        }
    }
    match (&url.read_concern, &url.read_preference, url.retry_writes) {
        (Some(_), _, _) => weaker("readConcernLevel"),
        (_, Some(_), _) => weaker("readPreference"),
        (_, _, Some(false)) => weaker("retryWrites=false"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn each_side_gets_its_own_parameters() {
        let (mut ours, theirs) =
            parse("mongodb://h?prefix=p%3A&replicaSet=rs0&x=1", &["prefix", "x"]).unwrap();
        assert_eq!((ours.take("prefix").as_deref(), ours.take("x").as_deref()), (Some("p:"), Some("1")));
        assert_eq!(ours.take("replicaSet"), None);
        assert_eq!(theirs.replica_set.as_deref(), Some("rs0"));
        let error = parse("mongodb://h/?prefix=p", &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "neither knows it: {error}");
    }

    #[test]
    fn what_would_weaken_a_lock_is_refused() {
        for weaker in [
            "w=1",
            "journal=false",
            "wtimeoutMS=5",
            "readConcernLevel=local",
            "readPreference=nearest",
            "retryWrites=false",
        ] {
            let error = parse(&format!("mongodb://h/?{weaker}"), &[]).expect_err(weaker);
            assert!(error.kind() == ErrorKind::Invalid && error.message().contains("majority"), "{error}");
        }
    }
}
