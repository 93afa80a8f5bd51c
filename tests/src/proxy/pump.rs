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

use super::commands::{Closer, Greeting, Scanner};
use super::{Direction, Ending};

/// How many bytes wait for a slow direction at most, before the proxy stops reading from the faster side.
const SLOW_BACKLOG: usize = 128 * 1024;

/// How often a second a slow direction forwards something.
const SLOW_STEPS: u64 = 100;

/// What holds until it is changed; a change wakes every connection.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) delay: [Duration; 2],
    /// Bytes a second, where a direction is slow.
    pub(super) bandwidth: [Option<u64>; 2],
    /// Whether connections accepted now are closed once they were greeted.
    pub(super) hangs_up: bool,
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
            bandwidth: [None; 2],
            hangs_up: false,
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
    pub(super) closer: Option<Closer>,
    pub(super) drop_probability: f64,
    pub(super) random: fastrand::Rng,
}

impl Faults {
    fn calm() -> Self {
        Self { cut: [None; 2], closer: None, drop_probability: 0.0, random: fastrand::Rng::with_seed(0) }
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
    upstream: Mutex<SocketAddr>,
    settings: watch::Sender<Settings>,
    faults: Mutex<Faults>,
    captured: Mutex<Vec<Vec<u8>>>,
    pub(super) accepted: AtomicUsize,
    pub(super) open: AtomicUsize,
    pub(super) cuts: AtomicUsize,
    pub(super) closed_on_command: AtomicUsize,
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr) -> Self {
        Self {
            upstream: Mutex::new(upstream),
            settings: watch::Sender::new(Settings::calm()),
            faults: Mutex::new(Faults::calm()),
            captured: Mutex::default(),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
            closed_on_command: AtomicUsize::new(0),
        }
    }

