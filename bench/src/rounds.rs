//! Subjects take turns in short slices, so that whatever else the machine does affects all of them alike.

use std::time::Duration;

use async_trait::async_trait;

use crate::Outcome;
use crate::tally::{Slice, Tally};

#[async_trait]
pub(crate) trait Measurement: Send {
    async fn run(&mut self, length: Duration) -> Outcome<Slice>;

    /// Leaves the server as it was.
    async fn end(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

/// A measurement is divided into slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// A slice is shorter if the fewest rounds would not fit into the total time.
    slice: Duration,
    fewest_rounds: u32,
    warm_up: Duration,
}

impl Pace {
    /// For what is repeated thousands of times a second.
    pub(crate) const QUICK: Pace =
        Pace { slice: Duration::from_millis(250), fewest_rounds: 4, warm_up: Duration::from_millis(200) };
    /// For crowds, in which each waits for many others.
    pub(crate) const CROWDED: Pace =
        Pace { slice: Duration::from_secs(1), fewest_rounds: 3, warm_up: Duration::from_millis(300) };
    /// For crowds in which one may wait for seconds: a slice ends all waits, so it hides longer ones.
    pub(crate) const STARVED: Pace =
        Pace { slice: Duration::from_secs(5), fewest_rounds: 3, warm_up: Duration::from_millis(300) };
    /// For what can't be divided.
    pub(crate) const WHOLE: Pace = Pace { slice: Duration::MAX, fewest_rounds: 1, warm_up: Duration::ZERO };
}

/// A subject goes on after its slice, to finish what it has begun, for so long at most.
const OVERTIME: Duration = Duration::from_secs(30);

/// Runs the measurements in turn until `total` is over, and returns their tallies in the same order.
pub(crate) async fn run(
    measurements: &mut [Box<dyn Measurement>],
    total: Duration,
    pace: Pace,
) -> Outcome<Vec<Tally>> {
    for measurement in measurements.iter_mut().filter(|_| !pace.warm_up.is_zero()) {
        slice(measurement.as_mut(), pace.warm_up, OVERTIME).await?;
    }
    let count = measurements.len();
    let length = pace.slice.min(total / (pace.fewest_rounds * count.max(1) as u32));
    let rounds = (total.as_secs_f64() / (length.as_secs_f64() * count as f64)).round() as usize;
    let mut tallies: Vec<Tally> = measurements.iter().map(|_| Tally::default()).collect();
    for round in 0..rounds {
        for turn in 0..count {
            // No measurement always comes right after the same other one.
            let measurement = (round + turn) % count;
            tallies[measurement].add(slice(measurements[measurement].as_mut(), length, OVERTIME).await?);
        }
    }
    Ok(tallies)
}

async fn slice(measurement: &mut dyn Measurement, length: Duration, overtime: Duration) -> Outcome<Slice> {
    match tokio::time::timeout(length + overtime, measurement.run(length)).await {
        Ok(slice) => slice,
        Err(_) => Err(format!("a subject went on for more than {overtime:?} after its slice").into()),
    }
}

/// A measurement of another library's lock. Whatever goes wrong with it is an error of its own row: the library and the
/// other subjects of the step are measured all the same.
pub(crate) struct Tolerant {
    /// Once it has failed, the text of the failure, which every later slice has again.
    measurement: Result<Box<dyn Measurement>, String>,
}

impl Tolerant {
    /// A peer goes on after its slice for so long at most: less than the rounds allow, which would end the step.
    const OVERTIME: Duration = Duration::from_secs(15);

    /// Takes a measurement, or the failure of its preparation.
    pub(crate) fn of(prepared: Outcome<Box<dyn Measurement>>) -> Tolerant {
        Tolerant { measurement: prepared.map_err(|error| error.to_string()) }
    }
}

#[async_trait]
impl Measurement for Tolerant {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let outcome = match &mut self.measurement {
            Ok(measurement) => slice(measurement.as_mut(), length, Tolerant::OVERTIME).await,
            Err(why) => Err(why.clone().into()),
        };
        outcome.or_else(|error| {
            // It may be in the middle of a hand-over or of an answer: it is not asked again.
            self.measurement = Err(error.to_string());
            Ok(Slice { errors: vec![error.to_string()], ..Slice::default() })
        })
    }

    async fn end(self: Box<Self>) -> Outcome<()> {
        match self.measurement {
            // What it fails to release expires.
            Ok(measurement) => measurement.end().await.or(Ok(())),
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Counted(Arc<AtomicU32>);

    #[async_trait]
    impl Measurement for Counted {
        async fn run(&mut self, _: Duration) -> Outcome<Slice> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Slice::default())
        }
    }

    #[tokio::test]
    async fn as_many_rounds_are_run_as_a_pace_has() {
        // The first run of a quick pace warms up.
        for (pace, subjects, each) in [(Pace::WHOLE, 1, 1), (Pace::WHOLE, 3, 1), (Pace::QUICK, 2, 5)] {
            let runs = Arc::new(AtomicU32::new(0));
            let counted = |_| Box::new(Counted(runs.clone())) as Box<dyn Measurement>;
            let mut measurements: Vec<_> = (0..subjects).map(counted).collect();
            run(&mut measurements, Duration::from_millis(400), pace).await.unwrap();
            assert_eq!(runs.load(Ordering::Relaxed), each * subjects);
        }
    }

    struct Fails;

    #[async_trait]
    impl Measurement for Fails {
        async fn run(&mut self, _: Duration) -> Outcome<Slice> {
            Err("the driver has ended".into())
        }
    }

    #[tokio::test]
    async fn a_failure_is_an_error_of_every_slice() {
        for prepared in [Ok(Box::new(Fails) as Box<dyn Measurement>), Err("the driver has ended".into())] {
            let mut tolerant = Tolerant::of(prepared);
            for _ in 0..2 {
                let slice = tolerant.run(Duration::ZERO).await.unwrap();
                assert_eq!((slice.errors, slice.rate), (vec!["the driver has ended".to_owned()], 0.0));
            }
        }
    }
}
