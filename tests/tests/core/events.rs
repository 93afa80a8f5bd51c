//! Publishing: the exact bytes on the channel, found by a plain subscription, and what is never published.

use crate::{Bus, each, options};
use echomq::{Client, Code, Signal};
use echomq_tests::{Direction, Ear, Ending, Kind, Proxy, Server};
use serde_json::{Value, json};

const CHANNEL: &str = "emq:{codemojex}:events";
const A_JOB: &str = "JOB000xY9Wvvcd";
const ROW: &str = "emq:{codemojex}:job:JOB000xY9Wvvcd";

fn vectors() -> Vec<Value> {
    let vectors: Value = serde_json::from_str(include_str!("../../../conformance/vectors.json")).unwrap();
    vectors["events"].as_array().unwrap().clone()
}

pub(crate) fn signal(event: &str) -> Signal {
    Signal::new(event, A_JOB).unwrap()
}

fn name(payload: &[u8]) -> String {
    let heard: Value = serde_json::from_slice(payload).unwrap();
    heard["event"].as_str().unwrap().to_owned()
}

/// What is on the channel next is this event, so that nothing was published before it.
async fn nothing_but(ear: &mut Ear, bus: &Bus) {
    bus.client.events("codemojex").unwrap().publish(signal("last")).await.unwrap();
    assert_eq!(ear.hear(), br#"{"event":"last","job":"JOB000xY9Wvvcd"}"#);
}

#[tokio::test]
async fn every_payload_of_the_vectors_from_both_doors() {
    each(|kind| async move {
        let bus = Bus::start(kind).await;
        let mut ear = Ear::subscribe(&bus.server, CHANNEL);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut published = 0;
        for fact in vectors() {
            let extra = fact["extra"].as_array().unwrap().iter().map(|pair| (text(&pair[0]), text(&pair[1])));
            let signal =
                Signal::new(text(&fact["event"]), text(&fact["job"])).unwrap().with_all(extra).unwrap();
            let events = bus.client.events("codemojex").unwrap();
            assert_eq!(events.publish(signal.clone()).await.unwrap(), 1);
            assert_eq!(ear.hear(), text(&fact["payload"]).as_bytes());
            let url = bus.server.url();
            let blocking = move || {
                let client = echomq::blocking::Client::open(&options(&url)).unwrap();
                client.events("codemojex").unwrap().publish(signal).unwrap()
            };
            assert_eq!(tokio::task::spawn_blocking(blocking).await.unwrap(), 1);
            assert_eq!(ear.hear(), text(&fact["payload"]).as_bytes());
            published += 1;
        }
        assert_eq!(published, 4);
    })
    .await;
}

#[tokio::test]
async fn progress_changes_the_row_and_is_published_in_one_step() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let mut ear = Ear::subscribe(&bus.server, CHANNEL);
        let events = bus.client.events("codemojex").unwrap();
        bus.plain.command(["HSET", ROW, "state", "active", "progress", "0"]);
        for progress in ["50", "5/10 \"naïve\" ☕"] {
            assert_eq!(events.update_progress(A_JOB, progress).await.unwrap(), 1);
            let row: Vec<String> = bus.plain.query(["HGETALL", ROW]);
            assert_eq!(row, ["state", "active", "progress", progress]);
            let heard: Value = serde_json::from_slice(&ear.hear()).unwrap();
            assert_eq!(heard, json!({"event": "progress", "job": A_JOB, "progress": progress}));
            bus.plain.command(["SCRIPT", "FLUSH"]);
        }
    })
    .await;
}

