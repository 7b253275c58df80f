//! Reaching the server: at once or not at all, or for as long as one waits.

use std::time::Duration;

use onelock::{Client, Clock, Instant, Options};

use crate::exit::{Exit, Failure};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(250);
/// However short the wait is, the server has this long for its first answer.
const FIRST_ANSWER: Duration = Duration::from_millis(100);

/// Opens the server: at once or not at all, or until `give_up`.
pub(super) async fn reach(
    url: &str,
    options: &Options,
    give_up: Option<Instant>,
    clock: &Clock,
) -> Result<Client, Failure> {
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
            let what = format!("the server was not reachable within the wait: {error}");
            return Err(Failure::new(Exit::Unavailable, what));
        }
        clock.sleep(PAUSE).await;
    }
}
