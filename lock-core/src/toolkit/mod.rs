//! Tools for authors of backends: connections, the server's clock, sessions, wake-ups and URLs, as the backends of this
//! project use them.
//!
//! **It may change with any version.** The contract that a backend has to keep is [`driver`](crate::driver), which uses
//! nothing of this module.

mod batch;
mod call;
mod compare_and_swap;
mod current_info;
mod detached;
mod feed;
mod first_use;
mod hub;
mod location;
mod register;
mod renewals;
mod rounding;
mod server_clock;
mod sessions;
mod shared_connection;
mod subscription;
#[cfg(feature = "tls")]
mod tls;
mod watchers;

pub use crate::clock::{Time, Timer};
pub use crate::human_duration::HumanDuration;
pub use crate::name::{Prefix, RESERVED_SUFFIX};
pub use crate::process::{PerProcess, Process};
pub use crate::random::RandomSource;
pub use batch::{Batch, Batcher};
pub use call::Call;
pub use compare_and_swap::{
    Decision, Register, Settled, Start, Swapped, compare_and_release, compare_and_swap,
};
pub use current_info::CurrentInfo;
pub use detached::detached;
pub use feed::{Audience, Feed, Missed, Notice, Source, SourceError};
pub use first_use::FirstUse;
pub use hub::{Hub, QueuePosition};
pub use location::{
    CertificateNames, Certificates, ClientCertificate, CommonParameters, Host, Location, Login, Opening,
    PemBlock, PemFile, certificate_advice, parse_duration, unescape,
};
pub use register::{Change, Read, RegisterDriver, Registers, Replaced, Row, Stored};
pub use renewals::{HeldKey, Renewals, Renews};
pub use rounding::{whole_micros, whole_millis, whole_seconds};
pub use server_clock::{Drift, ServerClock};
pub use sessions::{Joining, Keepable, Membership, Sessions, Vacant};
pub use shared_connection::{Connect, SharedConnection};
pub use subscription::Subscription;
#[cfg(feature = "tls")]
pub use tls::check_tls_provider;
pub use watchers::Watchers;
