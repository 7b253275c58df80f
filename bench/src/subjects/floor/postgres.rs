//! sqlx on PostgreSQL.

use async_trait::async_trait;

use crate::Outcome;
use crate::subjects::{Side, Subject, Worker};

/// When a release is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::subjects) enum Notifies {
    /// If somebody waits for it, as the library does.
    WhoWaits,
    Never,
    Always,
}

pub(in crate::subjects) struct Floor;

impl Floor {
    pub(in crate::subjects) async fn connect(_url: &str, _notifies: Notifies) -> Outcome<Floor> {
        Err("not yet".into())
    }
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, _name: &str) -> Outcome<Box<dyn Worker>> {
        Err("not yet".into())
    }

    async fn side(&self, _: &str) -> Outcome<Box<dyn Side>> {
        Err("not yet".into())
    }
}
