//! The facade a user holds: a client, its streams, and readers of them.

mod consumers;
mod dead_letters;
#[cfg(test)]
mod doubt_tests;
mod events;
mod groups;
mod reader;
mod stream;
mod tails;

pub use events::{Decided, Events};
pub use reader::Reader;
pub use stream::Stream;

use crate::connection::door::{Door, Status};
use crate::connection::lane::Lane;
use crate::connection::local::{Interrupt, Local};
use crate::connection::options::Options;
use crate::connection::shared::Shared;
use crate::error::Result;
use crate::events::Channel;
use crate::events::hub::Hub;
use crate::id::branded::EventId;
use crate::keyspace::Keyspace;
use crate::node::{self, Minted, Nodes};
use crate::notice::Notices;
use crate::operation::command::{Command, Commands, Reply};
use crate::operation::lease::NodeLease;
use crate::stream::Keys;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A client of one server.
///
/// Clones share one connection, which every call uses at once; it is made again by itself whenever it breaks.
/// The connection closes when the last clone and the last [`Stream`] made from it are gone.
///
/// Where one task or thread appends to a stream through a client, or several through the *same* client, order is kept. A
/// second client is a second writer: see [`Stream`].
///
/// ```no_run
/// # async fn example() -> echomq::Result<()> {
/// use echomq::{Client, Options};
///
/// let client = Client::connect(&Options::new("redis://localhost")?).await?;
/// let events = client.stream("codemojex", "events")?;
/// let id = events.append([("kind", "guessed"), ("player", "PLR0NgWEfAEJfs")]).await?;
/// for record in events.read(echomq::Range::all().from(id)).all().await? {
///     println!("{:?} {:?}", record.id(), record.fields());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client<D = Shared> {
    door: D,
    hub: Hub,
    keys: Keys,
}

impl Client<Shared> {
    /// Connects, as the option [`connect`](Options::connect) says: by default it waits for a server that is not there yet, for
    /// at most `connect_timeout`.
    ///
    /// The client's driver runs on the tokio runtime of the caller and needs it for as long as the client is used.
    ///
    /// Fails with [`Code::InvalidOption`], [`Code::Tls`], [`Code::Auth`], [`Code::VersionFence`],
    /// [`Code::UnsupportedServer`], with [`Code::Disconnected`] when the server cannot be reached within
    /// `connect_timeout`, and with [`Code::Unavailable`] when it is there and does not serve. With
    /// [`Connect::Lazy`](crate::Connect::Lazy) only with [`Code::InvalidOption`] and [`Code::Tls`]: what else there is, the
    /// calls answer, [`Client::status`] and [`Client::notices`].
    ///
    /// [`Code::InvalidOption`]: crate::Code::InvalidOption
    /// [`Code::Tls`]: crate::Code::Tls
    /// [`Code::Auth`]: crate::Code::Auth
    /// [`Code::VersionFence`]: crate::Code::VersionFence
    /// [`Code::UnsupportedServer`]: crate::Code::UnsupportedServer
    /// [`Code::Disconnected`]: crate::Code::Disconnected
    /// [`Code::Unavailable`]: crate::Code::Unavailable
    pub async fn connect(options: &Options) -> Result<Self> {
        Shared::connect(options.settings()?).await.map(Self::new)
    }

    /// Opens a connection of the caller's own, for commands that make the server wait.
    ///
    /// Fails as [`Client::connect`] does.
    pub async fn lane(&self) -> Result<Lane> {
        self.door.origin().check()?;
        Lane::open(self.door.settings().clone()).await
    }

    /// Takes no more calls, waits for those under way, and closes the connection.
    ///
    /// Consumers, tails and listeners stop first. What is not done `within` that time is given up; answers how many calls that were.
    /// With [`Duration::MAX`] every call has its own deadline, and what consumers have in hand is not waited for. Closing
    /// again answers 0.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the client closed to new calls, and those under way go on.
    pub async fn close(&self, within: Duration) -> usize {
        self.door.close(within).await
    }
}

impl Client<Local> {
    /// Connects on the caller's thread, which all calls use from then on. Fails as [`Client::connect`] does.
    ///
    /// ```no_run
    /// use echomq::{Options, blocking::Client};
    ///
    /// let client = Client::open(&Options::new("redis://localhost")?)?;
    /// let id = client.stream("codemojex", "events")?.append([("kind", "guessed")])?;
    /// # Ok::<(), echomq::Error>(())
    /// ```
    pub fn open(options: &Options) -> Result<Self> {
        Self::open_with(options, Arc::new(|| false))
    }

