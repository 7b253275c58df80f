//! The trials of claims: cases of the suite, and scenes that no case plays.

/// Something that is tried on a scheme, and on the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    Case(&'static str),
    Scene(Scene),
}

/// A scene returns figures, and no opinion. Its name tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    Told,
    Dies,
    DeadWaiters,
    Failover,
    Minority,
    EmptyRestart,
    EarlyRelease,
    CrashedMajority,
}

impl Trial {
    pub(super) fn name(self) -> &'static str {
        match self {
            Trial::Case(name) => name,
            Trial::Scene(scene) => scene.name(),
        }
    }
}

impl Scene {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scene::Told => "scene::a_waiter_learns_of_a_release",
            Scene::Dies => "scene::a_client_dies_after_the_first_request_of_its_attempt",
            Scene::DeadWaiters => "scene::dead_waiters_stand_in_front",
            Scene::Failover => "scene::a_replica_that_lags_takes_over",
            Scene::Minority => "scene::a_minority_of_the_servers_fails",
            Scene::EmptyRestart => "scene::a_server_of_the_majority_restarts_empty",
            Scene::EarlyRelease => "scene::a_useless_majority_is_released_at_once_or_never",
            Scene::CrashedMajority => "scene::a_majority_of_the_servers_restarts_empty",
        }
    }
}
