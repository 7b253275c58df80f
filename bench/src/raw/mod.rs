//! The raw drivers, connected with the settings that our backends connect with.

pub(crate) mod etcd;
pub(crate) mod redis;
pub(crate) mod sql;
pub(crate) mod zookeeper;
