//! The statements, each of which is a transaction of its own.
//!
//! They go to the server as text, with bytes in hexadecimal and numbers in decimal, so that nothing in them has to be
//! escaped and nothing depends on `sql_mode`. Nothing is prepared: a statement takes one round trip on a new connection
//! too, and the server keeps no state for us.
//!
//! A statement that writes returns its result in its own reply: `LAST_INSERT_ID(expression)` puts a number there. The
//! number is zero if no row was found, whatever the server counts as affected.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::When;
use lock_core::toolkit::{HeldKey, whole_micros};
use lock_core::{Label, Owner, OwnerBytes};

use crate::server::TableName;
use crate::sweep::{IDLE_BEFORE_DELETE, ROWS};

/// The server's time in microseconds since 1970. It stands still while a statement runs, so that a lease is counted
/// from before any wait of the statement.
pub(super) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// The server's time in microseconds since 1970, read when the statement reaches the row. `SYSDATE` returns it in the
/// session's time zone, which is therefore UTC.
const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))";

/// A statement, and what its answer means.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(super) text: String,
    pub(super) number: Number,
    /// Selects the rows that it locks, if a statement that waits for none has to find out first whether others have.
    pub(super) locks: Option<String>,
    /// The statement to send next on the same connection if `LAST_INSERT_ID` stayed zero.
    pub(super) otherwise: Option<String>,
}

/// The number that a statement puts into `LAST_INSERT_ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// A token, or what is left of a lease in microseconds.
    Result,
    /// Twice the server's time, plus one if a client waits.
    NowAndOthers,
    /// Twice the token, plus one if a client waits.
    TokenAndOthers,
    /// Nothing: it is a transaction of several statements, and the answer is in rows. Without rows, rows that other
    /// transactions have locked were in the way.
    None,
}

impl From<String> for Statement {
    fn from(text: String) -> Statement {
        Statement { text, number: Number::Result, locks: None, otherwise: None }
    }
}

/// Reads the server's time alone.
pub(super) fn time() -> Statement {
    format!("SELECT {NOW} AS now").into()
}

/// The statements on one table.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    /// The table's name as SQL text.
    table: Arc<str>,
}

impl Statements {
    pub(super) fn on(table: &TableName) -> Statements {
        Statements { table: table.quoted('`').into() }
    }

    /// Reads the lock's row. Takes no row lock of the server, and waits for none.
    pub(super) fn look(&self, key: &[u8]) -> Statement {
        self.look_text(key).into()
    }

    /// Reads the names of the locks that are held and that begin with `beginning`.
    pub(super) fn list(&self, beginning: &[u8]) -> Statement {
        let (table, length, beginning) = (&self.table, beginning.len(), Hex(beginning));
        format!(
            "SELECT {NOW} AS now, name FROM {table} WHERE LEFT(name, {length}) = {beginning} AND expires > {NOW}"
        )
        .into()
    }

    /// Selects a lock's row.
    fn row(&self, key: &[u8]) -> String {
        format!("SELECT 1 FROM {} WHERE name = {}", self.table, Hex(key))
    }

    fn look_text(&self, key: &[u8]) -> String {
        let (table, key) = (&self.table, Hex(key));
        format!("SELECT {NOW} AS now, owner, token, expires, label, revoked FROM {table} WHERE name = {key}")
    }

    /// Takes the lock. This is the only statement that grants. Returns the token; if it did not take the lock, what a
    /// look shows.
    ///
    /// A statement that has waited for the row still sees the time of its beginning in `NOW`. The deadline is compared
    /// with the time at which the statement reaches the row.
    pub(super) fn take(
        &self,
        key: &[u8],
        owner: &Owner,
        ttl: Duration,
        label: &Label,
        deadline: i64,
    ) -> Statement {
        let (table, name, owner, label) = (&self.table, Hex(key), Hex(owner.as_bytes()), Text(label));
        let ttl = whole_micros(ttl);
        Statement {
            text: format!(
                "UPDATE {table} SET token = LAST_INSERT_ID(GREATEST(token + 1, {NOW})), owner = {owner}, \
                 expires = {NOW} + {ttl}, label = {label}, revoked = NULL \
                 WHERE name = {name} AND expires <= {NOW} AND {CLOCK} <= {deadline}"
            ),
            number: Number::Result,
            locks: Some(self.row(key)),
            otherwise: Some(self.look_text(key)),
        }
    }

