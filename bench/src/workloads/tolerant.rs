//! A measurement of another library's lock. Whatever goes wrong with it is an error of its own row: the library and the
//! other subjects of the step are measured all the same.

use std::time::Duration;

use async_trait::async_trait;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::tally::Slice;

/// A peer goes on after its slice for so long at most: less than the rounds allow, which would end the step.
const OVERTIME: Duration = Duration::from_secs(15);

/// A measurement that never fails.
pub(crate) struct Tolerant {
    /// Once it has failed, the text of the failure, which every later slice has again.
    measurement: Result<Box<dyn Measurement>, String>,
}

impl Tolerant {
    /// Takes a measurement, or the failure of its preparation.
    pub(crate) fn of(prepared: Outcome<Box<dyn Measurement>>) -> Tolerant {
        Tolerant { measurement: prepared.map_err(|error| error.to_string()) }
    }

    async fn measure(&mut self, length: Duration) -> Result<Slice, String> {
        let measurement = self.measurement.as_mut().map_err(|why| why.clone())?;
        match tokio::time::timeout(length + OVERTIME, measurement.run(length)).await {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it went on for more than {OVERTIME:?} after its slice")),
        }
    }
}

#[async_trait]
impl Measurement for Tolerant {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        match self.measure(length).await {
            Ok(slice) => Ok(slice),
            Err(why) => {
                // It may be in the middle of a hand-over or of an answer: it is not asked again.
                self.measurement = Err(why.clone());
                Ok(Slice { errors: vec![why], ..Slice::default() })
            }
        }
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
    use super::*;

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
