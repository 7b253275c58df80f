//! An owner enters the queue, and finds its queue position.

use std::time::Duration;

use lock_core::driver::{Queueing, Request};
use lock_core::toolkit::Call;
use zookeeper_client::Error as ZkError;

use super::{Node, Place, Position};
use crate::kind::Kind;
use crate::layout::{self, Ticket};
use crate::link::{Failure, Link};

impl Place {
    /// Looks at the queue. If a place is wanted and there is none, takes one first.
    pub(crate) async fn find_position(
        &mut self,
        link: &Link,
        call: &Call,
        request: &Request,
        timeout: Duration,
    ) -> Result<Position, Failure> {
        if self.uncertain.is_some() {
            self.find(link, call).await?;
        }
        let queue = match (&self.node, request.waits) {
            (Some(node), _) => return self.look_again(link, call, &self.directory.node(&node.name)).await,
            (None, Queueing::Queued) => match self.enter(link, call, request, timeout).await? {
                Some(queue) => queue,
                None => return Ok(Position::Unknown),
            },
            (None, Queueing::No) => {
                let queue = self.directory.find_queue(link, call).await?;
                self.is_missing = queue.is_none();
                if self.look_for_ticket(link, call, &queue.unwrap_or_default()).await? {
                    return Ok(Position::Outside);
                }
                match self.enter(link, call, request, timeout).await? {
                    Some(queue) => queue,
                    None => return Ok(Position::Unknown),
                }
            }
        };
        let position = self.read(&queue);
        if request.waits == Queueing::No && matches!(position, Position::Behind { .. }) {
            // Another client was faster.
            self.give_up(link, call).await?;
            self.forget();
            return Ok(Position::Outside);
        }
        Ok(position)
    }

    /// Looks for a ticket in this queue, and returns whether there is one.
    async fn look_for_ticket(&mut self, link: &Link, call: &Call, queue: &[Ticket]) -> Result<bool, Failure> {
        for Ticket { name, .. } in queue {
            let path = self.directory.node(name);
            let kind = match link.ask(call, link.client.get_data(&path)).await {
                Ok((_, stat)) => Kind::of(name, &stat),
                Err(Failure::Refused(ZkError::NoNode)) => continue,
                // This user may not read it. By its name it counts as a ticket.
                Err(Failure::Refused(ZkError::NoAuth)) => Kind::Ticket,
                Err(failure) => return Err(failure),
            };
            match kind {
                Kind::Ticket => return Ok(true),
                Kind::Other => self.pass_over(name),
                Kind::Persistent => return Err(Failure::Persistent(path)),
            }
        }
        Ok(false)
    }

    /// Looks at the queue and at the owner's node in it, in one round trip.
    async fn look_again(&mut self, link: &Link, call: &Call, path: &str) -> Result<Position, Failure> {
        let listing = link.client.list_children(self.directory.path());
        let reading = link.client.get_data(path);
        let listed = link.ask(call, listing).await;
        let queue = self.directory.sort(link, call, listed).await?;
        let position = self.read(&queue);
        if let Position::First { .. } = position {
            match link.ask(call, reading).await {
                Ok((data, _)) if !layout::is_revoked(&data) => {}
                Ok(_) => {
                    return Ok(self
                        .give_up_revoked()
                        .map_or(Position::Unknown, |path| Position::Revoked { path }));
                }
                Err(Failure::Refused(ZkError::NoNode)) => {
                    self.forget_node();
                    return Ok(Position::Unknown);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(position)
    }

    /// Creates the node and lists the directory in one round trip. Also creates the directory where it is known to be
    /// missing. Returns `None` if it has to be done again.
    async fn enter(
        &mut self,
        link: &Link,
        call: &Call,
        request: &Request,
        timeout: Duration,
    ) -> Result<Option<Vec<Ticket>>, Failure> {
        let (path, data) =
            (self.directory.node_prefix(&request.owner), layout::data(&request.label, timeout));
        // From here on the request is on its way, even if this future is dropped.
        self.uncertain = Some(link.number);
        let making = self.is_missing.then(|| self.directory.make_once(link));
        let creating = link.client.create(&path, &data, &self.directory.node_options());
        let listing = link.client.list_children(self.directory.path());
        match link.ask(&call.with_reserve(), creating).await {
            Ok((stat, sequence)) => {
                (self.uncertain, self.is_missing) = (None, false);
                self.node = Some(Node { name: format!("{}{sequence}", self.prefix), czxid: stat.czxid });
            }
            Err(Failure::Refused(refusal)) => {
                self.uncertain = None;
                if refusal != ZkError::NoNode {
                    return Err(Failure::Refused(refusal));
                }
                if let Some(making) = making {
                    self.directory.handle_made(link, call, link.ask(call, making).await).await?;
                }
                self.is_missing = true;
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        }
        let listed = link.ask(call, listing).await;
        self.directory.sort(link, call, listed).await.map(Some)
    }

    /// Looks for the node whose creation was not answered, on a later link: there it exists now, or never will.
    async fn find(&mut self, link: &Link, call: &Call) -> Result<(), Failure> {
        let queue = self.directory.queue(link, call).await?;
        let own = queue.iter().find(|ticket| self.is_own(&ticket.name));
        if let Some(Ticket { name, .. }) = own {
            match link.ask(call, link.client.get_data(&self.directory.node(name))).await {
                Ok((_, stat)) => self.node = Some(Node { name: name.clone(), czxid: stat.czxid }),
                Err(Failure::Refused(ZkError::NoNode)) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.uncertain = None;
        Ok(())
    }

    /// Gives up the owner's node, which was revoked, and returns its path. Others stay behind it until the session
    /// removes it.
    fn give_up_revoked(&mut self) -> Option<String> {
        let Node { name, .. } = self.node.take()?;
        let path = self.directory.node(&name);
        self.revoked.push(name);
        Some(path)
    }

    fn read(&mut self, queue: &[Ticket]) -> Position {
        let Some(node) = &self.node else { return Position::Unknown };
        self.others = self.has_others(queue);
        let queue: Vec<&Ticket> =
            queue.iter().filter(|ticket| !self.passed_over.contains(&ticket.name)).collect();
        match queue.iter().position(|ticket| ticket.name == node.name) {
            Some(0) => {
                self.ahead = None;
                Position::First { czxid: node.czxid }
            }
            Some(at) => {
                let ahead = queue[at - 1].name.clone();
                self.ahead = Some(ahead.clone());
                Position::Behind { ahead }
            }
            None => {
                // Another client has removed the node.
                self.forget_node();
                Position::Unknown
            }
        }
    }
}