    pub(super) fn upstream(&self) -> MutexGuard<'_, SocketAddr> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
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
        lock(&self.faults)
    }

    pub(super) fn captured(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        lock(&self.captured)
    }

    /// Counts a new connection and gives it its number.
    pub(super) fn admit(&self) -> usize {
        self.captured().push(Vec::new());
        self.open.fetch_add(1, Ordering::SeqCst);
        self.accepted.fetch_add(1, Ordering::SeqCst)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries one connection from its beginning to its end.
pub(super) async fn serve(number: usize, client: TcpStream, shared: Arc<Shared>) {
    let upstream = *shared.upstream();
    match TcpStream::connect(upstream).await {
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
    let greeting = settings.borrow().hangs_up.then(Mutex::default);

    let ending = {
        let (from_client, to_client) = client.split();
        let (from_upstream, to_upstream) = upstream.split();
        let pump = |direction| Pump { number, direction, shared, greeting: greeting.as_ref() };
        let (requests, replies) = (pump(Direction::Requests), pump(Direction::Replies));
        let pumps = async {
            tokio::try_join!(
                requests.forward(from_client, to_upstream),
                replies.forward(from_upstream, to_client),
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

/// One direction of one connection.
struct Pump<'a> {
    number: usize,
    direction: Direction,
    shared: &'a Shared,
    /// The handshake, on a connection that is closed when it is over.
    greeting: Option<&'a Mutex<Greeting>>,
}

impl Pump<'_> {
    /// Forwards until the end of file; answers how the connection is to end where it is cut before.
    async fn forward(&self, reader: ReadHalf<'_>, writer: WriteHalf<'_>) -> Result<(), Ending> {
        let (queue, items) = mpsc::unbounded_channel();
        let backlog = watch::Sender::new(0);
        tokio::try_join!(self.read(reader, queue, &backlog), self.write(writer, items, &backlog))?;
        Ok(())
    }

    async fn read(
        &self,
        mut reader: ReadHalf<'_>,
        queue: mpsc::UnboundedSender<Item>,
        backlog: &watch::Sender<usize>,
    ) -> Result<(), Ending> {
        let mut waiting = backlog.subscribe();
        let mut scanner = Scanner::default();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if self.shared.settings.borrow().bandwidth[self.direction as usize].is_some() {
                // The sender of the backlog lives as long as this pump.
                let _ = waiting.wait_for(|bytes| *bytes < SLOW_BACKLOG).await;
            }
            let length = match reader.read(&mut buffer).await {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                // The other end reset the connection: so does the proxy.
                Err(_) => return Err(Ending::Reset),
            };
            let chunk = &buffer[..length];
            if self.direction == Direction::Requests {
                self.shared.captured()[self.number].extend_from_slice(chunk);
            }
            let (forwarded, ending) = self.judge(chunk, &mut scanner);
            if forwarded > 0 {
                let due = Instant::now() + self.shared.settings.borrow().delay[self.direction as usize];
                backlog.send_modify(|bytes| *bytes += forwarded);
                // The writer is gone only when the connection is.
                let _ = queue.send(Item::Chunk(due, chunk[..forwarded].to_vec()));
            }
            if let Some(ending) = ending {
                let _ = queue.send(Item::Cut(ending));
                return Ok(());
            }
        }
    }

    /// How much of a chunk is forwarded, and whether that is the connection's end.
    fn judge(&self, chunk: &[u8], scanner: &mut Scanner) -> (usize, Option<Ending>) {
        let mut passes = None;
        let mut faults = self.shared.faults();
        if self.direction == Direction::Requests {
            let commands = scanner.scan(chunk);
            if let Some(greeting) = self.greeting {
                lock(greeting).asked(&commands);
            }
            passes = faults.closer.as_mut().and_then(|closer| closer.judge(&commands));
            if passes.is_some() {
                self.shared.closed_on_command.fetch_add(1, Ordering::SeqCst);
            }
        } else if let Some(greeting) = self.greeting {
            passes = lock(greeting).answered(&scanner.scan(chunk)).map(|end| (end, Ending::Close));
        }
        let (length, ending) = passes.map_or((chunk.len(), None), |(length, ending)| (length, Some(ending)));
        let (forwarded, cut) = faults.judge(self.direction, length);
        (forwarded, cut.or(ending))
    }

    async fn write(
        &self,
        mut writer: WriteHalf<'_>,
        mut items: mpsc::UnboundedReceiver<Item>,
        backlog: &watch::Sender<usize>,
    ) -> Result<(), Ending> {
        let mut settings = self.shared.settings.subscribe();
        let mut free_at = Instant::now();
        loop {
            let item = items.recv().await;
            if let Some(Item::Chunk(due, _)) = &item {
                tokio::time::sleep_until(*due).await;
            }
            // The sender of the settings lives as long as the proxy.
            let forwards = |settings: &Settings| settings.forwards(self.number, self.direction);
            let _ = settings.wait_for(forwards).await;
            match item {
                Some(Item::Chunk(_, bytes)) => {
                    let mut rest = bytes.as_slice();
                    while !rest.is_empty() {
                        let rate =
                            settings.borrow().bandwidth[self.direction as usize].map(|rate| rate.max(1));
                        let step = rate.map_or(usize::MAX, |rate| rate.div_ceil(SLOW_STEPS) as usize);
                        let (piece, behind) = rest.split_at(rest.len().min(step));
                        if let Some(rate) = rate {
                            let time = Duration::from_secs_f64(piece.len() as f64 / rate as f64);
                            free_at = free_at.max(Instant::now()) + time;
                            // A rate that is lifted meanwhile ends the wait.
                            let lifted =
                                |new: &Settings| new.bandwidth[self.direction as usize] != Some(rate);
                            let _ = tokio::time::timeout_at(free_at, settings.wait_for(lifted)).await;
                        }
                        let sent: io::Result<()> = writer.write_all(piece).await;
                        sent.map_err(|_| Ending::Reset)?;
                        backlog.send_modify(|bytes| *bytes -= piece.len());
                        rest = behind;
                    }
                }
                Some(Item::Cut(ending)) => {
                    self.shared.cuts.fetch_add(1, Ordering::SeqCst);
                    return Err(ending);
                }
                None => return writer.shutdown().await.map_err(|_| Ending::Reset),
            }
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
