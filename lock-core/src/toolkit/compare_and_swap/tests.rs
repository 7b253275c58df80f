//! Compare and swap on a register in memory, over a network with faults, in virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::*;
use crate::clock::Clock;
use crate::error::ErrorKind;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The time that a request takes to the server, and an answer back.
const TRIP: Duration = ms(5);
const PATIENCE: Duration = ms(800);

/// A fault of a request. One without a fault is done and answered.
enum Fault {
    /// Another client writes this before the request arrives.
    After(&'static str),
    /// The write is done, the connection breaks, and another client writes this if it is some.
    AnswerLost(Option<&'static str>),
    /// The write is done, and no answer comes.
    Silence,
    /// The connection breaks. The request arrives so much later.
    Late(Duration),
    /// The server can't do it.
    Failed,
    /// A look shows what was there before the last write.
    Stale,
}

#[derive(Default)]
struct State {
    value: Option<Vec<u8>>,
    revision: u64,
    before: (Option<Vec<u8>>, u64),
    looks: VecDeque<Option<Fault>>,
    swaps: VecDeque<Option<Fault>>,
    asked: Vec<&'static str>,
}

impl State {
    fn seen(&self) -> (Option<Vec<u8>>, u64) {
        (self.value.clone(), self.revision)
    }

    fn write(&mut self, value: &[u8]) {
        self.before = self.seen();
        self.value = Some(value.to_vec());
        self.revision += 1;
    }

    fn swap(&mut self, expected: u64, value: &[u8]) -> Swapped<u64> {
        if self.revision != expected {
            return Swapped::Refused;
        }
        self.write(value);
        Swapped::Applied(self.revision)
    }
}

/// A register with its server and the network before it. A clone is the same register.
#[derive(Clone)]
struct Memory {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

impl Memory {
    fn new() -> Memory {
        Memory { clock: Clock::tokio(), state: Arc::default() }
    }

    /// Lets these things happen to the swaps, one after the other.
    fn with_swaps<const N: usize>(self, faults: [Option<Fault>; N]) -> Memory {
        self.state().swaps.extend(faults);
        self
    }

    fn with_looks<const N: usize>(self, faults: [Option<Fault>; N]) -> Memory {
        self.state().looks.extend(faults);
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under it")
    }

    fn call(&self) -> Call {
        Call::begin(&self.clock, PATIENCE)
    }

    /// Writes `a` if the register is free (no value, or `-`), and otherwise leaves it.
    async fn acquire(&self) -> Result<Settled<u64, String>> {
        compare_and_swap(&self.call(), self, Start::Look, |value, _| {
            Ok(match text(value).as_str() {
                "" | "-" => Decision::Write(b"a".to_vec()),
                other => Decision::Leave(other.to_owned()),
            })
        })
        .await
    }

    fn asked(&self) -> Vec<&'static str> {
        self.state().asked.clone()
    }

    /// Renews, at first from the known revision.
    async fn renew_known(&self, revision: u64) -> Result<Settled<u64, String>> {
        let known = Start::Known { value: b"a".to_vec(), revision };
        compare_and_swap(&self.call(), self, known, only_a).await
    }

    /// Frees the register if `a` is in it.
    async fn release(&self, start: Start<u64>) -> Result<Settled<u64, String>> {
        compare_and_release(&self.call(), self, start, |value, _| {
            Ok(match text(value).as_str() {
                "a" => Decision::Write(b"-".to_vec()),
                other => Decision::Leave(other.to_owned()),
            })
        })
        .await
    }
}

/// Writes `a` once more if it is there, and otherwise leaves the register.
fn only_a(value: Option<&[u8]>, _: &u64) -> Result<Decision<String>> {
    Ok(match text(value).as_str() {
        "a" => Decision::Write(b"a".to_vec()),
        other => Decision::Leave(other.to_owned()),
    })
}

impl Register for Memory {
    type Revision = u64;

    async fn look(&self, _: &Call) -> Result<(Option<Vec<u8>>, u64)> {
        let fault = {
            let mut state = self.state();
            state.asked.push("look");
            state.looks.pop_front().flatten()
        };
        self.clock.sleep(TRIP).await;
        let (seen, before) = {
            let state = self.state();
            (state.seen(), state.before.clone())
        };
        match fault {
            Some(Fault::Stale) => return Ok(before),
            Some(Fault::Silence) => std::future::pending().await,
            Some(_) => return Err(broken()),
            None => {}
        }
        self.clock.sleep(TRIP).await;
        Ok(seen)
    }

    async fn swap(&self, _: &Call, expected: &u64, value: &[u8]) -> Result<Swapped<u64>> {
        let fault = {
            let mut state = self.state();
            state.asked.push("swap");
            state.swaps.pop_front().flatten()
        };
        self.clock.sleep(TRIP).await;
        match fault {
            Some(Fault::Late(by)) => {
                let (memory, expected, value) = (self.clone(), *expected, value.to_vec());
                tokio::spawn(async move {
                    memory.clock.sleep(by).await;
                    memory.state().swap(expected, &value)
                });
                return Err(broken());
            }
            Some(Fault::Failed) => return Err(Error::unavailable(Effect::NotApplied, "no leader")),
            Some(Fault::After(value)) => self.state().write(value.as_bytes()),
            _ => {}
        }
        let answer = self.state().swap(*expected, value);
        match fault {
            Some(Fault::AnswerLost(then)) => {
                then.into_iter().for_each(|value| self.state().write(value.as_bytes()));
                return Err(broken());
            }
            Some(Fault::Silence) => std::future::pending().await,
            _ => {}
        }
        self.clock.sleep(TRIP).await;
        Ok(answer)
    }
}

fn broken() -> Error {
    Error::unavailable(Effect::Unknown, "the connection broke")
}

fn text(value: Option<&[u8]>) -> String {
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

fn written(revision: u64) -> Settled<u64, String> {
    Settled::Written { value: b"a".to_vec(), revision }
}

fn freed(revision: u64) -> Settled<u64, String> {
    Settled::Written { value: b"-".to_vec(), revision }
}

fn left(why: &str) -> Settled<u64, String> {
    Settled::Left(why.to_owned())
}

fn effect(outcome: Result<Settled<u64, String>>) -> Effect {
    match outcome.expect_err("it fails").kind() {
        ErrorKind::Unavailable { effect } => effect,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_writes_only_free_registers() {
    let memory = Memory::new();
    assert_eq!(memory.acquire().await.unwrap(), written(1));
    assert_eq!(memory.asked(), ["look", "swap"]);
    assert_eq!(memory.acquire().await.unwrap(), left("a"));
    assert_eq!(memory.asked(), ["look", "swap", "look"]);
    assert_eq!(memory.clock.now().since_origin(), TRIP * 6, "it waits for answers alone");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_came_first_is_looked_at() {
    let memory = Memory::new().with_swaps([Some(Fault::After("b"))]);
    assert_eq!(memory.acquire().await.unwrap(), left("b"));
    let memory = Memory::new().with_swaps([Some(Fault::After("-"))]);
    assert_eq!(memory.acquire().await.unwrap(), written(2));
    assert_eq!(memory.asked(), ["look", "swap", "look", "swap"]);
}

#[tokio::test(start_paused = true)]
async fn no_write_of_many_clients_is_lost() {
    let memory = Memory::new();
    let clients = (0..8).map(|client| {
        let memory = memory.clone();
        tokio::spawn(async move {
            for _ in 0..5 {
                let call = Call::begin(&memory.clock, Duration::from_secs(60));
                let outcome = compare_and_swap(&call, &memory, Start::Look, |value, _| {
                    let count =
                        text(value).split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
                    Ok(Decision::<()>::Write(format!("{} {client}", count + 1).into_bytes()))
                });
                assert!(matches!(outcome.await.unwrap(), Settled::Written { .. }));
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let state = memory.state();
    assert!(text(state.value.as_deref()).starts_with("40 "), "{:?}", text(state.value.as_deref()));
    assert_eq!(state.revision, 40);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_recognised() {
    let memory = Memory::new().with_swaps([Some(Fault::AnswerLost(None))]);
    assert_eq!(memory.acquire().await.unwrap(), written(1));
    assert_eq!(memory.asked(), ["look", "swap", "look"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_recognises_its_unanswered_write() {
    let memory = Memory::new().with_swaps([Some(Fault::Silence)]);
    assert_eq!(memory.acquire().await.unwrap(), written(1));
    let took = memory.clock.now().since_origin();
    assert_eq!(took, PATIENCE - PATIENCE / 8 + TRIP * 2, "the swap waits for seven eighths of the time");
}

#[tokio::test(start_paused = true)]
async fn the_value_replacing_an_unanswered_write_is_decided_on() {
    let memory = Memory::new().with_swaps([Some(Fault::AnswerLost(Some("b")))]);
    assert_eq!(memory.acquire().await.unwrap(), left("b"));
    let memory = Memory::new().with_swaps([Some(Fault::AnswerLost(Some("-")))]);
    assert_eq!(memory.acquire().await.unwrap(), written(3));
}

#[tokio::test(start_paused = true)]
async fn a_write_in_flight_has_unknown_effect() {
    let memory = Memory::new().with_swaps([Some(Fault::Late(ms(2000)))]);
    assert_eq!(effect(memory.acquire().await), Effect::Unknown);
    assert_eq!(memory.asked(), ["look", "swap", "look"], "it does not write once more");
    assert!(memory.call().ends().since_origin() < ms(2000));
    memory.clock.sleep(ms(2000)).await;
    assert_eq!(text(memory.state().value.as_deref()), "a", "it has arrived after the call");
}

#[tokio::test(start_paused = true)]
async fn a_late_write_after_another_is_refused() {
    let memory = Memory::new().with_swaps([Some(Fault::Late(ms(100)))]);
    let other = memory.clone();
    tokio::spawn(async move {
        other.clock.sleep(TRIP * 3 + ms(1)).await;
        other.state().write(b"-");
    });
    assert_eq!(memory.acquire().await.unwrap(), written(2));
    memory.clock.sleep(ms(200)).await;
    assert_eq!(memory.state().revision, 2, "the first swap was refused");
}

#[tokio::test(start_paused = true)]
async fn a_no_op_write_differs_from_a_missing_one() {
    let renew = async |memory: &Memory| {
        let same = |_: Option<&[u8]>, _: &u64| Ok(Decision::<String>::Write(b"a".to_vec()));
        compare_and_swap(&memory.call(), memory, Start::Look, same).await
    };
    let memory = Memory::new().with_swaps([None, Some(Fault::AnswerLost(None)), Some(Fault::Late(ms(100)))]);
    assert_eq!(renew(&memory).await.unwrap(), written(1));
    assert_eq!(renew(&memory).await.unwrap(), written(2));
    assert_eq!(effect(renew(&memory).await), Effect::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_failed_look_reports_the_earlier_writes_effect() {
    let memory = Memory::new().with_looks([Some(Fault::Failed)]);
    assert_eq!(effect(memory.acquire().await), Effect::NotApplied);
    let memory = Memory::new().with_looks([Some(Fault::Silence)]);
    assert_eq!(effect(memory.acquire().await), Effect::NotApplied);
    assert_eq!(memory.clock.now().since_origin(), PATIENCE);
    let broken = Memory::new().with_looks([None, Some(Fault::Failed)]);
    assert_eq!(effect(broken.with_swaps([Some(Fault::AnswerLost(None))]).acquire().await), Effect::Unknown);
    let refused = Memory::new().with_looks([None, Some(Fault::Failed)]);
    assert_eq!(effect(refused.with_swaps([Some(Fault::After("b"))]).acquire().await), Effect::NotApplied);
}

#[tokio::test(start_paused = true)]
async fn server_and_decision_errors_end_the_call() {
    let memory = Memory::new().with_swaps([Some(Fault::Failed)]);
    assert_eq!(effect(memory.acquire().await), Effect::NotApplied);
    assert_eq!(memory.asked(), ["look", "swap"]);
    let refuse = |_: Option<&[u8]>, _: &u64| Err::<Decision<()>, _>(Error::rejected("no lock's row"));
    let error = compare_and_swap(&memory.call(), &memory, Start::Look, refuse).await.unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Rejected, "no lock's row"));
}

#[tokio::test(start_paused = true)]
async fn a_stale_look_is_an_error_without_loop() {
    let memory = Memory::new().with_swaps([Some(Fault::After("b"))]).with_looks([None, Some(Fault::Stale)]);
    assert_eq!(effect(memory.acquire().await), Effect::NotApplied);
    assert_eq!(memory.asked(), ["look", "swap", "look"]);
}

#[tokio::test(start_paused = true)]
async fn a_contended_call_ends_in_time_without_writing() {
    let others = std::array::from_fn::<_, 200, _>(|_| Some(Fault::After("-")));
    let memory = Memory::new().with_swaps(others);
    assert_eq!(effect(memory.acquire().await), Effect::NotApplied);
    assert!(memory.clock.now().since_origin() <= PATIENCE);
    assert_eq!(memory.asked().last(), Some(&"look"), "no swap is sent in the last eighth");
    assert_eq!(text(memory.state().value.as_deref()), "-");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_saves_the_look() {
    let memory = Memory::new();
    memory.state().write(b"a");
    assert_eq!(memory.renew_known(1).await.unwrap(), written(2));
    assert_eq!(memory.asked(), ["swap"]);
    assert_eq!(memory.release(Start::Known { value: b"a".to_vec(), revision: 2 }).await.unwrap(), freed(3));
    assert_eq!(memory.asked(), ["swap", "swap"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_and_was_replaced_is_looked_at() {
    let memory = Memory::new();
    memory.state().write(b"a");
    memory.state().write(b"b");
    assert_eq!(memory.renew_known(1).await.unwrap(), left("b"));
    assert_eq!(memory.asked(), ["swap", "look"]);
    let memory = Memory::new();
    memory.state().write(b"a");
    memory.state().write(b"a");
    assert_eq!(memory.renew_known(1).await.unwrap(), written(2), "it is what it would have written");
    assert_eq!(memory.asked(), ["swap", "look"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_is_no_reason_to_leave_it() {
    let memory = Memory::new();
    memory.state().write(b"a");
    let known = Start::Known { value: b"b".to_vec(), revision: 0 };
    assert_eq!(compare_and_swap(&memory.call(), &memory, known, only_a).await.unwrap(), written(2));
    assert_eq!(memory.asked(), ["look", "swap"]);
}

#[tokio::test(start_paused = true)]
async fn a_known_write_is_recognised_without_its_answer() {
    let memory = Memory::new().with_swaps([Some(Fault::AnswerLost(None)), Some(Fault::Late(ms(2000)))]);
    memory.state().write(b"a");
    assert_eq!(memory.renew_known(1).await.unwrap(), written(2));
    assert_eq!(memory.asked(), ["swap", "look"]);
    assert_eq!(effect(memory.renew_known(2).await), Effect::Unknown);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_release_errs_and_the_next_finds_nothing() {
    let memory = Memory::new().with_swaps([Some(Fault::AnswerLost(None))]);
    memory.state().write(b"a");
    assert_eq!(effect(memory.release(Start::Look).await), Effect::Unknown);
    assert_eq!(memory.asked(), ["look", "swap"], "it does not look what became of it");
    assert_eq!(memory.release(Start::Look).await.unwrap(), left("-"));
    let memory = Memory::new().with_swaps([Some(Fault::Silence)]);
    memory.state().write(b"a");
    assert_eq!(effect(memory.release(Start::Look).await), Effect::Unknown);
    assert_eq!(memory.clock.now().since_origin(), PATIENCE, "no time is kept for a look");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_refused_looks_again() {
    let memory = Memory::new().with_swaps([Some(Fault::After("b")), Some(Fault::After("a"))]);
    memory.state().write(b"a");
    assert_eq!(memory.release(Start::Look).await.unwrap(), left("b"));
    memory.state().write(b"a");
    assert_eq!(memory.release(Start::Look).await.unwrap(), freed(5));
    assert_eq!(memory.asked(), ["look", "swap", "look", "look", "swap", "look", "swap"]);
}
