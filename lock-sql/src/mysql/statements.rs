//! The statements, each of which is a transaction of its own.
//!
//! They go to the server as text, with bytes in hexadecimal and numbers in decimal, so that nothing in them has to be
//! escaped and nothing depends on `sql_mode`. Nothing is prepared: a statement is one round trip on a new connection too,
//! and the server keeps nothing of ours.
//!
//! What a writing statement has to say comes in its own reply: `LAST_INSERT_ID(expression)` puts a number there. It is zero
//! where no row was found, whatever the server counts as affected.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::When;
use lock_core::{Label, Owner, OwnerBytes};

use crate::server::{TableName, micros};
use crate::sweep::{IDLE, ROWS};

/// The server's time in microseconds since 1970. It stands still while a statement runs: a lease is counted from before
/// whatever the statement had to wait for.
pub(super) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// The same, read when the row is reached. It shows the session's time zone, which is therefore UTC.
const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))";

/// A statement, and what its answer means.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(super) text: String,
    pub(super) number: Number,
    /// What to ask in the same connection if `LAST_INSERT_ID` stayed zero.
    pub(super) otherwise: Option<String>,
}

/// What a statement puts into `LAST_INSERT_ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// A token, or what is left of a lease.
    Result,
    /// Twice the server's time, and one more if somebody waits.
    NowAndOthers,
}

impl From<String> for Statement {
    fn from(text: String) -> Statement {
        Statement { text, number: Number::Result, otherwise: None }
    }
}

/// The statements on one table.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    /// As it stands in SQL.
    table: Arc<str>,
}

impl Statements {
    pub(super) fn on(table: &TableName) -> Statements {
        Statements { table: table.quoted('`').into() }
    }

    /// Takes no lock of the server's, and waits for none.
    pub(super) fn look(&self, key: &[u8]) -> Statement {
        self.look_text(key).into()
    }

    fn look_text(&self, key: &[u8]) -> String {
        let (table, key) = (&self.table, Hex(key));
        format!("SELECT {NOW} AS now, owner, token, expires, label, revoked FROM {table} WHERE name = {key}")
    }

    /// The one statement that grants. Answers the token; if it did not take the lock, what a look shows.
    ///
    /// Whoever waits for the row meanwhile sees the time of its beginning in `NOW`, and the deadline is compared with the
    /// time at which the row is reached.
    pub(super) fn take(
        &self,
        key: &[u8],
        owner: &Owner,
        ttl: Duration,
        label: &Label,
        deadline: i64,
    ) -> Statement {
        let (table, name, owner, label) = (&self.table, Hex(key), Hex(owner.as_bytes()), Text(label));
        let ttl = micros(ttl);
        Statement {
            text: format!(
                "UPDATE {table} SET token = LAST_INSERT_ID(GREATEST(token + 1, {NOW})), owner = {owner}, \
                 expires = {NOW} + {ttl}, label = {label}, revoked = NULL \
                 WHERE name = {name} AND expires <= {NOW} AND {CLOCK} <= {deadline}"
            ),
            number: Number::Result,
            otherwise: Some(self.look_text(key)),
        }
    }

    /// Makes the row of a name that has none, and takes the lock. Fails without having done anything if another has made
    /// the row.
    ///
    /// They are two transactions in one packet. What makes the row grants nothing, so that it may come late: it waits for
    /// whoever has locked the gap that the row goes into, and could look at no deadline behind that.
    pub(super) fn make_and_take(
        &self,
        key: &[u8],
        owner: &Owner,
        ttl: Duration,
        label: &Label,
        deadline: i64,
    ) -> Statement {
        let (table, name) = (&self.table, Hex(key));
        let take = self.take(key, owner, ttl, label, deadline);
        let text = format!(
            "INSERT INTO {table} (name, owner, token, expires, label) VALUES ({name}, x'', {NOW}, 0, ''); {}",
            take.text
        );
        Statement { text, ..take }
    }

    /// Answers what is left then.
    pub(super) fn renew(&self, key: &[u8], owner: &Owner, ttl: Duration) -> Statement {
        let (table, name, owner, ttl) = (&self.table, Hex(key), Hex(owner.as_bytes()), micros(ttl));
        format!(
            "UPDATE {table} SET expires = {NOW} + LAST_INSERT_ID(GREATEST(expires - {NOW}, {ttl})) \
             WHERE name = {name} AND owner = {owner} AND expires > {NOW}"
        )
        .into()
    }

