//! A whole backend for a server that only compares and sets, to copy: the core has the driver, and the suite passes on
//! it. Only the URL is missing, which is as in `toy.rs`. `docs/add-a-backend.md` explains it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lock_conformance::harness::{Forget, forget_in};
use lock_conformance::{Abilities, Harness};
use lock_core::driver::{Fencing, Info, Lease};
use lock_core::toolkit::{Call, Connect, Opening, Prefix, Read, RegisterDriver, Registers, Replaced, Stored};
use lock_core::{Client, Name, Options, Result};

/// By key: the value, the number of its last write, and the time of that write.
type Values = HashMap<String, (Vec<u8>, u64, i64)>;

/// The server. In the place of its state, yours has a connection.
#[derive(Default)]
struct Server(Mutex<Values>);

impl Server {
    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its time, in microseconds.
    fn now(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64
    }
}

impl std::fmt::Debug for Server {
    /// Shows no locks: a client's `Debug` shows only what the client itself remembers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

/// Everything that the driver needs of the server.
#[derive(Clone, Debug)]
struct Bucket {
    server: Arc<Server>,
    prefix: Prefix,
    info: Arc<Info>,
}

impl Bucket {
    fn new(server: Arc<Server>, prefix: Prefix) -> Bucket {
        let and = "the bucket is not deleted".into();
        let ttl = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
        let fencing = Fencing::UntilAMajorityLosesItsData { and };
        let info = Info::new("bucket", "this process", fencing, Lease::Lock, ttl);
        Bucket { server, prefix, info: Arc::new(info) }
    }
}

/// The opening of a connection, as for a `SharedConnection`. This one needs none.
#[async_trait]
impl Connect for Bucket {
    type Connection = ();

    async fn connect(&self, _: &Call) -> Result<()> {
        Ok(())
    }

    fn is_usable(&self, _: &()) -> bool {
        true
    }
}

#[async_trait]
impl Registers for Bucket {
    type Revision = u64;

    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn key(&self, name: &Name) -> String {
        self.prefix.key(name)
    }

    /// The revision is a number that rises, so it is the token.
    fn number(revision: &u64) -> Option<u64> {
        Some(*revision)
    }

    async fn read(&self, _: &(), key: &str) -> Result<Read<u64>> {
        let last = self.server.values().get(key).cloned();
        // A key that was removed, and keeps its revision, is `Stored::removed`.
        Ok(Read::new(last.map(|(value, number, stamp)| Stored::new(value, number, stamp))))
    }

    async fn replace(
        &self,
        _: &(),
        key: &str,
        expected: Option<&u64>,
        value: &[u8],
    ) -> Result<Replaced<u64>> {
        let (mut values, stamp) = (self.server.values(), self.server.now());
        if values.get(key).map(|(_, number, _)| number) != expected {
            return Ok(Replaced::Refused);
        }
        let revision = expected.unwrap_or(&0) + 1;
        values.insert(key.to_owned(), (value.to_vec(), revision, stamp));
        // `None` if your answer does not tell the stamp: the driver then reads it.
        Ok(Replaced::Applied { revision, stamp: Some(stamp) })
    }

    async fn time(&self, _: &()) -> Result<i64> {
        Ok(self.server.now())
    }
}

async fn connect_to(server: Arc<Server>, options: Options) -> Result<Client> {
    let bucket = Bucket::new(server, Prefix::default());
    let open = |context| {
        let bucket = bucket.clone();
        async move { RegisterDriver::open(bucket, &context, Opening::Waits).await }
    };
    options.open("bucket", "this process", open).await
}

// ---- tests/conformance.rs -----------------------------------------------------------------------------------------

#[derive(Debug, Default)]
pub(crate) struct BucketHarness(Arc<Server>);

#[async_trait]
impl Harness for BucketHarness {
    fn name(&self) -> String {
        "bucket".into()
    }

    async fn open(&self, options: Options) -> Result<Client> {
        connect_to(self.0.clone(), options).await
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities { forget: Ok(self), ..Abilities::none("this harness cannot") }
    }
}

#[async_trait]
impl Forget for BucketHarness {
    async fn forget(&self, name: &Name) {
        forget_in(&Bucket::new(self.0.clone(), Prefix::default()), name).await;
    }
}
