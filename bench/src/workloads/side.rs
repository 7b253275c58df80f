//! The other process of a workload: it follows the orders on its standard input, and replies when it has done each.

use std::time::{Duration, Instant};

use onelock::Guard;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader, Stdout};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::clock::shared_now;
use crate::hold::Holding;
use crate::subjects::{Kind, Side, Subject};
use crate::workloads::contenders::Crowd;
use crate::workloads::loops;
use crate::workloads::orders::Order;
use crate::workloads::queues::Queues;
use crate::workloads::replies::Reply;
use crate::workloads::turns::Turns;

/// Reads the subject, the name, and the URL of the server, a line each; then follows orders until its input ends.
pub(crate) async fn run() -> Outcome<()> {
    let (reader, lines) = unbounded_channel();
    // In a task of its own: nothing but the orders is done in this one, which is measured.
    let reading = tokio::spawn(read(BufReader::new(tokio::io::stdin()), reader));
    tokio::select! {
        biased;
        outcome = follow(lines) => outcome,
        ended = reading => ended?,
    }
}

/// How long an answer may take after the input has ended: the process that wants it may be gone.
const GRACE: Duration = Duration::from_secs(10);

/// Passes the input on, before its lines' turn, so that its end is seen while an answer takes long. Returns when this
/// process has to end, even if it waits for a lock then.
async fn read(input: impl AsyncBufRead + Unpin, lines: UnboundedSender<String>) -> Outcome<()> {
    let mut input = input.lines();
    while let Some(line) = input.next_line().await? {
        lines.send(line)?;
    }
    drop(lines);
    tokio::time::sleep(GRACE).await;
    Err("the input has ended before the last order was carried out".into())
}

async fn follow(mut lines: UnboundedReceiver<String>) -> Outcome<()> {
    let mut line = async || lines.recv().await.ok_or_else(|| std::io::Error::other("the input has ended"));
    let (kind, name, url) = (line().await?.parse::<Kind>()?, line().await?, line().await?);
    let subject = kind.connect(&url).await?;
    // Before any client holds the lock, because a floor may have to record its name first.
    let side = subject.side(&name).await;
    let mut state = ProcessState {
        kind,
        name,
        url,
        subject,
        side,
        waiters: Waiters::default(),
        crowd: Crowd::default(),
        _held: None,
        holding: None,
        queues: None,
    };
    let mut replies = tokio::io::stdout();
    say(&mut replies, &Reply::Ready).await?;
    while let Some(order) = lines.recv().await {
        let reply = match state.obey(order.parse()?).await {
            Ok(reply) => reply,
            Err(error) => Reply::Failed(error.to_string()),
        };
        say(&mut replies, &reply).await?;
    }
    match state.side {
        Ok(mut side) => side.release().await,
        Err(_) => Ok(()),
    }
}

/// The state of this process.
struct ProcessState {
    kind: Kind,
    name: String,
    url: String,
    subject: Box<dyn Subject>,
    /// An error if the subject has no side; it may still take part in what needs none.
    side: Outcome<Box<dyn Side>>,
    waiters: Waiters,
    crowd: Crowd,
    /// What it holds until it ends.
    _held: Option<Guard>,
    holding: Option<Holding>,
    queues: Option<Queues>,
}

impl ProcessState {
    async fn obey(&mut self, order: Order) -> Outcome<Reply> {
        match order {
            Order::Acquire => {
                self.side()?.acquire().await?;
                Ok(Reply::Granted(shared_now()))
            }
            Order::Release => {
                let side = self.side()?;
                let began = shared_now();
                side.release().await?;
                Ok(Reply::Released(began))
            }
            Order::Contend(length) => {
                let turns = contend(self.side()?, length).await?;
                Ok(Reply::Competed(vec![turns]))
            }
            Order::Hold(ttl) => {
                let client = onelock::connect(&self.url).await?;
                self._held = Some(client.lock(&*self.name).ttl(ttl).build()?.acquire().await?);
                Ok(Reply::Granted(shared_now()))
            }
            Order::Compete { contenders, length } => self.compete(contenders, length).await,
            Order::Gather(clients) => {
                self.waiters = Waiters::of(self.kind, &self.url, &self.name, clients).await?;
                Ok(Reply::Ready)
            }
            Order::WaitAll => {
                self.waiters.wait_all();
                Ok(Reply::Ready)
            }
            Order::Leave => self.waiters.leave().await.map(|()| Reply::Ready),
            Order::Loop(length) => {
                loops::run(self.subject.as_ref(), &self.name, length).await.map(Reply::Looped)
            }
            Order::Cycle(_) => Err("only a driver of another library's lock does this".into()),
            Order::HoldMany { locks, ttl } => {
                let holding = self.holding.insert(Holding::begin(&self.url, locks, ttl).await?);
                Ok(Reply::Holding { took: holding.acquired, grown: holding.bytes })
            }
            Order::Watch(length) => {
                let holding = self.holding.as_ref().ok_or("it holds no locks")?;
                Ok(Reply::Watched(holding.watch(length).await))
            }
            Order::Queue { names, tasks } => {
                let queues = Queues::begin(&self.url, &self.name, names, tasks).await?;
                Ok(Reply::Queued(self.queues.insert(queues).grown))
            }
            Order::HandOn(length) => {
                let queues = self.queues.as_mut().ok_or("no task waits")?;
                Ok(Reply::HandedOn(queues.hand_on(length).await?))
            }
            Order::LetGo => self.let_go().await.map(|()| Reply::Ready),
        }
    }

