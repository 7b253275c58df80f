//! A server of another kind is at the address. The error is one line, and `Rejected` if the server's answer proves its
//! kind.

#![cfg(all(feature = "redis", feature = "redlock", feature = "etcd", feature = "mongodb", feature = "zk"))]
#![cfg(all(feature = "postgres", feature = "mysql"))]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use onelock::ErrorKind;

/// A server of another kind reacts to a client in one of these ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Answers what it does not understand, as HTTP does.
    Answers,
    /// Speaks first, as MySQL does.
    Greets,
    /// Closes the connection at what it does not understand, as PostgreSQL, MongoDB and ZooKeeper do.
    Closes,
}

const BAD_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nno\r\n";
const GREETING: &[u8] =
    b"J\0\0\0\n8.4.0\0\x0b\0\0\0abcdefgh\0\xff\xff\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0\
    ijklmnopqrst\0caching_sha2_password\0";

impl Kind {
    /// Starts the server and returns its port. It serves until the test process ends.
    fn listen(self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                thread::spawn(move || self.serve(connection));
            }
        });
        port
    }

    fn serve(self, mut connection: TcpStream) {
        if self == Kind::Greets {
            let _: Result<(), _> = connection.write_all(GREETING);
        }
        let mut asked = [0; 4096];
        while connection.read(&mut asked).is_ok_and(|length| length > 0) {
            match self {
                Kind::Answers => {
                    let _: Result<(), _> = connection.write_all(BAD_REQUEST);
                    // Reads what still comes, as servers do: closing now would send a reset that overtakes the answer.
                    let _: Result<(), _> = connection.shutdown(Shutdown::Write);
                }
                Kind::Greets => {}
                Kind::Closes => return,
            }
        }
    }
}

/// Connects to servers of each kind, by the URL that `url` makes of a port. The kinds in `proven` must be rejected with
/// these words. The others only fail to answer correctly, so they must be transient errors.
async fn refuses(url: impl Fn(Kind) -> String, proven: &[Kind], words: &str) {
    for kind in [Kind::Answers, Kind::Greets, Kind::Closes] {
        // A rejection comes at once, unless the machine is busy. The other errors take the whole patience.
        let patience = if proven.contains(&kind) { "10s" } else { "1s" };
        let url = format!("{}?patience={patience}", url(kind));
        let error = onelock::connect(&url).await.expect_err(&url);
        assert!(!error.to_string().contains('\n'), "one line: {error}");
        match proven.contains(&kind) {
            true => {
                assert_eq!(error.kind(), ErrorKind::Rejected, "{kind:?}: {error}");
                assert!(error.to_string().contains(words), "{kind:?}: {error}");
            }
            false => assert!(error.is_transient(), "{kind:?}: {error}"),
        }
    }
}

#[tokio::test]
async fn no_redis() {
    let url = |kind: Kind| format!("redis://127.0.0.1:{}", kind.listen());
    refuses(url, &[Kind::Answers, Kind::Greets], "no Redis or Valkey").await;
}

#[tokio::test]
async fn no_majority_of_redis() {
    let url = |kind: Kind| {
        let hosts = [kind, kind, kind].map(|kind| format!("127.0.0.1:{}", kind.listen()));
        format!("redlock://{}", hosts.join(","))
    };
    refuses(url, &[Kind::Answers, Kind::Greets], "no Redis or Valkey").await;
}

#[tokio::test]
async fn no_etcd() {
    let url = |kind: Kind| format!("etcd://127.0.0.1:{}", kind.listen());
    refuses(url, &[Kind::Answers, Kind::Greets], "is not etcd").await;
}

#[tokio::test]
async fn no_mongodb() {
    let url = |kind: Kind| format!("mongodb://127.0.0.1:{}/db", kind.listen());
    refuses(url, &[Kind::Answers, Kind::Greets], "no MongoDB").await;
}

#[tokio::test]
async fn no_postgres() {
    let url = |kind: Kind| format!("postgres://u@127.0.0.1:{}/db", kind.listen());
    refuses(url, &[Kind::Answers, Kind::Greets], "no PostgreSQL").await;
}

/// A MySQL client waits for the server's greeting, which another kind does not send.
#[tokio::test]
async fn no_mysql() {
    let url = |kind: Kind| format!("mysql://u@127.0.0.1:{}/db?patience=1s", kind.listen());
    for kind in [Kind::Answers, Kind::Closes] {
        let error = onelock::connect(&url(kind)).await.expect_err("no MySQL");
        assert!(error.is_transient() && !error.to_string().contains('\n'), "{error}");
        assert!(error.to_string().contains("no server of this kind has answered"), "{error}");
    }
}

#[tokio::test]
async fn no_zookeeper() {
    let url = |kind: Kind| format!("zk://127.0.0.1:{}", kind.listen());
    refuses(url, &[], "").await;
}
