//! An administrator can do this on a server that only compares and sets, by the backend's own [`Registers`].

use std::time::Duration;

use lock_core::toolkit::{Call, Registers, Replaced, Row};
use lock_core::{Clock, Name};

/// All of it may take this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the server forget the holder of `name`, as [`Forget`](super::Forget) has to.
///
/// # Panics
///
/// If there is no lock with this name, or the server does not answer.
pub async fn forget_in<R: Registers>(registers: &R, name: &Name) {
    let call = Call::begin(&Clock::system(), PATIENCE);
    let connection = registers.connect(&call).await.expect("a connection");
    let key = registers.key(name);
    // The holder may renew it in between.
    while !call.is_over() {
        let last =
            registers.read(&connection, &key).await.expect("a value").last.expect("the name was locked");
        let row = Row::parse(&last.value.expect("the name was locked")).expect("the row of a lock");
        let ended = row.ended(last.stamp, R::number(&last.revision)).to_bytes();
        let replaced = registers.replace(&connection, &key, Some(&last.revision), &ended).await;
        if let Replaced::Applied { .. } = replaced.expect("an answer") {
            return;
        }
    }
    panic!("{name} was not forgotten within {PATIENCE:?}");
}
