//! The server as claims use it: one link, which is replaced when it no longer answers, and calls on it that end in
//! time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::Context;
use lock_core::toolkit::{Call, FirstUse, Prefix, Renewals, detached, whole_millis};
use lock_core::{Clock, Effect, Error, Name, Random, Result};
use mongodb::bson::{Binary, Bson, Document, RawDocument, doc};
use mongodb::options::{ClientOptions, FindOneAndUpdateOptions, ReturnDocument};

use crate::claim_session::ClaimSession;
use crate::errors::{self, is_duplicate, was_not_sent_to_standalone};
use crate::link::{Hello, Link, Namespace, bounded, majority, one_node_in_command, primary_only};
use crate::primary::{self, Term};
use crate::profile::{Kind, Profile};
use crate::record::Record;
use crate::schema;
use crate::statements::{self, projection};
use crate::wakes::Wakes;

/// The state that all claims of a client share.
#[derive(Debug)]
pub(crate) struct Server {
    options: ClientOptions,
    pub(crate) namespace: Namespace,
    pub(crate) prefix: Prefix,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) profile: Arc<Profile>,
    pub(crate) wakes: Wakes,
    pub(crate) renewals: Renewals,
    current: Current,
    /// The check of the collection.
    prepared: FirstUse<()>,
}

/// The link in use. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Current(Arc<Mutex<Arc<Link>>>);

/// A `findAndModify` of one lock's document.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) filter: Document,
    pub(crate) pipeline: Vec<Document>,
    /// The choice to create a missing document.
    pub(crate) if_missing: IfMissing,
    /// The document that is answered: before the write, or after it.
    pub(crate) answer: ReturnDocument,
}

/// The effect of a write if the document does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Skip,
}

impl Current {
    pub(crate) fn get(&self) -> Arc<Link> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Link>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    pub(crate) fn new(
        options: ClientOptions,
        namespace: Namespace,
        prefix: Prefix,
        address: String,
        context: Context,
    ) -> Result<Server> {
        let options = bounded(options, context.patience);
        let profile = Arc::new(Profile::new(address, &namespace, &prefix));
        let link = Link::open(&options, &namespace, &profile, &context.clock)?;
        let current = Current(Arc::new(Mutex::new(Arc::new(link))));
        let wakes = Wakes::new(current.clone(), profile.clone(), prefix.clone(), context.clone());
        let Context { clock, random, .. } = context;
        Ok(Server {
            options,
            namespace,
            prefix,
            clock,
            random,
            profile,
            wakes,
            renewals: Renewals::default(),
            current,
            prepared: FirstUse::new(),
        })
    }

    pub(crate) fn link(&self) -> Arc<Link> {
        self.current.get()
    }

    /// Returns a lock's `_id`: the bytes of the prefix and the name.
    pub(crate) fn key(&self, name: &Name) -> Bson {
        statements::bytes(self.prefix.key(name).as_bytes())
    }

    /// Checks the collection once, and creates it if it does not exist.
    pub(crate) async fn prepare(&self, call: &Call) -> Result<()> {
        let prepare = || async {
            schema::prepare(self, call).await?;
            // The monitoring reports the primary's process as well, but later. The client works without it, so an error
            // here is ignored.
            if self.profile.get().identity.is_none() {
                self.hello(call).await.ok();
            }
            self.link().primary.check_version()
        };
        self.prepared.ensure(call, prepare).await.copied()
    }

    /// Asks the primary what it is, and records its time.
    pub(crate) async fn hello(&self, call: &Call) -> Result<Hello> {
        let (link, asked_in) = self.link_and_term();
        let asking = link.clone();
        let answer = self.ask(call, &link, async move { asking.hello().await }).await;
        let answer = answer.map_err(Error::not_applied)?;
        self.profile.learn_process(primary::process_id(&answer));
        let hello = Hello::parse(&answer)?;
        link.primary.record_answer(call.clock(), asked_in, hello.now);
        Ok(hello)
    }

