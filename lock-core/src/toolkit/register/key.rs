//! The key of a lock: how it is looked at and replaced, and when it takes a question for the time.

use super::connection::{RegisterConnection, RegisterConnector, of_unknown_effect};
use super::registers::{Registers, Replaced, Stored};
use super::row::{Mark, Row};
use super::span::{Span, Times, micros, span};
use crate::error::{Effect, Error, Result};
use crate::toolkit::{Call, Register, SharedConnection, Start, Swapped};

/// A key, as one call sees it.
#[derive(Debug)]
pub(super) struct Key<'a, R: Registers> {
    pub(super) connection: &'a SharedConnection<RegisterConnector<R>>,
    pub(super) name: &'a str,
    pub(super) precision: Precision,
}

/// The precision with which a look knows the server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// As earlier answers told it, unless that does not decide.
    Estimated,
    /// As an answer tells it that was asked for after the row was read.
    Asked,
}

/// The view of a call: the last write, and the server's time.
#[derive(Clone, Debug)]
pub(super) struct Seen<V> {
    /// `None` if the server knows of none.
    pub(super) last: Option<(V, Mark)>,
    pub(super) times: Times,
    pub(super) precision: Precision,
}

impl<V: PartialEq> PartialEq for Seen<V> {
    /// A write is known by its revision.
    fn eq(&self, other: &Seen<V>) -> bool {
        self.revision() == other.revision()
    }
}

impl<V> Seen<V> {
    fn revision(&self) -> Option<&V> {
        self.last.as_ref().map(|(revision, _)| revision)
    }

    /// Returns when the last write was stamped. There is one if there is a row.
    pub(super) fn mark(&self) -> Mark {
        let never = Mark { stamp: 0, written: Span::exactly(0), number: None };
        self.last.as_ref().map_or(never, |(_, mark)| *mark)
    }

    /// Returns the row if the lock is held.
    pub(super) fn in_force(&self, row: Option<Row>) -> Option<Row> {
        row.filter(|row| row.is_in_force(&self.mark(), self.times.now))
    }
}

pub(super) fn parse(value: Option<&[u8]>) -> Result<Option<Row>> {
    value.map(Row::parse).transpose()
}

impl<R: Registers> Register for Key<'_, R> {
    type Revision = Seen<R::Revision>;

    async fn look(&self, call: &Call) -> Result<(Option<Vec<u8>>, Seen<R::Revision>)> {
        let connection = self.connection.get(call).await?;
        let (read, told) = connection.read(call, self.name).await?;
        let (value, last) = read.last.map(marked::<R>).unzip();
        let value = value.flatten();
        let row = parse(value.as_deref())?;
        let mark = last.as_ref().map(|(_, mark)| *mark);
        let (clock, precision) = match told {
            Some(clock) => (clock, Precision::Asked),
            None if self.has_to_ask(&connection, call, row.as_ref().zip(mark.as_ref())) => {
                (connection.ask_time(call).await?, Precision::Asked)
            }
            None => (connection.clock(), Precision::Estimated),
        };
        let times = Times::of(call, &clock, R::RESOLUTION);
        Ok((value, Seen { last, times, precision }))
    }

    async fn swap(
        &self,
        call: &Call,
        expected: &Seen<R::Revision>,
        value: &[u8],
    ) -> Result<Swapped<Seen<R::Revision>>> {
        let connection = self.connection.get(call).await?;
        let asked = call.clock().now();
        let replaced = connection.replace(call, self.name, expected.revision(), value).await?;
        let Replaced::Applied { revision, stamp } = replaced else { return Ok(Swapped::Refused) };
        let answered = call.clock().now();
        let stamp = match stamp {
            None if Row::parse(value)?.has_a_deadline() => {
                Some(self.read_back(&connection, call, &revision).await?)
            }
            stamp => stamp,
        };
        stamp.into_iter().for_each(|stamp| _ = connection.hear(stamp, asked, answered));
        // Where the stamp is not known, nothing depends on it. It is later than that of the write before.
        let mark = mark::<R>(&revision, stamp.unwrap_or(expected.mark().stamp));
        Ok(Swapped::Applied(Seen { last: Some((revision, mark)), ..expected.clone() }))
    }
}

fn marked<R: Registers>(last: Stored<R::Revision>) -> (Option<Vec<u8>>, (R::Revision, Mark)) {
    let mark = mark::<R>(&last.revision, last.stamp);
    (last.value, (last.revision, mark))
}

fn mark<R: Registers>(revision: &R::Revision, stamp: i64) -> Mark {
    let written = Span { from: stamp, by: stamp.saturating_add(micros(R::RESOLUTION)) };
    Mark { stamp, written, number: R::number(revision) }
}

impl<R: Registers> Key<'_, R> {
    /// Returns whether this look has to ask for the time. A lease is taken for over only by a time that was told after
    /// its row was read: an estimate is ahead of a clock that was set back.
    fn has_to_ask(
        &self,
        connection: &RegisterConnection<R>,
        call: &Call,
        row: Option<(&Row, &Mark)>,
    ) -> bool {
        let clock = connection.clock();
        let now = span(&clock, call.clock().now(), R::RESOLUTION);
        self.precision == Precision::Asked
            || is_vague(now, call)
            || row.is_some_and(|(row, mark)| row.may_be_over(mark, now))
    }

    /// Returns whether the time is known well enough for a deadline, without a question.
    pub(super) fn has_the_time(&self, call: &Call) -> bool {
        let now =
            |connection: &RegisterConnection<R>| span(&connection.clock(), call.clock().now(), R::RESOLUTION);
        self.connection.usable().is_some_and(|connection| !is_vague(now(&connection), call))
    }

    /// Returns how a call starts that knows this owner's last write.
    pub(super) fn start(&self, call: &Call, row: &Row, seen: &Seen<R::Revision>) -> Start<Seen<R::Revision>> {
        let Some(connection) = self.connection.usable() else { return Start::Look };
        let times = Times::of(call, &connection.clock(), R::RESOLUTION);
        if row.may_be_over(&seen.mark(), times.now) {
            return Start::Look;
        }
        let revision = Seen { times, precision: Precision::Estimated, last: seen.last.clone() };
        Start::Known { value: row.to_bytes(), revision }
    }

    /// Returns the stamp of a write that was answered without it. An estimate does not do: if the server's clock was set
    /// forward, the row may be void to every reader.
    async fn read_back(
        &self,
        connection: &RegisterConnection<R>,
        call: &Call,
        revision: &R::Revision,
    ) -> Result<i64> {
        let (read, _) = connection.read(call, self.name).await.map_err(of_unknown_effect)?;
        let last = read.last.filter(|last| last.revision == *revision);
        let replaced =
            || Error::unavailable(Effect::Unknown, "the row was replaced as soon as it was written");
        last.map(|last| last.stamp).ok_or_else(replaced)
    }
}

/// Returns whether the estimate is too vague for a deadline: it could be over before the request arrives, or long after
/// the call.
fn is_vague(now: Span, call: &Call) -> bool {
    now.width() > call.ends().since(call.began()) / 8
}
