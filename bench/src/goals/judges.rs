//! The judge of each goal, by the figures of one server.

use super::Bound::{AtLeast, AtMost};
use super::{Bound, Check, Judged, On};
use crate::backend::Backend;
use crate::case::Case;
use crate::row::Row;
use crate::subjects::{Kind, Lost, TTL};

fn check(figure: Option<f64>, bound: Bound, says: impl Into<String>) -> Judged {
    let figure = figure.ok_or("no cycle of it ended, or there is nothing to compare with")?;
    Ok(Some(Check { figure, bound, says: says.into() }))
}

fn rate_ratio(row: &Row) -> Option<f64> {
    row.ratios.as_ref()?.per_s
}

pub(super) fn cycle(on: &On<'_>) -> Judged {
    let row = on.row(Case::OwnNames { tasks: 1 })?;
    match on.is(Backend::Memory) {
        true => check(row.p50_us, AtMost(5.0), "microseconds, the p50 of a cycle"),
        false => check(rate_ratio(row), AtLeast(0.8), "times the baseline's rate"),
    }
}

pub(super) fn many_names(on: &On<'_>) -> Judged {
    if on.is(Backend::Memory) {
        return Ok(None);
    }
    check(rate_ratio(on.row(Case::OwnNames { tasks: 64 })?), AtLeast(0.7), "times the baseline's rate")
}

pub(super) fn one_name(on: &On<'_>) -> Judged {
    let (one, eight) =
        (on.row(Case::OwnNames { tasks: 1 })?, on.row(Case::OneName { contenders: 8, processes: 1 })?);
    let figure = (one.per_s > 0.0).then(|| eight.per_s / one.per_s);
    check(
        figure,
        AtLeast(1.7),
        "times the rate of one task: a hand-over inside a process takes one round trip",
    )
}

pub(super) fn one_lost(on: &On<'_>) -> Judged {
    if !on.is(Backend::Redlock) {
        return Ok(None);
    }
    let p50 = |kind| on.report.row(&on.server.name, Case::OneLost, kind).map(|row| row.ratios.as_ref()?.p50);
    let worst = p50(Kind::Without(Lost::Dead))?
        .zip(p50(Kind::Without(Lost::Silent))?)
        .map(|(dead, silent)| dead.max(silent));
    check(worst, AtMost(1.1), "times the p50 with all servers, the worse of dead and silent")
}

pub(super) fn hand_over(on: &On<'_>) -> Judged {
    if !on.has_waiting_driver() {
        return Ok(None);
    }
    let row = on.row(Case::HandOver)?;
    check(row.ratios.as_ref().and_then(|ratios| ratios.p50), AtMost(1.5), "times the baseline's p50")
}

/// Each contender needs so many grants on average: of fewer, a small share may be chance.
pub(super) const ENOUGH: u64 = 20;

pub(super) fn crowd(on: &On<'_>) -> Judged {
    if !on.has_waiting_driver() {
        return Ok(None);
    }
    let row = on.row(Case::OneName { contenders: 64, processes: 8 })?;
    check(rate_ratio(row), AtLeast(0.5), "times the hand-overs of two processes of the baseline")
}

/// Judges the most uneven of the crowds.
pub(super) fn shares(on: &On<'_>) -> Judged {
    if on.is(Backend::Memory) {
        return Ok(None);
    }
    let (name, least) = if on.promises.fair == "no" { ("slowest_share", 0.2) } else { ("jain", 0.9) };
    let enough = on.crowds().filter(|(contenders, _, row)| row.count >= contenders * ENOUGH);
    let shares = enough.filter_map(|(contenders, processes, row)| {
        Some((*row.extra.get(name)?, format!("{name} of {contenders} contenders in {processes} processes")))
    });
    let (figure, says) = shares
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .ok_or_else(|| format!("no crowd had {ENOUGH} grants for each contender"))?;
    check(Some(figure), AtLeast(least), says)
}

