//! Commands that cannot be sent as they are: what changes a connection that others use too, or how many answers come.
//!
//! Answers are told apart by their order alone, so a command with none or with several would give every later answer to the
//! wrong caller.

use crate::error::{Code, Error, Result};

/// Refuses what has no answer, or more than one, on any connection.
pub(crate) fn check_lane<A: AsRef<[u8]>>(arguments: &[A]) -> Result<()> {
    refuse(arguments, answers_otherwise(&Words(arguments)))
}

/// Refuses that, and also what changes the state of a connection that others use too, or makes them wait.
pub(crate) fn check_shared<A: AsRef<[u8]>>(arguments: &[A]) -> Result<()> {
    let words = Words(arguments);
    let why = answers_otherwise(&words).or_else(|| changes_state(&words)).or_else(|| waits(&words));
    refuse(arguments, why)
}

fn refuse<A: AsRef<[u8]>>(arguments: &[A], why: Option<&str>) -> Result<()> {
    match why {
        None => Ok(()),
        Some(why) => {
            let name = arguments.first().map(|name| name.as_ref().to_ascii_uppercase()).unwrap_or_default();
            let name = String::from_utf8_lossy(&name).into_owned();
            Err(Error::new(Code::InvalidOption, format!("{name} cannot be sent here: {why}")).about(name))
        }
    }
}

struct Words<'a, A>(&'a [A]);

impl<A: AsRef<[u8]>> Words<'_, A> {
    fn is(&self, place: usize, words: &[&str]) -> bool {
        let word = self.0.get(place).map(AsRef::as_ref);
        word.is_some_and(|word| words.iter().any(|one| one.as_bytes().eq_ignore_ascii_case(word)))
    }

    /// Whether a word stands before `STREAMS`, from that place on.
    fn has_option(&self, from: usize, option: &str) -> bool {
        let places = (from..self.0.len()).take_while(|place| !self.is(*place, &["STREAMS"]));
        places.into_iter().any(|place| self.is(place, &[option]))
    }
}

