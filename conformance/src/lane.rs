//! One language's way through the cases: a server, a plain client, a capturing proxy and driver processes of its own.

use crate::case::{Case, Given, Open, Settings};
use crate::driver::Driver;
use crate::item::{self, Item};
use crate::judgement::{Verdict, judge};
use crate::observation::Observation;
use crate::operation::{self, Call};
use crate::protocol::{Reply, Token};
use crate::snowflake;
use echomq_tests::{Kind, Plain, Proxy, Server};
use std::path::PathBuf;
use std::time::Duration;

/// The handle of the connection that most cases share.
const SHARED: &str = "shared";
/// The handle of a connection that a case has for itself.
const OWN: &str = "own";
/// The node that the shared connection mints with.
const SHARED_NODE: u64 = 1;

/// One column of the table.
#[derive(Clone, Debug)]
pub struct Participant {
    /// The name of the column.
    pub name: String,
    /// The driver, by its folder in `conformance/drivers`.
    pub driver: String,
    /// What the driver finds in its environment on top of the judge's.
    pub environment: Vec<(String, String)>,
}

impl Participant {
    /// The driver of a language, as it is.
    pub fn language(name: &str) -> Self {
        Self { name: name.to_owned(), driver: name.to_owned(), environment: vec![] }
    }
}

/// How drivers are started.
#[derive(Clone, Debug)]
pub struct Start {
    /// The root of the project.
    pub root: PathBuf,
    /// How long a driver may take over one answer.
    pub deadline: Duration,
    /// Whether waits are cancelled as often as in the long form.
    pub long: bool,
}

/// What came of a case in one language.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The kind of each answer: `ok`, an error's code, or `unsupported`.
    pub kinds: Vec<String>,
    /// What the plain client saw.
    pub seen: Observation,
}

/// Why a case came to no end.
pub(crate) enum Stop {
    /// Driver or server failed.
    Fault(String),
    /// The driver does not know this op.
    Gap(String),
}

impl From<String> for Stop {
    fn from(fault: String) -> Self {
        Self::Fault(fault)
    }
}

impl From<Stop> for Verdict {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Fault(fault) => Self::Fail(fault),
            Stop::Gap(op) => Self::Gap(op),
        }
    }
}

/// What a driver did, before it is judged.
struct Performed {
    replies: Vec<Reply>,
    seen: Observation,
    /// What the driver said on standard error.
    said: String,
}

/// A process that several cases share, and whether its shared connection is open.
struct Shared {
    driver: Driver,
    opened: bool,
}

/// One language's way through the cases.
pub struct Lane {
    participant: Participant,
    start: Start,
    server: Server,
    plain: Plain,
    proxy: Proxy,
    shared: Option<Shared>,
}

impl Lane {
    /// Starts a server of `kind` for one participant. Panics where none can be started.
    pub fn new(participant: Participant, kind: Kind, start: Start) -> Self {
        let server = Server::start(kind);
        let plain = Plain::connect(&server);
        let proxy = Proxy::start(server.address());
        Self { participant, start, server, plain, proxy, shared: None }
    }

    /// The name of the column.
    pub fn name(&self) -> &str {
        &self.participant.name
    }

    /// The address of this lane's server.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Takes the steps of a case on an empty server and judges what comes of them.
    pub fn run(&mut self, case: &Case) -> Outcome {
        match self.perform(case) {
            Ok(Performed { replies, mut seen, said }) => {
                let verdict = match judge(case, &self.participant.driver, &replies, &seen) {
                    Verdict::Fail(fault) => Verdict::Fail(with_diagnostics(fault, &said)),
                    other => other,
                };
                if !case.captures() && case.read.is_empty() {
                    seen = Observation::default();
                }
                Outcome {
                    verdict,
                    kinds: replies.iter().map(|reply| reply.kind().to_owned()).collect(),
                    seen,
                }
            }
            Err(stop) => Outcome { verdict: stop.into(), kinds: vec![], seen: Observation::default() },
        }
    }

    fn perform(&mut self, case: &Case) -> Result<Performed, Stop> {
        self.plain.command(["FLUSHALL"]);
        // A script that is known from an earlier case would let this one take another way.
        self.plain.command(["SCRIPT", "FLUSH"]);
        for given in &case.given {
            self.give(given)?;
        }
        self.proxy.forget();
        let url = if case.captures() { self.proxy.url() } else { self.server.url() };
        let (replies, said) = if case.needs_new_process() {
            let mut driver = self.new_driver()?;
            let performed = listening(&mut driver, |driver| take_steps(driver, case, &url))?;
            driver.finish()?;
            performed
        } else {
            self.on_shared(|driver, shared_url, opened| {
                if case.open == Open::Shared && !*opened && uses_handle(&case.steps) {
                    open(driver, SHARED, shared_url, &Settings { node: Some(SHARED_NODE), clock: None })?;
                    *opened = true;
                }
                take_steps(driver, case, &url)
            })?
        };
        let commands = if case.captures() { self.proxy.commands_named("XADD") } else { vec![] };
        let seen = Observation::of(case, &mut self.plain, commands)?;
        Ok(Performed { replies, seen, said })
    }

