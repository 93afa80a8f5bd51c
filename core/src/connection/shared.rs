//! The shared door: one connection for all callers of a client.
//!
//! Callers put operations on the line; one task, the driver, sends what waits as one pipeline, reads the answers, and
//! connects again when the connection breaks. An idle line sends at once. A busy one first lets the callers that are
//! ready to run put their operations on it too, so that they leave together.

use super::backoff::Backoff;
use super::door::{Door, Status, closed, demoted, no_connection, silent, too_late};
use super::link::Link;
use super::outage::Outage;
use super::progress::{Progress, Verdict};
use super::settings::Settings;
use super::socket::failure;
use crate::clock::deadline;
use crate::error::{Code, Error, Result};
use crate::operation::Operation;
use crate::operation::line::{Abandoned, Bounds, Line, Outgoing, Settled};
use crate::operation::minter::Minter;
use crate::operation::pending::{Pending, pending};
use crate::process::Origin;
use crate::record::packed::Packed;
use redis::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle as Runtime;
use tokio::sync::{Notify, watch};
use tokio::task::{coop, yield_now};
use tokio::time::{sleep_until, timeout_at};

/// How much leaves in one pipeline.
pub(super) const PIPELINE: Bounds = Bounds { weight: 1_024, bytes: 1 << 20 };

/// How many pipelines are on their way at once.
const PIPELINES: usize = 8;

/// How many bytes wait for the socket before nothing more is added.
const UNSENT: usize = 1 << 20;

/// How long a server that cannot serve is left alone, at first and at most.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// The shared door of a client. Clones share the connection; it closes when the last one is gone.
#[derive(Clone)]
pub struct Shared(Arc<Handle>);

/// What clients hold; dropping the last lets the driver end.
struct Handle(Arc<Inner>);

struct Inner {
    settings: Settings,
    origin: Origin,
    line: Mutex<Line>,
    wake: Notify,
    connected: AtomicBool,
    /// Why there is no connection.
    cause: Mutex<Option<Error>>,
    reconnects: AtomicU64,
    ended: watch::Sender<bool>,
    runtime: Runtime,
    /// Until when those who attend have time, once the client is closing.
    closing: watch::Sender<Option<Instant>>,
    attending: watch::Sender<usize>,
}

impl Inner {
    fn line(&self) -> MutexGuard<'_, Line> {
        // A panic while the line was locked would be a defect of an operation; the line itself is still whole.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the line, and then tells whoever waits for what was given up.
    fn on_line(&self, change: impl FnOnce(&mut Line) -> Abandoned) {
        let abandoned = change(&mut self.line());
        abandoned.tell();
    }

    /// The connection broke, for that reason, when so many bytes had left.
    fn broken(&self, left: u64, why: &Error) {
        let lost = self.line().broken(left, why);
        let lost = lost.ask();
        self.on_line(|line| line.recover(lost));
    }

    /// Gives up everything, and answers how many operations that were.
    fn abandon(&self, why: &Error) -> usize {
        let (count, abandoned) = self.line().abandon(why);
        abandoned.tell();
        count
    }

    fn cause(&self) -> MutexGuard<'_, Option<Error>> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.line().close(closed());
        self.wake.notify_one();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a forked child there is no driver, and its locks may be held by threads that are not there.
        if self.0.origin.is_here() {
            self.0.close();
        }
    }
}

impl Shared {
    /// Connects as the option `connect` says, and starts the driver on the current runtime.
    pub(crate) async fn connect(settings: Settings) -> Result<Self> {
        let first = Link::first(&settings).await?;
        let inner = Arc::new(Inner {
            origin: Origin::here(),
            line: Mutex::new(settings.line()),
            wake: Notify::new(),
            connected: AtomicBool::new(first.is_some()),
            cause: Mutex::new(None),
            reconnects: AtomicU64::new(0),
            ended: watch::Sender::new(false),
            runtime: Runtime::current(),
            closing: watch::Sender::new(None),
            attending: watch::Sender::new(0),
            settings,
        });
        // The order of sending hangs on futures being polled in order, so the driver never yields to a task budget.
        tokio::spawn(coop::unconstrained(Driver::new(inner.clone()).run(first)));
        Ok(Self(Arc::new(Handle(inner))))
    }

