//! The settings of the connection to a set or a server: from a URL, or from the `mongodb` crate's own
//! options.

use std::time::Duration;

use lock_core::toolkit::{CommonParameters, Opening, Prefix, detached};
use lock_core::{Client, Clock, Error, Options, Result};
use mongodb::options::{ClientOptions, ConnectionString, HostInfo, ServerAddress};

use crate::driver::MongoDriver;
use crate::errors;
use crate::link::Namespace;
use crate::{schema, tls, url};

/// A replica set or a standalone server, how to reach it, and where in it the locks are.
///
/// ```no_run
/// # mod onelock { pub use lock_core::*; pub use lock_mongo as mongodb; }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use onelock::mongodb::mongodb::options::ClientOptions;
/// use onelock::mongodb::{Mongo, Options};
/// let own = ClientOptions::parse("mongodb://127.0.0.1/?replicaSet=rs0").await?;
/// let client = Mongo::from(own).database("app")?.prefix("billing:")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Mongo {
    reach: Reach,
    namespace: Namespace,
    pub(crate) common: CommonParameters,
}

/// The options with which the `mongodb` crate connects.
#[derive(Clone)]
enum Reach {
    /// The names in a `mongodb+srv://` URL are resolved when the client is opened.
    Url(Box<ConnectionString>),
    Options(Box<ClientOptions>),
}

pub(crate) const DATABASE: &str = "onelock";
pub(crate) const COLLECTION: &str = "onelock_locks";

const OURS: [&str; 8] = ["prefix", "patience", "connect_wait", "lazy", "collection", "ca", "cert", "key"];

impl Mongo {
    /// Reads a URL: `mongodb://[user:password@]host[:port][,…][/database][?…]`, or `mongodb+srv://…` with the feature
    /// `srv`.
    ///
    /// The database is `onelock` unless the URL names one. Parameters: `prefix` (put before every name), `patience`
    /// (how long one request may take, like `500ms`), `connect_wait` (for how long opening tries again,
    /// like `30s`), `lazy=true` (opening doesn't wait for the server), `collection`
    /// (instead of `onelock_locks`), `ca` (a PEM file of the roots to trust instead of the public ones), `cert` (a PEM
    /// file with the client's certificate and its key; `key` may name the same file). All others are MongoDB's own.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is not a MongoDB URL, for a parameter that is neither listed here nor MongoDB's, for a parameter
    /// that would weaken a lock (`w`, `journal`, `readPreference` and the like), and for a file that can't be read.
    /// `Unsupported` for `mongodb+srv://` without the feature `srv`.
    pub fn from_url(url: &str) -> Result<Mongo> {
        let (mut ours, mut connection) = url::parse(url, &OURS)?;
        tls::take_certificates(&mut ours, &mut connection)?;
        let namespace = Namespace {
            database: connection.default_database.clone().unwrap_or_else(|| DATABASE.to_owned()),
            collection: ours.take("collection").map_or(Ok(COLLECTION.to_owned()), |name| {
                collection_name(&name).map_err(|e| match ours.has_a_secret() {
                    true => Error::invalid("the URL's parameter collection can't be a collection's name"),
                    false => e,
                })
            })?,
        };
        let mongo = Mongo { reach: Reach::Url(Box::new(connection)), namespace, common: ours.take_common()? };
        ours.finish(&OURS.join(", "))?;
        Ok(mongo)
    }

    /// Puts `prefix` before every name.
    ///
    /// # Errors
    ///
    /// `Invalid` as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<Mongo> {
        self.common.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Keeps the locks in this database.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name that MongoDB doesn't accept.
    pub fn database(mut self, name: &str) -> Result<Mongo> {
        if name.is_empty() || name.len() > 63 || name.contains(['/', '\\', '.', ' ', '"', '$', '\0']) {
            return Err(Error::invalid(format!("{name:?} can't be a database's name")));
        }
        self.namespace.database = name.to_owned();
        Ok(self)
    }

    /// Keeps the locks in this collection.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name that MongoDB doesn't accept.
    pub fn collection(mut self, name: &str) -> Result<Mongo> {
        self.namespace.collection = collection_name(name)?;
        Ok(self)
    }

    /// Lets opening return without waiting for the server.
    ///
    /// If the server can't be reached or refuses the client, the first call fails instead.
    #[must_use]
    pub fn lazy(mut self) -> Mongo {
        self.common.opening = Opening::Lazy;
        self
    }

    /// Returns the statement that creates the index of the collection of locks, for an administrator's `mongosh`.
    ///
    /// Does no I/O.
    pub fn schema(&self) -> String {
        schema::in_words(&self.namespace)
    }

    /// Opens a client.
    ///
    /// Unless [lazy](Self::lazy), it waits, for one patience at most, until a server that takes writes has answered. It
    /// creates the collection if that does not exist and this user has the right to create it.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no such server can be reached. `Rejected` if the server refuses this client, is older than
    /// MongoDB 4.4, or has a collection of another version. `Invalid` outside a tokio runtime, unless the options are
    /// [dedicated](Options::dedicated), and for a patience below 1 ms.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped, no client is left. The collection may have been created.
    pub async fn open(self, options: Options) -> Result<Client> {
        let (options, address) = (self.common.apply_to(options), self.address());
        options.open("mongodb", &address, |context| MongoDriver::open(self.clone(), context)).await
    }

