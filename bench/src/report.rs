//! The output: a table for people, or one JSON object per line for programs. Nothing else goes to standard output.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::tally::Tally;
use crate::targets::Verdict;

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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) backend: String,
    pub(crate) workload: String,
    /// The workload's parameters, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) parameters: BTreeMap<String, u64>,
    pub(crate) subject: String,
    pub(crate) per_s: f64,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) max_us: Option<f64>,
    pub(crate) errors: u64,
    /// In most cases to the floor.
    pub(crate) ratio: Option<f64>,
    /// The ratio of the p99s to the same subject.
    pub(crate) p99_ratio: Option<f64>,
    /// As `ratio`, to `no-token`.
    pub(crate) token_price: Option<f64>,
    /// Further figures, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) figures: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) to_reach: Vec<Verdict>,
    /// Whether all of that is reached; `None` if there is nothing to reach.
    pub(crate) reached: Option<bool>,
    /// It may have a secret in it, and is in no file.
    #[serde(skip)]
    pub(crate) first_error: Option<String>,
}

impl Format {
    pub(crate) const TABLE: Format = Format::Table { first: 16 };

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
                "{:<first$} {:<20} {:<16} {:>9} {:>10} {:>10} {:>10} {:>6} {:>6} {:>9} {:>11} to reach",
                "backend",
                "workload",
                "subject",
                "per s",
                "p50 us",
                "p99 us",
                "max us",
                "errors",
                "ratio",
                "p99 ratio",
                "token price",
            );
        }
    }

    pub(crate) fn row(self, row: &Row) {
        if let Some(error) = &row.first_error {
            eprintln!("{}, {}: the first error: {error}", row.case(), row.subject);
        }
        match self {
            Format::Table { first } => println!("{}", row.lines(first)),
            Format::Json => self.object(row),
        }
    }

    /// Prints one line of JSON; nothing in a table.
    pub(crate) fn object(self, line: &impl Serialize) {
        if self == Format::Json {
            println!(
                "{}",
                serde_json::to_string(line).expect("its keys are strings, and its numbers finite")
            );
        }
    }
}

impl Row {
    pub(crate) fn of(backend: &str, workload: &str, subject: &str, tally: &Tally) -> Row {
        let [p50_us, p99_us, max_us] = [50.0, 99.0, 100.0].map(|percentile| tally.percentile(percentile));
        Row {
            backend: backend.to_owned(),
            workload: workload.to_owned(),
            subject: subject.to_owned(),
            per_s: tally.rate(),
            p50_us,
            p99_us,
            max_us,
            errors: tally.errors(),
            figures: tally.extra().into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect(),
            first_error: tally.first_error().map(str::to_owned),
            ..Row::default()
        }
    }

    /// Adds the verdicts on this row.
    pub(crate) fn judged(self, to_reach: Vec<Verdict>) -> Row {
        let reached = to_reach.iter().map(|verdict| verdict.reached).reduce(|a, b| a && b);
        Row { to_reach, reached, ..self }
    }

    /// Returns the workload with its parameters: `held locks=10000`.
    pub(crate) fn case(&self) -> String {
        let parameters = self.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
        std::iter::once(self.workload.clone()).chain(parameters).collect()
    }

    /// Returns a line of the table, and a second one if there are further figures.
    fn lines(&self, first: usize) -> String {
        let [p50, p99, max] = [self.p50_us, self.p99_us, self.max_us].map(|latency| number(latency, 1));
        let line = format!(
            "{:<first$} {:<20} {:<16} {:>9} {p50:>10} {p99:>10} {max:>10} {:>6} {:>6} {:>9} {:>11} {}",
            self.backend,
            self.case(),
            self.subject,
            rate(self.per_s),
            self.errors,
            number(self.ratio, 2),
            number(self.p99_ratio, 2),
            number(self.token_price, 2),
            self.verdict(),
        );
        match self.figures.is_empty() {
            true => line,
            false => format!("{line}\n{:<first$}   {}", "", self.further()),
        }
    }

    /// Returns what is to be reached, with a mark at what is missed.
    pub(crate) fn verdict(&self) -> String {
        match &self.to_reach[..] {
            [] => "-".to_owned(),
            verdicts => verdicts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }

    /// Returns the further figures: `bytes per lock 1830, core share 0.031`.
    fn further(&self) -> String {
        let figure = |(name, value): (&String, &f64)| format!("{} {}", name.replace('_', " "), short(*value));
        self.figures.iter().map(figure).collect::<Vec<_>>().join(", ")
    }
}

/// Formats a rate: a low one gets a decimal.
pub(crate) fn rate(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// Formats a figure of any size with about three digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        ..1.0 => format!("{value:.3}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tally::Slice;
    use crate::targets::Bound;

    fn row() -> Row {
        let mut tally = Tally::default();
        let extra = vec![("bytes_per_lock", 1_830.4)];
        let errors = vec!["no".to_owned(); 2];
        tally.add(Slice { latencies: vec![1_500], errors, rate: 3.0, extra, ..Slice::default() });
        Row { ratio: Some(0.5), ..Row::of("redis", "w", "s", &tally) }
    }

    fn verdict(reached: bool) -> Verdict {
        Verdict { figure: "ratio".to_owned(), bound: Bound::AtLeast(0.5), reached }
    }

    #[test]
    fn an_object_has_null_where_there_is_nothing() {
        let object = serde_json::to_value(row()).unwrap();
        assert_eq!(
            (&object["p50_us"], &object["errors"], &object["ratio"], &object["figures"]),
            (&json!(1.5), &json!(2), &json!(0.5), &json!({"bytes_per_lock": 1830.4}))
        );
        assert_eq!((&object["token_price"], &object["reached"]), (&Value::Null, &Value::Null));
        assert!(object.get("first_error").is_none(), "it may have a secret in it");
        let nothing = Row::of("redis", "w", "s", &Tally::default());
        assert_eq!(serde_json::to_value(nothing).unwrap()["p50_us"], Value::Null);
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let parameters = BTreeMap::from([("locks".to_owned(), 100)]);
        let row = Row { parameters, first_error: None, ..row().judged(vec![verdict(true)]) };
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
        assert_eq!(row.case(), "w locks=100");
    }

    #[test]
    fn a_row_is_reached_if_all_of_it_is() {
        let reached =
            |verdicts: &[bool]| row().judged(verdicts.iter().map(|&v| verdict(v)).collect()).reached;
        assert_eq!(
            (reached(&[true, true]), reached(&[true, false]), reached(&[])),
            (Some(true), Some(false), None)
        );
    }

    #[test]
    fn a_table_shows_what_is_missed_and_the_further_figures() {
        let lines = row().judged(vec![verdict(true), verdict(false)]).lines(10);
        let [line, further] = lines.lines().collect::<Vec<_>>()[..] else { panic!("{lines}") };
        assert!(line.ends_with(" >= 0.5, ! >= 0.5"), "{line}");
        assert_eq!(further.trim(), "bytes per lock 1830");
    }

    #[test]
    fn a_figure_is_short_whatever_its_size() {
        assert_eq!([0.0312, -1.25, 1_830.4].map(short), ["0.031", "-1.2", "1830"]);
    }
}
