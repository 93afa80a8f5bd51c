//! The lag of a group: what a plain client counts, or unknown.

use crate::groups::{add, read};
use crate::{Bus, KEY, each};
use echomq::{EntryId, Start};
use echomq_tests::Plain;

/// How many entries stand behind a position.
fn ahead(plain: &mut Plain, position: EntryId) -> u64 {
    let entries: Vec<redis::Value> = plain.query(["XRANGE", KEY, &format!("({position}"), "+"]);
    entries.len() as u64
}

async fn lag(bus: &Bus, group: &str) -> Option<u64> {
    let lag = bus.stream.group(group).await.unwrap().lag();
    let all = bus.stream.groups().await.unwrap();
    assert_eq!(all.iter().find(|info| info.name() == group).unwrap().lag(), lag, "{group}");
    lag
}

#[tokio::test]
async fn where_nothing_was_removed() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.stream.create_group("g", Start::New).await.unwrap();
        assert_eq!(lag(&bus, "g").await, Some(0));
        add(&mut bus.plain, 1, 1_500);
        assert_eq!(lag(&bus, "g").await, Some(1_500));
        read(&mut bus.plain, "g", "c", 2);
        assert_eq!(lag(&bus, "g").await, Some(1_498));
        bus.stream.create_group("new", Start::New).await.unwrap();
        bus.stream.create_group("head", Start::Head).await.unwrap();
        assert_eq!((lag(&bus, "new").await, lag(&bus, "head").await), (Some(0), Some(1_500)));
        read(&mut bus.plain, "g", "c", 1_500);
        assert_eq!(lag(&bus, "g").await, Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_trim_ahead_of_the_group() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.stream.create_group("g", Start::Head).await.unwrap();
        add(&mut bus.plain, 1, 5);
        read(&mut bus.plain, "g", "c", 1);
        bus.plain.command(["XTRIM", KEY, "MAXLEN", "=", "1"]);
        assert_eq!(lag(&bus, "g").await, Some(1));
        assert_eq!(read(&mut bus.plain, "g", "c", 9), ["5-0"]);
        assert_eq!(lag(&bus, "g").await, Some(0));
        // From here on Redis 7.0 counts the trimmed three for ever.
        add(&mut bus.plain, 6, 7);
        assert_eq!(lag(&bus, "g").await, Some(2));
        bus.plain.command(["XTRIM", KEY, "MAXLEN", "=", "0"]);
        assert_eq!(lag(&bus, "g").await, Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_deletion_ahead_and_a_group_made_in_the_middle_are_unknown() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.stream.create_group("g", Start::Head).await.unwrap();
        add(&mut bus.plain, 1, 5);
        read(&mut bus.plain, "g", "c", 1);
        bus.plain.command(["XGROUP", "CREATE", KEY, "middle", "3-0"]);
        assert_eq!(lag(&bus, "middle").await, None);
        assert_eq!(lag(&bus, "g").await, Some(4));
        bus.plain.command(["XDEL", KEY, "3-0"]);
        assert_eq!(lag(&bus, "g").await, None);
        for group in ["g", "middle"] {
            read(&mut bus.plain, group, "c", 9);
            assert_eq!(lag(&bus, group).await, Some(0), "{group}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_trim_behind_the_group_is_verified_up_to_a_thousand() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        for group in ["far", "near"] {
            bus.stream.create_group(group, Start::Head).await.unwrap();
        }
        add(&mut bus.plain, 1, 1_500);
        read(&mut bus.plain, "far", "c", 499);
        read(&mut bus.plain, "near", "c", 700);
        bus.plain.command(["XTRIM", KEY, "MINID", "=", "400-0"]);
        assert_eq!((lag(&bus, "far").await, lag(&bus, "near").await), (None, Some(800)));
        read(&mut bus.plain, "far", "c", 1);
        assert_eq!((lag(&bus, "far").await, lag(&bus, "near").await), (Some(1_000), Some(800)));
    })
    .await;
}

/// Whatever happens to a stream and its groups, a lag that is known is the one that a plain client counts.
#[tokio::test]
async fn a_known_lag_is_right_whatever_happened() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let mut random = fastrand::Rng::with_seed(7);
        let (mut last, mut known, mut unknown) = (1, 0, 0);
        add(&mut bus.plain, 1, 1);
        for group in ["a", "b", "c"] {
            bus.stream.create_group(group, Start::Head).await.unwrap();
        }
        for _ in 0..600 {
            let group = *random.choice(["a", "b", "c"].iter()).unwrap();
            let place = format!("{}-0", random.u64(1..=last));
            let (few, some) = (random.u64(1..4), random.u64(0..20).to_string());
            match random.u32(0..12) {
                0..4 => {
                    add(&mut bus.plain, last + 1, last + few);
                    last += few;
                }
                4..8 => drop(read(&mut bus.plain, group, "c", few)),
                8 => drop(bus.plain.command(["XTRIM", KEY, "MAXLEN", "=", &some])),
                9 => drop(bus.plain.command(["XDEL", KEY, &place])),
                10 => drop(bus.plain.command(["XGROUP", "SETID", KEY, group, &place])),
                _ => {
                    bus.stream.remove_group(group).await.unwrap();
                    bus.stream.create_group(group, Start::Head).await.unwrap();
                }
            }
            for group in bus.stream.groups().await.unwrap() {
                match group.lag() {
                    Some(lag) => {
                        let counted = ahead(&mut bus.plain, group.last_delivered());
                        assert_eq!(lag, counted, "{} at {}", group.name(), group.last_delivered());
                        known += 1;
                    }
                    None => unknown += 1,
                }
            }
        }
        assert!(known > unknown && unknown > 0, "{known} known, {unknown} unknown");
    })
    .await;
}
