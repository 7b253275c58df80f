use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Cut, Direction, Fault, Proxy};
use crate::failure::Failure;

/// Starts a server that sends back what it receives.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await.ok();
            });
        }
    });
    address.to_string()
}

/// Connects, and gets an answer.
async fn connected(proxy: &Proxy) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut stream, "one").await.as_deref(), Some("one"));
    stream
}

async fn ask(stream: &mut TcpStream, text: &str) -> Option<String> {
    stream.write_all(text.as_bytes()).await.ok()?;
    hear(stream).await
}

/// Waits until something arrives, or the connection breaks.
async fn hear(stream: &mut TcpStream) -> Option<String> {
    let mut answer = [0; 100];
    let read = stream.read(&mut answer).await.ok()?;
    Some(String::from_utf8_lossy(&answer[..read]).into_owned())
}

/// Sends something that must not be answered.
async fn ask_in_vain(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
    hears_nothing(stream).await;
}

async fn hears_nothing(stream: &mut TcpStream) {
    let heard = tokio::time::timeout(Duration::from_millis(100), hear(stream)).await;
    assert!(heard.is_err(), "{heard:?}");
}

/// Waits until this fault has happened `times` times.
async fn happens(proxy: &Proxy, fault: Fault, times: u64) {
    while proxy.count(fault) < times {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn what_is_held_arrives_later_or_is_lost() {
    let proxy = Proxy::start(&echo().await).await.unwrap();
    let mut stream = connected(&proxy).await;
    for direction in Direction::BOTH {
        proxy.hold_open_ones(direction);
        ask_in_vain(&mut stream, "two").await;
        happens(&proxy, Fault::Held(direction), 1).await;
        drop(connected(&proxy).await);
        assert_eq!(proxy.count(Fault::Late(direction)), 0);
        proxy.deliver_late(direction).await;
        assert_eq!(proxy.count(Fault::Late(direction)), 1);
        assert_eq!(hear(&mut stream).await.as_deref(), Some("two"));
        proxy.hold(direction);
        ask_in_vain(&mut stream, "three").await;
        happens(&proxy, Fault::Held(direction), 2).await;
        proxy.discard(direction);
        hears_nothing(&mut stream).await;
        proxy.swallow(direction, 1);
        ask_in_vain(&mut stream, "four").await;
        happens(&proxy, Fault::Swallowed(direction), 1).await;
        assert_eq!(ask(&mut stream, "five").await.as_deref(), Some("five"));
        let counts = [Fault::Held, Fault::Late, Fault::Lost, Fault::Swallowed];
        assert_eq!(counts.map(|fault| proxy.count(fault(direction))), [2, 1, 1, 1]);
    }
}

#[tokio::test]
async fn connections_are_cut_refused_and_doubled() {
    let proxy = Proxy::start(&echo().await).await.unwrap();
    for (how, answer) in [(Cut::Reset, None), (Cut::Closed, Some("")), (Cut::HalfOpen, None)] {
        let mut stream = connected(&proxy).await;
        proxy.cut(how);
        match how {
            Cut::HalfOpen => hears_nothing(&mut stream).await,
            _ => assert_eq!(hear(&mut stream).await.as_deref(), answer, "{how:?}"),
        }
        let written = stream.write_all(b"two").await;
        assert!(how != Cut::HalfOpen || written.is_ok(), "half open: the client gets no error");
    }
    proxy.refuse();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut stream, "one").await, None);
    proxy.accept();
    proxy.double();
    let mut stream = connected(&proxy).await;
    // The second answer is lost.
    hears_nothing(&mut stream).await;
    assert_eq!(proxy.count(Fault::Doubled), 1);
}

#[tokio::test]
async fn a_test_whose_fault_never_happened_is_void() {
    let proxy = Proxy::start(&echo().await).await.unwrap();
    proxy.delay(Direction::ToClient, Duration::from_millis(1));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(proxy))).unwrap_err();
    let Failure::Void(why) = Failure::of(&*panic) else { panic!("{panic:?}") };
    assert!(why.ends_with("it never happened: {Delayed(ToClient)}"), "{why}");
}

#[tokio::test]
async fn a_moved_servers_connection_and_request_are_round_trips() {
    const EACH_WAY: Duration = Duration::from_millis(20);
    let proxy = Proxy::start(&echo().await).await.unwrap();
    proxy.move_away(EACH_WAY);
    let began = std::time::Instant::now();
    let mut stream = connected(&proxy).await;
    let first = began.elapsed();
    assert!(first >= EACH_WAY * 4, "{first:?}");
    let asked = std::time::Instant::now();
    assert_eq!(ask(&mut stream, "two").await.as_deref(), Some("two"));
    assert!(asked.elapsed() >= EACH_WAY * 2, "{:?}", asked.elapsed());
}

#[tokio::test]
async fn what_trickles_comes_whole_and_late() {
    let proxy = Proxy::start(&echo().await).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.trickle(Direction::ToServer, Duration::from_millis(2));
    proxy.trickle(Direction::ToClient, Duration::ZERO);
    let asked = std::time::Instant::now();
    stream.write_all(b"in pieces").await.unwrap();
    let mut answer = [0; 9];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_exact(&mut answer)).await;
    assert_eq!((read.unwrap().unwrap(), &answer), (9, b"in pieces"));
    assert!(asked.elapsed() >= Duration::from_millis(16), "{:?}", asked.elapsed());
    for direction in Direction::BOTH {
        assert!(proxy.count(Fault::Trickled(direction)) > 0);
    }
}
