//! Arguments that start no command: a mistake, or a request for help.

mod elsewhere;

use std::env;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Args;
use crate::exit::{Exit, Failure};
use crate::print;

/// Why the arguments start no command.
#[derive(Debug)]
pub(crate) struct Refusal(clap::Error);

impl Refusal {
    /// Wraps clap's error. Adds a hint if the arguments show what was meant.
    pub(super) fn of(mut error: clap::Error, args: &[String]) -> Refusal {
        let hint = hint(&error, args);
        quote_no_url(&mut error);
        if let Some(hint) = hint {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
            // What only looks similar would be a second, worse hint.
            error.remove(ContextKind::SuggestedArg);
            error.remove(ContextKind::SuggestedSubcommand);
        } else if error.get(ContextKind::SuggestedArg).is_some() {
            // What is a mistyped flag is no value.
            error.remove(ContextKind::Suggested);
        }
        Refusal(error)
    }

    /// Prints help to stdout, because it was requested, and errors to stderr.
    pub(crate) fn show(&self) -> Result<Exit, Failure> {
        match self.0.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                print::written(self.0.print())?;
                Ok(Exit::Status(0))
            }
            _ => {
                let complaint = self.0.render().to_string();
                print::to_stderr(format!(
                    "lock: {}",
                    complaint.strip_prefix("error: ").unwrap_or(&complaint)
                ));
                Ok(Exit::Usage)
            }
        }
    }
}

/// Removes every URL from the error, wherever it is on the command line: it may contain a password.
fn quote_no_url(error: &mut clap::Error) {
    let urls: Vec<ContextKind> =
        error.context().filter(|(_, value)| is_url(&value.to_string())).map(|(kind, _)| kind).collect();
    if !urls.is_empty() {
        // The value's parser quotes the value too, in a source that can't be removed from the error. So this makes a
        // new error.
        let mut bare = clap::Error::new(error.kind()).with_cmd(&Args::command());
        for (kind, value) in error.context() {
            bare.insert(kind, value.clone());
        }
        *error = bare;
    }
    for kind in urls {
        error.insert(kind, ContextValue::String("a URL".to_owned()));
    }
}

fn is_url(word: &str) -> bool {
    word.contains("://")
}

