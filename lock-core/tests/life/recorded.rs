//! An observer that keeps every event of a client, whole.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{Client, Ending, Event, FencingToken, LossReason, Name, Options, Owner, Refusal};

use crate::scripted::{self, Script, client_with};

/// An event in a form that its observer can keep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordedEvent {
    Asked(String),
    Granted(String, Owner, FencingToken, Duration),
    NotGranted(String, Refusal, Duration),
    Renewed(String, Duration),
    Lost(String, Owner, LossReason, Duration),
    Ended(String, Owner, Ending, Duration),
    /// The error names the lock and the backend, too.
    Trouble(String, &'static str, Option<String>, Option<&'static str>),
    Jumped(Duration),
}

use RecordedEvent::{Asked, Ended, Granted, Jumped, Lost, NotGranted, Renewed, Trouble};

impl RecordedEvent {
    /// Copies every field of every event. A new field has to be added here.
    fn of(event: &Event<'_>) -> RecordedEvent {
        match *event {
            Event::Asked { name } => Asked(name.to_string()),
            Event::Granted { name, owner, token, waited } => Granted(name.to_string(), owner, token, waited),
            Event::NotGranted { name, why, waited } => NotGranted(name.to_string(), why, waited),
            Event::Renewed { name, took } => Renewed(name.to_string(), took),
            Event::Lost { name, owner, cause, held } => Lost(name.to_string(), owner, cause, held),
            Event::Ended { name, owner, ending, held } => Ended(name.to_string(), owner, ending, held),
            Event::Trouble { name, operation, error } => {
                let named = error.name().map(Name::to_string);
                Trouble(name.to_string(), operation, named, error.backend())
            }
            Event::Jumped { by } => Jumped(by),
            _ => panic!("an event that this test does not know: {event:?}"),
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Asked(name)
            | Granted(name, ..)
            | NotGranted(name, ..)
            | Renewed(name, ..)
            | Lost(name, ..)
            | Ended(name, ..)
            | Trouble(name, ..) => Some(name),
            Jumped(_) => None,
        }
    }
}

/// A client's events with their times, in milliseconds since the test's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventRecorder(Arc<Mutex<Vec<(u64, RecordedEvent)>>>);

impl EventRecorder {
    pub(crate) async fn client(&self, script: &Arc<Script>) -> Client {
        let (all, began) = (self.0.clone(), scripted::now());
        let options = Options::default().observer(move |event| {
            let at = u64::try_from(began.elapsed().as_millis()).unwrap();
            all.lock().unwrap().push((at, RecordedEvent::of(event)));
        });
        client_with(script, options).await
    }

    pub(crate) fn all(&self) -> Vec<(u64, RecordedEvent)> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the events without their times.
    pub(crate) fn words(&self) -> Vec<RecordedEvent> {
        self.all().into_iter().map(|(_, event)| event).collect()
    }
}
