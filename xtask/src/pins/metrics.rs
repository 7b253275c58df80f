//! Reads every metric with its labels: `lock_held{backend}`.

use super::Items;
use crate::documents::{code, read};
use crate::workspace::root;

const CODE: &str = "lock-core/src/events.rs";
const TABLE: &str = "docs/metrics.md";

/// Returns the metrics of the code. `Err` if they are not those of the document.
pub(super) fn counted() -> Result<Items, String> {
    let (counted, told) = (of_code(&read(&root().join(CODE))?), of_table(&read(&root().join(TABLE))?));
    match counted.symmetric_difference(&told).next() {
        Some(one) => Err(format!("{one} is in one of {CODE} and {TABLE} alone")),
        None if counted.is_empty() => Err(format!("no metrics in {CODE}")),
        None => Ok(counted),
    }
}

/// Reads calls such as `counter!("name", "label" => value)`.
fn of_code(text: &str) -> Items {
    let calls = ["counter!(", "gauge!(", "histogram!("].into_iter().flat_map(|call| text.split(call).skip(1));
    let item = |call: &str| {
        let arguments = call.split(')').next()?;
        let mut arguments = arguments.split(", ");
        let name = arguments.next()?.trim_matches('"');
        let labels = arguments.filter_map(|label| Some(label.split_once(" => ")?.0.trim_matches('"')));
        Some(shown(name, labels))
    };
    calls.filter_map(item).collect()
}

/// Reads rows such as ``| `name` | kind | `label`, `label` | meaning |``.
fn of_table(text: &str) -> Items {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let item = |row: &str| {
        let mut cells = row.split(" | ");
        let name = code(cells.next()?).next()?;
        Some(shown(name, code(cells.nth(1)?)))
    };
    rows.filter_map(item).collect()
}

fn shown<'a>(name: &str, labels: impl Iterator<Item = &'a str>) -> String {
    let labels: Vec<&str> = labels.collect();
    format!("{name}{{{}}}", labels.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_rows_say_the_same() {
        let text = "gauge!(\"held\", \"backend\" => backend).increment(1);\n\
            counter!(\"lost\", \"backend\" => backend, \"cause\" => cause.as_str())\n    .increment(1);\n";
        let table = "| metric | kind | labels | meaning |\n|---|---|---|---|\n\
            | `held` | gauge | `backend` | of `x` |\n| `lost` | counter | `backend`, `cause` | more |\n";
        let expected = ["held{backend}", "lost{backend, cause}"].map(str::to_owned);
        assert_eq!(of_code(text), Items::from(expected.clone()));
        assert_eq!(of_table(table), Items::from(expected));
    }
}
