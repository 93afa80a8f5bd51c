//! Cancelling in other processes: the mark and the event, both seen by a plain client.

use crate::listener::{CHANNEL, event, listen, publish, subscribe};
use crate::{Bus, each, options};
use echomq::{Client, Code};
use echomq_tests::{Ear, Ending, Kind, Proxy, Server, wait_until_async};
use std::time::Duration;

const A_JOB: &str = "JOB000xY9Wvvcd";
const MARK: &str = "emq:{codemojex}:cancel:JOB000xY9Wvvcd";

#[tokio::test]
async fn a_job_is_marked_for_a_while_and_the_event_is_out() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let mut ear = Ear::subscribe(&bus.server, CHANNEL);
        let events = bus.client.events("codemojex").unwrap();
        for (time_to_live, at_most, at_least) in
            [(None, 86_400_000, 86_300_000), (Some(Duration::from_secs(60)), 60_000, 1)]
        {
            assert_eq!(events.cancel(A_JOB, "the \"player\" left", time_to_live).await.unwrap(), 1);
            assert_eq!(bus.plain.query::<String>(["GET", MARK]), "the \"player\" left");
            let left: u64 = bus.plain.query(["PTTL", MARK]);
            assert!((at_least..=at_most).contains(&left), "{left}");
            assert_eq!(
                String::from_utf8(ear.hear()).unwrap(),
                r#"{"event":"cancel","job":"JOB000xY9Wvvcd","reason":"the \"player\" left"}"#
            );
        }
        let refused = events.cancel(A_JOB, "x", Some(Duration::ZERO)).await.unwrap_err();
        assert_eq!((refused.code(), refused.subject()), (Code::InvalidOption, Some("ttl")));
    })
    .await;
}

#[tokio::test]
async fn a_watch_trips_on_the_mark_or_the_event_of_its_job_alone() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let events = bus.client.events("codemojex").unwrap();
        let waiting = events.watch(A_JOB).await.unwrap();
        let other = events.watch("JOB000xY9Wvvce").await.unwrap();
        assert!(waiting.check().is_ok());
        // An event without a mark, whatever its members' order.
        publish(&mut bus.plain, r#"{"reason":"by event","event":"completed","job":"JOB000xY9Wvvcd"}"#);
        publish(&mut bus.plain, r#"{"reason":"by event","event":"cancel","job":"JOB000xY9Wvvcd"}"#);
        assert_eq!(&*waiting.cancelled().await.unwrap(), "by event");
        // A mark that was there before.
        bus.plain.command(["SET", MARK, "by mark", "PX", "60000"]);
        assert_eq!(events.watch(A_JOB).await.unwrap().reason().as_deref(), Some("by mark"));
        assert_eq!((other.reason(), other.watch_error()), (None, None));
        events.cancel("JOB000xY9Wvvce", "", None).await.unwrap();
        assert_eq!(&*other.cancelled().await.unwrap(), "");
    })
    .await;
}

#[tokio::test]
async fn a_watcher_that_was_away_learns_of_it() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let away = Client::connect(&options(&proxy.url())).await.unwrap();
        let here = Client::connect(&options(&server.url())).await.unwrap();
        let listener = listen(&away).await;
        let events = away.events("codemojex").unwrap();
        let (token, other) =
            (events.watch(A_JOB).await.unwrap(), events.watch("JOB000xY9Wvvce").await.unwrap());
        proxy.refuse_connections();
        proxy.close_all(Ending::Reset);
        wait_until_async("the watcher is away", async || !listener.status().connected).await;
        here.events("codemojex").unwrap().cancel(A_JOB, "while away", None).await.unwrap();
        assert!(token.check().is_ok());
        proxy.accept_connections();
        assert_eq!(&*token.cancelled().await.unwrap(), "while away");
        assert!(other.check().is_ok());
        here.events("codemojex").unwrap().cancel("JOB000xY9Wvvce", "now", None).await.unwrap();
        assert_eq!(&*other.cancelled().await.unwrap(), "now");
    })
    .await;
}

#[tokio::test]
async fn a_callback_that_panics_ends_no_listener() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let events = bus.client.events("codemojex").unwrap();
    let subscriber = subscribe(&listen(&bus.client).await);
    let token = events.watch(A_JOB).await.unwrap();
    token.on_cancel(|reason| panic!("a callback panicked at {reason}"));
    publish(&mut bus.plain, r#"{"event":"cancel","job":"JOB000xY9Wvvcd","reason":"why"}"#);
    assert_eq!(&*token.cancelled().await.unwrap(), "why");
    publish(&mut bus.plain, "after");
    assert_eq!(event(&subscriber).await.name(), "cancel");
    assert_eq!(event(&subscriber).await.payload(), b"after");
}

#[tokio::test]
async fn a_token_that_is_dropped_is_watched_no_longer() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let events = bus.client.events("codemojex").unwrap();
    let tokens = [events.watch(A_JOB).await.unwrap(), events.watch(A_JOB).await.unwrap()];
    let mut listening = || bus.plain.query::<(String, u64)>(["PUBSUB", "NUMSUB", CHANNEL]).1;
    assert_eq!(listening(), 1);
    let [first, second] = tokens;
    drop(first);
    assert_eq!(listening(), 1);
    drop(second);
    wait_until_async("the subscription has ended", async || listening() == 0).await;
}

#[tokio::test]
async fn a_thousand_jobs_are_watched_over_one_subscription() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let events = bus.client.events("codemojex").unwrap();
    let mut tokens = Vec::new();
    for number in 0..1_000 {
        let job = format!("JOB00000000{number:03}");
        tokens.push((events.watch(&job).await.unwrap(), job));
    }
    assert_eq!(bus.plain.query::<(String, u64)>(["PUBSUB", "NUMSUB", CHANNEL]).1, 1);
    let subscriber = subscribe(&listen(&bus.client).await);
    for (_, job) in tokens.iter().step_by(2) {
        events.cancel(job, job, None).await.unwrap();
    }
    for (token, job) in tokens.iter().step_by(2) {
        assert_eq!(&*token.cancelled().await.unwrap(), job);
    }
    subscriber.ready().await;
    assert!(tokens.iter().skip(1).step_by(2).all(|(token, _)| token.check().is_ok()));
}
