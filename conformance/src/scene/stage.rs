//! Where scenes are played: a server, a plain client, and the processes of those who play.

use super::channel::{self, Audience, Does};
use super::format::{Flood, Interrupt, Moment, Network, Part, Plain as Command, Scene, Share, Step, Write};
use super::outcome::{compare, describe, expect_nothing, flatten, judge, with_diagnostics};
use super::writers::Writer;
use super::{interrupt, leases, writers};
use crate::driver::Driver;
use crate::item::{self, Item, Names};
use crate::judgement::Verdict;
use crate::lane::{Participant, Start};
use crate::observation::LEASES;
use crate::operation;
use crate::protocol::{Reply, Token};
use crate::snowflake;
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server, proxy};
use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

/// How long something may take that happens sooner or later.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The pause between two looks at something that has not happened yet.
const STEP: Duration = Duration::from_millis(3);

/// How long each of those who share is asked to wait for an entry, in milliseconds.
const TURN: u64 = 20;

/// How long a listener is asked to wait for an event that has been published, in milliseconds.
const HEARING: &str = "5000";

/// What came of one play.
pub(super) struct Played {
    pub(super) verdict: Verdict,
    /// The serialisations that have to be the same whoever plays.
    pub(super) bytes: Vec<Option<Vec<u8>>>,
}

/// Why a play came to no good end.
pub(super) enum Stop {
    Fault(String),
    Gap(String),
}

impl From<String> for Stop {
    fn from(fault: String) -> Self {
        Self::Fault(fault)
    }
}

/// A process, by its language and which one of that language it is in a play.
type Place = (String, usize);

/// A server and the processes that wait for their next part.
pub(super) struct Stage {
    start: Start,
    server: Server,
    plain: Plain,
    /// The network in front of the server, for the parts that go through it.
    network: Proxy,
    /// How many connections the network had closed when the scene began.
    closed: usize,
    /// Whether the server's clock is the machine's.
    clock_is_right: bool,
    /// The plain client as a listener, where the scene has one.
    audience: Option<Audience>,
    waiting: HashMap<Place, Driver>,
}

/// One who plays a part.
pub(super) struct Actor<'a> {
    pub(super) part: &'a Part,
    node: u64,
    pub(super) participant: &'a Participant,
    place: Place,
    /// Where the server is.
    url: String,
    pub(super) driver: Option<Driver>,
    /// The op that was begun and not waited for.
    begun: Option<&'static str>,
    /// Consumers that were started and not stopped.
    consumers: Vec<Token>,
}

impl Stage {
    /// Starts a server of `kind`. Panics where none can be started.
    pub(super) fn new(kind: Kind, start: Start) -> Self {
        let server = Server::builder(kind).clock().start();
        let plain = Plain::connect(&server);
        let network = Proxy::start(server.address());
        Self {
            start,
            server,
            plain,
            network,
            closed: 0,
            clock_is_right: true,
            audience: None,
            waiting: HashMap::new(),
        }
    }

    /// Plays a scene on an empty server, each part by the participant in its place.
    pub(super) fn play(&mut self, scene: &Scene, cast: &[&Participant]) -> Played {
        self.plain.command(["FLUSHALL"]);
        self.plain.command(["SCRIPT", "FLUSH"]);
        self.audience = None;
        self.network.heal();
        self.closed = self.network.cuts();
        self.set_clock(0);
        let mut actors = Vec::new();
        let kills = |part: &Part| scene.steps.iter().any(|step| step.kills(&part.name));
        for (at, (part, participant)) in scene.parts.iter().zip(cast).enumerate() {
            let same = cast[..at].iter().filter(|other| other.name == participant.name).count();
            actors.push(Actor {
                part,
                node: part.node.unwrap_or(at as u64 + 1),
                participant,
                place: (participant.name.clone(), same),
                url: match part {
                    part if kills(part) => self.url_of(part),
                    Part { through_network: true, .. } => self.network.url(),
                    _ => self.server.url(),
                },
                driver: None,
                begun: None,
                consumers: vec![],
            });
        }
        let mut names = Names::default();
        let mut played = Ok(());
        for (at, step) in scene.steps.iter().enumerate() {
            played = self.take(step, &mut actors, &mut names).map_err(|stop| match stop {
                Stop::Fault(fault) => {
                    Stop::Fault(format!("step {} {}: {fault}", at + 1, describe(step, &actors)))
                }
                gap => gap,
            });
            if played.is_err() {
                break;
            }
        }
        let bytes = scene.same_bytes.iter().map(|key| self.plain.dump(key)).collect();
        let verdict = match played.and_then(|()| self.end(&mut actors)) {
            Ok(()) => Verdict::Pass,
            Err(Stop::Gap(op)) => match self.end(&mut actors) {
                Ok(()) | Err(Stop::Gap(_)) => Verdict::Gap(op),
                Err(Stop::Fault(fault)) => Verdict::Fail(fault),
            },
            // Those who played are dropped, since nobody knows what they would do next.
            Err(Stop::Fault(fault)) => Verdict::Fail(with_diagnostics(fault, &actors)),
        };
        Played { verdict, bytes }
    }