    /// Returns the server's address for display, without user and password.
    pub(crate) fn address(&self) -> String {
        let hosts = |hosts: &[ServerAddress]| {
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            hosts.join(",")
        };
        let server = match &self.reach {
            Reach::Url(url) => match &url.host_info {
                HostInfo::HostIdentifiers(list) => hosts(list),
                HostInfo::DnsRecord(name) => name.clone(),
                _ => String::new(),
            },
            Reach::Options(options) => hosts(&options.hosts),
        };
        format!("{server}/{}", self.namespace.database)
    }

    /// Returns the options for the `mongodb` crate. Resolves the names in a `mongodb+srv://` URL.
    pub(crate) async fn resolve(
        self,
        clock: &Clock,
        patience: Duration,
    ) -> Result<(ClientOptions, Namespace)> {
        let options = match self.reach {
            Reach::Options(options) => *options,
            Reach::Url(url) => {
                detached(clock, patience, async {
                    ClientOptions::parse(*url).await.map_err(errors::request_error)
                })
                .await?
            }
        };
        Ok((options, self.namespace))
    }
}

impl From<ClientOptions> for Mongo {
    /// Takes the `mongodb` crate's own options. Opening waits for the server, and names have no prefix.
    ///
    /// The client opens its own connections. This library sets write concern, read concern, read preference and retries
    /// of writes itself.
    fn from(options: ClientOptions) -> Mongo {
        let database = options.default_database.clone().unwrap_or_else(|| DATABASE.to_owned());
        Mongo {
            reach: Reach::Options(Box::new(options)),
            namespace: Namespace { database, collection: COLLECTION.to_owned() },
            common: CommonParameters::default(),
        }
    }
}

impl std::fmt::Debug for Mongo {
    /// Leaves out user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mongo")
            .field("server", &self.address())
            .field("collection", &self.namespace.collection)
            .field("common", &self.common)
            .finish_non_exhaustive()
    }
}

fn collection_name(name: &str) -> Result<String> {
    let is_bad =
        name.is_empty() || name.len() > 100 || name.starts_with("system.") || name.contains(['$', '\0']);
    match is_bad {
        true => Err(Error::invalid(format!("{name:?} can't be a collection's name"))),
        false => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_gives_address_and_options() {
        let url = "mongodb://deploy:s%40crt@a:7000,b/app?replicaSet=rs0&prefix=p%3A&patience=250ms&lazy=true&collection=c";
        let mongo = Mongo::from_url(url).unwrap();
        assert_eq!(mongo.address(), "a:7000,b:27017/app");
        assert_eq!(mongo.namespace, Namespace { database: "app".into(), collection: "c".into() });
        let mut expected = CommonParameters::default();
        expected.prefix = Prefix::new("p:").unwrap();
        expected.patience = Some(Duration::from_millis(250));
        expected.opening = Opening::Lazy;
        assert_eq!(mongo.common, expected);
        let Reach::Url(theirs) = &mongo.reach else { panic!() };
        assert_eq!(theirs.replica_set.as_deref(), Some("rs0"));
        let plain = Mongo::from_url("mongodb://h?retryWrites=true&w=majority").unwrap();
        assert_eq!(plain.namespace, Namespace { database: DATABASE.into(), collection: COLLECTION.into() });
    }

    #[test]
    fn what_is_not_known_is_not_ignored() {
        for bad in [
            "mongodb://h?ttl=3s",
            "mongodb://h?prefx=a",
            "mongodb://h?lazy=yes",
            "mongodb://h?patience=5",
            "mongodb://h?collection=",
            "mongodb://h?collection=system.locks",
            "mongodb://h?ca=/no/such/file",
            "mongodb://h?key=/only",
            "mongodb://h?cert=/one&key=/other",
            "mongodb://h?socketTimeoutMS=1",
            "mongodb://",
            "http://h",
            "h",
        ] {
            assert_eq!(opened(bad).expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
    }

    /// Some errors are found only when the `mongodb` crate makes its options of the URL.
    fn opened(url: &str) -> Result<()> {
        let mongo = Mongo::from_url(url)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(mongo.resolve(&Clock::system(), Duration::from_secs(5))).map(drop)
    }

    #[test]
    fn nothing_tells_a_password() {
        for url in ["mongodb://u:hunter2@h:1/a", "mongodb://u:hunter2@h/?authSource=admin"] {
            let mongo = Mongo::from_url(url).unwrap();
            assert!(!format!("{mongo:?} {}", mongo.address()).contains("hunter2"));
        }
        for bad in [
            "mongodb://u:hunter2@h:99999",
            "mongodb://u:hunter2@h?x=1",
            "mongodb://u:hunter2@",
            "mongodb://u:hun:ter2@h",
        ] {
            let error = opened(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("ter2"), "{error:?}");
        }
    }

    #[test]
    fn the_drivers_own_options_are_taken_as_they_are() {
        let host = ServerAddress::Tcp { host: "h".into(), port: Some(1) };
        let own = ClientOptions::builder().hosts(vec![host]).default_database(Some("app".to_owned())).build();
        let mongo = Mongo::from(own).prefix("a:").unwrap().collection("c").unwrap();
        assert_eq!(mongo.address(), "h:1/app");
        assert!(mongo.clone().database("a.b").is_err());
        assert_eq!(
            mongo.database("b").unwrap().namespace,
            Namespace { database: "b".into(), collection: "c".into() }
        );
    }
}
