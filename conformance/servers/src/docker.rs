//! Containers, started with testcontainers. Only this module uses that crate.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::future::Future;
use std::io;
use std::path::Path;
use std::thread;

use testcontainers::bollard::errors::Error as DockerError;
use testcontainers::bollard::models::{HostConfig, PortBinding};
use testcontainers::core::client::{ClientError, docker_client_instance};
use testcontainers::core::{ContainerPort, IntoContainerPort};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt, TestcontainersError};
use tokio::runtime::Runtime;

use super::image::Image;
use super::requirement::NoServer;
use super::waiting::last_lines;

/// Where the daemon is looked for if `DOCKER_HOST` names no other place.
const USUAL: &str = "unix:///var/run/docker.sock";

/// A running container. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Container {
    address: String,
    // `None` only while it is being dropped.
    running: Option<(Runtime, ContainerAsync<GenericImage>)>,
}

impl Container {
    /// Starts a container from the image `name`, in the way that `image` describes. The server need not answer yet.
    ///
    /// Downloads nothing: a download takes time, and a person should decide on it.
    pub(super) fn start(image: &Image, name: &str) -> Result<Container, NoServer> {
        apart(|| {
            let runtime = runtime().map_err(|error| NoServer::Failed(error.to_string()))?;
            let started = runtime.block_on(async {
                find(name).await?;
                let container =
                    request(image, name).start().await.map_err(|error| no_server(name, &error))?;
                match address(&container, image.port).await {
                    Ok(address) => Ok((address, container)),
                    Err(error) => Err(no_port(name, &error, &container).await),
                }
            });
            let (address, container) = started?;
            Ok(Container { address, running: Some((runtime, container)) })
        })
    }

    /// Returns where its port is, as `host:port`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether it still runs. The error says why that can't be told.
    pub(super) fn is_running(&self) -> Result<bool, String> {
        self.ask(ContainerAsync::is_running).map_err(|error| chain(&error))
    }

    /// Returns what it has printed, as far as that can be read.
    pub(super) fn log(&self) -> String {
        self.ask(printed)
    }

    fn ask<'a, F: Future>(
        &'a self,
        question: impl FnOnce(&'a ContainerAsync<GenericImage>) -> F + Send,
    ) -> F::Output
    where
        F::Output: Send,
    {
        let (runtime, container) =
            self.running.as_ref().expect("it is taken when it is dropped, not earlier");
        apart(|| runtime.block_on(question(container)))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let Some((runtime, container)) = self.running.take() else { return };
        // The runtime is dropped on that thread too: a runtime must not be dropped on a thread that belongs to another
        // runtime.
        let removed = apart(move || runtime.block_on(container.rm()));
        if let Err(error) = removed {
            eprintln!("a container may be left behind: {}", chain(&error));
        }
    }
}

/// Runs `work` on a new thread. The current thread may belong to a runtime, and must not wait for another one then.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Checks that a daemon answers and has that image.
async fn find(name: &str) -> Result<(), NoServer> {
    let docker = docker_client_instance().await.map_err(|error| no_server(name, &error.into()))?;
    match docker.inspect_image(name).await {
        Ok(_) => Ok(()),
        Err(DockerError::DockerResponseServerError { status_code: 404, .. }) => Err(NoServer::Absent(
            format!("Docker doesn't have the image {name} (`docker pull {name}` gets it)"),
        )),
        Err(error) => Err(refusal(&error)),
    }
}

/// Returns the request to the daemon: a container whose port is bound to a free port of this machine.
fn request(image: &Image, name: &str) -> ContainerRequest<GenericImage> {
    let (repository, tag) = split(name);
    let port = image.port.tcp();
    let generic = GenericImage::new(repository, tag).with_exposed_port(port);
    let request = generic.with_cmd(image.arguments.iter().map(String::as_str));
    let request =
        image.environment.iter().fold(request, |request, (name, value)| request.with_env_var(*name, *value));
    match is_here() {
        true => request.with_host_config_modifier(move |host| bind_to_loopback(host, port)),
        false => request,
    }
}

/// Returns the repository and the tag of an image's name; the tag is `latest` if it has none, as in Docker.
fn split(name: &str) -> (&str, &str) {
    match name.rsplit_once(':') {
        // A `:` before a `/` belongs to the port of a registry.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (name, "latest"),
    }
}

/// Binds the port to the loopback address. Otherwise the port of a server with a superuser without a password would be
/// open to the network.
fn bind_to_loopback(host: &mut HostConfig, port: ContainerPort) {
    // An empty port stands for any free one.
    let binding = PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: Some(String::new()) };
    host.publish_all_ports = Some(false);
    host.port_bindings = Some(HashMap::from([(port.to_string(), Some(vec![binding]))]));
}

/// Returns whether the daemon runs on this machine, as seen from here. It does not if this process is in a container.
fn is_here() -> bool {
    let local = |host: String| host.starts_with("unix:") || host.starts_with("npipe:");
    env::var("DOCKER_HOST").map_or(true, local) && !Path::new("/.dockerenv").exists()
}

