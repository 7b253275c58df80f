//! `names`: names that are each used once, one after the other. It measures whether the later ones cost more, and what
//! the server keeps of them.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::Outcome;
use crate::left::{Kept, Left};
use crate::rounds::Measurement;
use crate::subjects::Subject;
use crate::tally::Slice;

/// In how many rounds the names are used.
pub(crate) const ROUNDS: u32 = 5;
/// From how many names in a round on bytes mean something: servers count them in pages.
const MANY: usize = 200;

/// The names of one subject.
pub(crate) struct Names {
    subject: Box<dyn Subject>,
    /// What every name begins with.
    prefix: String,
    used: usize,
    /// How many are used in each round.
    each: usize,
    left: Left,
}

impl Names {
    /// Prepares so many names, all rounds together.
    pub(crate) async fn new(
        subject: Box<dyn Subject>,
        prefix: String,
        names: usize,
        left: Left,
    ) -> Outcome<Names> {
        // A floor may have to record what the library sends, and a first use may make a table.
        subject.use_once(&format!("{prefix}:first")).await?;
        Ok(Names { subject, prefix, used: 0, each: names.div_ceil(ROUNDS as usize), left })
    }
}

#[async_trait]
impl Measurement for Names {
    /// Uses the names of one round, however long that takes.
    async fn run(&mut self, _: Duration) -> Outcome<Slice> {
        let (mut slice, before, start) = (Slice::default(), self.left.read().await, Instant::now());
        for n in self.used..self.used + self.each {
            let began = Instant::now();
            match self.subject.use_once(&format!("{}:{n}", self.prefix)).await {
                Ok(()) => slice.record(began.elapsed()),
                Err(error) => slice.errors.push(error.to_string()),
            }
        }
        slice.rate = slice.latencies.len() as f64 / start.elapsed().as_secs_f64();
        self.used += self.each;
        slice.extra = of_each(before, self.left.read().await, self.each);
        Ok(slice)
    }
}

/// Returns what the server keeps of each name since `before`. It is negative if the server has removed more than came.
fn of_each(before: Kept, after: Kept, names: usize) -> Vec<(&'static str, f64)> {
    let grown =
        |before: Option<u64>, after: Option<u64>| Some((after? as f64 - before? as f64) / names as f64);
    let things = grown(before.things, after.things).map(|things| ("left_per_name", things));
    let bytes = grown(before.bytes, after.bytes).filter(|_| names >= MANY);
    things.into_iter().chain(bytes.map(|bytes| ("bytes_per_name", bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::subjects::Kind;

    #[test]
    fn what_is_left_is_divided_by_the_names() {
        let kept = |things, bytes| Kept { things, bytes };
        let few = of_each(kept(Some(3), Some(0)), kept(Some(5), Some(8192)), 2);
        assert_eq!(few, [("left_per_name", 1.0)], "a page is not what two names take");
        let many = of_each(kept(Some(100), Some(1_000)), kept(Some(0), Some(21_000)), 200);
        assert_eq!(many, [("left_per_name", -0.5), ("bytes_per_name", 100.0)]);
        assert_eq!(of_each(kept(None, None), kept(Some(5), None), 200), []);
    }

    #[tokio::test]
    async fn every_name_is_used_once() {
        let subject = Kind::Ours.connect("memory://").await.unwrap();
        let left = Left::of(Backend::Memory, "memory://").await.unwrap();
        let mut names = Names::new(subject, "lock-bench:names".to_owned(), 10, left).await.unwrap();
        for round in 1..=ROUNDS as usize {
            let slice = names.run(Duration::ZERO).await.unwrap();
            assert_eq!((slice.latencies.len(), slice.errors.len(), names.used), (2, 0, 2 * round));
            assert!(slice.rate > 0.0);
        }
    }
}
