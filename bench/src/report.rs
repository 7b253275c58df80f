//! The output: a table for people, or one JSON object per line for programs. Nothing else goes to standard output.

use serde_json::{Value, json};

use crate::tally::Tally;
use crate::targets::Target;

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The first column is so wide.
    Table {
        first: usize,
    },
    Json,
}

/// One subject at one workload.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) backend: &'a str,
    /// Its name and version, for people.
    pub(crate) server: &'a str,
    pub(crate) workload: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) tally: &'a Tally,
    /// The ratio, in most cases to the floor.
    pub(crate) ratio: Option<f64>,
    /// The same ratio to `no-token`.
    pub(crate) token_price: Option<f64>,
    /// The figure to reach.
    pub(crate) target: Option<Target>,
}

impl Format {
    pub(crate) const TABLE: Format = Format::Table { first: 10 };

    /// Returns the same form with room for names that are so wide.
    pub(crate) fn for_names(self, widest: usize) -> Format {
        match self {
            Format::Table { first } => Format::Table { first: first.max(widest) },
            Format::Json => Format::Json,
        }
    }

    pub(crate) fn head(self) {
        if let Format::Table { first } = self {
            println!(
                "{:<first$} {:<12} {:<16} {:>9} {:>10} {:>10} {:>10} {:>6} {:>6} {:>12} {:>11}",
                "backend",
                "workload",
                "subject",
                "per s",
                "p50 us",
                "p99 us",
                "max us",
                "errors",
                "ratio",
                "to reach",
                "token price"
            );
        }
    }

    pub(crate) fn row(self, row: &Row<'_>) {
        if let Some(error) = row.tally.first_error() {
            eprintln!("{}, {}: the first error: {error}", row.workload, row.subject);
        }
        match self {
            Format::Table { first } => println!("{}", row.line(first)),
            Format::Json => println!("{}", row.object()),
        }
    }
}

impl Row<'_> {
    fn line(&self, first: usize) -> String {
        let [p50, p99, max] = self.latencies().map(|latency| number(latency, 1));
        format!(
            "{:<first$} {:<12} {:<16} {:>9} {p50:>10} {p99:>10} {max:>10} {:>6} {:>6} {:>12} {:>11}",
            self.backend,
            self.workload,
            self.subject,
            rate(self.tally.rate()),
            self.tally.errors(),
            number(self.ratio, 2),
            self.verdict(),
            number(self.token_price, 2),
        )
    }

    /// Returns the figure to reach, and a mark if it is missed.
    fn verdict(&self) -> String {
        let Some(target) = self.target else { return "-".to_owned() };
        match target.reached_by(self.ratio, self.tally) {
            Some(true) => target.to_string(),
            Some(false) => format!("! {target}"),
            None => "-".to_owned(),
        }
    }

    fn object(&self) -> Value {
        let [p50, p99, max] = self.latencies();
        json!({
            "backend": self.backend,
            "server": self.server,
            "workload": self.workload,
            "subject": self.subject,
            "per_s": self.tally.rate(),
            "p50_us": p50,
            "p99_us": p99,
            "max_us": max,
            "errors": self.tally.errors(),
            "ratio": self.ratio,
            "token_price": self.token_price,
            "reached": self.target.and_then(|target| target.reached_by(self.ratio, self.tally)),
        })
    }

    fn latencies(&self) -> [Option<f64>; 3] {
        [50.0, 99.0, 100.0].map(|percentile| self.tally.percentile(percentile))
    }
}

/// Formats a rate: a low one gets a decimal.
pub(crate) fn rate(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Slice;

    #[test]
    fn an_object_has_null_where_there_is_nothing() {
        let mut tally = Tally::default();
        tally.add(Slice {
            latencies: vec![1_500],
            errors: vec![String::new(); 2],
            rate: 3.0,
            ..Slice::default()
        });
        let row = Row {
            backend: "redis",
            server: "redis 7",
            workload: "w",
            subject: "s",
            tally: &tally,
            ratio: Some(0.5),
            token_price: None,
            target: None,
        };
        let object = row.object();
        assert_eq!(
            (&object["p50_us"], &object["errors"], &object["ratio"]),
            (&json!(1.5), &json!(2), &json!(0.5))
        );
        assert_eq!(object["token_price"], Value::Null);
        let nothing = Tally::default();
        assert_eq!(Row { tally: &nothing, ..row }.object()["p50_us"], Value::Null);
    }
}
