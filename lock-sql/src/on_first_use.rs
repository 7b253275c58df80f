//! A table that is opened when its client is, or by the first call of a lazy client.

use lock_core::toolkit::{Call, FirstUse};
use lock_core::{Error, Result};

use crate::table::Table;

/// A table of locks, opened or not.
#[derive(Debug)]
pub(crate) struct OnFirstUse<T> {
    table: T,
    opened: FirstUse<()>,
}

impl<T: Table> OnFirstUse<T> {
    pub(crate) fn new(table: T) -> OnFirstUse<T> {
        OnFirstUse { table, opened: FirstUse::new() }
    }

    /// Returns the table, and opens it first if it is not open yet. An error means that no lock was touched.
    pub(crate) async fn opened(&self, call: &Call) -> Result<&T> {
        let opened = self.opened.ensure(call, || self.table.open(call)).await;
        opened.map(|()| &self.table).map_err(Error::not_applied)
    }

    /// Returns the table if it is open. Otherwise this client has nothing in it.
    pub(crate) fn if_opened(&self) -> Option<&T> {
        self.opened.get().map(|()| &self.table)
    }

    /// Returns the table, opened or not, for what asks no server.
    pub(crate) fn offline(&self) -> &T {
        &self.table
    }
}
