//! Verdicts on speed. They compare figures of one run: its servers shared one machine.

use lock_naive::Scheme;

use super::evidence::{Disk, Evidence, Of, Speed};
use super::verdict::{Judged, Verdict};
use crate::backend::Backend;
use crate::report::Judgement;
use crate::subjects::Kind;

/// A subject is slow that takes so many times as long, and much faster if it has so many times the rate.
const MUCH: f64 = 2.0;
/// A subject is as fast that reaches this share of the rate.
const AS_FAST: f64 = 0.95;
/// A subject is as slow that takes this share of the time.
const AS_SLOW: f64 = 0.8;

/// T3. What it costs to run can't be measured.
pub(super) fn is_slow(evidence: &Evidence<'_>, of: Of) -> Judged {
    let own = evidence.speed(of, 1, Disk::Unused)?;
    let fastest = fastest_other(evidence, of, &own)?;
    let times = own.p50_us / fastest.p50_us;
    let text = format!("{}, {times:.1} times that of {}", own.latency(), fastest.latency());
    Ok(Judgement::new(Verdict::of(times >= MUCH), text))
}

/// T4.
pub(super) fn is_much_faster_than_mysql(evidence: &Evidence<'_>, of: Of) -> Judged {
    let on_mysql = match of {
        Of::Scheme(..) => Of::Scheme(Scheme::UniqueIndex, Backend::MySql),
        Of::Ours(_) => Of::Ours(Backend::MySql),
    };
    // MongoDB always writes first.
    let own = evidence.speed(of, 1, Disk::EveryWrite)?;
    let other = evidence.speed(on_mysql, 1, Disk::EveryWrite)?;
    let times = own.per_s / other.per_s;
    let verdict = match times {
        times if times >= MUCH => Verdict::Holds,
        times if times * AS_FAST > 1.0 => Verdict::HoldsWithin("faster, but not much"),
        _ => Verdict::DoesNotHold,
    };
    Ok(Judgement::new(verdict, format!("{}, {times:.2} times that of {}", own.rate(), other.rate())))
}

/// T7. Of the texts' schemes among each other, and of the library on all servers.
pub(super) fn is_the_fastest(evidence: &Evidence<'_>, of: Of) -> Judged {
    let own = evidence.speed(of, 1, Disk::Unused)?;
    let fastest = fastest_other(evidence, of, &own)?;
    let text = format!("{}; {}", own.latency(), fastest.latency());
    let verdict = match own.p50_us / fastest.p50_us {
        times if times < AS_FAST => Verdict::Holds,
        times if times * AS_FAST <= 1.0 => Verdict::HoldsWithin("another one is as fast"),
        _ => Verdict::DoesNotHold,
    };
    Ok(Judgement::new(verdict, text))
}

/// Returns the fastest other one: a claim that compares has no verdict where nothing else was measured.
fn fastest_other<'a>(evidence: &Evidence<'a>, of: Of, own: &Speed<'_>) -> Result<Speed<'a>, String> {
    let other = evidence.fastest(of, 1, own);
    other.ok_or_else(|| {
        "only this one was measured, on one server: there is nothing to compare with".to_owned()
    })
}

/// T11.
pub(super) fn is_as_fast_as_the_commands(evidence: &Evidence<'_>, of: Of) -> Judged {
    let times = |tasks| {
        let own = evidence.speed(of, tasks, Disk::Unused)?;
        let commands = evidence.speed(Of::Scheme(Scheme::Setnx, Backend::Redis), tasks, Disk::Unused)?;
        Ok::<_, String>(own.per_s / commands.per_s)
    };
    let (one, many) = (times(1)?, times(64)?);
    let verdict = match (one >= AS_FAST, many >= AS_FAST) {
        (true, true) => Verdict::Holds,
        (true, false) => Verdict::HoldsWithin("with one task, not with 64"),
        (false, true) => Verdict::HoldsWithin("with 64 tasks, not with one"),
        (false, false) => Verdict::DoesNotHold,
    };
    let text = format!("{one:.2} times the rate of naive-setnx with one task, {many:.2} times with 64");
    Ok(Judgement::new(verdict, text))
}

/// T22. The texts' scheme asks one server after the other. Both the library and the baseline, which is
/// the raw driver with no client around it, ask all at once.
pub(super) fn asking_at_once_is_faster(evidence: &Evidence<'_>, of: Of) -> Judged {
    let one_by_one = evidence.speed(Of::Scheme(Scheme::Redlock, of.backend()), 1, Disk::Unused)?;
    let at_once = match of {
        Of::Scheme(..) => evidence.speed_of(Kind::Baseline.as_str(), of.backend(), 1, Disk::Unused)?,
        Of::Ours(_) => evidence.speed(of, 1, Disk::Unused)?,
    };
    let text = format!("at once, {}; one by one, {}", at_once.latency(), one_by_one.latency());
    Ok(Judgement::new(Verdict::of(at_once.p50_us < one_by_one.p50_us * AS_FAST), text))
}

/// T24. etcd is consistent under partition, and writes to the disk before it acknowledges.
pub(super) fn with_a_disk_it_is_as_slow_as_etcd(evidence: &Evidence<'_>, of: Of) -> Judged {
    let own = evidence.speed(of, 1, Disk::EveryWrite)?;
    let etcd = evidence.speed(Of::Ours(Backend::Etcd), 1, Disk::EveryWrite)?;
    let text = format!("{}, {:.2} times that of {}", own.latency(), own.p50_us / etcd.p50_us, etcd.latency());
    Ok(Judgement::new(Verdict::of(own.p50_us >= etcd.p50_us * AS_SLOW), text))
}
