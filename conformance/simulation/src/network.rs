//! The network between the servers and their clients. It loses, delays and doubles messages, and messages overtake each
//! other.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lock_memory::server::Server;
use lock_memory::wire::{Inbox, Pushed, Reply, Wire};
use tokio::sync::oneshot;

use super::families::{Family, RequestKind};
use super::faults::Kind;
use super::log::{Fate, What};
use super::rules::WakesBy;
use super::setting::{IN_TIME, SERVER, TTL_MICROS};
use super::tally::Occurrence;
use super::timeline::{Machine, Micros};
use super::world::{State, World};

/// The request that an answer belongs to. Both copies of a doubled request share it: the first answer counts.
pub(super) type Answered<S> = Arc<Mutex<Question<<S as Server>::Answer>>>;

/// A request that may have been answered already.
pub(super) struct Question<A> {
    asked: Micros,
    asker: Option<oneshot::Sender<Reply<A>>>,
}

/// The kinds of messages that the network treats differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    /// A renewal or a heartbeat.
    Proof,
    /// The answer to a renewal or a heartbeat, or a grant: a client computes its deadline from it.
    Proven,
    /// A message that is sent once, and is neither a request that expects an answer nor an answer.
    News,
    Other,
}

/// An answer that arrives this much later than its question, or more, counts as late: a client must not count its
/// deadline from the arrival.
const LATE_PROOF: Micros = 20_000;
impl<S: Family> World<S> {
    /// Returns one client's end of the network.
    pub(super) fn end(self: &Arc<Self>, machine: Machine) -> Arc<dyn Wire<S>> {
        Arc::new(End { world: self.clone(), machine })
    }

    /// Returns when each copy of a message arrives that is sent now between a server and a machine.
    fn travel(
        &self,
        (server, machine): (usize, Machine),
        message_kind: MessageKind,
    ) -> impl Iterator<Item = Micros> + use<S> {
        let now = self.timeline.now();
        let mut state = self.state();
        let delays = match state.is_lost(server, machine, message_kind) {
            true => [None, None],
            false if state.is_last_word(machine, message_kind) => {
                state.silenced.push(machine);
                state.tally.count(Occurrence::LastWord);
                [Some(state.dice.within(30_000, 90_000)), None]
            }
            false => state.delays(machine, message_kind),
        };
        drop(state);
        let arrives = delays.map(|delay| delay.map(|delay| now + delay));
        self.misses((server, machine), message_kind, arrives);
        arrives.into_iter().flatten()
    }

    /// Logs what the checker has to know of a message that is lost, late or doubled.
    fn misses(
        &self,
        (server, client): (usize, Machine),
        message_kind: MessageKind,
        arrives: [Option<Micros>; 2],
    ) {
        let tells = |fate| self.log.write(What::Missed { client, server, fate });
        match arrives[0] {
            None if message_kind == MessageKind::News => tells(Fate::NewsLost),
            None => tells(Fate::Lost),
            Some(until) if until > self.timeline.now() + IN_TIME => tells(Fate::Late(until)),
            Some(_) => {}
        }
        arrives[1].into_iter().for_each(|until| tells(Fate::Twice(until)));
    }

    fn send(self: &Arc<Self>, from: Machine, request: &S::Request, answered: Option<&Answered<S>>) {
        if self.timeline.is_killed(from) {
            return;
        }
        let (place, request_kind) = (S::place(request), S::request_kind(request));
        let message_kind = match answered {
            None => MessageKind::News,
            Some(_) if is_proof(&request_kind) => MessageKind::Proof,
            Some(_) => MessageKind::Other,
        };
        for at in self.travel((place, from), message_kind) {
            let (world, request, request_kind, answered) =
                (self.clone(), request.clone(), request_kind.clone(), answered.cloned());
            self.timeline
                .at(at, Some(SERVER + place), move || world.arrive(from, request, &request_kind, answered));
        }
    }

    pub(super) fn answer(
        self: &Arc<Self>,
        (from, to): (usize, Machine),
        reply: &Reply<S::Answer>,
        request_kind: &RequestKind,
        answered: &Answered<S>,
    ) {
        let proven = is_proof(request_kind) || S::is_grant(&reply.answer);
        for at in self.travel((from, to), if proven { MessageKind::Proven } else { MessageKind::Other }) {
            let (world, reply, answered) = (self.clone(), reply.clone(), answered.clone());
            self.timeline.at(at, Some(to), move || {
                let mut question = answered.lock().unwrap_or_else(PoisonError::into_inner);
                let late = world.timeline.now() - question.asked > LATE_PROOF;
                // The client may have stopped waiting.
                let heard = question.asker.take().is_some_and(|asker| asker.send(reply).is_ok());
                if proven && late && heard {
                    world.state().tally.count(Occurrence::LateProof);
                }
            });
        }
    }