    /// Takes steps as reader of what another lane's server holds.
    pub(crate) fn read_at(&mut self, url: &str, steps: &[Vec<Item>]) -> Result<Vec<Reply>, Stop> {
        self.on_shared(|driver, _, _| {
            open(driver, OWN, url, &Settings { node: None, clock: None })?;
            let mut replies = Vec::new();
            for step in steps {
                let (op, arguments) = operation::request(step, OWN, url)?;
                replies.push(driver.ask(op, &arguments)?);
            }
            close(driver)?;
            Ok(replies)
        })
        .map(|(replies, _)| replies)
    }

    /// Ends the driver process that cases have shared.
    ///
    /// # Errors
    ///
    /// Says so where it does not end by itself once its input has ended.
    pub fn finish(&mut self) -> Result<(), String> {
        self.shared.take().map_or(Ok(()), |shared| shared.driver.finish())
    }

    fn new_driver(&self) -> Result<Driver, String> {
        let Participant { driver, environment, .. } = &self.participant;
        Driver::start(&self.start.root, driver, environment, self.start.deadline)
    }

    /// Works with the shared process. One that failed is not used again.
    fn on_shared<T>(
        &mut self,
        work: impl FnOnce(&mut Driver, &str, &mut bool) -> Result<T, Stop>,
    ) -> Result<(T, String), Stop> {
        let Shared { mut driver, mut opened } = match self.shared.take() {
            Some(shared) => shared,
            None => Shared { driver: self.new_driver()?, opened: false },
        };
        let url = self.server.url();
        let result = listening(&mut driver, |driver| work(driver, &url, &mut opened));
        if !matches!(result, Err(Stop::Fault(_))) {
            self.shared = Some(Shared { driver, opened });
        }
        result
    }

    fn give(&mut self, given: &Given) -> Result<(), String> {
        let commands = match given {
            Given::Command(command) => {
                let token = |token| match token {
                    Token::Value(bytes) => bytes,
                    Token::Bar => b"|".to_vec(),
                };
                vec![item::values(command)?.into_iter().map(token).collect::<Vec<_>>()]
            }
            Given::Records { key, records } => {
                let record = |number: u64| {
                    let (entry, id) = (snowflake::entry(number), snowflake::branded(number));
                    let words = ["XADD", key, &entry, "id", &id, "n", &number.to_string()];
                    words.map(|word| word.as_bytes().to_vec()).to_vec()
                };
                records.snowflakes()?.into_iter().map(record).collect()
            }
        };
        for command in commands {
            self.plain.try_command(command).map_err(|error| format!("what is given fails: {error}"))?;
        }
        Ok(())
    }
}

/// Works with a driver, and answers what it said on standard error meanwhile, too.
fn listening<T>(
    driver: &mut Driver,
    work: impl FnOnce(&mut Driver) -> Result<T, Stop>,
) -> Result<(T, String), Stop> {
    driver.forget_diagnostics();
    match work(driver) {
        Ok(done) => Ok((done, driver.diagnostics())),
        Err(Stop::Fault(fault)) => Err(Stop::Fault(with_diagnostics(fault, &driver.diagnostics()))),
        Err(gap) => Err(gap),
    }
}

fn with_diagnostics(fault: String, said: &str) -> String {
    if said.is_empty() { fault } else { format!("{fault}; its standard error: {said}") }
}

fn uses_handle(steps: &[Vec<Item>]) -> bool {
    steps.iter().any(|step| {
        operation::named(step).is_ok_and(|(_, call)| !matches!(call, Call::Plain | Call::OnReader))
    })
}

fn take_steps(driver: &mut Driver, case: &Case, url: &str) -> Result<Vec<Reply>, Stop> {
    let mut own = false;
    if let Open::Own(settings) = &case.open {
        open(driver, OWN, url, settings)?;
        own = true;
    }
    let handle = if case.open == Open::Shared { SHARED } else { OWN };
    let mut replies = Vec::new();
    for step in &case.steps {
        let (op, arguments) = operation::request(step, handle, url)?;
        let reply = driver.ask(op, &arguments)?;
        match (op, &reply) {
            ("open", Reply::Ok(_)) => own = true,
            ("close", Reply::Ok(_)) => own = false,
            _ => {}
        }
        let known = reply != Reply::Unsupported;
        replies.push(reply);
        if !known {
            break;
        }
    }
    if own {
        close(driver)?;
    }
    Ok(replies)
}

fn open(driver: &mut Driver, handle: &str, url: &str, settings: &Settings) -> Result<(), Stop> {
    let mut arguments = vec![Token::text(handle), Token::text(url)];
    arguments.extend(settings.node.map(|node| Token::text(format!("node={node}"))));
    arguments.extend(settings.clock.map(|clock| Token::text(format!("clock={clock}"))));
    expect_nothing("open", driver.ask("open", &arguments)?)
}

fn close(driver: &mut Driver) -> Result<(), Stop> {
    expect_nothing("close", driver.ask("close", &[Token::text(OWN)])?)
}

fn expect_nothing(op: &str, reply: Reply) -> Result<(), Stop> {
    match reply {
        Reply::Ok(values) if values.is_empty() => Ok(()),
        Reply::Unsupported => Err(Stop::Gap(op.to_owned())),
        other => Err(Stop::Fault(format!("{op} answers {other:?}"))),
    }
}