#[tokio::test]
async fn progress_of_a_job_without_a_row_changes_nothing() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let mut ear = Ear::subscribe(&bus.server, CHANNEL);
        let events = bus.client.events("codemojex").unwrap();
        let error = events.update_progress(A_JOB, "50").await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::Gone, Some(ROW)));
        assert_eq!(bus.plain.query::<u64>(["EXISTS", ROW]), 0);

        bus.plain.command(["SET", ROW, "text"]);
        let error = events.update_progress(A_JOB, "50").await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::WrongType, Some(ROW)));
        assert_eq!(bus.plain.query::<String>(["GET", ROW]), "text");
        nothing_but(&mut ear, &bus).await;
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_said_never_reaches_the_wire() {
    each(|kind| async move {
        let bus = Bus::start(kind).await;
        let mut ear = Ear::subscribe(&bus.server, CHANNEL);
        let events = bus.client.events("codemojex").unwrap();
        assert_eq!(events.update_progress("JOB1", "50").await.unwrap_err().code(), Code::MalformedId);
        assert_eq!(events.update_progress(A_JOB, b"\xff").await.unwrap_err().code(), Code::InvalidOption);
        assert_eq!(events.cancel("JOB1", "x", None).await.unwrap_err().code(), Code::MalformedId);
        assert_eq!(events.watch("JOB1").await.unwrap_err().code(), Code::MalformedId);
        let large = signal("large").with("text", vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(events.publish(large).await.unwrap_err().code(), Code::TooLarge);
        assert_eq!(bus.client.events("a b").unwrap_err().code(), Code::InvalidName);
        nothing_but(&mut ear, &bus).await;
    })
    .await;
}

#[tokio::test]
async fn a_missing_channel_rule_is_named_and_the_rest_works() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.plain.command(["ACL", "SETUSER", "u", "on", ">p", "~*", "+@all"]);
        bus.plain.command(["HSET", ROW, "state", "active", "progress", "7"]);
        for protocol in ["2", "3"] {
            let url = format!("redis://u:p@{}?protocol={protocol}", bus.server.address());
            let client = Client::connect(&options(&url)).await.unwrap();
            let events = client.events("codemojex").unwrap();
            for error in [
                events.publish(signal("completed")).await.unwrap_err(),
                events.update_progress(A_JOB, "50").await.unwrap_err(),
                events.listen().await.unwrap_err(),
                events.watch(A_JOB).await.unwrap_err(),
                events.cancel(A_JOB, "late", None).await.unwrap_err(),
            ] {
                assert_eq!((error.code(), error.subject()), (Code::Auth, Some(CHANNEL)), "{error}");
                assert!(error.message().contains("`&emq:{codemojex}:events`"), "{error}");
            }
            // Nothing of the row was left changed.
            let row: Vec<String> = bus.plain.query(["HGETALL", ROW]);
            assert_eq!(row, ["state", "active", "progress", "7"]);
            client.stream("codemojex", "events").unwrap().append([("k", "v")]).await.unwrap();
        }
        bus.plain.command(["ACL", "SETUSER", "u", "&emq:{codemojex}:events"]);
        let url = format!("redis://u:p@{}", bus.server.address());
        let events = Client::connect(&options(&url)).await.unwrap().events("codemojex").unwrap();
        let _listener = events.listen().await.unwrap();
        assert_eq!(events.publish(signal("completed")).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_event_whose_answer_is_lost_is_not_sent_again() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let mut ear = Ear::subscribe(&server, CHANNEL);
        let client = Client::connect(&options(&proxy.url())).await.unwrap();
        let events = client.events("codemojex").unwrap();
        for number in 0..20 {
            proxy.cut_after(Direction::Replies, 0, Ending::Reset);
            let lost = signal("lost").with("number", number.to_string()).unwrap();
            assert_eq!(events.publish(lost).await.unwrap_err().code(), Code::UnknownOutcome);
            proxy.heal();
            events.publish(signal("next")).await.unwrap();
            // It came once or not at all.
            let mut heard = name(&ear.hear());
            if heard == "lost" {
                heard = name(&ear.hear());
            }
            assert_eq!(heard, "next");
        }
    })
    .await;
}

