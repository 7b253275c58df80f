//! The raw drivers, connected with the settings that our backends connect with.

pub(crate) mod mongo;
pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod redis;