    /// Puts an owner in the place of its predecessor, if that holds the lock. Returns the token and whether a client waits;
    /// otherwise what a look shows. The mark of the clients that wait stays as it is.
    ///
    /// The lease is counted as in [`take`](Statements::take). The deadline and the end of the predecessor's lease are compared
    /// with the time at which the statement reaches the row.
    pub(super) fn take_over(
        &self,
        key: &[u8],
        owner: &Owner,
        predecessor: &Owner,
        ttl: Duration,
        label: &Label,
        deadline: i64,
    ) -> Statement {
        let (table, name, owner, label) = (&self.table, Hex(key), Hex(owner.as_bytes()), Text(label));
        let (predecessor, ttl) = (Hex(predecessor.as_bytes()), whole_micros(ttl));
        let token = format!("GREATEST(token + 1, {NOW})");
        // Twice a token that is far ahead of the clock has no place in a signed number.
        let answer = format!("2 * CAST({token} AS UNSIGNED) + (waiting > {NOW})");
        Statement {
            text: format!(
                "UPDATE {table} SET token = {token} + 0 * LAST_INSERT_ID({answer}), owner = {owner}, \
                 expires = {NOW} + {ttl}, label = {label}, revoked = NULL \
                 WHERE name = {name} AND owner = {predecessor} AND expires > {CLOCK} AND {CLOCK} <= {deadline}"
            ),
            number: Number::TokenAndOthers,
            locks: Some(self.row(key)),
            otherwise: Some(self.look_text(key)),
        }
    }

