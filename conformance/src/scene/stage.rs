//! Where scenes are played: a server, a plain client, and the processes of those who play.

use super::channel::{self, Audience, Does};
use super::format::{Flood, Op, Part, Plain as Command, Scene, Share, Step};
use crate::driver::Driver;
use crate::item::{self, Item, Names};
use crate::judgement::Verdict;
use crate::lane::{Participant, Start};
use crate::operation;
use crate::protocol::{Reply, Token, shorten};
use crate::snowflake;
use echomq_tests::{Kind, Plain, Server};
use redis::Value;
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
    /// The plain client as a listener, where the scene has one.
    audience: Option<Audience>,
    waiting: HashMap<Place, Driver>,
}

/// One who plays a part.
struct Actor<'a> {
    part: &'a Part,
    node: u64,
    participant: &'a Participant,
    place: Place,
    /// Where the server is.
    url: String,
    driver: Option<Driver>,
    /// Consumers that were started and not stopped.
    consumers: Vec<Token>,
}

impl Stage {
    /// Starts a server of `kind`. Panics where none can be started.
    pub(super) fn new(kind: Kind, start: Start) -> Self {
        let server = Server::start(kind);
        let plain = Plain::connect(&server);
        Self { start, server, plain, audience: None, waiting: HashMap::new() }
    }

    /// Plays a scene on an empty server, each part by the participant in its place.
    pub(super) fn play(&mut self, scene: &Scene, cast: &[&Participant]) -> Played {
        self.plain.command(["FLUSHALL"]);
        self.plain.command(["SCRIPT", "FLUSH"]);
        self.audience = None;
        let mut actors = Vec::new();
        let kills = |part: &Part| scene.steps.iter().any(|step| step.kills(&part.name));
        for (at, (part, participant)) in scene.parts.iter().zip(cast).enumerate() {
            let same = cast[..at].iter().filter(|other| other.name == participant.name).count();
            actors.push(Actor {
                part,
                node: part.node.unwrap_or(at as u64 + 1),
                participant,
                place: (participant.name.clone(), same),
                url: if kills(part) { self.url_of(part) } else { self.server.url() },
                driver: None,
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
                compare(op, &reply, names).map_err(Stop::Fault)
            }
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
        let arguments = item::resolved(&order[1..], names)?;
        let (op, arguments) = operation::place(order, arguments, &actor.part.name, &actor.url)?;
        if actor.driver.is_none() {
            self.enter(actor, op != "open")?;
        }
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

    fn enter(&mut self, actor: &mut Actor<'_>, opens: bool) -> Result<(), Stop> {
        let fresh = actor.part.clock.is_some();
        let waiting = if fresh { None } else { self.waiting.remove(&actor.place) };
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
            if actor.part.clock.is_none() {
                self.waiting.insert(actor.place.clone(), driver);
            } else {
                driver.finish()?;
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

fn expect_nothing(op: &str, reply: Reply) -> Result<(), Stop> {
    match reply {
        Reply::Ok(values) if values.is_empty() => Ok(()),
        Reply::Unsupported => Err(Stop::Gap(op.to_owned())),
        other => Err(Stop::Fault(format!("{op} answers {other:?}"))),
    }
}

fn compare(op: &Op, reply: &Reply, names: &mut Names) -> Result<(), String> {
    match (&op.err, reply) {
        (None, Reply::Ok(values)) => names.compare(&item::expand(&op.ok)?, values),
        (Some(expected), Reply::Err { code, text }) if expected == code => {
            let spoken = text.to_lowercase();
            match op.text.iter().find(|part| !spoken.contains(&part.to_lowercase())) {
                None => Ok(()),
                Some(part) => Err(format!("{code} does not name {part:?}: {}", shorten(text))),
            }
        }
        (expected, other) => {
            let expected = expected.as_deref().unwrap_or("values");
            Err(format!("{} instead of {expected}", shorten(&format!("{other:?}"))))
        }
    }
}

/// The outer error is a mistake in the scene, the inner one what is wrong with the answer.
fn judge(command: &Command, values: &[Token], names: &mut Names) -> Result<Result<(), String>, String> {
    if let Some(expected) = command.is.as_ref().or(command.until.as_ref()) {
        return Ok(names.compare(&item::expand(expected)?, values));
    }
    let Some(part) = &command.has else { return Ok(Ok(())) };
    let part = item::resolved(part, names)?;
    let found = values.windows(part.len().max(1)).any(|window| window == part);
    Ok(if found { Ok(()) } else { Err(format!("no {part:?} in {}", shorten(&format!("{values:?}")))) })
}

/// The values of a reply, one behind the other.
fn flatten(reply: Value, into: &mut Vec<Token>) -> Result<(), String> {
    match reply {
        Value::Nil => into.push(Token::text("")),
        Value::Int(number) => into.push(Token::text(number.to_string())),
        Value::BulkString(bytes) => into.push(Token::Value(bytes)),
        Value::SimpleString(text) => into.push(Token::text(text)),
        Value::Okay => into.push(Token::text("OK")),
        Value::Array(values) => values.into_iter().try_for_each(|value| flatten(value, into))?,
        other => return Err(format!("a reply that no scene expects: {other:?}")),
    }
    Ok(())
}

fn describe(step: &Step, actors: &[Actor<'_>]) -> String {
    match step {
        Step::Op(op) => {
            let by = op.by.as_deref();
            let actor = actors.iter().find(|actor| by.is_none_or(|name| actor.part.name == name));
            let who = actor.map_or("nobody", |actor| actor.participant.name.as_str());
            let what = operation::named(&op.order).map_or("nothing", |(what, _)| what);
            format!("({what} in {who})")
        }
        Step::Plain(command) => match command.plain.first() {
            Some(Item::Field(word)) => format!("({word} of the plain client)"),
            _ => String::new(),
        },
        Step::Records(_) => "(records)".to_owned(),
        Step::Kill { .. } => "(kill)".to_owned(),
        Step::Share(_) => "(sharing)".to_owned(),
        Step::Hear { .. } => "(listening of the plain client)".to_owned(),
        Step::Heard { .. } => "(what the plain client heard)".to_owned(),
        Step::Flood(_) => "(flood)".to_owned(),
        Step::Restart { .. } => "(restart)".to_owned(),
    }
}

fn with_diagnostics(mut fault: String, actors: &[Actor<'_>]) -> String {
    for actor in actors {
        let said = actor.driver.as_ref().map(Driver::diagnostics).unwrap_or_default();
        if !said.is_empty() {
            fault.push_str(&format!("; the standard error of {}: {said}", actor.participant.name));
        }
    }
    fault
}
