//! A file that a case may damage. It doesn't answer while another connection has the right to write. It is dead while
//! its folder is moved away, like an unmounted disk.

use std::fs;
use std::sync::mpsc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use lock_conformance::Data;
use lock_conformance::harness::OwnServer;
use lock_core::{Client, Options, Result};
use sqlx::{Connection, Executor};

use crate::database::Database;

#[derive(Debug)]
pub(crate) struct Own {
    database: std::sync::Arc<Database>,
    blocker: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Own {
    pub(crate) fn new() -> Own {
        Own { database: std::sync::Arc::new(Database::new()), blocker: None }
    }
}

#[async_trait]
impl OwnServer for Own {
    async fn open(&self, options: Options) -> Result<Client> {
        self.database.open(options).await
    }

    fn pause(&mut self) {
        let (begun, has_begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let database = self.database.clone();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let mut admin = database.admin().await;
                admin.execute("BEGIN EXCLUSIVE").await.expect("BEGIN");
                begun.send(()).expect("it is waited for");
                ended.recv().ok();
                admin.execute("ROLLBACK").await.expect("ROLLBACK");
                admin.close().await.expect("it closes");
            });
        });
        has_begun.recv().expect("the transaction has begun");
        self.blocker = Some((end, thread));
    }

    fn resume(&mut self) {
        let (end, thread) = self.blocker.take().expect("it was paused");
        drop(end);
        thread.join().expect("it ends");
    }

    fn kill(&mut self) {
        fs::rename(self.database.data(), self.database.away()).expect("the folder is there");
    }

    fn url(&self) -> Option<String> {
        Some(self.database.url())
    }

    fn start(&mut self, data: Data) {
        match data {
            Data::Kept => fs::rename(self.database.away(), self.database.data()).expect("the folder is away"),
            Data::Lost => {
                fs::remove_dir_all(self.database.away()).expect("the folder is away");
                fs::create_dir(self.database.data()).expect("its place is free");
            }
        }
    }
}
