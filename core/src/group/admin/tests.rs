//! What each operation asks and answers, also where answers are lost.

use super::consumers::{RemoveConsumer, SweepConsumers};
use super::existence::{CreateGroup, RemoveGroup};
use super::look::{LookAtGroup, LookAtGroups};
use super::seek::Seek;
use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::keyspace::Keyspace;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::stream::Key;
use crate::stream::start::Start;
use redis::Value;
use std::time::Duration;

fn key() -> Key {
    Key::new(&Keyspace::new("q").unwrap(), "s").unwrap()
}

fn parsed(reply: &str) -> Value {
    redis::parse_redis_value(reply.as_bytes()).unwrap()
}

/// Sends the operation's next round and gives its commands.
fn ask(operation: &mut impl Operation) -> Vec<String> {
    operation.prepare(&Minter::new(Clock::system(), None, None)).unwrap();
    let mut commands = Packed::default();
    operation.commands(&mut commands);
    commands.texts()
}

fn answer<O: Operation>(operation: &mut O, replies: &[&str]) -> Step<O::Reply> {
    operation.answered(replies.iter().map(|reply| parsed(reply)).collect())
}

#[track_caller]
fn done<T>(step: Step<T>) -> Result<T> {
    match step {
        Step::Done(answer) => answer,
        _ => panic!("there is more to ask"),
    }
}

#[track_caller]
fn code<T>(step: Step<T>) -> Code {
    done(step).err().unwrap().code()
}

fn late() -> Error {
    Error::new(Code::Timeout, "no answer came in time")
}

const OK: &str = "+OK\r\n";
const BUSY: &str = "-BUSYGROUP Consumer Group name already exists\r\n";
const MISSING: &str = "-ERR The XGROUP subcommand requires the key to exist. Note …\r\n";
const NO_KEY: &str = "-ERR no such key\r\n";
const NO_GROUP: &str = "-NOGROUP No such consumer group 'g' for key name 'k'\r\n";
const NO_SCRIPT: &str = "-NOSCRIPT No matching script.\r\n";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const NONE: &str = "*0\r\n";
const ONE: &str = "*1\r\n$1\r\nc\r\n";

#[test]
fn a_group_is_made_once() {
    let new = || CreateGroup::new(key(), "g".into(), Start::New);
    assert_eq!(ask(&mut new()), ["XGROUP CREATE emq:{q}:stream:s g $ MKSTREAM"]);
    assert!(done(answer(&mut new(), &[OK])).unwrap());
    assert!(!done(answer(&mut new(), &[BUSY])).unwrap());
    assert_eq!(code(answer(&mut new(), &[WRONG_TYPE])), Code::WrongType);

    let mut lost = new();
    ask(&mut lost);
    assert!(matches!(lost.lost(), Step::Again));
    assert_eq!(ask(&mut lost).len(), 1);
    assert_eq!(code(answer(&mut lost, &[BUSY])), Code::UnknownOutcome);
    assert!(done(answer(&mut lost, &[OK])).unwrap());
    assert_eq!(lost.abandon(late()).unwrap_err().code(), Code::UnknownOutcome);
    assert_eq!(new().abandon(late()).unwrap_err().code(), Code::Timeout);
}

#[test]
fn a_group_is_removed_once() {
    let new = || RemoveGroup::new(key(), "g".into());
    assert_eq!(ask(&mut new()), ["XGROUP DESTROY emq:{q}:stream:s g", "EXISTS emq:{q}:stream:s"]);
    assert!(done(answer(&mut new(), &[":1\r\n", ":1\r\n"])).unwrap());
    assert!(!done(answer(&mut new(), &[":0\r\n", ":1\r\n"])).unwrap());
    assert!(!done(answer(&mut new(), &[MISSING, ":0\r\n"])).unwrap());
    assert_eq!(code(answer(&mut new(), &[MISSING, ":1\r\n"])), Code::Server);
    assert_eq!(code(answer(&mut new(), &[WRONG_TYPE, ":1\r\n"])), Code::WrongType);

    let mut lost = new();
    ask(&mut lost);
    assert!(matches!(lost.lost(), Step::Again));
    assert_eq!(code(answer(&mut lost, &[":0\r\n", ":1\r\n"])), Code::UnknownOutcome);
    assert_eq!(code(answer(&mut lost, &[MISSING, ":0\r\n"])), Code::UnknownOutcome);
    assert!(done(answer(&mut lost, &[":1\r\n", ":1\r\n"])).unwrap());
    assert_eq!(lost.abandon(late()).unwrap_err().code(), Code::UnknownOutcome);
    assert_eq!(new().abandon(late()).unwrap_err().code(), Code::Timeout);
}