    /// Lets those who attend stop, then takes no more calls, waits for those under way, and gives up what is left at the
    /// deadline. Answers how many.
    pub(crate) async fn close(&self, within: Duration) -> usize {
        let inner = &self.0.0;
        if inner.origin.check().is_err() {
            return 0;
        }
        let deadline = deadline(within);
        // Without a bound, whoever has an entry in hand may be the one who waits here.
        let stop_by = if within == Duration::MAX { Instant::now() } else { deadline };
        inner.closing.send_replace(Some(stop_by));
        let mut attending = inner.attending.subscribe();
        let stopped = timeout_at(deadline.into(), attending.wait_for(|attending| *attending == 0)).await;
        drop(stopped);
        inner.close();
        let mut ended = inner.ended.subscribe();
        if timeout_at(deadline.into(), ended.wait_for(|ended| *ended)).await.is_ok() {
            return 0;
        }
        let unfinished = inner.abandon(&closed());
        inner.wake.notify_one();
        unfinished
    }

    /// Has a close of the client wait until the attendance is dropped.
    pub(crate) fn attend(&self) -> Attendance {
        let inner = self.0.0.clone();
        inner.attending.send_modify(|attending| *attending += 1);
        Attendance { closing: inner.closing.subscribe(), inner }
    }
}

/// The presence of a reader that uses the client until it has stopped.
pub(crate) struct Attendance {
    inner: Arc<Inner>,
    closing: watch::Receiver<Option<Instant>>,
}

impl Attendance {
    /// Waits until the client is being closed, and answers until when there is time.
    pub(crate) async fn closing(&mut self) -> Instant {
        let closing = self.closing.wait_for(Option::is_some).await.ok().and_then(|deadline| *deadline);
        closing.unwrap_or_else(Instant::now)
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.inner.attending.send_modify(|attending| *attending -= 1);
    }
}

impl Door for Shared {
    type Answer<T: Send + 'static> = Pending<T>;

    fn run<O: Operation>(&self, operation: Result<O>) -> Pending<O::Reply> {
        let inner = &self.0.0;
        let submit = || {
            inner.origin.check()?;
            let operation = operation?;
            let mut line = inner.line();
            let idle = !line.has_work();
            let answer = line.submit(operation, Instant::now() + inner.settings.timeout)?;
            drop(line);
            if idle {
                inner.wake.notify_one();
            }
            Ok(answer)
        };
        submit().unwrap_or_else(|error| Pending::ready(Err(error)))
    }

    fn ready<T: Send + 'static>(answer: Result<T>) -> Pending<T> {
        Pending::ready(answer)
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Pending<T> {
        if let Err(error) = self.0.0.origin.check() {
            return Pending::ready(Err(error));
        }
        let (promise, answer) = pending();
        self.0.0.runtime.spawn(async move { promise.answer(future.await) });
        answer
    }

    async fn shared(&self) -> Result<Shared> {
        Ok(self.clone())
    }

    fn weak(&self) -> impl Fn() -> Option<Self> + Send + Sync + 'static {
        let handle = Arc::downgrade(&self.0);
        move || handle.upgrade().map(Self)
    }

    fn runtime(&self) -> Result<Runtime> {
        Ok(self.0.0.runtime.clone())
    }

    fn run_aside<O: Operation>(self, operation: O) -> impl Future<Output = Result<O::Reply>> + Send {
        // The handle is not held while the answer is waited for, so that the client can end meanwhile.
        self.run(Ok(operation))
    }

    fn settings(&self) -> &Settings {
        &self.0.0.settings
    }

    fn minter(&self) -> &Minter {
        &self.0.0.settings.minter
    }

    fn origin(&self) -> Origin {
        self.0.0.origin
    }

    fn status(&self) -> Status {
        let inner = &self.0.0;
        Status {
            connected: inner.connected.load(Ordering::Relaxed),
            reconnects: inner.reconnects.load(Ordering::Relaxed),
            // In a forked child the lock may be held by a thread that is not there.
            error: inner.origin.check().and_then(|()| inner.cause().clone().map_or(Ok(()), Err)).err(),
        }
    }
}

