//! The statements, as texts for the configured table. [The protocol](https://github.com/onelock/onelock/blob/main/docs/protocols/postgres.md) gives the reasons for each.

use std::sync::Arc;

use crate::server::TableName;

/// The server's time in microseconds, read at the place where this expression stands, and not at the start of the
/// transaction or the statement.
macro_rules! now {
    () => {
        "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"
    };
}
pub(super) use now;

/// The server's time alone.
pub(super) const TIME: &str = concat!("SELECT ", now!());

/// The statements for one table.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) look: Arc<str>,
    pub(crate) list: Arc<str>,
    pub(crate) take: Arc<str>,
    pub(crate) take_over: Arc<str>,
    pub(crate) renew: Arc<str>,
    pub(crate) renew_many: Arc<str>,
    pub(crate) release: Arc<str>,
    pub(crate) mark: Arc<str>,
    pub(crate) revoke_at_the_end: Arc<str>,
    pub(crate) revoke_now: Arc<str>,
    pub(crate) sweep: Arc<str>,
    /// Several statements in one message.
    pub(crate) probe: Arc<str>,
}

impl Statements {
    /// Returns the statements for `table`, which includes its schema: a session's search path may lead another user to
    /// another table.
    pub(crate) fn of(table: &TableName) -> Statements {
        let of = |text: &str| text.replace("{now}", now!()).replace("{table}", &table.quoted('"')).into();
        Statements {
            look: of(LOOK),
            list: of(LIST),
            take: of(TAKE),
            take_over: of(SUCCEED),
            renew: of(RENEW),
            renew_many: of(RENEW_MANY),
            release: of(RELEASE),
            mark: of(MARK),
            revoke_at_the_end: of(REVOKE_AT_THE_END),
            revoke_now: of(REVOKE_NOW),
            sweep: of(SWEEP),
            probe: of(&[TAKE, RENEW, RELEASE, UNDO].join(";")),
        }
    }
}

/// Name. Returns one row in any case, for the server's time.
const LOOK: &str = "
SELECT {now}, l.owner, l.token, l.expires, l.label, l.revoked
FROM (SELECT 1) AS one LEFT JOIN {table} AS l ON l.name = $1";

/// Takes the beginning of names. Returns the names of the locks that are held.
const LIST: &str = "
SELECT {now}, name FROM {table} WHERE substring(name FROM 1 FOR length($1)) = $1 AND expires > {now}";

/// The column of the token in the answer to `TAKE`; NULL if it did not take the lock.
pub(super) const TOKEN: usize = 6;

/// Name, owner, ttl, deadline, label. Looks and takes in one statement. If the look shows that another owner holds the
/// lock, nothing is written or waited for. A grant also returns the number of the table, which names its channel.
///
/// Each condition on an existing row reads the clock when it is evaluated, because the statement may have waited for
/// the row's lock.
const TAKE: &str = "
WITH seen AS MATERIALIZED (SELECT owner, token, expires, label, revoked FROM {table} WHERE name = $1),
taken AS (
  INSERT INTO {table} AS l (name, owner, token, expires, label)
  SELECT $1, $2, now.n, now.n + $3, $5 FROM (SELECT {now} AS n) AS now
  WHERE {now} <= $4 AND NOT EXISTS (SELECT 1 FROM seen WHERE owner <> $2 AND expires > {now})
  ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN l.owner = excluded.owner AND l.expires > {now} THEN l.token
      ELSE greatest(l.token + 1, excluded.token) END,
    expires = CASE WHEN l.owner = excluded.owner THEN greatest(l.expires, excluded.expires) ELSE excluded.expires END,
    owner = excluded.owner, label = excluded.label, revoked = NULL
  WHERE {now} <= $4 AND (l.owner = excluded.owner OR l.expires <= {now})
  RETURNING token, expires, tableoid::bigint AS number)