    /// Gives up what is the owner's, or what a revoke has left in its place. Answers the time if it was held until now, and
    /// whether a waiter is there.
    pub(super) fn release(&self, key: &[u8], owner: &Owner) -> Statement {
        let (table, name, owner) = (&self.table, Hex(key), Hex(owner.as_bytes()));
        let text = format!(
            "UPDATE {table} SET owner = x'', label = '', \
             expires = 0 * LAST_INSERT_ID(IF(expires > {NOW}, 2 * {NOW} + (waiting > {NOW}), 0)) \
             WHERE name = {name} AND (owner = {owner} OR (revoked = {owner} AND expires > {NOW}))"
        );
        Statement { text, number: Number::NowAndOthers, otherwise: None }
    }

    /// For how much longer a release says that somebody waits.
    pub(super) fn waiting(&self, key: &[u8]) -> Statement {
        let (table, name) = (&self.table, Hex(key));
        format!("SELECT {NOW} AS now, waiting - {NOW} AS waiting FROM {table} WHERE name = {name}").into()
    }

    /// From now on, and for so long, a release says that somebody waits.
    pub(super) fn mark(&self, key: &[u8], mark: Duration) -> Statement {
        let (table, name, mark) = (&self.table, Hex(key), micros(mark));
        format!("UPDATE {table} SET waiting = GREATEST(waiting, {NOW} + {mark}) WHERE name = {name}").into()
    }

    /// Answers what was left.
    pub(super) fn revoke(
        &self,
        key: &[u8],
        holder: &OwnerBytes,
        by: &Owner,
        label: &Label,
        when: When,
    ) -> Statement {
        let (table, name, holder) = (&self.table, Hex(key), Hex(holder.as_bytes()));
        let (by, label) = (Hex(by.as_bytes()), Text(label));
        let left = format!("LAST_INSERT_ID(expires - {NOW})");
        let taken = match when {
            When::HoldersDeadline => {
                format!("owner = {by}, label = {label}, expires = expires + 0 * {left}")
            }
            When::Now => format!("owner = x'', label = '', expires = 0 * {left}"),
        };
        format!(
            "UPDATE {table} SET {taken}, revoked = COALESCE(revoked, {holder}) \
             WHERE name = {name} AND owner = {holder} AND expires > {NOW}"
        )
        .into()
    }

    /// The next rows behind a name, and whether nobody has had their locks for a day.
    pub(super) fn idle(&self, from: &[u8]) -> Statement {
        let (table, from, idle) = (&self.table, Hex(from), micros(IDLE));
        format!(
            "SELECT {NOW} AS now, name, GREATEST(token, expires) < {NOW} - {idle} AS idle FROM {table} \
             WHERE name > {from} ORDER BY name LIMIT {ROWS}"
        )
        .into()
    }

    /// Deletes these rows as far as they are still idle.
    pub(super) fn forget(&self, names: &[Vec<u8>]) -> Statement {
        let (table, idle) = (&self.table, micros(IDLE));
        let names: Vec<String> = names.iter().map(|name| Hex(name).to_string()).collect();
        let names = names.join(", ");
        format!("DELETE FROM {table} WHERE name IN ({names}) AND GREATEST(token, expires) < {NOW} - {idle}")
            .into()
    }

    /// Each asks for a right that locks need, and changes nothing.
    pub(super) fn rights(&self) -> [(&'static str, Statement); 3] {
        let table = &self.table;
        [
            ("UPDATE", format!("UPDATE {table} SET token = token WHERE name = x''").into()),
            (
                "INSERT",
                format!("INSERT INTO {table} SELECT x'', x'', 1, 0, 0, '', NULL FROM DUAL WHERE FALSE")
                    .into(),
            ),
            ("DELETE", format!("DELETE FROM {table} WHERE name = x''").into()),
        ]
    }
}

/// Bytes, as a literal.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("x'")?;
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("'")
    }
}

/// A label, as a literal.
struct Text<'a>(&'a Label);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "_utf8mb4 {}", Hex(self.0.as_str().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_literals_that_need_no_escaping() {
        assert_eq!(Hex(b"a'\\\0\xff").to_string(), "x'61275c00ff'");
        assert_eq!(Hex(b"").to_string(), "x''");
        assert_eq!(Text(&Label::new("é'")).to_string(), "_utf8mb4 x'c3a927'");
    }
}
