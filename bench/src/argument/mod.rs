//! The documents' argument about Redlock on five real servers: what goes wrong, and what harm it does to the algorithm
//! as Redis' manual describes it and to the library.

pub(crate) mod scene;
mod stories;

use std::collections::BTreeMap;

use self::scene::{Algorithm, RoundResult};
use self::stories::STORIES;
use crate::Outcome;
use crate::args::Argue;

/// Plays every story as often as asked with each algorithm, and prints a table.
pub(crate) async fn run(options: Argue) -> Outcome<()> {
    println!("| what goes wrong | with | rounds | granted | two held it | stale writes | of these taken |");
    println!("|---|---|---|---|---|---|---|");
    for story in STORIES {
        for algorithm in [Algorithm::AsWritten, Algorithm::Ours] {
            let mut results = BTreeMap::new();
            for _ in 0..options.rounds {
                let one = story.play(algorithm).await.map_err(|e| format!("{}: {e}", story.name()))?;
                *results.entry(one).or_insert(0_u32) += 1;
            }
            let count = |is: fn(&RoundResult) -> bool| -> u32 {
                results.iter().filter(|(result, _)| is(result)).map(|(_, count)| *count).sum()
            };
            println!(
                "| {} | {} | {} | {} | {} | {} | {} |",
                story.name(),
                algorithm.as_str(),
                options.rounds,
                count(|result| result.granted),
                count(|result| result.two_held),
                count(|result| result.stale),
                count(|result| result.taken)
            );
        }
    }
    Ok(())
}