SELECT {now}, seen.owner, seen.token, seen.expires, seen.label, seen.revoked, taken.token, taken.expires, {now} > $4,
  taken.number
FROM (SELECT 1) AS one LEFT JOIN taken ON true LEFT JOIN seen ON true";

/// Name, owner, ttl, deadline, label, predecessor. Puts the owner in the place of its predecessor, if that holds the lock.
/// The waiters' mark stays as it is, and the release that frees the lock notifies them.
///
/// An update evaluates its conditions before it waits for the row's lock, and not again unless the row has changed. So the
/// row is locked first, and the clock is compared with the deadline and with the predecessor's lease after that.
const SUCCEED: &str = "
WITH held AS MATERIALIZED (
  SELECT began.n, l.token, l.expires FROM (SELECT {now} AS n) AS began, {table} AS l
  WHERE l.name = $1 AND l.owner = $6 FOR NO KEY UPDATE OF l),
replaced AS (
  UPDATE {table} AS l SET owner = $2, token = greatest(held.token + 1, held.n), expires = held.n + $3, label = $5,
    revoked = NULL
  FROM held WHERE l.name = $1 AND {now} <= least($4, held.expires - 1)
  RETURNING l.token, l.expires, l.waiting > {now} AS wanted, l.tableoid::bigint AS number)
SELECT {now}, replaced.token, replaced.expires, replaced.wanted, replaced.number, {now} > $4
FROM (SELECT 1) AS one LEFT JOIN replaced ON true";

/// Name, owner, ttl.
const RENEW: &str = "
UPDATE {table} SET expires = greatest(expires, {now} + $3)
WHERE name = $1 AND owner = $2 AND expires > {now}
RETURNING {now}, expires";

/// Names, their owners, ttl. Renews like `RENEW`, each row by itself, and returns the place of each row that it has
/// renewed. Waits for no row that another transaction has locked, and leaves it as it is.
const RENEW_MANY: &str = "
WITH wanted AS MATERIALIZED (
  SELECT * FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS wanted (name, owner, place)),
free AS MATERIALIZED (
  SELECT name, owner FROM {table} WHERE name = ANY ($1) AND owner = ANY ($2) AND expires > {now}
  ORDER BY name FOR NO KEY UPDATE SKIP LOCKED)
UPDATE {table} AS l SET expires = greatest(l.expires, {now} + $3)
FROM free JOIN wanted ON wanted.name = free.name AND wanted.owner = free.owner
WHERE l.name = free.name AND l.owner = free.owner AND l.expires > {now}
RETURNING {now}, l.expires, wanted.place";

/// Name, owner, how many releases the owner has heard while it waited. Releases the owner's lock, or what a revoke has left
/// in its place. Returns whether it was held until now. Notifies in the same transaction if a client waits: all transactions that notify take one lock of the server,
/// which a transaction without a notification doesn't take.
///
/// An update skips a row that another transaction is updating or inserting for this owner: it sees the change only
/// after the commit, which may take longer than a call. So where the update found nothing, an upsert waits for that
/// transaction, also where the row is still another owner's: this owner may be about to take over that one. If the name has
/// no row, the upsert creates an idle one, which an insert that comes later then meets.
const RELEASE: &str = "
WITH seen AS (
  UPDATE {table} SET owner = '', label = '', expires = CASE WHEN expires > {now} THEN -1 ELSE -2 END
  WHERE name = $1 AND (owner = $2 OR (revoked = $2 AND expires > {now}))
  RETURNING tableoid, expires, waiting > {now} AS wanted),
unseen AS (
  INSERT INTO {table} AS l (name, owner, token, expires, label) SELECT $1, '', {now}, -2, ''
  WHERE NOT EXISTS (SELECT 1 FROM seen)
  ON CONFLICT (name) DO UPDATE SET
    owner = '', label = '', expires = CASE WHEN l.expires > {now} THEN -1 ELSE -2 END
  WHERE l.owner = $2
  RETURNING tableoid, expires, waiting > {now} AS wanted),
