//! Verdicts on the failure of a server, where there is more than one.

use super::evidence::{Evidence, Of};
use super::trial::Scene;
use super::verdict::{Judged, Verdict};
use crate::case::Case;
use crate::report::Judgement;

/// T6. Available is what grants locks again without help, and keeps those that are held.
pub(super) fn is_available_by_its_cluster(evidence: &Evidence<'_>, of: Of) -> Judged {
    let row = evidence.row(of, Case::Failover)?;
    let Some(gap_us) = row.max_us.filter(|_| row.errors == 0) else {
        let why = row.first_error.clone();
        let why = why.unwrap_or_else(|| "no lock was granted after the leader was killed".to_owned());
        return Ok(Judgement::new(Verdict::DoesNotHold, why));
    };
    let kept = row.extra.get("kept").ok_or("the row does not say what became of held locks")?;
    let granted = format!("{:.0} ms after the leader was killed, a lock was granted again", gap_us / 1e3);
    Ok(match *kept >= 1.0 {
        true => Judgement::new(Verdict::Holds, format!("{granted}; the held one was kept")),
        false => Judgement::new(Verdict::HoldsWithin("held locks are lost"), granted),
    })
}

/// T14.
pub(super) fn is_lost_on_failover(evidence: &Evidence<'_>, of: Of) -> Judged {
    let figure = |name| evidence.figure(of, Scene::Failover, name);
    let (lost, rises) = (figure("two_held")? == 1.0, figure("token_rises")? == 1.0);
    let verdict = match (lost, rises) {
        (true, true) => Verdict::HoldsWithin("a resource that checks tokens refuses the first holder"),
        (true, false) => Verdict::Holds,
        (false, _) => Verdict::DoesNotHold,
    };
    let text =
        if lost { "a second client was granted the lock" } else { "no second client was granted the lock" };
    Ok(Judgement::new(
        verdict,
        format!("after a failover to a replica without the grant, {text} while the first held it"),
    ))
}

/// T15.
pub(super) fn survives_a_minority(evidence: &Evidence<'_>, of: Of) -> Judged {
    let figure = |name| evidence.figure(of, Scene::Minority, name);
    let (dead, silent) =
        (figure("granted_with_one_dead")? == 1.0, figure("granted_with_one_silent_too")? == 1.0);
    let said = |granted| if granted { "granted" } else { "not granted" };
    let text =
        format!("of five servers: {} with one dead, {} with a second one silent", said(dead), said(silent));
    Ok(Judgement::new(Verdict::of_both(dead, silent, "one of five"), text))
}

/// T16.
pub(super) fn an_empty_restart_breaks_exclusion(evidence: &Evidence<'_>, of: Of) -> Judged {
    let broken = evidence.figure(of, Scene::EmptyRestart, "two_held")? == 1.0;
    let what = if broken { "two clients held the lock" } else { "no second client was granted the lock" };
    let text = format!("{what} after a server of the first one's majority had restarted empty");
    Ok(Judgement::new(Verdict::of(broken), text))
}

/// An early release has to save this share of the wait at least.
const SAVED: f64 = 0.3;

/// T23.
pub(super) fn an_early_release_shortens_the_wait(evidence: &Evidence<'_>, of: Of) -> Judged {
    let figure = |name| evidence.figure(of, Scene::EarlyRelease, name);
    let (early, never) = (figure("waited_ms_if_released")?, figure("waited_ms_if_not")?);
    let text = format!(
        "the next client waits for {early:.0} ms if it is released after 100 ms, and for {never:.0} ms if not"
    );
    Ok(Judgement::new(Verdict::of(early < never * (1.0 - SAVED)), text))
}

/// T25. A server that may have forgotten locks votes again after the longest ttl.
pub(super) fn a_crashed_majority_costs_a_ttl(evidence: &Evidence<'_>, of: Of) -> Judged {
    let figure = |name| evidence.figure(of, Scene::CrashedMajority, name);
    let (away, ttl) = (figure("unavailable_ms")?, figure("max_ttl_ms")?);
    let text = format!(
        "after a majority restarted empty, no lock was granted for {away:.0} ms; the longest ttl is {ttl:.0} ms"
    );
    Ok(Judgement::new(Verdict::of(away >= ttl / 2.0), text))
}