    /// Reads a lock's document.
    pub(crate) async fn look(&self, call: &Call, name: &Name) -> Result<Option<Record>> {
        self.prepare(call).await?;
        let (link, asked_in) = self.link_and_term();
        let (locks, key, left) = (link.locks().clone(), self.key(name), call.left());
        let look = async move {
            let filter = doc! { "_id": key };
            locks
                .find_one(filter)
                .projection(projection())
                .max_time(left)
                .selection_criteria(primary_only())
                .await
        };
        let answer = self.ask(call, &link, look).await.map_err(Error::not_applied)?;
        self.read(call, &link, asked_in, answer.as_ref())
    }

    /// Returns the keys that begin with `beginning` of all documents that have an owner. Each page has the whole patience.
    pub(crate) async fn keys(&self, beginning: &str, patience: Duration) -> Result<Vec<Vec<u8>>> {
        self.prepare(&Call::begin(&self.clock, patience)).await?;
        let beginning = format!("{}{beginning}", self.prefix.as_str()).into_bytes();
        let (mut keys, mut last, mut read) = (Vec::new(), None, 0);
        loop {
            let page = self.page(&Call::begin(&self.clock, patience), last).await;
            let page =
                page.map_err(|e| e.not_applied().and_says(&format!("; {read} documents were read before")))?;
            read += page.len();
            // With its subtype, by which the server orders as well.
            last = page.last().map(|document| document.key.clone());
            let is_last = page.len() < PAGE;
            let owned = page.into_iter().filter(|document| document.has_owner);
            keys.extend(owned.map(|document| document.key.bytes).filter(|key| key.starts_with(&beginning)));
            if is_last {
                return Ok(keys);
            }
        }
    }

    /// Returns the next documents behind `last`, in the order of the server: it compares the lengths of binary values
    /// first, so that no range of them is a prefix. They are not filtered by the server, so that each page takes it the
    /// same time.
    async fn page(&self, call: &Call, last: Option<Binary>) -> Result<Vec<Listed>> {
        let link = self.link();
        let (locks, left) = (link.locks().clone(), call.left());
        let range = match last {
            Some(last) => doc! { "$gt": last },
            None => doc! { "$gte": statements::bytes(&[]) },
        };
        self.ask(call, &link, async move {
            let found = locks
                .find(doc! { "_id": range })
                .projection(doc! { "_id": 1, "owner": 1 })
                .sort(doc! { "_id": 1 })
                .limit(PAGE as i64)
                .batch_size(PAGE as u32)
                .max_time(left)
                .selection_criteria(primary_only());
            let (mut found, mut page) = (found.await?, Vec::new());
            while found.advance().await? {
                page.extend(Listed::read(found.current()));
            }
            Ok(page)
        })
        .await
    }

    /// Writes to a lock's document in the claim's session. Returns the document; `None` if there is none.
    pub(crate) async fn write(
        &self,
        call: &Call,
        claim_session: &mut ClaimSession,
        write: Write,
    ) -> Result<Option<Record>> {
        // Half of the time that is left is for the request itself.
        let mut borrowed = claim_session.borrow(call.clock(), call.left() / 2).await;
        let link = borrowed.link(self.link());
        let asked_in = link.primary.term();
        if call.is_over() {
            return Err(call.out_of_time(Effect::NotApplied));
        }
        // The server says before the call is over that it could not write: another program's transaction is open on the
        // document.
        let left = call.left() / 8 * 7;
        let (asked, kind) = (link.clone(), self.profile.kind());
        let answer = self.ask(call, &link, async move {
            let session = borrowed.session(&asked).await?;
            match update(&asked, session, &write, left).await {
                // Another client created the document at the same time. It exists now.
                Err(e) if is_duplicate(&e) => update(&asked, session, &write, left).await,
                Err(e) if kind == Some(Kind::Standalone) && was_not_sent_to_standalone(&e) => {
                    update(&asked, session, &write, left).await
                }
                outcome => outcome,
            }
        });
        let answer = answer.await;
        claim_session.record_answered(!answer.as_ref().is_err_and(Error::may_have_taken_effect));
        self.read(call, &link, asked_in, answer?.as_ref())
    }

