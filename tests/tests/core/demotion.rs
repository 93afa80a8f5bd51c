//! Readers under way while their primary becomes a replica: they go on by themselves, and miss and repeat nothing.

use crate::consumer::{consumer_options, pending_by};
use crate::listener::{listen, subscribe};
use crate::{each, options};
use echomq::{Client, Consumer, Event, EventId, Heard, Message, NoticeKind, Signal, Start, Stream, Tailed};
use echomq_tests::{Plain, Proxy, Server, wait_until_async};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const A_JOB: &str = "JOB000xY9Wvvcd";

/// How many records are read at least before the server changes and after.
const ENOUGH: usize = 20;

/// Everything in the order in which it came.
struct Came<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Came<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn push(&self, item: T) {
        self.0.lock().unwrap().push(item);
    }

    fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    fn share(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A tail, a consumer and a listener of one client.
struct Readers {
    tailed: Came<EventId>,
    handled: Came<EventId>,
    /// The numbers of the events; nothing stands for a gap after a lost connection.
    heard: Came<Option<usize>>,
    consumer: Consumer,
    _client: Client,
    tasks: Vec<JoinHandle<()>>,
}

impl Readers {
    async fn start(url: &str) -> Self {
        let client = Client::connect(&options(url).timeout(Duration::from_secs(60))).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        let (tailed, handled, heard) = (Came::new(), Came::new(), Came::new());
        let tail = stream.tail(Start::Head).await.unwrap();
        let consumer = stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
        let listener = listen(&client).await;
        let subscriber = subscribe(&listener);
        let tail = {
            let tailed = tailed.share();
            tokio::spawn(async move {
                while let Some(next) = tail.next().await.unwrap() {
                    let Tailed::Record(record) = next else { panic!("{next:?}") };
                    tailed.push(record.id().unwrap());
                }
            })
        };
        let consume = {
            let (handled, consumer) = (handled.share(), consumer.clone());
            tokio::spawn(async move {
                let handler = |message: Message| {
                    handled.push(message.id().unwrap());
                    async { Ok::<(), String>(()) }
                };
                consumer.run(handler).await.unwrap();
            })
        };
        let hear = {
            let heard = heard.share();
            tokio::spawn(async move {
                let _listener = listener;
                while let Some(next) = subscriber.next().await.unwrap() {
                    heard.push(match next {
                        Heard::Event(event) => Some(number(&event)),
                        Heard::Gap(gap) => {
                            assert!(gap.reconnected() && gap.missed() == 0, "{gap:?}");
                            None
                        }
                    });
                }
            })
        };
        Self { tailed, handled, heard, consumer, _client: client, tasks: vec![tail, consume, hear] }
    }

    /// Waits until each was given something of those written from that number on.
    async fn read_on(&self, written: &Written, from: usize) {
        wait_until_async("more records", async || written.ids.all().len() > from + ENOUGH).await;
        let id = written.ids.all()[from];
        wait_until_async("the tail to go on", async || self.tailed.all().contains(&id)).await;
        wait_until_async("the consumer to go on", async || self.handled.all().contains(&id)).await;
        let later = |heard: &Option<usize>| heard.is_some_and(|number| number >= from);
        wait_until_async("the listener to go on", async || self.heard.all().iter().any(later)).await;
    }

    /// Ends them, and sees that all was read once.
    async fn end(self, written: Written, primary: &Server) {
        let ids = written.end().await;
        let mut plain = Plain::connect(primary);
        let stored: Vec<(String, Vec<String>)> =
            plain.query(["XRANGE", "emq:{codemojex}:stream:events", "-", "+"]);
        let stored: Vec<EventId> = stored.into_iter().map(|(_, fields)| fields[1].parse().unwrap()).collect();
        assert_eq!(stored, ids, "what the new primary holds is what was acknowledged");
        wait_until_async("the end of the tail", async || self.tailed.all().len() >= ids.len()).await;
        wait_until_async("the end of the consumer", async || self.handled.all().len() >= ids.len()).await;
        let pending = async || pending_by(&mut plain, "g") == 0;
        wait_until_async("the acknowledgements to arrive", pending).await;
        let last = Some(ids.len() - 1);
        wait_until_async("the end of the listener", async || self.heard.all().last() == Some(&last)).await;
        assert_eq!(self.tailed.all(), ids, "each once and in order");
        assert_eq!(self.handled.all(), ids, "each once and in order");
        let mut expected = 0;
        let mut gap = false;
        for number in self.heard.all() {
            match number {
                None => gap = true,
                Some(number) => {
                    assert!(number == expected || gap && number > expected, "{number} after {expected}");
                    (expected, gap) = (number + 1, false);
                }
            }
        }
        assert_eq!(self.consumer.stop(Duration::from_secs(20)).await, 0);
        while let Some(notice) = self.consumer.notices().next().await {
            assert!(
                !matches!(notice.kind(), NoticeKind::GroupRecreated | NoticeKind::Lost),
                "the group was there all the time: {notice}"
            );
        }
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn number(event: &Event) -> usize {
    event.get("n").unwrap().parse().unwrap()
}

/// What a client of its own writes while all this happens: a record, and then an event with its number.
struct Written {
    ids: Came<EventId>,
    ending: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Written {
    async fn start(url: &str) -> Self {
        let client = Client::connect(&options(url).timeout(Duration::from_secs(60))).await.unwrap();
        let stream: Stream = client.stream("codemojex", "events").unwrap();
        let (ids, ending) = (Came::new(), Arc::<AtomicBool>::default());
        let task = {
            let (ids, ending) = (ids.share(), ending.clone());
            tokio::spawn(async move {
                let mut number = 0;
                while !ending.load(Ordering::Relaxed) {
                    let n = number.to_string();
                    ids.push(stream.append([("n", &n[..])]).await.unwrap());
                    let signal = Signal::new("added", A_JOB).unwrap().with("n", n).unwrap();
                    // An event may be lost with its connection, and is not sent again.
                    let _ = client.events("codemojex").unwrap().publish(signal).await;
                    number += 1;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        };
        Self { ids, ending, task }
    }

    async fn end(self) -> Vec<EventId> {
        self.ending.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        self.ids.all()
    }
}

fn is_primary(server: &Server) -> bool {
    let role: Vec<redis::Value> = Plain::connect(server).query(["ROLE"]);
    redis::from_redis_value::<String>(role[0].clone()).unwrap() == "master"
}

#[tokio::test]
async fn readers_follow_to_the_primary_that_took_over() {
    each(|kind| async move {
        let (old, new) = (Server::start(kind), Server::start(kind));
        let name = Proxy::start(old.address());
        let (readers, written) = (Readers::start(&name.url()).await, Written::start(&name.url()).await);
        readers.read_on(&written, 0).await;
        new.replicate(&old);
        readers.read_on(&written, written.ids.all().len()).await;
        // The two change their roles so that nothing is lost: what is acknowledged is there on both.
        Plain::connect(&old).command(["FAILOVER", "TO", new.host(), &new.port().to_string()]);
        wait_until_async("the other way round", async || is_primary(&new) && !is_primary(&old)).await;
        // Only now the name leads to the new one: until then whoever connects again meets the old one.
        name.redirect(new.address());
        readers.read_on(&written, written.ids.all().len()).await;
        readers.end(written, &new).await;
    })
    .await;
}

#[tokio::test]
async fn readers_go_on_when_their_server_is_made_primary_again() {
    each(|kind| async move {
        let server = Server::start(kind);
        let name = Proxy::start(server.address());
        let (readers, written) = (Readers::start(&name.url()).await, Written::start(&name.url()).await);
        for _ in 0..2 {
            readers.read_on(&written, written.ids.all().len()).await;
            let connections = name.connections();
            // A replica of nobody: it keeps what it has.
            let nobody = Proxy::start(server.address());
            nobody.refuse_connections();
            Plain::connect(&server).command(["REPLICAOF", nobody.host(), &nobody.port().to_string()]);
            // Each of the two clients has been refused, and has tried again.
            wait_until_async("attempts", async || name.connections() >= connections + 6).await;
            server.promote();
            readers.read_on(&written, written.ids.all().len()).await;
        }
        readers.end(written, &server).await;
    })
    .await;
}
