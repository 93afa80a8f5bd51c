//! What is published on a channel: heard by the plain client, and published by it in floods.

use super::stage::{PATIENCE, Stop};
use crate::protocol::Token;
use echomq_tests::{Ear, Plain};

/// The channel on which the plain client tells itself that it has heard everything up to here.
const OWN: &str = "judge";

/// Where floods are published.
const CHANNEL: &str = "emq:{q}:events";

/// How many events of a flood are published before a quick listener takes them.
const LOT: u64 = 500;

/// Publishes the events from one number to another.
const PUBLISH: &str = r#"
for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  redis.call('PUBLISH', KEYS[1], '{"event":"flood","n":"' .. n .. '"}')
end
"#;

/// The plain client as a listener.
pub(super) struct Audience(Ear);

impl Audience {
    /// Listens to the channels from here on.
    pub(super) fn join(url: &str, channels: &[String]) -> Result<Self, String> {
        let all = channels.iter().map(String::as_str).chain([OWN]);
        let joined = Ear::try_subscribe(url, all, PATIENCE);
        joined.map(Self).map_err(|error| format!("the plain client cannot listen: {error}"))
    }

    /// The payloads that have come, in order, up to what was published last.
    pub(super) fn heard(&mut self, plain: &mut Plain) -> Result<Vec<Token>, String> {
        let lost = |error| format!("the plain client hears nothing: {error}");
        plain.try_command(["PUBLISH", OWN, ""]).map_err(lost)?;
        let mut payloads = Vec::new();
        loop {
            let (channel, payload) = self.0.try_hear().map_err(lost)?;
            if channel == OWN {
                return Ok(payloads);
            }
            payloads.push(Token::Value(payload));
        }
    }
}

/// Publishes events of a flood, from one number to another.
pub(super) fn publish(plain: &mut Plain, from: u64, to: u64) -> Result<(), String> {
    let (from, to) = (from.to_string(), to.to_string());
    let published = plain.try_command(["EVAL", PUBLISH, "1", CHANNEL, &from, &to]);
    published.map(drop).map_err(|error| format!("the flood cannot be published: {error}"))
}

/// What happens in a flood.
pub(super) enum Does<'a> {
    /// The plain client publishes the events from one number to another.
    Publish { from: u64, to: u64 },
    /// A listener is asked for what it hears next.
    Take(&'a str),
}

/// A flood: more events than a listener's buffer takes.
pub(super) struct Plan<'a> {
    /// How many events are published before the slow listener takes the first.
    pub(super) count: u64,
    pub(super) slow: &'a str,
    /// One that takes all events of a small lot before the next lot is published.
    pub(super) quick: Option<&'a str>,
}

impl Plan<'_> {
    /// Has the events published and taken: the quick listener gets all of them; the slow one gets each at most once, in
    /// order, with a gap exactly where some are missing.
    pub(super) fn carry_out(
        &self,
        mut act: impl FnMut(Does<'_>) -> Result<Vec<Token>, Stop>,
    ) -> Result<(), Stop> {
        let lot = if self.quick.is_some() { LOT } else { self.count };
        let mut published = 0;
        while published < self.count {
            let (from, to) = (published + 1, self.count.min(published + lot));
            act(Does::Publish { from, to })?;
            published = to;
            let Some(quick) = self.quick else { continue };
            for expected in from..=to {
                let values = act(Does::Take(quick))?;
                if values.last().and_then(number) != Some(expected) {
                    return fault(format!("{quick} hears {values:?} instead of event {expected}"));
                }
            }
        }
        let (mut heard, mut gap) = (0, false);
        while heard < published {
            match act(Does::Take(self.slow))?.as_slice() {
                [] => return fault(format!("nothing comes behind event {heard} of {published}")),
                [token] if *token == Token::text("gap") => {
                    gap = true;
                    // The last event may be missing, too, so that there is one more.
                    published += 1;
                    act(Does::Publish { from: published, to: published })?;
                }
                [_, payload] => {
                    let Some(number) = number(payload) else {
                        return fault(format!("{payload:?} in a flood"));
                    };
                    let right = if gap { number > heard + 1 } else { number == heard + 1 };
                    if !right {
                        let stands = if gap { "a gap" } else { "no gap" };
                        return fault(format!(
                            "event {number} comes behind {heard}, with {stands} between them"
                        ));
                    }
                    (heard, gap) = (number, false);
                }
                other => return fault(format!("the listener answers {other:?}")),
            }
        }
        if published > self.count {
            return Ok(());
        }
        fault(format!("all {published} events are kept for one who takes none"))
    }
}

fn fault(sentence: String) -> Result<(), Stop> {
    Err(Stop::Fault(sentence))
}

fn number(payload: &Token) -> Option<u64> {
    let payload = payload.encode();
    payload.strip_prefix(r#"{"event":"flood","n":""#)?.strip_suffix(r#""}"#)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a flood of 4 where the slow listener hears these numbers, 0 for a gap.
    fn heard(quick: Option<&str>, numbers: &[u64]) -> Result<(), String> {
        let (mut slow, mut quick_numbers) = (numbers.iter().copied(), 1..);
        let words = |number| match number {
            None => vec![],
            Some(0) => vec![Token::text("gap")],
            Some(n) => vec![Token::text("flood"), Token::text(format!(r#"{{"event":"flood","n":"{n}"}}"#))],
        };
        let act = |does: Does<'_>| {
            Ok(match does {
                Does::Publish { .. } => vec![],
                Does::Take("slow") => words(slow.next()),
                Does::Take("quick") => words(quick_numbers.next()),
                Does::Take(_) => words(Some(0)),
            })
        };
        let plan = Plan { count: 4, slow: "slow", quick };
        plan.carry_out(act).map_err(|stop| match stop {
            Stop::Fault(fault) => fault,
            Stop::Gap(op) => op,
        })
    }

    #[test]
    fn a_flood_has_gaps_exactly_where_something_is_missing() {
        heard(None, &[1, 2, 0, 5]).unwrap();
        heard(Some("quick"), &[1, 0, 4, 0, 6]).unwrap();
        for (numbers, saying) in [
            (&[1, 2, 3, 4][..], "all 4 events are kept"),
            (&[1, 2], "nothing comes behind event 2 of 4"),
            (&[1, 3], "event 3 comes behind 1, with no gap"),
            (&[2], "event 2 comes behind 0, with no gap"),
            (&[1, 0, 2], "event 2 comes behind 1, with a gap"),
            (&[1, 2, 2], "event 2 comes behind 2"),
            (&[1, 2, 0, 1], "event 1 comes behind 2"),
        ] {
            assert!(heard(None, numbers).unwrap_err().contains(saying), "{numbers:?}");
        }
        let disturbed = heard(Some("disturbed"), &[1, 2, 0, 5]).unwrap_err();
        assert_eq!(disturbed, "disturbed hears [gap] instead of event 1");
    }
}