    /// The address for a part that is killed: of a user of its own, by whom the server finds its connections. It may see the end
    /// of a process late, and would deliver to the dead until then.
    fn url_of(&mut self, Part { name, .. }: &Part) -> String {
        self.plain.command(["ACL", "SETUSER", name, "on", &format!(">{name}"), "~*", "&*", "+@all"]);
        format!("redis://{name}:{name}@{}", self.server.address())
    }

    /// Ends all processes.
    ///
    /// # Errors
    ///
    /// Says of each language that does not end by itself what is wrong.
    pub(super) fn finish(&mut self) -> Vec<(String, String)> {
        let ended = self.waiting.drain().map(|((name, _), driver)| (name, driver.finish()));
        ended.filter_map(|(name, result)| result.err().map(|fault| (name, fault))).collect()
    }

    fn take(&mut self, step: &Step, actors: &mut [Actor<'_>], names: &mut Names) -> Result<(), Stop> {
        match step {
            Step::Op(op) => {
                let actor = actor(actors, op.by.as_deref())?;
                let reply = self.order(actor, &op.order, names)?;
                compare(&op.ok, op.err.as_ref(), &op.text, &reply, names).map_err(Stop::Fault)
            }
            Step::Begin(begin) => {
                let actor = actor(actors, begin.by.as_deref())?;
                let (op, arguments) = self.prepare(actor, &begin.begin, names)?;
                let driver = actor.driver.as_mut().ok_or_else(|| "nobody is there".to_owned())?;
                driver.begin(op, &arguments);
                actor.begun = Some(op);
                Ok(())
            }
            Step::Finish(finish) => {
                let actor = actor(actors, Some(&finish.finish))?;
                let (Some(op), Some(driver)) = (actor.begun.take(), &mut actor.driver) else {
                    return Err(Stop::Fault("nothing was begun".to_owned()));
                };
                match driver.finish_op(op)? {
                    Reply::Unsupported => Err(Stop::Gap(op.to_owned())),
                    reply => compare(&finish.ok, finish.err.as_ref(), &finish.text, &reply, names)
                        .map_err(Stop::Fault),
                }
            }
            Step::Interrupt(interrupt) => self.interrupt(interrupt, actors, names),
            Step::Write(write) => self.write(write, actors),
            Step::Leases(leases) => {
                let actor = actor(actors, leases.by.as_deref())?;
                match self.order(actor, &[Item::Field("nodes".to_owned())], names)? {
                    Reply::Ok(told) => {
                        leases::judge(&mut self.plain, &told, &leases.leases).map_err(Stop::Fault)
                    }
                    other => Err(Stop::Fault(format!("nodes answers {other:?}"))),
                }
            }
            Step::Clock { clock } => {
                self.set_clock(*clock);
                Ok(())
            }
            Step::Disturb { network } => self.disturb(network),
            Step::Plain(command) => self.send(command, names).map_err(Stop::Fault),
            Step::Records(records) => {
                let (from, to) = records.records;
                for number in from..=to {
                    let (entry, id) = (snowflake::entry(number), snowflake::branded(number));
                    let sent = self.plain.try_command([
                        "XADD",
                        &records.key,
                        &entry,
                        "id",
                        &id,
                        "n",
                        &number.to_string(),
                    ]);
                    sent.map_err(|error| error.to_string())?;
                }
                Ok(())
            }
            Step::Kill { kill } => {
                let actor = actor(actors, Some(kill))?;
                // The end of the value is the end of the process.
                actor.driver = None;
                actor.consumers.clear();
                self.plain
                    .try_command(["CLIENT", "KILL", "USER", &actor.part.name])
                    .map_err(|error| error.to_string())?;
                Ok(())
            }
            Step::Share(share) => self.share(share, actors, names),
            Step::Hear { hear } => {
                self.audience = Some(Audience::join(&self.server.url(), hear)?);
                Ok(())
            }
            Step::Heard { heard } => {
                let audience = self.audience.as_mut().ok_or_else(|| "nobody listens".to_owned())?;
                let said = audience.heard(&mut self.plain)?;
                names.compare(&item::expand(heard)?, &said).map_err(Stop::Fault)
            }
            Step::Flood(flood) => self.flood(flood, actors, names),
            Step::Restart { .. } => {
                self.server.restart_empty();
                self.plain = Plain::connect(&self.server);
                Ok(())
            }
        }
    }

    /// Has a part do something; its process is started and connected where it is not.
    fn order(&mut self, actor: &mut Actor<'_>, order: &[Item], names: &Names) -> Result<Reply, Stop> {
        let (op, arguments) = self.prepare(actor, order, names)?;
        let Some(driver) = &mut actor.driver else { return Err(Stop::Gap(op.to_owned())) };
        let reply = driver.ask(op, &arguments)?;
        match (op, &reply) {
            (_, Reply::Unsupported) => return Err(Stop::Gap(op.to_owned())),
            ("consumer", Reply::Ok(_)) => actor.consumers.extend(arguments.first().cloned()),
            ("stop", Reply::Ok(_)) => actor.consumers.retain(|consumer| Some(consumer) != arguments.first()),
            _ => {}
        }
        Ok(reply)
    }

    /// The op of a step and its arguments, for a part whose process is there.
    fn prepare(
        &mut self,
        actor: &mut Actor<'_>,
        order: &[Item],
        names: &Names,
    ) -> Result<(&'static str, Vec<Token>), Stop> {
        let arguments = item::resolved(&order[1..], names)?;
        let prepared = operation::place(order, arguments, &actor.part.name, &actor.url)?;
        if actor.driver.is_none() {
            self.enter(actor, prepared.0 != "open")?;
        }
        Ok(prepared)
    }

    fn enter(&mut self, actor: &mut Actor<'_>, opens: bool) -> Result<(), Stop> {
        let waiting = if actor.part.needs_new_process() { None } else { self.waiting.remove(&actor.place) };
        let mut driver = match waiting {
            Some(driver) => driver,
            None => {
                let Participant { driver, environment, .. } = actor.participant;
                Driver::start(&self.start.root, driver, environment, self.start.deadline)?
            }
        };
        driver.forget_diagnostics();
        if opens {
            let mut arguments = vec![Token::text(&actor.part.name), Token::text(&actor.url)];
            arguments.push(Token::text(format!("node={}", actor.node)));
            arguments.extend(actor.part.clock.map(|clock| Token::text(format!("clock={clock}"))));
            expect_nothing("open", driver.ask("open", &arguments)?)?;
        }
        actor.driver = Some(driver);
        Ok(())
    }

    /// Has all parts leave: consumers stop, connections close, and processes wait for their next part.
    fn end(&mut self, actors: &mut [Actor<'_>]) -> Result<(), Stop> {
        for actor in actors {
            let Some(mut driver) = actor.driver.take() else { continue };
            for consumer in actor.consumers.drain(..) {
                expect_nothing("stop", driver.ask("stop", &[consumer, Token::text("0")])?)?;
            }
            expect_nothing("close", driver.ask("close", &[Token::text(&actor.part.name)])?)?;
            if actor.part.needs_new_process() {
                driver.finish()?;
            } else {
                self.waiting.insert(actor.place.clone(), driver);
            }
        }
        Ok(())
    }

    fn send(&mut self, command: &Command, names: &mut Names) -> Result<(), String> {
        let words = item::resolved(&command.plain, names)?.into_iter().map(|word| match word {
            Token::Value(bytes) => bytes,
            Token::Bar => b"|".to_vec(),
        });
        let words: Vec<_> = words.collect();
        let until = Instant::now() + PATIENCE;
        loop {
            let fault = match self.plain.try_command(&words) {
                Ok(reply) => {
                    let mut values = Vec::new();
                    flatten(reply, &mut values)?;
                    if words[0] == b"KEYS" {
                        values.retain(|key| !is_lease(key));
                    }
                    let mut tried = names.clone();
                    match judge(command, &values, &mut tried)? {
                        Ok(()) => {
                            *names = tried;
                            return Ok(());
                        }
                        Err(fault) => fault,
                    }
                }
                Err(error) => error.to_string(),
            };
            if command.until.is_none() {
                return Err(fault);
            }
            if until < Instant::now() {
                return Err(format!("after {} s still: {fault}", PATIENCE.as_secs()));
            }
            thread::sleep(STEP);
        }
    }

    fn set_clock(&mut self, ahead: i64) {
        if ahead != 0 || !self.clock_is_right {
            self.server.set_clock(ahead);
            self.clock_is_right = ahead == 0;
        }
    }

    fn disturb(&self, network: &Network) -> Result<(), Stop> {
        match network {
            Network::CloseOn(command, moment) => {
                let moment = match moment {
                    Moment::Before => proxy::Moment::Before,
                    Moment::After => proxy::Moment::After,
                };
                self.network.close_on(command, moment, Ending::Close, 1);
            }
            Network::CutRequests(bytes) => {
                self.network.cut_after(Direction::Requests, *bytes, Ending::Close);
            }
            Network::Refuse => self.network.refuse_connections(),
            Network::Closed => {
                let until = Instant::now() + PATIENCE;
                while self.network.cuts() == self.closed {
                    if until < Instant::now() {
                        return Err(Stop::Fault("no connection was closed".to_owned()));
                    }
                    thread::sleep(STEP);
                }
            }
            Network::Heal => self.network.heal(),
        }
        Ok(())
    }

    fn interrupt(
        &mut self,
        interrupt: &Interrupt,
        actors: &mut [Actor<'_>],
        names: &Names,
    ) -> Result<(), Stop> {
        let (part, name) = &interrupt.interrupt;
        let actor = actor(actors, Some(part))?;
        let plan = interrupt::Plan { reader: interrupt.reader, name, times: interrupt.times };
        let plan = if self.start.long { plan.long() } else { plan };
        plan.carry_out(Plain::connect(&self.server), |words| {
            let words: Vec<Item> = words.iter().map(|word| Item::Field((*word).to_owned())).collect();
            match self.order(actor, &words, names)? {
                Reply::Ok(values) => Ok(values),
                other => Err(Stop::Fault(format!("{part} answers {other:?}"))),
            }
        })
    }

    fn write(&mut self, write: &Write, actors: &mut [Actor<'_>]) -> Result<(), Stop> {
        let mut writers = Vec::new();
        for actor in actors.iter_mut().filter(|actor| write.write.contains(&actor.part.name)) {
            if actor.driver.is_none() {
                self.enter(actor, true)?;
            }
            writers.extend(actor.driver.as_mut().map(|driver| Writer { name: &actor.part.name, driver }));
        }
        writers::write(&mut self.plain, writers, write.times, write.turns)
    }

    fn flood(&mut self, flood: &Flood, actors: &mut [Actor<'_>], names: &Names) -> Result<(), Stop> {
        let (part, slow) = &flood.to;
        let actor = actor(actors, Some(part))?;
        let plan = channel::Plan { count: flood.flood, slow, quick: flood.beside.as_deref() };
        plan.carry_out(|does| match does {
            Does::Publish { from, to } => {
                channel::publish(&mut self.plain, from, to)?;
                Ok(vec![])
            }
            Does::Take(listener) => {
                let event = ["event", listener, HEARING].map(|word| Item::Field(word.to_owned()));
                match self.order(actor, &event, names)? {
                    Reply::Ok(values) => Ok(values),
                    other => Err(Stop::Fault(format!("{part} answers {other:?}"))),
                }
            }
        })
    }

    fn share(&mut self, share: &Share, actors: &mut [Actor<'_>], names: &Names) -> Result<(), Stop> {
        let mut missing: HashSet<Token> = item::resolved(&share.gets, names)?.into_iter().collect();
        let mut last: Vec<(u64, u64)> = vec![(0, 0); share.share.len()];
        let until = Instant::now() + PATIENCE;
        while !missing.is_empty() {
            if until < Instant::now() {
                return Err(Stop::Fault(format!("these never came: {missing:?}")));
            }
            for ((part, consumer), last) in share.share.iter().zip(&mut last) {
                let actor = actor(actors, Some(part))?;
                let word = |text: &str| Item::Field(text.to_owned());
                let next = [word("next"), word(consumer), Item::Field(TURN.to_string())];
                let values = match self.order(actor, &next, names)? {
                    Reply::Ok(values) if values.is_empty() => continue,
                    Reply::Ok(values) => values,
                    other => return Err(Stop::Fault(format!("{part} answers {other:?}"))),
                };
                let [id, entry, ..] = values.as_slice() else {
                    return Err(Stop::Fault(format!("{part} answers {values:?}")));
                };
                if !missing.remove(id) {
                    return Err(Stop::Fault(format!(
                        "{part} gets {id:?}, which came before or has no business here"
                    )));
                }
                let place = snowflake::split_entry(&entry.encode()).unwrap_or_default();
                if share.in_order && place <= *last {
                    return Err(Stop::Fault(format!("{part} gets {entry:?} after {last:?}")));
                }
                *last = place;
                let ack = [word("ack"), word(consumer), Item::Field(entry.encode())];
                expect_nothing("ack", self.order(actor, &ack, names)?)?;
            }
        }
        Ok(())
    }
}

fn actor<'a, 'b>(actors: &'a mut [Actor<'b>], name: Option<&str>) -> Result<&'a mut Actor<'b>, String> {
    let found = actors.iter_mut().find(|actor| name.is_none_or(|name| actor.part.name == name));
    found.ok_or_else(|| format!("no part is named {name:?}"))
}

/// Whether a key belongs to the node leases, which are there for everyone who has minted.
fn is_lease(key: &Token) -> bool {
    matches!(key, Token::Value(key) if key.starts_with(LEASES.as_bytes()))
}
