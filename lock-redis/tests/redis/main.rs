//! The rules that are particular to Redis, on a real server. What every backend promises is the conformance suite's.

mod access;
mod fence;
mod foreign;
mod grant;
mod layout;
mod reaching;
mod server;
mod tls;
mod trouble;
mod wakes;
