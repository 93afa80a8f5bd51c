//! One connection through the proxy: four small tasks, a reader and a writer each way.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Direction, Ending};

/// What holds until it is changed; a change wakes every connection.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) delay: [Duration; 2],
    pub(super) hole: [bool; 2],
    /// Connections with a lower number forward nothing any more.
    pub(super) stranded_below: usize,
    /// Connections with a lower number are to end.
    pub(super) closed_below: usize,
    pub(super) closed_how: Ending,
}

impl Settings {
    fn calm() -> Self {
        Self {
            delay: [Duration::ZERO; 2],
            hole: [false; 2],
            stranded_below: 0,
            closed_below: 0,
            closed_how: Ending::Close,
        }
    }

    fn forwards(&self, number: usize, direction: Direction) -> bool {
        !self.hole[direction as usize] && number >= self.stranded_below
    }
}

/// What is used up by the chunks that pass.
pub(super) struct Faults {
    pub(super) cut: [Option<(usize, Ending)>; 2],
    pub(super) drop_probability: f64,
    pub(super) random: fastrand::Rng,
}

impl Faults {
    fn calm() -> Self {
        Self { cut: [None; 2], drop_probability: 0.0, random: fastrand::Rng::with_seed(0) }
    }

    /// How much of a chunk is forwarded, and whether that is the connection's end.
    fn judge(&mut self, direction: Direction, length: usize) -> (usize, Option<Ending>) {
        let cut = &mut self.cut[direction as usize];
        match *cut {
            // Bytes up to the limit pass, and the first chunk that reaches it is the last.
            Some((left, ending)) if left <= length => {
                *cut = None;
                return (left, Some(ending));
            }
            Some((left, ending)) => *cut = Some((left - length, ending)),
            None => {}
        }
        let droppable = direction == Direction::Replies && self.drop_probability > 0.0;
        if droppable && self.random.f64() < self.drop_probability {
            return (0, Some(Ending::Close));
        }
        (length, None)
    }
}

/// What the proxy and its connections have in common.
pub(super) struct Shared {
    upstream: SocketAddr,
    settings: watch::Sender<Settings>,
    faults: Mutex<Faults>,
    captured: Mutex<Vec<Vec<u8>>>,
    pub(super) accepted: AtomicUsize,
    pub(super) open: AtomicUsize,
    pub(super) cuts: AtomicUsize,
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr) -> Self {
        Self {
            upstream,
            settings: watch::Sender::new(Settings::calm()),
            faults: Mutex::new(Faults::calm()),
            captured: Mutex::default(),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
        }
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut Settings)) {
        self.settings.send_modify(change);
    }

    pub(super) fn heal(&self) {
        *self.faults() = Faults::calm();
        // What was closed stays closed: connections ask for it only once.
        self.set(|settings| {
            let (closed_below, closed_how) = (settings.closed_below, settings.closed_how);
            *settings = Settings { closed_below, closed_how, ..Settings::calm() };
        });
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn captured(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new connection and gives it its number.
    pub(super) fn admit(&self) -> usize {
        self.captured().push(Vec::new());
        self.open.fetch_add(1, Ordering::SeqCst);
        self.accepted.fetch_add(1, Ordering::SeqCst)
    }
}

/// Carries one connection from its beginning to its end.
pub(super) async fn serve(number: usize, client: TcpStream, shared: Arc<Shared>) {
    match TcpStream::connect(shared.upstream).await {
        Ok(upstream) => carry(number, client, upstream, &shared).await,
        // Nobody there: the client learns it as it would from the server's own machine.
        Err(_) => reset(client),
    }
    shared.open.fetch_sub(1, Ordering::SeqCst);
}

async fn carry(number: usize, mut client: TcpStream, mut upstream: TcpStream, shared: &Shared) {
    // The proxy adds no delay of its own. Where an option cannot be set, the socket is dead and the pumps will see it.
    let _ = client.set_nodelay(true);
    let _ = upstream.set_nodelay(true);
    let mut settings = shared.settings.subscribe();

    let ending = {
        let (from_client, to_client) = client.split();
        let (from_upstream, to_upstream) = upstream.split();
        let pumps = async {
            tokio::try_join!(
                pump(number, Direction::Requests, from_client, to_upstream, shared),
                pump(number, Direction::Replies, from_upstream, to_client, shared),
            )
        };
        tokio::select! {
            ended = pumps => ended.err(),
            Ok(closed) = settings.wait_for(|settings| number < settings.closed_below) => Some(closed.closed_how),
        }
    };
    match ending {
        None => {}
        Some(Ending::Reset) => {
            reset(client);
            reset(upstream);
        }
        Some(Ending::Close) => {
            tokio::join!(close(client), close(upstream));
        }
    }
}

/// What a reader hands to its writer.
enum Item {
    Chunk(Instant, Vec<u8>),
    Cut(Ending),
}

/// Forwards one direction until its end of file; answers how the connection is to end where it is cut before.
async fn pump(
    number: usize,
    direction: Direction,
    reader: ReadHalf<'_>,
    writer: WriteHalf<'_>,
    shared: &Shared,
) -> Result<(), Ending> {
    let (queue, items) = mpsc::unbounded_channel();
    tokio::try_join!(
        read(number, direction, reader, queue, shared),
        write(number, direction, writer, items, shared.settings.subscribe(), &shared.cuts),
    )?;
    Ok(())
}

async fn read(
    number: usize,
    direction: Direction,
    mut reader: ReadHalf<'_>,
    queue: mpsc::UnboundedSender<Item>,
    shared: &Shared,
) -> Result<(), Ending> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = match reader.read(&mut buffer).await {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            // The other end reset the connection: so does the proxy.
            Err(_) => return Err(Ending::Reset),
        };
        let chunk = &buffer[..length];
        if direction == Direction::Requests {
            shared.captured()[number].extend_from_slice(chunk);
        }
        let (forwarded, ending) = shared.faults().judge(direction, length);
        if forwarded > 0 {
            let due = Instant::now() + shared.settings.borrow().delay[direction as usize];
            // The writer is gone only when the connection is.
            let _ = queue.send(Item::Chunk(due, chunk[..forwarded].to_vec()));
        }
        if let Some(ending) = ending {
            let _ = queue.send(Item::Cut(ending));
            return Ok(());
        }
    }
}

