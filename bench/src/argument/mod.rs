//! The documents' argument about Redlock, played on five real servers with the algorithm as Redis' manual describes it,
//! and with the library.

pub(crate) mod scene;
pub(crate) mod stories;

use lock_naive::Scheme;

use self::scene::RoundResult;
use self::stories::{STORIES, Story};
use crate::Outcome;
use crate::args::Argue;
use crate::backend::Backend;
use crate::claims::Of;

/// The algorithm as Redis' manual describes it, and the library.
const ALGORITHMS: [(Of, &str); 2] = [
    (Of::Scheme(Scheme::Redlock, Backend::Redlock), "as written"),
    (Of::Ours(Backend::Redlock), "lock-redlock"),
];

/// Plays every story as often as asked with each algorithm, and prints a table.
pub(crate) async fn run(options: Argue) -> Outcome<()> {
    println!("| what goes wrong | with | rounds | granted | two held it | stale writes | of these taken |");
    println!("|---|---|---|---|---|---|---|");
    for story in STORIES {
        let [written, ours] = ALGORITHMS.map(|(algorithm, _)| rounds(story, algorithm, options.rounds));
        let (written, ours) = tokio::try_join!(written, ours)?;
        for ((_, name), results) in ALGORITHMS.iter().zip([written, ours]) {
            let count = |is: fn(&RoundResult) -> bool| results.iter().filter(|result| is(result)).count();
            println!(
                "| {} | {name} | {} | {} | {} | {} | {} |",
                story.name(),
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

async fn rounds(story: Story, algorithm: Of, rounds: u32) -> Outcome<Vec<RoundResult>> {
    let mut results = Vec::new();
    for _ in 0..rounds {
        results.push(story.play(algorithm).await.map_err(|e| format!("{}: {e}", story.name()))?);
    }
    Ok(results)
}
