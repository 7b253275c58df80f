//! The driver: opens claims, inspects locks, revokes them from their holders.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Claim, Context, Driver, Finding, Inspection, Request, Revocation, Revoked, When};
use lock_core::toolkit::{Call, CommonParameters, Opening};
use lock_core::{Info, Name, Result};
use mongodb::bson::doc;
use mongodb::options::ReturnDocument;

use crate::check;
use crate::claim::MongoClaim;
use crate::claim_session::ClaimSession;
use crate::record::Record;
use crate::schema::{self, IndexState};
use crate::server::{IfMissing, Server, Write};
use crate::settings::Mongo;
use crate::statements;

/// The driver of one replica set, or of one standalone server.
#[derive(Debug)]
pub(crate) struct MongoDriver(Arc<Server>);

impl MongoDriver {
    pub(crate) async fn open(mongo: Mongo, context: Context) -> Result<MongoDriver> {
        let address = mongo.address();
        let CommonParameters { opening, prefix, .. } = mongo.common.clone();
        let (clock, patience) = (context.clock.clone(), context.patience);
        let call = &Call::begin(&clock, patience);
        let (options, namespace) = mongo.resolve(&clock, patience).await?;
        let server = Server::new(options, namespace, prefix, address, context)?;
        if opening == Opening::Waits {
            server.prepare(call).await?;
        }
        Ok(MongoDriver(Arc::new(server)))
    }
}

#[async_trait]
impl Driver for MongoDriver {
    fn info(&self) -> Arc<Info> {
        self.0.profile.get()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(MongoClaim::new(self.0.clone(), request))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let record = self.0.look(&Call::begin(&self.0.clock, patience), name).await?;
        Ok(Inspection::new(record.and_then(Record::into_entry), None))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, when, patience, .. } = revocation;
        let call = &Call::begin(&self.0.clock, patience);
        self.0.prepare(call).await?;
        let holder = statements::bytes(holder.as_bytes());
        let pipeline = match when {
            When::HoldersDeadline => {
                statements::revoke(&holder, &statements::bytes(by.as_bytes()), label.as_str())
            }
            When::Now => statements::revoke_now(&holder),
        };
        let revoke = Write {
            filter: doc! { "_id": self.0.key(name), "owner": holder },
            pipeline,
            if_missing: IfMissing::Skip,
            answer: ReturnDocument::Before,
        };
        let before = self.0.write(call, &mut ClaimSession::default(), revoke).await?;
        Ok(match (before.and_then(|record| record.left()), when) {
            (None, _) => Revoked::NotHeld,
            (Some(left), When::HoldersDeadline) => Revoked::FreeIn(left),
            (Some(_), When::Now) => Revoked::Free,
        })
    }

    async fn names(&self, beginning: &str, patience: Duration) -> Result<Vec<Name>> {
        let keys = self.0.keys(beginning, patience).await?;
        Ok(keys.iter().filter_map(|key| self.0.prefix.name(key)).collect())
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        check::check(&self.0, patience).await
    }

    async fn init(&self, patience: Duration) -> Result<String> {
        let call = &Call::begin(&self.0.clock, patience);
        self.0.hello(call).await?;
        match schema::look(&self.0, call).await? {
            IndexState::Present => Ok(String::new()),
            IndexState::Missing => {
                schema::make(&self.0, call).await?;
                Ok(format!(
                    "created the index of {}.{}",
                    self.0.namespace.database, self.0.namespace.collection
                ))
            }
        }
    }
}