    pub(super) fn push(self: &Arc<Self>, from: usize, to: Machine, pushed: Pushed<S::Push>) {
        // What ends at a server that stands still, it tells when it goes on.
        if self.timeline.is_stopped(SERVER + from) {
            let world = self.clone();
            let tell = move || world.push(from, to, pushed);
            return self.timeline.at(self.timeline.now(), Some(SERVER + from), tell);
        }
        let Some(inbox) = self.state().inboxes[to].clone() else { return };
        for at in self.travel((from, to), MessageKind::News) {
            let (inbox, pushed) = (inbox.clone(), pushed.clone());
            self.timeline.at(at, Some(to), move || inbox(pushed));
        }
    }
}

fn is_proof(request_kind: &RequestKind) -> bool {
    matches!(request_kind, RequestKind::Proof)
}

impl<S: Server> State<S> {
    fn is_on(&self, kind: Kind) -> bool {
        self.faults.iter().any(|fault| fault.kind == kind)
    }

    fn is_lost(&mut self, server: usize, machine: Machine, message_kind: MessageKind) -> bool {
        let lost = if self.is_on(Kind::Partition(machine)) || self.silenced.contains(&machine) {
            Occurrence::CutOff
        } else if self.is_on(Kind::ServerCut(server)) {
            Occurrence::ServerCutOff
        } else if message_kind == MessageKind::Proof && self.is_on(Kind::ProofsLost(machine)) {
            Occurrence::LostProof
        } else if self.is_on(Kind::Loss) {
            match self.dice.chance(500) {
                true => Occurrence::Lost,
                false => return false,
            }
        } else if self.dice.chance(3) && self.wakes == WakesBy::PushesAndLooks {
            Occurrence::Lost
        } else {
            return false;
        };
        self.tally.count(lost);
        true
    }

    fn is_last_word(&self, machine: Machine, message_kind: MessageKind) -> bool {
        message_kind == MessageKind::Proven && self.is_on(Kind::LastWord(machine))
    }

    /// Returns how long each copy of a message takes.
    fn delays(&mut self, machine: Machine, message_kind: MessageKind) -> [Option<Micros>; 2] {
        let tidy = self.wakes == WakesBy::PushesAlone;
        let late = self.is_on(Kind::Delay) || (self.dice.chance(10) && !tidy);
        let delay = if message_kind == MessageKind::Proven && self.is_on(Kind::ProofsLate(machine)) {
            self.dice.within(LATE_PROOF, TTL_MICROS / 4)
        } else {
            self.dice.within(50, if late { TTL_MICROS / 2 } else { IN_TIME })
        };
        if late {
            self.tally.count(Occurrence::Late);
        }
        let doubled = self.dice.chance(if self.is_on(Kind::Doubling) { 500 } else { 3 });
        if doubled {
            self.tally.count(Occurrence::Doubled);
        }
        [Some(delay), doubled.then(|| self.dice.within(50, TTL_MICROS))]
    }
}

/// One client's end of the network.
struct End<S: Server> {
    world: Arc<World<S>>,
    machine: Machine,
}

#[async_trait]
impl<S: Family> Wire<S> for End<S> {
    async fn ask(&self, request: S::Request) -> Reply<S::Answer> {
        let (asker, answer) = oneshot::channel();
        let question = Question { asked: self.world.timeline.now(), asker: Some(asker) };
        self.world.send(self.machine, &request, Some(&Arc::new(Mutex::new(question))));
        match answer.await {
            Ok(reply) => reply,
            // Every copy was lost.
            Err(_) => std::future::pending().await,
        }
    }

    fn tell(&self, request: S::Request) {
        self.world.send(self.machine, &request, None);
    }

    fn receive(&self, inbox: Inbox<S::Push>) {
        self.world.state().inboxes[self.machine] = Some(Arc::new(inbox));
    }
}

impl<S: Server> fmt::Debug for End<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "End({})", self.machine)
    }
}
