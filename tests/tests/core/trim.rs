//! Letting go of old records.

use crate::{Bus, KEY, each};
use echomq::{EntryId, EventId, Timestamp, Trim};

#[tokio::test]
async fn exact_and_approximate_by_number_and_by_instant() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let at = |n: u64| 1_780_512_970_000 + n;
        for n in 0..1_000 {
            let id = EventId::try_from(EntryId::new(at(n), 7)).unwrap();
            bus.stream.append_id(id, [("n", n.to_string())]).await.unwrap();
        }
        assert_eq!(bus.stream.trim(Trim::max_len(990).exact()).await.unwrap(), 10);
        assert_eq!(bus.plain.xlen(KEY), 990);
        let instant = Timestamp::from_millis(at(20) as i64);
        assert_eq!(bus.stream.trim(Trim::min_id(instant).exact()).await.unwrap(), 10);
        assert_eq!(
            bus.stream.read_last(1_000).all().await.unwrap().last().unwrap().get("n"),
            Some(&b"20"[..])
        );
        let removed = bus.stream.trim(Trim::max_len(100)).await.unwrap();
        let left = bus.plain.xlen(KEY);
        assert_eq!(removed + left, 980);
        assert!((100..200).contains(&left), "{left}");
        let removed = bus.stream.trim(Trim::min_id(Timestamp::from_millis(at(2_000) as i64))).await.unwrap();
        assert!(removed <= left);
        assert_eq!(bus.stream.trim(Trim::max_len(0).exact()).await.unwrap(), left - removed);
        assert_eq!(bus.stream.trim(Trim::min_id(Timestamp::from_millis(-1)).exact()).await.unwrap(), 0);
    })
    .await;
}
