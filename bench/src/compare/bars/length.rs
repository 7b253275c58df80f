//! How long a quick run takes.

use super::Check;
use crate::compare::plan;
use crate::compare::report::Report;
use crate::targets::Bound;

/// Ten minutes, in seconds.
const MOST: f64 = 600.0;

/// Judges a quick run of every server that this program knows, with nothing left out and nothing added.
pub(super) fn of_a_quick_run(report: &Report) -> Result<Check, String> {
    let is_asked = |name: &String| report.options.on.contains(name);
    if !report.options.quick
        || !report.options.workloads.is_empty()
        || !plan::names_of_all().all(|name| is_asked(&name))
    {
        return Err("this is not a quick run of all servers".to_owned());
    }
    if report.rows.iter().any(|row| row.peer.is_some()) {
        return Err("other libraries' locks were measured, too".to_owned());
    }
    if !report.complete {
        return Err("the run is not complete".to_owned());
    }
    let figure = report.took_s.ok_or("the report does not say how long the run took")?;
    let absent: Vec<&str> =
        report.servers.iter().filter(|server| server.not_run.is_some()).map(|server| &*server.name).collect();
    let bound = Bound::AtMost(MOST);
    // With fewer servers it is shorter: then only too long a time says something.
    if !absent.is_empty() && bound.is_reached_by(figure) {
        return Err(format!(
            "it took {figure:.0} s without {}, which are not on this machine",
            absent.join(", ")
        ));
    }
    Ok(Check { figure, bound, says: "seconds, with the start of each server".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::sample::Data;
    use super::*;

    fn quick(took_s: f64) -> Report {
        let mut report = Data::on("redis", "no", "pushed").report();
        report.options.on = plan::names_of_all().collect();
        (report.options.quick, report.complete, report.took_s) = (true, true, Some(took_s));
        report
    }

    fn is_met(report: &Report) -> Result<bool, String> {
        of_a_quick_run(report).map(|check| check.bound.is_reached_by(check.figure))
    }

    #[test]
    fn a_quick_run_is_short_enough_or_not() {
        assert_eq!((is_met(&quick(600.0)), is_met(&quick(601.0))), (Ok(true), Ok(false)));
    }

    #[test]
    fn another_run_says_nothing() {
        let changed = |change: fn(&mut Report)| {
            let mut report = quick(10.0);
            change(&mut report);
            is_met(&report)
        };
        assert!(changed(|report| report.options.quick = false).is_err());
        assert!(changed(|report| report.options.on.truncate(3)).is_err());
        assert!(changed(|report| report.options.workloads = vec!["held".to_owned()]).is_err());
        assert!(changed(|report| report.complete = false).is_err());
        assert!(changed(|report| report.took_s = None).is_err());
    }

    #[test]
    fn without_some_of_the_servers_it_can_only_be_too_long() {
        let absent = |took_s| {
            let mut report = quick(took_s);
            report.servers[0].not_run = Some("there is no Redis on this machine".to_owned());
            is_met(&report)
        };
        assert!(absent(400.0).is_err_and(|why| why.contains("400 s without redis")));
        assert_eq!(absent(700.0), Ok(false));
    }
}