/// Carries the line.
struct Driver {
    inner: Arc<Inner>,
    outage: Outage,
    reconnects: Backoff,
    pauses: Backoff,
}

/// Why a connection is not used any longer.
enum End {
    /// The client is closed and nothing is left to do.
    Finished,
    Broken(Error),
}

impl Driver {
    fn new(inner: Arc<Inner>) -> Self {
        let reconnects = Backoff::new(inner.settings.reconnect_min, inner.settings.reconnect_max);
        let [min, max] = PAUSES;
        Self { inner, outage: Outage::default(), reconnects, pauses: Backoff::new(min, max) }
    }

    async fn run(mut self, mut open: Option<Link>) {
        let inner = self.inner.clone();
        let (mut before, mut wait) = (false, Duration::ZERO);
        loop {
            let Some(mut link) = (match open.take() {
                Some(link) => Some(link),
                None => self.connect_again(wait).await,
            }) else {
                break;
            };
            inner.reconnects.fetch_add(u64::from(before), Ordering::Relaxed);
            before = true;
            self.connected();
            let end = self.serve(&mut link).await;
            let left = link.left();
            drop(link);
            inner.connected.store(false, Ordering::Relaxed);
            let cause = match end {
                End::Finished => break inner.broken(left, &closed()),
                End::Broken(cause) => cause,
            };
            wait = self.reconnects.wait();
            inner.broken(left, &cause);
            self.failed(cause, Some(wait));
        }
    }

    fn connected(&mut self) {
        *self.inner.cause() = None;
        self.inner.connected.store(true, Ordering::Relaxed);
        self.outage.connected(&self.inner.settings);
    }

    /// There is no connection, for that reason, and after `next` another attempt is made, or none.
    fn failed(&mut self, cause: Error, next: Option<Duration>) {
        let inner = &self.inner;
        *inner.cause() = Some(cause.clone());
        if self.outage.failed(&inner.settings, &cause, next) {
            inner.on_line(|line| line.refuse(|| no_connection(&cause)));
        }
    }

    /// Uses a connection until it breaks or is not needed any longer.
    async fn serve(&mut self, link: &mut Link) -> End {
        let inner = self.inner.clone();
        let mut progress = Progress::new(Progress::patience_for(inner.settings.timeout), Instant::now());
        let mut replies = Vec::new();
        // How many answers each pipeline on its way still gets.
        let mut flight: VecDeque<usize> = VecDeque::new();
        let mut busy = false;
        let mut timer = None;
        loop {
            if busy {
                yield_now().await;
            }
            // What a server that is no primary any more was sent is answered first.
            let leaving = !link.opened().is_current();
            if leaving && flight.is_empty() {
                return End::Broken(demoted(&inner.settings));
            }
            while !leaving
                && flight.len() < PIPELINES
                && link.unsent() < UNSENT
                && let Some(count) = self.next_pipeline(link.output())
            {
                if flight.is_empty() {
                    progress.asked(Instant::now(), Duration::ZERO);
                }
                busy = count > 1;
                flight.push_back(count);
                link.send().await;
            }
            {
                let line = inner.line();
                if line.is_finished() {
                    return End::Finished;
                }
                if timer.is_none() {
                    let silence = (!flight.is_empty()).then(|| progress.give_up_at());
                    let times = [line.next_deadline(), silence, line.goes_on_at()];
                    timer = times.into_iter().flatten().min();
                }
            }
            tokio::select! {
                biased;
                exchanged = link.exchange(&mut replies) => {
                    progress.sign_of_life(link.heard());
                    // Callers whose commands left together are answered together, so that their next commands leave
                    // together too. An answer that came before the connection broke counts all the same.
                    let mut whole = 0;
                    while let Some(count) = flight.pop_front_if(|count| whole + *count <= replies.len()) {
                        whole += count;
                    }
                    let given = if exchanged.is_ok() { whole } else { replies.len() };
                    let pausing = self.give(link, replies.drain(..given));
                    if let Err(error) = exchanged {
                        return End::Broken(failure(&inner.settings.endpoint, &error));
                    }
                    if pausing {
                        timer = None;
                    }
                }
                () = inner.wake.notified() => {}
                () = until(timer) => {
                    timer = None;
                    let now = Instant::now();
                    inner.on_line(|line| line.expire(now, || too_late(None)));
                    progress.sign_of_life(link.heard());
                    if let Verdict::GiveUp(silence) = progress.verdict(now)
                        && !flight.is_empty()
                    {
                        // Those whole answers that wait for the rest of their pipeline.
                        self.give(link, replies.drain(..));
                        return End::Broken(silent(&inner.settings, silence));
                    }
                }
            }
        }
    }

