//! The output of `forms`: a table for people, or one JSON object per line for programs.

use serde_json::{Value, json};

use crate::report::{Format, number, rate};
use crate::tally::{By, Tally};
use crate::targets::Bound;

/// One participant in one case.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) case: String,
    /// The form's parameters, or the name of another library's lock.
    pub(super) form: &'a str,
    pub(super) tally: &'a Tally,
    /// What it is compared with.
    pub(super) base: Option<Base<'a>>,
    /// What the ratio of the p50 has to reach.
    pub(super) to_reach: Option<Bound>,
}

/// A participant that others are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base<'a> {
    pub(super) form: &'a str,
    pub(super) tally: &'a Tally,
}

pub(super) fn head(format: Format) {
    if let Format::Table { .. } = format {
        let figures = ["per s", "p50 us", "p99 us", "max us"].map(|name| format!("{name:>9}")).join(" ");
        let ratios = ["per s", "p50", "p99"].map(|name| format!("{name:>6}")).join(" ");
        println!("{:<12} {:<25} {figures} {:>6} {ratios} {:>7} of", "workload", "form", "errors", "bar");
    }
}

impl Row<'_> {
    pub(super) fn print(&self, format: Format) {
        if let Some(error) = self.tally.first_error() {
            eprintln!("{}, {}: the first error: {error}", self.case, self.form);
        }
        match format {
            Format::Table { .. } => println!("{}", self.line()),
            Format::Json => println!("{}", self.object()),
        }
    }

    fn line(&self) -> String {
        let [p50, p99, max] = self.latencies().map(|latency| number(latency, 1));
        let ratios = self.ratios().map(|ratio| format!("{:>6}", number(ratio, 2))).join(" ");
        let verdict = match (self.to_reach, self.reached()) {
            (Some(bound), Some(true)) => bound.to_string(),
            (Some(bound), Some(false)) => format!("! {bound}"),
            _ => "-".to_owned(),
        };
        format!(
            "{:<12} {:<25} {:>9} {p50:>9} {p99:>9} {max:>9} {:>6} {ratios} {verdict:>7} {}",
            self.case,
            self.form,
            rate(self.tally.rate()),
            self.tally.errors(),
            self.base.map_or("-", |base| base.form),
        )
    }

    fn object(&self) -> Value {
        let [p50, p99, max] = self.latencies();
        let [per_s_ratio, p50_ratio, p99_ratio] = self.ratios();
        json!({
            "workload": self.case,
            "form": self.form,
            "per_s": self.tally.rate(),
            "p50_us": p50,
            "p99_us": p99,
            "max_us": max,
            "errors": self.tally.errors(),
            "ratios": {
                "of": self.base.map(|base| base.form),
                "per_s": per_s_ratio,
                "p50": p50_ratio,
                "p99": p99_ratio,
            },
            "reached": self.reached(),
        })
    }

    fn latencies(&self) -> [Option<f64>; 3] {
        [50.0, 99.0, 100.0].map(|percentile| self.tally.percentile(percentile))
    }

    /// Returns the medians of the rounds' ratios.
    fn ratios(&self) -> [Option<f64>; 3] {
        [By::Rate, By::P50, By::P99].map(|by| self.tally.ratio(self.base?.tally, by))
    }

    fn reached(&self) -> Option<bool> {
        let [_, p50, _] = self.ratios();
        Some(self.to_reach?.is_reached_by(p50?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Slice;

    fn tally(latency: u64, rate: f64) -> Tally {
        let mut tally = Tally::default();
        tally.add(Slice { latencies: vec![latency], rate, ..Slice::default() });
        tally
    }

    #[test]
    fn a_row_has_its_ratios_and_whether_its_bar_is_reached() {
        let (plain, form) = (tally(1_000, 100.0), tally(1_500, 80.0));
        let base = Some(Base { form: "plain", tally: &plain });
        let with = |base, most| {
            let to_reach = Some(Bound::AtMost(most));
            Row { case: "uncontended".to_owned(), form: "fair=true", tally: &form, base, to_reach }
        };
        let object = with(base, 1.6).object();
        assert_eq!(object["ratios"], json!({"of": "plain", "per_s": 0.8, "p50": 1.5, "p99": 1.5}));
        assert_eq!(object["reached"], true);
        assert_eq!(with(base, 1.3).object()["reached"], false);
        assert!(with(base, 1.3).line().contains("! <= 1.3"), "{}", with(base, 1.3).line());
        assert_eq!(with(None, 1.6).object()["reached"], Value::Null);
    }
}