#[test]
fn a_move_to_the_end_is_a_move_to_a_position() {
    let mut seek = Seek::new(key(), "g".into(), Start::New);
    assert_eq!(ask(&mut seek), ["XINFO STREAM emq:{q}:stream:s"]);
    assert_eq!(seek.abandon(late()).unwrap_err().code(), Code::Timeout);
    assert!(matches!(answer(&mut seek, &["*2\r\n$17\r\nlast-generated-id\r\n$3\r\n7-1\r\n"]), Step::Again));
    let moved = ["XGROUP SETID emq:{q}:stream:s g 7-1", "EXISTS emq:{q}:stream:s"];
    assert_eq!(ask(&mut seek), moved);
    assert!(matches!(seek.lost(), Step::Again));
    assert_eq!(ask(&mut seek), moved);
    assert_eq!(code(answer(&mut seek, &[NO_GROUP, ":1\r\n"])), Code::NoGroup);
    assert_eq!(code(answer(&mut seek, &[MISSING, ":0\r\n"])), Code::NoGroup);
    assert_eq!(code(answer(&mut seek, &[WRONG_TYPE, ":1\r\n"])), Code::WrongType);
    done(answer(&mut seek, &[OK, ":1\r\n"])).unwrap();
    assert_eq!(seek.abandon(late()).unwrap_err().code(), Code::UnknownOutcome);

    let mut seek = Seek::new(key(), "g".into(), Start::New);
    assert_eq!(code(answer(&mut seek, &[NO_KEY])), Code::NoGroup);
    assert_eq!(code(answer(&mut seek, &[WRONG_TYPE])), Code::WrongType);
    let mut head = Seek::new(key(), "g".into(), Start::Head);
    assert_eq!(ask(&mut head)[0], "XGROUP SETID emq:{q}:stream:s g 0");
}

/// The server cannot serve what is asked beside a command, and has carried the command out or has not.
#[test]
fn what_was_carried_out_counts_whatever_is_asked_beside_it() {
    let busy = "-BUSY Redis is busy running a script.\r\n";
    let unavailable = |replies: [&str; 2]| {
        let replies = || replies.iter().map(|reply| parsed(reply)).collect();
        let why = || Error::new(Code::Unavailable, "busy");
        let mut removal = RemoveGroup::new(key(), "g".into());
        let mut seek = Seek::new(key(), "g".into(), Start::Head);
        ask(&mut removal);
        ask(&mut seek);
        (removal.unavailable(replies(), why()), seek.unavailable(replies(), why()))
    };
    assert!(done(unavailable([":1\r\n", busy]).0).unwrap());
    assert!(!done(unavailable([":0\r\n", busy]).0).unwrap());
    done(unavailable([OK, busy]).1).unwrap();
    for refused in [[busy, ":1\r\n"], [busy, busy], [MISSING, busy]] {
        assert!(matches!(unavailable(refused), (Step::Later(_), Step::Later(_))));
    }
}

#[test]
fn a_consumer_is_removed_once() {
    let new = || RemoveConsumer::new(key(), "g".into(), "c".into());
    let asked = ask(&mut new());
    assert!(asked[0].starts_with("EVALSHA ") && asked[0].ends_with(" 1 emq:{q}:stream:s g CONSUMER c"));
    done(answer(&mut new(), &[ONE])).unwrap();
    assert_eq!(code(answer(&mut new(), &[NONE])), Code::Gone);
    assert_eq!(code(answer(&mut new(), &[NO_GROUP])), Code::NoGroup);
    let error = done(answer(&mut new(), &["-EMQSTATE 3\r\n"])).unwrap_err();
    assert_eq!((error.code(), error.message().contains(": 3;")), (Code::State, true), "{error}");

    let mut unknown_script = new();
    assert!(matches!(answer(&mut unknown_script, &[NO_SCRIPT]), Step::Again));
    assert!(ask(&mut unknown_script)[0].starts_with("EVAL "));

    let mut lost = new();
    ask(&mut lost);
    assert!(matches!(lost.lost(), Step::Again));
    assert!(ask(&mut lost)[0].starts_with("EVAL "));
    assert_eq!(code(answer(&mut lost, &[NONE])), Code::UnknownOutcome);
    assert_eq!(code(answer(&mut lost, &["-EMQSTATE 3\r\n"])), Code::State);
    done(answer(&mut lost, &[ONE])).unwrap();
    assert_eq!(lost.abandon(late()).unwrap_err().code(), Code::UnknownOutcome);
    assert_eq!(new().abandon(late()).unwrap_err().code(), Code::Timeout);
}

#[test]
fn a_sweep_whose_answer_is_lost_is_not_repeated() {
    let new = || SweepConsumers::new(key(), "g".into(), Duration::from_micros(1_500));
    assert!(ask(&mut new())[0].ends_with(" 1 emq:{q}:stream:s g IDLE 1"));
    assert_eq!(done(answer(&mut new(), &[ONE])).unwrap(), ["c"]);
    assert!(done(answer(&mut new(), &[NONE])).unwrap().is_empty());
    assert!(matches!(answer(&mut new(), &[NO_SCRIPT]), Step::Again));
    assert_eq!(code(answer(&mut new(), &[NO_GROUP])), Code::NoGroup);
    let mut lost = new();
    ask(&mut lost);
    assert_eq!(lost.abandon(late()).unwrap_err().code(), Code::UnknownOutcome);
    assert_eq!(code(lost.lost()), Code::UnknownOutcome);
    assert_eq!(new().abandon(late()).unwrap_err().code(), Code::Timeout);
}