#[tokio::test]
async fn a_record_is_appended_and_then_its_place_is_published() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let mut ear = Ear::subscribe(&bus.server, CHANNEL);
        let events = bus.client.events("codemojex").unwrap();
        let one = events.append_and_publish("games", [("kind", "won")], signal("completed")).await.unwrap();
        let with_more = signal("completed").with("score", "7").unwrap();
        let two = events.append_sequenced_and_publish("games", [("kind", "won")], with_more).await.unwrap();
        for (announced, more) in [(&one, ""), (&two, r#","score":"7""#)] {
            assert_eq!(announced.published, Ok(1));
            let id = announced.id;
            let payload =
                format!(r#"{{"event":"completed","job":"{A_JOB}","stream":"games","id":"{id}"{more}}}"#);
            assert_eq!(String::from_utf8(ear.hear()).unwrap(), payload);
        }
        assert!(one.id < two.id);
        let games = bus.client.stream("codemojex", "games").unwrap();
        let records = games.read(echomq::Range::all().from(one.id)).all().await.unwrap();
        assert_eq!(records.iter().map(|record| record.id().unwrap()).collect::<Vec<_>>(), [one.id, two.id]);

        // A record that is refused is not announced.
        bus.plain.command(["SET", "emq:{codemojex}:stream:text", "x"]);
        for (stream, signal, code) in [
            ("text", signal("completed"), Code::WrongType),
            ("a b", signal("completed"), Code::InvalidName),
            ("games", signal("completed").with("id", "x").unwrap(), Code::ReservedField),
            ("games", signal("completed").with("x", vec![b'x'; 1 << 20]).unwrap(), Code::TooLarge),
        ] {
            let refused = events.append_and_publish(stream, [("k", "v")], signal).await.unwrap_err();
            assert_eq!(refused.code(), code);
        }
        assert_eq!(bus.plain.xlen("emq:{codemojex}:stream:games"), 2);
        nothing_but(&mut ear, &bus).await;
    })
    .await;
}

#[tokio::test]
async fn a_record_is_there_even_where_its_event_is_refused() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.plain.command(["ACL", "SETUSER", "u", "on", ">p", "~*", "+@all"]);
        let url = format!("redis://u:p@{}", bus.server.address());
        let events = Client::connect(&options(&url)).await.unwrap().events("codemojex").unwrap();
        let announced = events.append_and_publish("games", [("k", "v")], signal("completed")).await.unwrap();
        assert_eq!(announced.published.unwrap_err().code(), Code::Auth);
        assert_eq!(bus.plain.xlen("emq:{codemojex}:stream:games"), 1);
    })
    .await;
}

#[tokio::test]
async fn an_event_follows_its_verdict() {
    let bus = Bus::start(Kind::Valkey).await;
    let mut ear = Ear::subscribe(&bus.server, CHANNEL);
    let events = bus.client.events("codemojex").unwrap();
    let decided = events.after_verdict(signal("completed"), async {
        // Nothing is out while the transition runs.
        nothing_but(&mut ear, &bus).await;
        Ok::<_, Code>(Some("done"))
    });
    let decided = decided.await.unwrap().unwrap();
    assert_eq!((decided.verdict, decided.published), ("done", Ok(1)));
    assert_eq!(ear.hear(), br#"{"event":"completed","job":"JOB000xY9Wvvcd"}"#);

    assert_eq!(events.after_verdict(signal("failed"), async { Ok::<_, Code>(None::<()>) }).await, Ok(None));
    let failed = events.after_verdict(signal("failed"), async { Err::<Option<()>, _>(Code::Stale) });
    assert_eq!(failed.await, Err(Code::Stale));
    nothing_but(&mut ear, &bus).await;
    let url = bus.server.url();
    let blocking = move || {
        let events = echomq::blocking::Client::open(&options(&url)).unwrap().events("codemojex").unwrap();
        events.after_verdict(signal("completed"), || Ok::<_, Code>(Some(7))).unwrap().unwrap()
    };
    let decided = tokio::task::spawn_blocking(blocking).await.unwrap();
    assert_eq!((decided.verdict, decided.published), (7, Ok(1)));
}