/// Returns where the container's port can be reached.
async fn address(container: &ContainerAsync<GenericImage>, port: u16) -> Result<String, TestcontainersError> {
    let host = container.get_host().await?.to_string();
    // `localhost` may be resolved to ::1 first, where the port is not.
    let host = if host == "localhost" { "127.0.0.1" } else { &host };
    Ok(format!("{host}:{}", container.get_host_port_ipv4(port).await?))
}

/// Returns the failure of a container without a port. That means that it has ended already, and its log may say why.
async fn no_port(
    name: &str,
    error: &TestcontainersError,
    container: &ContainerAsync<GenericImage>,
) -> NoServer {
    let said = printed(container).await;
    let (error, said) = (chain(error), last_lines(&said));
    NoServer::Failed(format!("a container of {name} did not start: {error}; its log ends with: {said}"))
}

/// Returns what the container has printed, as far as that can be read.
async fn printed(container: &ContainerAsync<GenericImage>) -> String {
    let mut printed = container.stdout_to_vec().await.unwrap_or_default();
    printed.extend(container.stderr_to_vec().await.unwrap_or_default());
    String::from_utf8_lossy(&printed).into_owned()
}

/// Classifies an error. If there is no daemon, if it can't be reached, or if the image can't be had, another source may
/// have a server. Any other error is a failure.
fn no_server(name: &str, error: &TestcontainersError) -> NoServer {
    match error {
        TestcontainersError::Client(ClientError::Init(DockerError::SocketNotFoundError(path))) => {
            NoServer::Absent(format!("no Docker daemon answers at unix://{path}"))
        }
        TestcontainersError::Client(ClientError::Init(
            error @ DockerError::UnsupportedURISchemeError { .. },
        )) => NoServer::Absent(format!("no Docker daemon can be asked: {}", chain(error))),
        TestcontainersError::Client(ClientError::CreateContainer(error)) => refusal(error),
        TestcontainersError::Client(ClientError::PullImage { err, .. }) => {
            NoServer::Absent(format!("Docker can't get the image {name}: {}", chain(err)))
        }
        _ => NoServer::Failed(format!("Docker failed with {name}: {}", chain(error))),
    }
}

/// Classifies the daemon's refusal of a request.
fn refusal(error: &DockerError) -> NoServer {
    match error {
        DockerError::HyperLegacyError { err } if err.is_connect() => {
            let address = env::var("DOCKER_HOST").unwrap_or_else(|_| USUAL.to_owned());
            NoServer::Absent(format!("no Docker daemon answers at {address} ({})", chain(err)))
        }
        _ => NoServer::Failed(format!("Docker failed: {}", chain(error))),
    }
}

/// Returns an error with its causes, in one line. Leaves out a cause that the error repeats.
fn chain(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = error.source();
    }
    said.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use testcontainers::TestcontainersError;
    use testcontainers::bollard::errors::Error as DockerError;
    use testcontainers::bollard::models::HostConfig;
    use testcontainers::core::IntoContainerPort;
    use testcontainers::core::client::ClientError;

    use super::{NoServer, bind_to_loopback, no_server, split};

    fn refused(status_code: u16) -> DockerError {
        DockerError::DockerResponseServerError { status_code, message: "no\nsuch".to_owned() }
    }

    #[test]
    fn only_a_missing_daemon_or_image_leaves_other_sources() {
        let socket = DockerError::SocketNotFoundError("/nowhere".to_owned());
        let scheme = DockerError::UnsupportedURISchemeError { uri: "ssh://host".to_owned() };
        let pull = ClientError::PullImage { descriptor: "redis:7.4".to_owned(), err: refused(500) };
        for error in [ClientError::Init(socket), ClientError::Init(scheme), pull] {
            let no_server = no_server("redis:7.4", &TestcontainersError::Client(error));
            assert!(matches!(&no_server, NoServer::Absent(why) if !why.contains('\n')), "{no_server:?}");
        }
        for error in [ClientError::CreateContainer(refused(500)), ClientError::StartContainer(refused(404))] {
            let no_server = no_server("redis:7.4", &TestcontainersError::Client(error));
            assert!(matches!(&no_server, NoServer::Failed(why) if why.contains("no such")), "{no_server:?}");
        }
    }

    #[test]
    fn only_this_machine_reaches_its_port() {
        let mut host = HostConfig { publish_all_ports: Some(true), ..HostConfig::default() };
        bind_to_loopback(&mut host, 6379.tcp());
        assert_eq!(host.publish_all_ports, Some(false));
        let bindings = host.port_bindings.unwrap();
        let binding = bindings["6379/tcp"].as_ref().unwrap();
        assert!(binding.iter().all(|binding| binding.host_ip.as_deref() == Some("127.0.0.1")));
    }

    #[test]
    fn a_tag_is_told_from_a_port() {
        assert_eq!(split("redis:7.4"), ("redis", "7.4"));
        assert_eq!(split("localhost:5000/my/redis"), ("localhost:5000/my/redis", "latest"));
        assert_eq!(split("localhost:5000/my/redis:8"), ("localhost:5000/my/redis", "8"));
        assert_eq!(split("redis"), ("redis", "latest"));
        // A digest is joined again as it was.
        assert_eq!(split("redis@sha256:0ff1ce"), ("redis@sha256", "0ff1ce"));
    }
}
