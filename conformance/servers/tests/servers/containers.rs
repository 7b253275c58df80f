//! Servers in containers. Each part of a case runs in a separate process, which has its own environment.

use std::io::Read;
use std::process::Command;

use lock_test_servers::{Server, Source};

use crate::subjects::{self, Subject};
use crate::{Failure, Stop};

/// The beginning of the part's line if there is no server.
const ABSENT: &str = "absent: ";

/// Checks that the image that the environment names is started and serves, and is removed when the process that started
/// it ends.
pub(crate) fn contained(on: &'static dyn Subject) -> Result<(), Stop> {
    let image = on.image().expect("a case is made of a product with an image");
    let said = play(on, &format!("docker:{image}"), |_| {})?;
    if let Some(why) = said.strip_prefix(ABSENT) {
        // The image was asked for by name, so its absence is a failure for the part. For this case it depends on the
        // machine.
        let is_missing = ["no Docker daemon", "doesn't have the image", "without its feature"];
        let is_missing = is_missing.iter().any(|missing| why.contains(missing));
        return Err(if is_missing { Stop::NotRun(why.to_owned()) } else { Stop::Failed(why.into()) });
    }
    assert!(said.contains(&format!("in a container of {image}")), "{said}");
    let port = said.split_whitespace().next().and_then(|port| port.parse().ok());
    let port = port.ok_or_else(|| Failure(format!("no port in {said:?}")))?;
    assert!(crate::refuses(port), "the container is left behind");
    Ok(())
}

/// Checks that there is no server without a program and without a daemon, and that one line says both.
pub(crate) fn neither(on: &'static dyn Subject) -> Result<(), Stop> {
    let said = play(on, "", |part| {
        part.env("PATH", "").env("DOCKER_HOST", "unix:///nowhere/docker.sock");
        part.env_remove("LOCK_TEST_REQUIRE");
    })?;
    let docker = if cfg!(feature = "docker") {
        "no Docker daemon answers at unix:///nowhere/docker.sock"
    } else {
        "without its feature `docker`"
    };
    let no_program = on.product().listing().missing();
    assert!(said.starts_with(&format!("{ABSENT}{no_program}, and no container: ")), "{said}");
    assert!(said.contains(docker) && said.lines().count() == 1, "{said}");
    Ok(())
}

/// Plays the part `contained`, with that value in the product's variable. Returns what it prints.
fn play(on: &dyn Subject, value: &str, prepare: impl FnOnce(&mut Command)) -> Result<String, Stop> {
    let mut command = subjects::command("contained", on)?;
    prepare(command.env(on.product().listing().variable, value));
    let mut child = command.spawn()?;
    let mut said = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut said)?;
    assert!(child.wait()?.success(), "{said}");
    Ok(said.trim_end().to_owned())
}

/// Plays the part: finds the server, and uses it.
pub(crate) fn part(on: &dyn Subject) {
    // In a runtime, as a case may be; its thread must not wait for another runtime.
    let runtime = subjects::runtime().expect("a thread can wait");
    runtime.block_on(async {
        let server = match Server::find(on.product()) {
            Ok(server) => server,
            Err(why) => return println!("{ABSENT}{why}"),
        };
        assert!(matches!(server.source(), Source::Container { .. }) && server.owned().is_none());
        let stored = std::thread::scope(|scope| scope.spawn(|| use_it(on, &server)).join());
        stored.expect("no panic").expect("it serves");
        println!("{} {server}", port(server.url()));
    });
}

fn use_it(on: &dyn Subject, server: &Server) -> Result<(), Failure> {
    let mut session = on.connect(server.url())?;
    session.store()?;
    assert!(session.stored()?);
    Ok(())
}

fn port(url: &str) -> &str {
    let behind = url.rsplit_once(':').map_or("", |(_, behind)| behind);
    behind.split('/').next().unwrap_or_default()
}