    /// Connects, and asks `interrupt` at least every 100 ms whenever a call waits, on the waiting thread; where it says
    /// true, the call ends with [`Code::Timeout`](crate::Code::Timeout), or with
    /// [`Code::UnknownOutcome`](crate::Code::UnknownOutcome) when it had been sent.
    pub fn open_with(options: &Options, interrupt: Interrupt) -> Result<Self> {
        Local::connect(options.settings()?, interrupt).map(Self::new)
    }

    /// Takes no more calls, waits for those of other threads, and closes the connection.
    ///
    /// Consumers, tails and listeners stop first. What is not done `within` that time is given up; answers how many calls that were.
    /// With [`Duration::MAX`] every call has its own deadline, and what consumers have in hand is not waited for. Closing
    /// again answers 0.
    pub fn close(&self, within: Duration) -> usize {
        self.door.close(within)
    }
}

impl<D: Door> Client<D> {
    fn new(door: D) -> Self {
        node::keep(&door);
        Self { door, hub: Hub::new(), keys: Keys::default() }
    }

    /// The events of a queue. Fails with [`Code::InvalidName`](crate::Code::InvalidName).
    pub fn events(&self, queue: &str) -> Result<Events<D>> {
        let channel = Channel::new(Keyspace::new(queue)?);
        Ok(Events::new(self.door.clone(), self.hub.clone(), channel, self.keys.clone()))
    }

    /// A stream of a queue. Fails with [`Code::InvalidName`](crate::Code::InvalidName).
    pub fn stream(&self, queue: &str, name: &str) -> Result<Stream<D>> {
        let key = self.keys.get(&Keyspace::new(queue)?, name)?;
        Ok(Stream::new(self.door.clone(), key))
    }

    /// Makes one id of the namespace `EVT`, for [`Stream::append_id`].
    ///
    /// It is there at once while the client has its node. Otherwise the client leases one first, which takes the server; and
    /// before it fails with [`Code::ClockAhead`](crate::Code::ClockAhead) it asks for the server's time again. The ids of one
    /// thread increase in the order of its calls, also where it does not wait for one before it asks for the next.
    ///
    /// Fails with [`Code::ClockAhead`](crate::Code::ClockAhead), with
    /// [`Code::NodeLeaseLost`](crate::Code::NodeLeaseLost) where no node is free or the server cannot be reached in time, with
    /// [`Code::NodeConflict`](crate::Code::NodeConflict) where another process has the one given and the option
    /// `on_node_conflict` says so, and as [`Mint::mint`](crate::Mint::mint) does.
    pub fn mint(&self) -> D::Answer<EventId> {
        match self.door.minter().mint_or_wait() {
            Ok(minted) => D::ready(minted),
            Err(turn) => self.door.run(Ok(Minted::in_turn(turn))),
        }
    }

    /// The leases of nodes that have not run out, by node: this client's own, once it has minted, and those of all others.
    ///
    /// Two of one node are of processes to which one `node_id` was given. It only reads, so a user without the right to write
    /// may ask.
    pub fn nodes(&self) -> D::Answer<Vec<NodeLease>> {
        self.door.run(Ok(Nodes::default()))
    }

    /// Sends any command of the server's, name and arguments as they are, for what this crate has no call for.
    ///
    /// It shares the connection with every other call. What would change that connection (`SELECT`, `MULTI`, `AUTH`), has not
    /// one answer (`SUBSCRIBE`, `CLIENT REPLY`), or makes the server wait (`BLPOP`, `XREAD BLOCK`) is refused with
    /// [`Code::InvalidOption`](crate::Code::InvalidOption): a [`Lane`] takes most of it. Fails with
    /// [`Code::UnknownOutcome`](crate::Code::UnknownOutcome) when the connection broke before the answer came, with
    /// [`Code::Unavailable`](crate::Code::Unavailable) when the server could not serve it until the deadline, and with the
    /// code of what the server answered.
    pub fn command<A: AsRef<[u8]>>(&self, arguments: impl IntoIterator<Item = A>) -> D::Answer<Reply> {
        self.door.run(Command::new(arguments))
    }

    /// Sends many commands in one pipeline; one result for each. See [`Client::command`].
    ///
    /// Where the connection breaks before all answers came, those that came are given.
    pub fn pipeline<C, A>(&self, commands: impl IntoIterator<Item = C>) -> D::Answer<Vec<Result<Reply>>>
    where
        C: IntoIterator<Item = A>,
        A: AsRef<[u8]>,
    {
        self.door.run(Commands::new(commands))
    }

    /// What the client tells: of its connection, its clock and its node.
    ///
    /// The last 1 024 wait to be taken; each is taken once, by whoever asks first.
    pub fn notices(&self) -> Notices {
        self.door.settings().notices.notices()
    }

    /// How the connection stands.
    pub fn status(&self) -> Status {
        self.door.status()
    }
}

impl<D: Door> fmt::Debug for Client<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &format_args!("{}", self.door.settings().endpoint)).finish()
    }
}
