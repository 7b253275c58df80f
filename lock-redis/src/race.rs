//! Tries several ways to one thing, so that a silent one costs little.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lock_core::toolkit::Call;

/// The longest time for which a way may be silent before the next one is tried beside it: what RFC 8305 recommends for
/// the addresses of one host.
const LONGEST_HEAD_START: Duration = Duration::from_millis(250);

/// The time from a failure until a way is tried again, while another one is silent: it may lead to the thing by now.
pub(crate) const LOOK_AGAIN: Duration = LONGEST_HEAD_START;

/// Tries these ways in this order and returns what the first that succeeds has led to. The next one begins when one has
/// failed, or when all that have begun were silent for a moment; those go on beside it.
///
/// If each has failed, or none has succeeded within the call, returns how; `None` for one that was silent to the end.
pub(crate) async fn first<T, E, F>(
    call: &Call,
    ways: &[usize],
    go: impl Fn(usize) -> F,
) -> Result<(usize, T), Vec<(usize, Option<E>)>>
where
    F: Future<Output = Result<T, E>>,
{
    let head_start = head_start(call.left(), ways.len());
    let mut failures: Vec<(usize, Option<E>)> = ways.iter().map(|way| (*way, None)).collect();
    let (mut waiting, mut begun) = (ways.iter().enumerate(), FuturesUnordered::new());
    let mut over = pin!(call.clock().sleep_until(call.ends()));
    let begin = |place, way, pause| {
        let (go, clock) = (&go, call.clock());
        async move {
            clock.sleep(pause).await;
            (place, way, go(way).await)
        }
    };
    loop {
        if let Some((place, &way)) = waiting.next() {
            begun.push(begin(place, way, Duration::ZERO));
        }
        tokio::select! {
            biased;
            Some((place, way, outcome)) = begun.next() => match outcome {
                Ok(there) => return Ok((way, there)),
                Err(e) => {
                    failures[place].1 = Some(e);
                    if failures.iter().all(|(_, failure)| failure.is_some()) {
                        return Err(failures);
                    }
                    begun.push(begin(place, way, LOOK_AGAIN));
                }
            },
            () = &mut over => return Err(failures),
            () = call.clock().sleep(head_start), if waiting.len() > 0 => {}
        }
    }
}

/// All ways together have half of the time to begin.
fn head_start(left: Duration, ways: usize) -> Duration {
    let ways = u32::try_from(ways).unwrap_or(u32::MAX).max(1);
    (left / ways / 2).min(LONGEST_HEAD_START)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use lock_core::Clock;

    use super::*;

    fn begin(patience: Duration) -> Call {
        Call::begin(&Clock::tokio(), patience)
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Each way takes so long, and leads to its own number or nowhere.
    async fn run(
        call: &Call,
        ways: &[(Duration, bool)],
    ) -> (Result<usize, Vec<(usize, Option<usize>)>>, Vec<(usize, Duration)>) {
        let (clock, began) = (call.clock().clone(), call.began());
        let begun = Mutex::new(Vec::new());
        let order: Vec<usize> = (0..ways.len()).collect();
        let outcome = first(call, &order, |way| {
            begun.lock().unwrap().push((way, clock.now().since(began)));
            let clock = clock.clone();
            async move {
                clock.sleep(ways[way].0).await;
                if ways[way].1 { Ok(way) } else { Err(way) }
            }
        });
        let outcome = outcome.await.map(|(way, there)| {
            assert_eq!(way, there);
            there
        });
        (outcome, begun.into_inner().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn the_race_ends_with_the_first_success() {
        let call = begin(ms(1000));
        let (outcome, begun) = run(&call, &[(ms(10), true), (ms(0), true)]).await;
        assert_eq!((outcome, begun), (Ok(0), vec![(0, ms(0))]));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_failed_is_followed_at_once() {
        let call = begin(ms(1000));
        let (outcome, begun) = run(&call, &[(ms(10), false), (ms(20), false), (ms(0), true)]).await;
        assert_eq!((outcome, begun), (Ok(2), vec![(0, ms(0)), (1, ms(10)), (2, ms(30))]));
        assert_eq!(call.left(), ms(970));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_servers_cost_half_the_time_and_continue() {
        let call = begin(ms(600));
        let silent = (ms(10_000), true);
        let (outcome, begun) = run(&call, &[silent, silent, (ms(50), true)]).await;
        assert_eq!((outcome, begun), (Ok(2), vec![(0, ms(0)), (1, ms(100)), (2, ms(200))]));
        let call = begin(ms(600));
        let (outcome, _) = run(&call, &[(ms(150), true), silent, silent]).await;
        assert_eq!((outcome, call.left()), (Ok(0), ms(450)), "it was slow, and was not given up");
        let call = begin(ms(60_000));
        let (_, begun) = run(&call, &[silent, (ms(0), true)]).await;
        assert_eq!(begun[1], (1, ms(250)));
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_is_told_and_who_was_silent() {
        let call = begin(ms(500));
        let (outcome, _) = run(&call, &[(ms(10), false), (ms(10_000), true), (ms(20), false)]).await;
        assert_eq!(outcome, Err(vec![(0, Some(0)), (1, None), (2, Some(2))]));
        assert!(call.is_over());
        let call = begin(ms(500));
        let (outcome, begun) = run(&call, &[(ms(10_000), true), (ms(10), false)]).await;
        assert_eq!(outcome, Err(vec![(0, None), (1, Some(1))]));
        assert_eq!(begun[1..], [(1, ms(125)), (1, ms(385))], "it may lead there by now");
        let call = begin(ms(500));
        let (outcome, _) = run(&call, &[(ms(10), false)]).await;
        assert_eq!((outcome, call.left()), (Err(vec![(0, Some(0))]), ms(490)));
    }
}