    /// Writes the mark that a claim waits into a lock's document.
    pub(crate) async fn mark(&self, call: &Call, key: &Bson) -> Result<()> {
        let link = self.link();
        let mark = doc! {
            "update": link.locks().name(),
            "updates": [{ "q": { "_id": key }, "u": statements::mark() }],
            "writeConcern": one_node_in_command(),
            // The transaction of another program may be open on the document for much longer. The request would keep a
            // connection meanwhile, and the claim has something else to do in its call.
            "maxTimeMS": whole_millis(call.left() / 4).max(1),
        };
        let asking = link.clone();
        let mark =
            async move { asking.database().run_command(mark).selection_criteria(primary_only()).await };
        self.ask(call, &link, mark).await.map(drop)
    }

    /// Runs a request in a task of its own: the futures of the `mongodb` crate must not be dropped half-way.
    ///
    /// If the request runs out of time, and the link has answered no request in the second half of the call, the link
    /// is replaced for the next call. An answer in the first half proves nothing: it may have been on its way when the
    /// connection died.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        call: &Call,
        link: &Arc<Link>,
        asking: impl Future<Output = mongodb::error::Result<T>> + Send + 'static,
    ) -> Result<T> {
        let left = call.left();
        if left.is_zero() {
            // Nothing was sent, so the missing answer says nothing about the link.
            return Err(call.out_of_time(Effect::NotApplied));
        }
        match detached(call.clock(), left, async { Ok(asking.await) }).await {
            Ok(answer) => {
                if answer.as_ref().err().is_none_or(errors::is_an_answer) {
                    link.primary.record_heard(call.clock());
                }
                answer.map_err(errors::request_error)
            }
            Err(_) => {
                if !link.primary.has_answered_since(call.began() + call.ends().since(call.began()) / 2) {
                    self.replace_link(link);
                }
                Err(call.out_of_time(Effect::Unknown))
            }
        }
    }

    fn read(
        &self,
        call: &Call,
        link: &Link,
        asked_in: Term,
        answer: Option<&Document>,
    ) -> Result<Option<Record>> {
        let Some(document) = answer else { return Ok(None) };
        let now = match Record::time(document) {
            Some(now) => {
                link.primary.record_answer(call.clock(), asked_in, now);
                now
            }
            // This estimate may be behind the server's clock, so that more of the lease may seem to be left. Never more
            // is relied on than was asked for.
            None => link.primary.time(call.clock().now()),
        };
        Record::parse(document, now).map(Some)
    }

    fn link_and_term(&self) -> (Arc<Link>, Term) {
        let link = self.link();
        let term = link.primary.term();
        (link, term)
    }

    fn replace_link(&self, link: &Arc<Link>) {
        let mut current = self.current.lock();
        if Arc::ptr_eq(&current, link) {
            // These options have opened a link before, so no error is expected.
            if let Ok(fresh) = Link::open(&self.options, &self.namespace, &self.profile, &self.clock) {
                *current = Arc::new(fresh);
            }
        }
    }
}

async fn update(
    link: &Link,
    session: &mut mongodb::ClientSession,
    write: &Write,
    left: Duration,
) -> mongodb::error::Result<Option<Document>> {
    let options = FindOneAndUpdateOptions::builder()
        .upsert(write.if_missing == IfMissing::Create)
        .return_document(write.answer.clone())
        .projection(projection())
        .write_concern(majority())
        .max_time(left)
        .build();
    let pipeline = write.pipeline.clone();
    link.locks()
        .find_one_and_update(write.filter.clone(), pipeline)
        .with_options(options)
        .session(session)
        .await
}

/// One request of a list reads so many documents.
const PAGE: usize = 10_000;

/// The part of a document that a list reads.
struct Listed {
    key: Binary,
    has_owner: bool,
}

impl Listed {
    fn read(document: &RawDocument) -> Option<Listed> {
        let key = document.get_binary("_id").ok()?;
        let key = Binary { subtype: key.subtype, bytes: key.bytes.to_vec() };
        Some(Listed { key, has_owner: document.get_binary("owner").is_ok() })
    }
}
