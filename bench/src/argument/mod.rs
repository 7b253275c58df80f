//! The documents' argument about Redlock on five real servers: what goes wrong, and what harm it does to the algorithm
//! as Redis' manual describes it and to the library.

mod plain;
mod scene;
mod stories;

use std::collections::BTreeMap;

use self::scene::{Came, Player};
use self::stories::STORIES;
use crate::Outcome;
use crate::args::Argue;

/// Plays every story as often as asked with each player, and prints a table.
pub(crate) async fn run(options: Argue) -> Outcome<()> {
    println!("| what goes wrong | with | rounds | granted | two held it | stale writes | of these taken |");
    println!("|---|---|---|---|---|---|---|");
    for story in STORIES {
        for player in [Player::AsWritten, Player::Ours] {
            let mut came = BTreeMap::new();
            for _ in 0..options.rounds {
                let one = story.play(player).await.map_err(|e| format!("{}: {e}", story.name()))?;
                *came.entry(one).or_insert(0_u32) += 1;
            }
            let count = |is: fn(&Came) -> bool| -> u32 {
                came.iter().filter(|(came, _)| is(came)).map(|(_, count)| *count).sum()
            };
            println!(
                "| {} | {} | {} | {} | {} | {} | {} |",
                story.name(),
                player.as_str(),
                options.rounds,
                count(|came| came.granted),
                count(|came| came.two_held),
                count(|came| came.stale),
                count(|came| came.taken)
            );
        }
    }
    Ok(())
}