    /// Gives answers to those who wait for them; true where nothing more is sent for a while.
    fn give(&mut self, link: &Link, replies: impl Iterator<Item = Value>) -> bool {
        let inner = &*self.inner;
        let answered = {
            let mut line = inner.line();
            replies.filter_map(|reply| line.answer(reply)).collect()
        };
        let settled = Settled::read(answered);
        let mut pausing = None;
        if settled.demoted {
            link.opened().demoted();
        } else if let Some(why) = settled.unavailable.clone() {
            pausing = Some(why);
        } else if settled.served && link.opened().is_current() {
            self.pauses.reset();
            self.reconnects.answered();
        }
        let mut paused = false;
        inner.on_line(|line| {
            let abandoned = line.settle(settled);
            // One pause for all that was refused together.
            match pausing.take() {
                Some(why) if !line.is_paused() => {
                    line.pause(Instant::now() + self.pauses.wait(), why);
                }
                _ => {}
            }
            paused = line.goes_on_at().is_some();
            abandoned
        });
        paused
    }

    /// Adds the commands to send next, and answers their number; nothing where nothing is to be sent now.
    fn next_pipeline(&self, output: &mut Packed) -> Option<usize> {
        let before = output.count();
        loop {
            let entries = {
                let mut line = self.inner.line();
                line.resume(Instant::now());
                line.take(PIPELINE)
            };
            if entries.is_empty() {
                return None;
            }
            let outgoing = Outgoing::prepare(entries, &self.inner.settings.minter, output);
            self.inner.on_line(|line| line.sent(outgoing));
            // Nothing is left of a pipeline of which every operation ended instead.
            if output.count() > before {
                return Some(output.count() - before);
            }
        }
    }

    /// Connects after a wait, however long it takes; nothing once the client is closed or must not connect.
    async fn connect_again(&mut self, mut wait: Duration) -> Option<Link> {
        let inner = self.inner.clone();
        loop {
            if !wait.is_zero() {
                self.unless_finished(tokio::time::sleep(wait)).await?;
            }
            match self.unless_finished(Link::open(&inner.settings)).await? {
                Ok(link) => return Some(link),
                Err(error) if error.code() == Code::VersionFence => {
                    inner.line().close(error.clone());
                    inner.abandon(&error);
                    self.failed(error, None);
                    return None;
                }
                Err(error) => {
                    wait = self.reconnects.wait();
                    self.failed(error, Some(wait));
                }
            }
        }
    }

    /// Waits while deadlines go on to hold; nothing once the client is closed and nothing is left to do.
    async fn unless_finished<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(wait);
        loop {
            let timer = {
                let line = self.inner.line();
                if line.is_finished() {
                    return None;
                }
                line.next_deadline()
            };
            tokio::select! {
                biased;
                value = &mut wait => return Some(value),
                () = self.inner.wake.notified() => {}
                () = until(timer) => {
                    let cause = self.inner.cause().clone();
                    self.inner.on_line(|line| line.expire(Instant::now(), || too_late(cause.as_ref())));
                }
            }
        }
    }
}

/// Whatever ends the driver, the end of its runtime included, nobody waits for it any longer.
impl Drop for Driver {
    fn drop(&mut self) {
        self.inner.line().close(closed());
        self.inner.abandon(&closed());
        self.inner.connected.store(false, Ordering::Relaxed);
        self.inner.settings.notices.end();
        self.inner.ended.send_replace(true);
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}