const TIME: &str = "*2\r\n$1\r\n1\r\n$6\r\n500999\r\n";

/// A stream of 4 entries from 2-0 to 5-0 of which 5 were added, with groups `a` and `b` of these positions and lags.
fn look(positions: [(&str, u64); 2]) -> String {
    let mut reply =
        "*10\r\n+length\r\n:4\r\n+entries-added\r\n:5\r\n+last-generated-id\r\n+5-0\r\n".to_owned();
    reply += "+entries\r\n*1\r\n*2\r\n+2-0\r\n*0\r\n+groups\r\n*2\r\n";
    for (name, (position, lag)) in ["a", "b"].iter().zip(positions) {
        reply += &format!("*10\r\n+name\r\n+{name}\r\n+last-delivered-id\r\n+{position}\r\n");
        reply += &format!("+lag\r\n:{lag}\r\n+pel-count\r\n:0\r\n+consumers\r\n*0\r\n");
    }
    reply
}

#[test]
fn a_look_takes_one_round_and_a_second_only_to_count() {
    let mut all = LookAtGroups::new(key());
    let asked = ask(&mut all);
    assert_eq!(asked, ["XINFO STREAM emq:{q}:stream:s FULL COUNT 1", "TIME"]);
    let found = done(answer(&mut all, &[&look([("5-0", 2), ("1-0", 9)]), TIME])).unwrap();
    let lags: Vec<_> = found.iter().map(|group| (group.name(), group.lag())).collect();
    assert_eq!(lags, [("a", Some(0)), ("b", Some(4))]);

    let mut all = LookAtGroups::new(key());
    ask(&mut all);
    assert!(matches!(answer(&mut all, &[&look([("3-0", 2), ("2-0", 3)]), TIME]), Step::Again));
    let count = ["XRANGE emq:{q}:stream:s (2-0 5-0 COUNT 4"];
    assert_eq!(ask(&mut all), count);
    assert!(matches!(all.lost(), Step::Again));
    assert_eq!(ask(&mut all), count);
    let entries = "*2\r\n*2\r\n+3-0\r\n*0\r\n*2\r\n+5-0\r\n*0\r\n";
    let found = done(answer(&mut all, &[entries])).unwrap();
    assert_eq!(found.iter().map(|group| group.lag()).collect::<Vec<_>>(), [Some(1), Some(2)]);

    let mut one = LookAtGroup::new(key(), "a".into());
    ask(&mut one);
    assert!(matches!(answer(&mut one, &[&look([("3-0", 2), ("2-0", 3)]), TIME]), Step::Again));
    assert_eq!(ask(&mut one), ["XRANGE emq:{q}:stream:s (3-0 5-0 COUNT 3"]);
    assert_eq!(done(answer(&mut one, &[NONE])).unwrap().lag(), Some(0));
    let mut none = LookAtGroup::new(key(), "c".into());
    assert_eq!(code(answer(&mut none, &[&look([("3-0", 2), ("2-0", 3)]), TIME])), Code::NoGroup);
}

#[test]
fn a_look_at_no_stream() {
    assert!(done(answer(&mut LookAtGroups::new(key()), &[NO_KEY, TIME])).unwrap().is_empty());
    assert_eq!(code(answer(&mut LookAtGroup::new(key(), "g".into()), &[NO_KEY, TIME])), Code::NoGroup);
    let error = done(answer(&mut LookAtGroups::new(key()), &[WRONG_TYPE, TIME])).unwrap_err();
    assert_eq!((error.code(), error.subject()), (Code::WrongType, Some("emq:{q}:stream:s")));
}

/// An answer that came whole counts, whatever breaks behind it. A refusal alone may be for want of the stream.
#[test]
fn what_was_answered_before_a_break_counts() {
    let answers = |texts: &[&str]| texts.iter().map(|text| parsed(text)).collect::<Vec<_>>();
    let remove = || RemoveGroup::new(key(), "g".into());
    let mut removed = remove();
    ask(&mut removed);
    assert!(done(removed.cut(answers(&[":1\r\n"]))).unwrap());
    let mut refused = remove();
    ask(&mut refused);
    assert!(matches!(refused.cut(answers(&[MISSING])), Step::Again));
    let seek = || Seek::new(key(), "g".into(), Start::Head);
    let mut moved = seek();
    ask(&mut moved);
    done(moved.cut(answers(&[OK]))).unwrap();
    let mut refused = seek();
    ask(&mut refused);
    assert!(matches!(refused.cut(answers(&[NO_GROUP])), Step::Again));
}