/// Why the number of its answers is not one.
fn answers_otherwise<A: AsRef<[u8]>>(words: &Words<'_, A>) -> Option<&'static str> {
    let subscribing =
        ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"];
    if words.is(0, &subscribing) {
        return Some(
            "it has an answer for each channel, and messages follow; listen through the client's events",
        );
    }
    if words.is(0, &["MONITOR", "SYNC", "PSYNC", "REPLCONF"]) {
        return Some("what follows is no answer to a command");
    }
    if words.is(0, &["CLIENT"]) && words.is(1, &["REPLY"]) {
        return Some("it turns answers off, by which the client tells what became of its commands");
    }
    None
}

/// Why it changes what other callers of the connection get.
fn changes_state<A: AsRef<[u8]>>(words: &Words<'_, A>) -> Option<&'static str> {
    if words.is(0, &["MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"]) {
        return Some(
            "all callers share this connection, and their commands would be part of it; open a lane, or use a script",
        );
    }
    let whole = ["SELECT", "HELLO", "RESET", "AUTH", "QUIT", "READONLY", "READWRITE", "ASKING"];
    let of_client =
        ["TRACKING", "CACHING", "NO-EVICT", "NO-TOUCH", "CAPA", "IMPORT-SOURCE", "SETNAME", "SETINFO"];
    if words.is(0, &whole)
        || words.is(0, &["CLIENT"]) && words.is(1, &of_client)
        || words.is(0, &["SCRIPT"]) && words.is(1, &["DEBUG"])
    {
        return Some(
            "it would change the connection that all callers share; set it in the options, or open a lane",
        );
    }
    None
}

/// Why everything behind it would wait.
fn waits<A: AsRef<[u8]>>(words: &Words<'_, A>) -> Option<&'static str> {
    let always = [
        "BLPOP",
        "BRPOP",
        "BRPOPLPUSH",
        "BLMOVE",
        "BLMPOP",
        "BZPOPMIN",
        "BZPOPMAX",
        "BZMPOP",
        "WAIT",
        "WAITAOF",
    ];
    // The names of a group and a consumer may read as an option does.
    let after_names = if words.is(1, &["GROUP"]) { 4 } else { 1 };
    let blocks = words.is(0, &always)
        || words.is(0, &["XREAD"]) && words.has_option(1, "BLOCK")
        || words.is(0, &["XREADGROUP"]) && words.has_option(after_names, "BLOCK");
    blocks.then_some(
        "it makes the server wait, and every other call of this connection with it; open a lane for it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &str) -> Vec<&str> {
        command.split(' ').collect()
    }

    #[test]
    fn what_changes_a_connection_is_refused_where_others_use_it() {
        for command in [
            "SUBSCRIBE c",
            "psubscribe c",
            "SSUBSCRIBE c",
            "UNSUBSCRIBE",
            "PUNSUBSCRIBE",
            "SUNSUBSCRIBE",
            "MONITOR",
            "SYNC",
            "PSYNC ? -1",
            "REPLCONF ACK 1",
            "CLIENT REPLY OFF",
            "client reply skip",
            "SELECT 1",
            "HELLO 2",
            "RESET",
            "AUTH p",
            "QUIT",
            "READONLY",
            "READWRITE",
            "ASKING",
            "MULTI",
            "EXEC",
            "DISCARD",
            "WATCH k",
            "UNWATCH",
            "CLIENT TRACKING ON",
            "CLIENT CACHING YES",
            "CLIENT NO-EVICT ON",
            "CLIENT NO-TOUCH ON",
            "CLIENT CAPA redirect",
            "CLIENT IMPORT-SOURCE ON",
            "CLIENT SETNAME n",
            "CLIENT SETINFO LIB-NAME n",
            "SCRIPT DEBUG YES",
            "BLPOP k 0",
            "BRPOP k 0",
            "BRPOPLPUSH a b 0",
            "BLMOVE a b LEFT LEFT 0",
            "BLMPOP 0 1 k LEFT",
            "BZPOPMIN k 0",
            "BZPOPMAX k 0",
            "BZMPOP 0 1 k MIN",
            "WAIT 1 0",
            "WAITAOF 1 0 0",
            "XREAD BLOCK 0 STREAMS k $",
            "XREAD COUNT 1 block 5 STREAMS k $",
            "XREADGROUP GROUP g c BLOCK 0 STREAMS k >",
        ] {
            let error = check_shared(&words(command)).unwrap_err();
            assert_eq!(error.code(), Code::InvalidOption, "{command}");
            assert_eq!(error.subject(), Some(&*words(command)[0].to_uppercase()), "{command}");
        }
    }

    #[test]
    fn what_only_reads_like_it_is_not() {
        for command in [
            "GET SUBSCRIBE",
            "CLIENT KILL TYPE NORMAL",
            "CLIENT ID",
            "CLIENT LIST",
            "SCRIPT LOAD x",
            "XREAD STREAMS BLOCK 0",
            "XREADGROUP GROUP BLOCK BLOCK STREAMS k >",
            "XREAD COUNT 5 STREAMS k 0",
            "PUBLISH c m",
            "LPOP k",
            "SET k MULTI",
        ] {
            assert_eq!(check_shared(&words(command)), Ok(()), "{command}");
        }
        assert_eq!(check_shared::<&str>(&[]), Ok(()));
    }

    #[test]
    fn a_connection_of_ones_own_takes_all_that_has_one_answer() {
        for command in
            ["BLPOP k 1", "SELECT 1", "MULTI", "EXEC", "WATCH k", "WAIT 1 100", "XREAD BLOCK 5 STREAMS k $"]
        {
            assert_eq!(check_lane(&words(command)), Ok(()), "{command}");
        }
        for command in ["SUBSCRIBE c", "MONITOR", "CLIENT REPLY OFF", "PSYNC ? -1"] {
            assert_eq!(check_lane(&words(command)).unwrap_err().code(), Code::InvalidOption, "{command}");
        }
    }
}
