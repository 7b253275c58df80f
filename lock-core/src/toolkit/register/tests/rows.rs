//! The row: as text, and what it means at a moment.

use super::*;
use crate::toolkit::register::row::Mark;
use crate::toolkit::register::span::Span;

fn at(stamp: i64) -> Mark {
    Mark::exactly(stamp, None)
}

fn grant() -> Row {
    Row::granted(None, mint(), &Label::new("a b  c"), 100, 1_000)
}

#[test]
fn a_row_is_one_line_ending_with_the_label() {
    let revoked = grant().revoked(&at(5), mint(), &Label::new(""), When::HoldersDeadline);
    let rows = [
        grant(),
        grant().renewed(&at(5), 200),
        grant().renewed(&at(5), 50),
        grant().released(&at(5), mint()),
        revoked.clone(),
        revoked.revoked(&at(6), mint(), &Label::new("x"), When::Now),
    ];
    for row in rows {
        assert_eq!(Row::parse(&row.to_bytes()).unwrap(), row);
    }
    let owner = "0".repeat(32);
    let text = format!("lock1 granted {owner} 30000000 0 1700000000000000 0 - - me@here pid 1 job");
    assert_eq!(Row::parse(text.as_bytes()).unwrap().to_bytes(), text.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_foreign_row_is_rejected_with_advice() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    for (value, says) in [
        ("hello", "delete the key"),
        ("", "delete the key"),
        ("lock1 granted me", "another version"),
        ("lock2 granted x", "another version"),
    ] {
        shelf.state().values.insert("p:a".to_owned(), (value.into(), 1, 1));
        let errors = [
            us.claim().attempt().await.err(),
            us.claim().renew(TTL).await.err(),
            us.claim().release().await.err(),
            us.0.inspect(&a(), PATIENCE).await.err(),
        ];
        for error in errors {
            let error = error.expect("it is refused");
            assert_eq!(error.kind(), ErrorKind::Rejected);
            assert!(error.message().contains(says), "{}", error.message());
        }
        assert_eq!(shelf.state().values["p:a"].0, value.as_bytes());
    }
}

#[test]
fn a_row_stamped_after_its_deadline_is_void() {
    let row = grant();
    assert!(row.is_in_force(&at(1_000), Span::exactly(1_000)));
    assert!(!row.is_in_force(&at(1_001), Span::exactly(1_001)));
    let renewed = row.renewed(&at(900), 100);
    assert_eq!(renewed.until, Some(1_000), "the end of the lease before it");
    assert!(renewed.is_in_force(&at(1_000), Span::exactly(1_050)));
    assert!(!renewed.is_in_force(&at(1_001), Span::exactly(1_050)));
}

#[test]
fn a_lease_ends_when_surely_past_its_end() {
    let (row, mark) = (grant(), Mark { written: Span { from: 500, by: 520 }, ..at(500) });
    assert!(row.is_in_force(&mark, Span { from: 619, by: 700 }));
    assert!(!row.is_in_force(&mark, Span { from: 620, by: 700 }));
    assert!(row.may_be_over(&mark, Span { from: 500, by: 600 }));
    assert!(!row.may_be_over(&mark, Span { from: 500, by: 599 }));
    assert_eq!(row.left(&mark, Span { from: 500, by: 550 }), Duration::from_micros(50));
}

#[test]
fn only_a_longer_renewal_moves_the_end() {
    let long = Row { lease: 1_000, ..grant() };
    let short = long.renewed(&at(0), 100);
    assert_eq!(short.ends(&at(50)), Span::exactly(1_000));
    assert_eq!(short.ends(&at(950)), Span::exactly(1_050));
    let again = short.renewed(&at(50), 100);
    assert_eq!(again.ends(&at(60)), Span::exactly(1_000), "it is kept as long as it matters");
    let after = short.renewed(&at(950), 100);
    assert_eq!((after.least, after.ends(&at(960))), (0, Span::exactly(1_060)));
}

#[test]
fn a_token_is_kept_by_every_later_row() {
    let row = Row::granted(None, mint(), &Label::new(""), 100, 1_000);
    assert_eq!(row.token(&at(500)), 500);
    let renewed = row.renewed(&at(500), 100);
    let released = renewed.released(&at(510), mint());
    assert_eq!((renewed.token(&at(510)), released.token(&at(520))), (500, 500));
    let next = Row::granted(Some((&released, &at(520))), mint(), &Label::new(""), 100, 1_000);
    assert_eq!((next.token(&at(400)), next.token(&at(600))), (501, 600), "the clock may have been set back");
    let void = Row::granted(Some((&next, &at(1_001))), mint(), &Label::new(""), 100, 2_000);
    assert_eq!(void.token(&at(900)), 1_002, "more than one that was never granted");
}

#[test]
fn a_server_tool_can_see_and_end_leases() {
    let row = grant();
    let entry = row.holder(500, None, 550).unwrap();
    assert_eq!((entry.label.as_deref(), entry.token.unwrap().get()), (Some("a b  c"), 500));
    assert_eq!(
        entry.since.zip(entry.expires_in),
        Some((Duration::from_micros(50), Duration::from_micros(50)))
    );
    assert!(row.holder(500, None, 600).is_none());
    assert_eq!((row.label(), row.owner().to_string()), ("a b  c", row.owner.clone()));
    let ended = row.ended(500, None);
    assert!(ended.holder(510, None, 510).is_none() && ended.token(&at(510)) == 500);
    let taken = row.taken(500, None, mint(), &Label::new("an operator"));
    assert_eq!(taken.holder(510, None, 510).unwrap().label.as_deref(), Some("an operator"));
    assert!(taken.holder(510, None, 600).is_none());
    assert_eq!((taken.revoked_from(), row.revoked_from()), (Some(&*row.owner), None));
    let name = a();
    assert_eq!(Row::notice(&name, &row.to_bytes()), Notice::Other);
    assert_eq!(Row::notice(&name, &ended.to_bytes()), Notice::Released("a".to_owned()));
}