released AS (SELECT * FROM seen UNION ALL SELECT * FROM unseen)
SELECT {now}, expires = -1, wanted,
  CASE WHEN wanted THEN pg_notify('onelock_' || tableoid, encode($1, 'hex') || '#' || $3::bigint) IS NULL END
FROM released";

/// Name, how long the mark lasts. Never shortens a mark, and writes nothing if enough of it is left. Returns the number
/// of the table, which names its channel.
const MARK: &str = "
WITH marked AS (
  UPDATE {table} SET waiting = {now} + $2 WHERE name = $1 AND waiting < {now} + $2 / 2)
SELECT {now}, to_regclass('{table}')::oid::bigint";

/// Name, holder, the owner that replaces it until the lease ends, label. Notifies the first holder, even if the lock
/// was revoked several times.
const REVOKE_AT_THE_END: &str = "
WITH taken AS (
  UPDATE {table} SET owner = $3, label = $4, revoked = coalesce(revoked, $2)
  WHERE name = $1 AND owner = $2 AND expires > {now}
  RETURNING tableoid, expires, revoked)
SELECT {now}, expires, pg_notify('onelock_' || tableoid, '!' || encode(revoked, 'hex')) IS NULL FROM taken";

/// Name, holder. Notifies the first holder, and the waiters.
const REVOKE_NOW: &str = "
WITH released AS (
  UPDATE {table} SET owner = '', label = '', expires = -1, revoked = coalesce(revoked, $2)
  WHERE name = $1 AND owner = $2 AND expires > {now}
  RETURNING tableoid, waiting > {now} AS wanted, revoked)
SELECT {now}, 0::bigint, CASE WHEN wanted THEN pg_notify('onelock_' || tableoid, encode($1, 'hex')) IS NULL END,
  pg_notify('onelock_' || tableoid, '!' || encode(revoked, 'hex')) IS NULL
FROM released";

/// The name to continue behind, how many rows, how long a row must have been idle. Rows that another transaction has
/// locked are left for a later sweep.
///
/// The rows that are idle are looked up by an array of their names: as a rule it is empty. Joined with the rows that
/// were seen, the table would be read as a whole.
const SWEEP: &str = "
WITH seen AS MATERIALIZED (
  SELECT name, greatest(token, expires) AS used FROM {table} WHERE name > $1 ORDER BY name LIMIT $2),
idle AS MATERIALIZED (
  SELECT name FROM {table}
  WHERE name = ANY (ARRAY(SELECT name FROM seen WHERE used < {now} - $3))
    AND token < {now} - $3 AND expires < {now} - $3 FOR UPDATE SKIP LOCKED),
gone AS (DELETE FROM {table} AS l USING idle WHERE l.name = idle.name)
SELECT {now}, count(*), (SELECT name FROM seen ORDER BY name DESC LIMIT 1), (SELECT count(*) FROM idle) FROM seen";

/// The number of rows that the probe returns if everything that a lock needs was done.
pub(super) const PROBED: usize = 3;

/// Undoes the statements before it in the same message. If one of those fails, nothing is written, and no transaction
/// is left open either, as it would be if the message began with `BEGIN`.
const UNDO: &str = " BEGIN; ROLLBACK";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_names_the_table() {
        let statements = Statements::of(&"ops.locks".parse().unwrap());
        let Statements {
            look,
            list,
            take,
            take_over,
            renew,
            renew_many,
            release,
            mark,
            revoke_at_the_end,
            revoke_now,
            sweep,
            probe,
        } = &statements;
        for text in [
            look,
            list,
            take,
            take_over,
            renew,
            renew_many,
            release,
            mark,
            revoke_at_the_end,
            revoke_now,
            sweep,
            probe,
        ] {
            assert!(
                text.contains("\"ops\".\"locks\"") && !text.contains('{') && !text.contains("onelock_locks"),
                "{text}"
            );
        }
    }
}