/// Returns a hint if a word stands where a flag is expected. It may be the server's URL; with `lock run` also the
/// lock's name or the command.
fn hint(error: &clap::Error, args: &[String]) -> Option<String> {
    let word = error.get(ContextKind::InvalidArg).or_else(|| error.get(ContextKind::InvalidSubcommand));
    let Some(ContextValue::String(word)) = word else { return None };
    if is_url(word) && !word.starts_with('-') {
        return Some("the server's URL goes after `--on`: lock … --on URL".to_owned());
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if error.kind() == ErrorKind::InvalidSubcommand {
        let is_alone = args.last() == Some(&word.as_str());
        return match elsewhere::verb(word) {
            Some(hint) => Some(hint.to_owned()),
            None if is_alone || error.get(ContextKind::SuggestedSubcommand).is_some() => None,
            // As `consul lock NAME CMD` and `etcdctl lock NAME CMD`.
            None => Some(format!("to run a command under a lock: lock run --name {word} -- CMD")),
        };
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let behind_the_line = args.iter().skip_while(|arg| **arg != "-c").nth(2);
    if behind_the_line.is_some_and(|arg| *arg == word) && !word.starts_with("--") {
        return Some("the line after `-c` is one argument: lock run --name NAME -c 'LINE'".to_owned());
    }
    if word.starts_with('-') {
        return match (word.as_str(), args.first()) {
            ("--name", Some(verb)) if !verb.starts_with('-') => {
                Some(format!("the lock's name is no flag there: lock {verb} NAME"))
            }
            (_, Some(first)) if *first == word && error.get(ContextKind::SuggestedArg).is_none() => {
                Some(elsewhere::RUN.to_owned())
            }
            _ => elsewhere::flag(word).map(str::to_owned),
        };
    }
    let ["run", flags @ ..] = &args[..] else { return None };
    let has_name = flags
        .iter()
        .take_while(|arg| **arg != "--")
        .any(|arg| *arg == "--name" || arg.starts_with("--name="));
    Some(match (has_name, flags.contains(&"--")) {
        (true, _) => format!("the command goes after `--`: lock run --name … -- {word} …"),
        (false, true) => format!("the lock's name goes after `--name`: lock run --name {word} -- …"),
        (false, false) => {
            "the lock's name goes after `--name`, the command after `--`: lock run --name NAME -- CMD"
                .to_owned()
        }
    })
}

impl Args {
    /// Parses the arguments of the program.
    pub(crate) fn read() -> Result<Args, Refusal> {
        <Args as clap::Parser>::try_parse().map_err(|error| {
            let args: Vec<String> =
                env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
            Refusal::of(error, &args)
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_misplaced_word_is_told_where_it_goes() {
        let complaint = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            let error = Args::try_parse_from(["lock".to_owned()].iter().chain(&args)).unwrap_err();
            Refusal::of(error, &args).0.render().to_string()
        };
        for (args, hint) in [
            (&["run", "deploy", "--", "true"][..], "lock run --name deploy -- …"),
            (&["run", "--name", "x", "true"], "lock run --name … -- true …"),
            (&["run", "--name=x", "true", "--", "-l"], "lock run --name … -- true …"),
            (&["run", "true"], "lock run --name NAME -- CMD"),
        ] {
            assert!(complaint(args).contains(hint), "{args:?}: {}", complaint(args));
        }
        for args in [&["run", "--nmae", "x", "--", "true"][..], &["status", "a", "b"], &["run"]] {
            assert!(!complaint(args).contains("goes after"), "{args:?}: {}", complaint(args));
            assert!(!complaint(args).contains("as a value"), "{args:?}: {}", complaint(args));
        }
        for (args, hint) in [
            (&["run", "--name", "n", "-n", "--", "true"][..], "--no-wait"),
            (&["run", "--name", "n", "-w", "30", "--", "true"], "--wait 30s"),
            (&["run", "--name", "n", "--timeout=30", "--", "true"], "--wait 30s"),
            (&["run", "--name", "n", "--redis_url", "redis://u:hunter2@h", "--", "true"], "--on URL"),
            (&["run", "--url=redis://u:hunter2@h", "--name", "n", "--", "true"], "--on URL"),
            (&["run", "--name", "n", "-c", "echo", "done"], "-c 'LINE'"),
            (&["run", "--name", "n", "-c", "ls", "-l"], "-c 'LINE'"),
            (&["hold", "--name", "n"], "lock hold NAME"),
            (&["--name", "n", "--", "true"], "lock run --name NAME -- CMD"),
            (&["-n", "/tmp/file", "true"], "lock run --name NAME -- CMD"),
            (&["force-unlock", "deploy"], "lock break NAME --yes"),
            (&["unlock", "deploy"], "lock release NAME"),
            (&["monitor", "deploy"], "lock watch NAME"),
            (&["deploy", "./deploy.sh", "now"], "lock run --name deploy -- CMD"),
            (&["deploy", "--on", "redis://u:hunter2@h", "./deploy.sh"], "lock run --name deploy -- CMD"),
        ] {
            let said = complaint(args);
            assert!(said.contains(hint) && !said.contains("similar"), "{args:?}: {said}");
            assert_eq!(said.matches("tip:").count(), 1, "{args:?}: {said}");
            assert!(!said.contains("hunter2"), "{args:?}: {said}");
        }
        assert!(complaint(&["stauts", "n"]).contains("'status'"), "what is mistyped is told, too");
        assert!(complaint(&["--verson"]).contains("'--version'"), "what is mistyped is told, too");
        let url = "redis://u:hunter2@h";
        for args in [&["check", url][..], &["run", url, "--", "true"], &["fly", url], &[url]] {
            assert!(!complaint(args).contains("hunter2"), "{args:?}: {}", complaint(args));
        }
        assert!(complaint(&["check", url]).contains("goes after `--on`"), "{}", complaint(&["check", url]));
        assert!(!complaint(&["run", "--name", "n", "--wait", url]).contains("hunter2"));
        assert!(!complaint(&["run", "--name", "n", &format!("--onn={url}")]).contains("hunter2"));
    }
}