async fn write(
    number: usize,
    direction: Direction,
    mut writer: WriteHalf<'_>,
    mut items: mpsc::UnboundedReceiver<Item>,
    mut settings: watch::Receiver<Settings>,
    cuts: &AtomicUsize,
) -> Result<(), Ending> {
    loop {
        let item = items.recv().await;
        if let Some(Item::Chunk(due, _)) = &item {
            tokio::time::sleep_until(*due).await;
        }
        // The sender of the settings lives as long as the proxy.
        let _ = settings.wait_for(|settings| settings.forwards(number, direction)).await;
        match item {
            Some(Item::Chunk(_, bytes)) => {
                let sent: io::Result<()> = writer.write_all(&bytes).await;
                sent.map_err(|_| Ending::Reset)?;
            }
            Some(Item::Cut(ending)) => {
                cuts.fetch_add(1, Ordering::SeqCst);
                return Err(ending);
            }
            None => return writer.shutdown().await.map_err(|_| Ending::Reset),
        }
    }
}

/// Ends a connection with a RST.
fn reset(stream: TcpStream) {
    // Fails only on a socket that has ended already.
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}

/// Ends a connection with a FIN, and reads on until the other end has closed too: closing with bytes unread would
/// send a RST instead.
async fn close(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut unread = vec![0; 4096];
    while matches!(stream.read(&mut unread).await, Ok(length) if length > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_fixes_which_replies_are_dropped() {
        let decisions = |seed| {
            let random = fastrand::Rng::with_seed(seed);
            let mut faults = Faults { drop_probability: 0.2, random, ..Faults::calm() };
            (0..1000).map(|_| faults.judge(Direction::Replies, 10).0 == 0).collect::<Vec<_>>()
        };
        assert_eq!(decisions(7), decisions(7));
        assert_ne!(decisions(7), decisions(8));
        let dropped = decisions(7).into_iter().filter(|dropped| *dropped).count();
        assert!((150..250).contains(&dropped), "{dropped} of 1000");
    }

    #[test]
    fn a_cut_counts_bytes_over_chunks_and_happens_once() {
        let mut faults = Faults::calm();
        faults.cut[Direction::Requests as usize] = Some((25, Ending::Close));
        assert_eq!(faults.judge(Direction::Requests, 10), (10, None));
        assert_eq!(faults.judge(Direction::Replies, 100), (100, None));
        assert_eq!(faults.judge(Direction::Requests, 10), (10, None));
        assert_eq!(faults.judge(Direction::Requests, 10), (5, Some(Ending::Close)));
        assert_eq!(faults.judge(Direction::Requests, 10), (10, None));
    }
}
