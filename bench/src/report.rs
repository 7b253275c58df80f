//! What is printed: a table for people, or an object a line for programs. Standard output has nothing else.

use serde_json::{Value, json};

use crate::tally::Tally;

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Table,
    Json,
}

/// One subject at one workload.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) backend: &'a str,
    pub(crate) workload: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) tally: &'a Tally,
    /// To the floor.
    pub(crate) ratio: Option<f64>,
    /// The same to no-token.
    pub(crate) token_price: Option<f64>,
}

impl Format {
    pub(crate) fn head(self) {
        if self == Format::Table {
            println!(
                "{:<12} {:<16} {:>11} {:>10} {:>10} {:>10} {:>7} {:>7} {:>12}",
                "workload",
                "subject",
                "cycles/s",
                "p50 us",
                "p99 us",
                "max us",
                "errors",
                "ratio",
                "token price"
            );
        }
    }

    pub(crate) fn row(self, row: &Row<'_>) {
        if let Some(error) = row.tally.first_error() {
            eprintln!("{}, {}: the first error: {error}", row.workload, row.subject);
        }
        match self {
            Format::Table => println!("{}", row.line()),
            Format::Json => println!("{}", row.object()),
        }
    }
}

impl Row<'_> {
    fn line(&self) -> String {
        let [p50, p99, max] = self.latencies().map(|latency| number(latency, 1));
        format!(
            "{:<12} {:<16} {:>11.0} {p50:>10} {p99:>10} {max:>10} {:>7} {:>7} {:>12}",
            self.workload,
            self.subject,
            self.tally.rate(),
            self.tally.errors(),
            number(self.ratio, 2),
            number(self.token_price, 2),
        )
    }

    fn object(&self) -> Value {
        let [p50, p99, max] = self.latencies();
        json!({
            "backend": self.backend,
            "workload": self.workload,
            "subject": self.subject,
            "cycles_per_s": self.tally.rate(),
            "p50_us": p50,
            "p99_us": p99,
            "max_us": max,
            "errors": self.tally.errors(),
            "ratio": self.ratio,
            "token_price": self.token_price,
        })
    }

    fn latencies(&self) -> [Option<f64>; 3] {
        [50.0, 99.0, 100.0].map(|percentile| self.tally.percentile(percentile))
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Slice;

    #[test]
    fn an_object_has_null_where_there_is_nothing() {
        let mut tally = Tally::default();
        tally.add(Slice { latencies: vec![1_500], errors: vec![String::new(); 2], rate: 3.0 });
        let row = Row {
            backend: "redis",
            workload: "w",
            subject: "s",
            tally: &tally,
            ratio: Some(0.5),
            token_price: None,
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
