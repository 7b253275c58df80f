//! Connects to the server: one try, or tries until the wait is over.

use std::time::Duration;

use onelock::{Client, Clock, Instant, Options};

use super::Notice;
use crate::exit::{Exit, Failure};

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(250);
/// The server has at least this long for its first answer, however short the wait is.
const FIRST_ANSWER: Duration = Duration::from_millis(100);

/// Opens a client of the server: with one try, or with tries until `give_up`.
pub(super) async fn reach(
    url: &str,
    options: &Options,
    give_up: Option<Instant>,
    clock: &Clock,
    notice: &Notice,
) -> Result<Client, Failure> {
    let mut told = notice.of_outage(clock);
    loop {
        let attempt = onelock::connect_with(url, options.clone());
        let Some(give_up) = give_up else { return Ok(attempt.await?) };
        let limit = give_up.since(clock.now()).max(FIRST_ANSWER);
        let error = match clock.timeout(limit, attempt).await {
            Some(Err(e)) if e.is_transient() => e.to_string(),
            Some(outcome) => return Ok(outcome?),
            None => "it does not answer".to_owned(),
        };
        if clock.now() + PAUSE >= give_up {
            let what = format!("the server could not be reached within the wait: {error}");
            return Err(Failure::new(Exit::Unavailable, what));
        }
        told.tell(&error);
        clock.sleep(PAUSE).await;
    }
}