    /// Creates the row of a name that has none, and takes the lock. Fails without having done anything if another
    /// client has created the row.
    ///
    /// These are two transactions in one packet. The one that creates the row grants nothing, so it may take effect
    /// late. It waits for any transaction that has locked the gap where the row belongs, and could check no deadline
    /// after that wait.
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
        // There is no row that another transaction may have locked. For a gap the server waits, on any connection.
        let locks = None;
        let text = format!(
            "INSERT INTO {table} (name, owner, token, expires, label) VALUES ({name}, x'', {NOW}, 0, ''); {}",
            take.text
        );
        Statement { text, locks, ..take }
    }

    /// Renews the lease. Returns what is left of it then.
    pub(super) fn renew(&self, key: &[u8], owner: &Owner, ttl: Duration) -> Statement {
        let (table, name, owner, ttl) = (&self.table, Hex(key), Hex(owner.as_bytes()), whole_micros(ttl));
        let text = format!(
            "UPDATE {table} SET expires = {NOW} + LAST_INSERT_ID(GREATEST(expires - {NOW}, {ttl})) \
             WHERE name = {name} AND owner = {owner} AND expires > {NOW}"
        );
        Statement { locks: Some(self.row(key)), ..text.into() }
    }

    /// Renews these leases, each by itself, and shows what is left of each then. If another transaction has locked a row
    /// of theirs, the server gives up instead of waiting for it. It locks these rows alone: neither what lies between them,
    /// nor the whole of a small table, which it would otherwise read from the beginning to the end.
    pub(super) fn renew_many(&self, held: &[HeldKey], ttl: Duration) -> Statement {
        let (table, ttl) = (&self.table, whole_micros(ttl));
        let listed = |values: Vec<String>| values.join(", ");
        let names = listed(held.iter().map(|held| Hex(&held.key).to_string()).collect());
        let owners = listed(held.iter().map(|held| Hex(held.owner.as_bytes()).to_string()).collect());
        let theirs = format!("name IN ({names}) AND owner IN ({owners})");
        let text = format!(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; \
             SELECT 1 FROM {table} FORCE INDEX (PRIMARY) WHERE {theirs} FOR UPDATE NOWAIT; \
             UPDATE {table} FORCE INDEX (PRIMARY) SET expires = GREATEST(expires, {NOW} + {ttl}) WHERE {theirs} AND expires > {NOW}; \
             COMMIT; \
             SELECT {NOW} AS now, name, owner, expires - {NOW} AS lasts FROM {table} WHERE {theirs}"
        );
        Statement { text, number: Number::None, locks: None, otherwise: None }
    }

    /// Releases the owner's lock, or what a revoke has left in its place. If the lock was held until now, returns the
    /// time and whether a client waits.
    pub(super) fn release(&self, key: &[u8], owner: &Owner) -> Statement {
        let (table, name, owner) = (&self.table, Hex(key), Hex(owner.as_bytes()));
        let text = format!(
            "UPDATE {table} SET owner = x'', label = '', \
             expires = 0 * LAST_INSERT_ID(IF(expires > {NOW}, 2 * {NOW} + (waiting > {NOW}), 0)) \
             WHERE name = {name} AND (owner = {owner} OR (revoked = {owner} AND expires > {NOW}))"
        );
        Statement { text, number: Number::NowAndOthers, locks: Some(self.row(key)), otherwise: None }
    }

    /// Reads for how much longer a release reports that a client waits.
    pub(super) fn waiting(&self, key: &[u8]) -> Statement {
        let (table, name) = (&self.table, Hex(key));
        format!("SELECT {NOW} AS now, waiting - {NOW} AS waiting FROM {table} WHERE name = {name}").into()
    }

    /// Makes releases report that a client waits, from now on and for the time `mark`.
    pub(super) fn mark(&self, key: &[u8], mark: Duration) -> Statement {
        let (table, name, mark) = (&self.table, Hex(key), whole_micros(mark));
        let text =
            format!("UPDATE {table} SET waiting = GREATEST(waiting, {NOW} + {mark}) WHERE name = {name}");
        Statement { locks: Some(self.row(key)), ..text.into() }
    }

    /// Revokes the lock. Returns what was left of the lease.
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
        let text = format!(
            "UPDATE {table} SET {taken}, revoked = COALESCE(revoked, {holder}) \
             WHERE name = {name} AND owner = {holder} AND expires > {NOW}"
        );
        Statement { locks: Some(self.row(key)), ..text.into() }
    }

    /// Reads the next rows behind a name, and whether their locks have been idle for a day.
    pub(super) fn idle(&self, from: &[u8]) -> Statement {
        let (table, from, idle) = (&self.table, Hex(from), whole_micros(IDLE_BEFORE_DELETE));
        format!(
            "SELECT {NOW} AS now, name, GREATEST(token, expires) < {NOW} - {idle} AS idle FROM {table} \
             WHERE name > {from} ORDER BY name LIMIT {ROWS}"
        )
        .into()
    }

    /// Deletes those of these rows that are still idle.
    pub(super) fn delete_idle(&self, names: &[Vec<u8>]) -> Statement {
        let (table, idle) = (&self.table, whole_micros(IDLE_BEFORE_DELETE));
        let names: Vec<String> = names.iter().map(|name| Hex(name).to_string()).collect();
        let names = names.join(", ");
        format!("DELETE FROM {table} WHERE name IN ({names}) AND GREATEST(token, expires) < {NOW} - {idle}")
            .into()
    }

    /// Returns statements that each need one of the rights that locks need, and change nothing.
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

/// Bytes, as an SQL literal.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("x'")?;
        // In larger pieces: each statement has several of these, and a formatted byte costs as much as a whole piece.
        for bytes in self.0.chunks(DIGITS_AT_ONCE / 2) {
            let mut digits = [0; DIGITS_AT_ONCE];
            for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
                pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
            }
            f.write_str(std::str::from_utf8(&digits[..bytes.len() * 2]).map_err(|_| fmt::Error)?)?;
        }
        f.write_str("'")
    }
}

const DIGITS_AT_ONCE: usize = 64;

/// Returns the hexadecimal digit of a number below 16.
const fn digit(number: u8) -> u8 {
    b"0123456789abcdef"[number as usize]
}

/// A label, as an SQL literal.
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
        for length in [31, 32, 33, 100] {
            assert_eq!(Hex(&vec![0xab; length]).to_string(), format!("x'{}'", "ab".repeat(length)));
        }
        assert_eq!(Text(&Label::new("é'")).to_string(), "_utf8mb4 x'c3a927'");
    }
}
