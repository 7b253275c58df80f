//! The requests of a session's task: heartbeats, and the removal of nodes that claims have left.

use std::pin::pin;
use std::sync::Arc;

use lock_core::toolkit::Call;
use zookeeper_client::MultiWriteError;

use crate::errors;
use crate::link::{Failure, Link};
use crate::place::Place;
use crate::session::Session;

/// A quorum's answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Yes,
    No,
}

/// Sends one heartbeat, and waits for its answer. A heartbeat is a write, so that a quorum takes part in it.
///
/// The node that it checks need not exist or be readable: the server writes a refusal as well, and answers only then.
/// The answer is waited for as long as the connection answers other requests: answers come in the order of the
/// requests, and many may have been sent before this one.
pub(super) async fn beat(session: Arc<Session>, link: Arc<Link>) -> Answered {
    let mut writer = link.client.new_multi_writer();
    if writer.add_check_version(&session.checked, ANY_VERSION).is_err() {
        return Answered::No; // not a valid path, which was checked when the client was opened
    }
    let writing = writer.commit();
    let mut answer = pin!(async {
        match writing.await {
            Ok(_) | Err(MultiWriteError::OperationFailed { .. }) => Ok(()),
            Err(MultiWriteError::RequestFailed { source }) => Err(source),
        }
    });
    loop {
        // A part of the timeout, so that the session survives a lost answer and a lost connection.
        let call = Call::begin(&session.site.clock, session.timeout() / 4);
        match link.ask(&call, answer.as_mut()).await {
            Ok(()) => return Answered::Yes,
            Err(Failure::Late) if link.has_answered_since(call.began()) => {}
            Err(Failure::Late | Failure::Refused(_) | Failure::Persistent(_)) => return Answered::No,
            Err(Failure::Broken) => {
                session.cut(link.number);
                return Answered::No;
            }
        }
    }
}

const ANY_VERSION: i32 = -1;

/// Removes the nodes of a claim that was dropped without a release. If there is no answer, the next connection is
/// tried.
pub(super) async fn remove_abandoned(session: Arc<Session>, link: Arc<Link>, mut place: Place) {
    let call = Call::begin(&session.site.clock, session.timeout() / 4);
    match place.give_up(&link, &call).await {
        // A node whose removal was refused goes with the session.
        Ok(_) | Err(Failure::Refused(_) | Failure::Persistent(_)) => {}
        Err(Failure::Broken | Failure::Late) => return session.cut(link.number),
    }
    session.forget_abandoned(&place);
    session.left.notify_one();
}

/// Deletes the node of a revoked holder. If the connection breaks, the next one is tried.
pub(super) async fn remove_revoked(session: Arc<Session>, link: Arc<Link>, path: String) {
    match link.client.delete(&path, None).await {
        Ok(()) => session.forget_revoked(&path),
        Err(e) if errors::is_answer(&e) => session.forget_revoked(&path),
        Err(_) => session.cut(link.number),
    }
    session.left.notify_one();
}