    async fn let_go(&mut self) -> Outcome<()> {
        if let Some(holding) = self.holding.take() {
            holding.release().await;
        }
        match self.queues.take() {
            Some(queues) => queues.end().await,
            None => Ok(()),
        }
    }

    async fn compete(&mut self, contenders: usize, length: Duration) -> Outcome<Reply> {
        if self.crowd.len() != contenders {
            self.crowd = Crowd::of(self.subject.as_ref(), &self.name, contenders).await?;
        }
        let turns = self.crowd.compete(length).await?;
        match turns.iter().find_map(|turns| turns.error.clone()) {
            Some(error) => Err(error.into()),
            None => Ok(Reply::Competed(turns)),
        }
    }

    fn side(&mut self) -> Outcome<&mut dyn Side> {
        match &mut self.side {
            Ok(side) => Ok(side.as_mut()),
            Err(why) => Err(why.to_string().into()),
        }
    }
}

/// How long a process holds the lock, and how long it then leaves it to the others.
const MOMENT: Duration = Duration::from_millis(1);

async fn contend(side: &mut dyn Side, length: Duration) -> Outcome<Turns> {
    let (end, mut turns) = (Instant::now() + length, Turns::default());
    let mut asked = Instant::now();
    while asked < end {
        side.acquire().await?;
        turns.granted(asked, end);
        tokio::time::sleep(MOMENT).await;
        side.release().await?;
        tokio::time::sleep(MOMENT).await;
        asked = Instant::now();
    }
    Ok(turns)
}

/// Clients of this process that wait for one lock, each on connections of its own.
#[derive(Default)]
struct Waiters {
    sides: Vec<Box<dyn Side>>,
    waiting: JoinSet<Outcome<()>>,
    /// The connections that the sides belong to.
    subjects: Vec<Box<dyn Subject>>,
    name: String,
}

impl Waiters {
    async fn of(kind: Kind, url: &str, name: &str, clients: usize) -> Outcome<Waiters> {
        let mut waiters = Waiters { name: name.to_owned(), ..Waiters::default() };
        for _ in 0..clients {
            let subject = kind.connect(url).await?;
            waiters.sides.push(subject.side(name).await?);
            waiters.subjects.push(subject);
        }
        Ok(waiters)
    }

    fn wait_all(&mut self) {
        for mut side in self.sides.drain(..) {
            self.waiting.spawn(async move { side.acquire().await });
        }
    }

    /// Ends all waits. Fails if one of the clients no longer waited.
    async fn leave(&mut self) -> Outcome<()> {
        self.waiting.abort_all();
        let mut outcome = Ok(());
        while let Some(ended) = self.waiting.join_next().await {
            match ended {
                Err(e) if e.is_cancelled() => {}
                Err(e) => outcome = Err(e.into()),
                Ok(Err(e)) => outcome = Err(e),
                Ok(Ok(())) => outcome = Err("one of the waiters got the lock".into()),
            }
        }
        for subject in &self.subjects {
            self.sides.push(subject.side(&self.name).await?);
        }
        outcome
    }
}

async fn say(replies: &mut Stdout, reply: &Reply) -> Outcome<()> {
    replies.write_all(format!("{reply}\n").as_bytes()).await?;
    Ok(replies.flush().await?)
}