pub(super) fn processes(on: &On<'_>) -> Judged {
    if !matches!(on.server.backend, Backend::Redis | Backend::Postgres | Backend::Mongo)
        || on.promises.wakes != "pushed"
    {
        return Ok(None);
    }
    check(
        on.row(Case::Processes)?.p99_us.map(|micros| micros / 1e3),
        AtMost(40.0),
        "milliseconds, the p99 of the waits",
    )
}

/// So many times as many requests still are the same number, as in the conformance suite.
const FLAT: f64 = 1.5;
/// Clients send some more requests now and then: renewals, looks, and those for the count.
const BESIDES: f64 = 1.05;

pub(super) fn requests(on: &On<'_>) -> Judged {
    if matches!(on.server.backend, Backend::Memory | Backend::Sqlite) {
        return Ok(None);
    }
    let counted: Vec<(u64, u64, f64)> = on
        .crowds()
        .filter_map(|(contenders, processes, row)| {
            Some((contenders, processes, *row.extra.get("requests_per_hand_over")?))
        })
        .collect();
    if on.promises.fair != "no" {
        // Those with one contender in each process.
        let single = counted.iter().filter(|(contenders, processes, _)| contenders == processes);
        let ends = single.clone().min_by_key(|crowd| crowd.1).zip(single.max_by_key(|crowd| crowd.1));
        let ((_, few, least), (_, many, most)) = ends
            .filter(|(few, many)| few.1 < many.1 && few.2 > 0.0)
            .ok_or("requests were not counted with two numbers of processes")?;
        let says = format!("times as many: {most:.1} requests with {many} processes, {least:.1} with {few}");
        return check(Some(most / least), AtMost(FLAT), says);
    }
    // A waiter's attempt asks every server of Redlock.
    let servers = if on.is(Backend::Redlock) { on.promises.address.split(',').count() } else { 1 };
    let allowed = |processes: u64| {
        f64::from(on.promises.requests_per_hand_over) + ((processes - 1) * servers as u64) as f64
    };
    let worst = counted
        .iter()
        .map(|(_, processes, requests)| (requests / allowed(*processes), *processes, *requests))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let (figure, processes, requests) =
        worst.ok_or("the server does not count requests, or not soon enough")?;
    let says = format!(
        "times the {:.0} requests that are allowed with {processes} processes: {requests:.1}",
        allowed(processes)
    );
    check(Some(figure), AtMost(BESIDES), says)
}

pub(super) fn polls(on: &On<'_>) -> Judged {
    if on.promises.wakes != "polled" {
        return Ok(None);
    }
    let delay = on.row(Case::Delay)?.extra.get("delay_over_allowed").copied();
    check(delay, AtMost(1.0), "times the delay that is allowed, at the 99th percentile")
}

pub(super) fn held(on: &On<'_>) -> Judged {
    let row = on.row(Case::Held { locks: 10_000 }).or_else(|_| on.row(Case::Held { locks: 1_000 }))?;
    let figure = |name: &str| row.extra.get(name).copied();
    let (core, bytes) = (figure("core_share"), figure("bytes_per_lock"));
    let is_default_ttl = figure("ttl_ms") == Some(TTL.as_millis() as f64) && row.case.ends_with("=10000");
    match core.filter(|core| is_default_ttl && *core > 0.05) {
        Some(core) => check(Some(core), AtMost(0.05), "of a core"),
        None => check(bytes, AtMost(2_500.0), format!("bytes a lock ({})", row.case)),
    }
}

pub(super) fn recovery(on: &On<'_>) -> Judged {
    if on.is(Backend::Memory) {
        return Ok(None);
    }
    let late = on.row(Case::Recovery)?.extra.get("recovery_over_ttl_ms").copied();
    check(
        late,
        AtMost(100.0),
        "milliseconds from the end of the ttl, the longest recovery; below 0 is before it",
    )
}
