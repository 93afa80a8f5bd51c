//! What a consumer is told when it starts.

use crate::error::{Code, Error, Result};
use crate::keyspace;
use crate::stream::page_size::{self, PAGE_BYTES};
use crate::stream::start::Start;
use std::sync::Arc;
use std::time::Duration;

/// How a consumer of a group works (`docs/protocol.md` §6).
///
/// | option | text | default |
/// |---|---|---|
/// | `group` | the group's name | given |
/// | `start` | where the group begins if it has to be made: `new`, `head`, an id (what follows it), `@` and Unix milliseconds | given |
/// | `consumer` | this consumer's name, which one process at a time uses | a new one each time |
/// | `count` | how many entries are fetched at once, and held ahead of the handler at most | 100 |
/// | `page_bytes` | about how many bytes are fetched at once, and held ahead of the handler at most | 4194304 |
/// | `beat` | how often to look for entries of dead peers, in milliseconds | 1000 |
/// | `min_idle` | after how many milliseconds without a sign of life an entry is taken from its consumer | 30000 |
/// | `max_attempts` | after how many failed deliveries an entry becomes a dead letter; `none` tries for ever | none |
/// | `retry` | how soon a failed entry comes back: `none` (after `min_idle`), milliseconds, or two of them, `100..5000`, which doubles from the first to the second, with jitter | none |
/// | `concurrency` | how many workers handle entries at the same time | 1 |
/// | `order_by` | a field; entries with the same value in it are handled in their order, by one worker at a time | none |
/// | `on_foreign` | what to do with entries that this bus did not write: `deliver`, `skip` (acknowledge) or `fail` | deliver |
/// | `max_n` | how many entries a batch has at most | 100, or `count` |
/// | `max_wait` | how many milliseconds a batch waits for more entries | 0 |
///
/// ```
/// use echomq::{ConsumerOptions, Start};
/// use std::time::Duration;
///
/// let options = ConsumerOptions::new("mailer", Start::Head)?
///     .consumer("mailer-1")?
///     .max_attempts(5)
///     .retry(Duration::from_millis(100), Duration::from_secs(5));
/// let mut same = ConsumerOptions::new("mailer", Start::parse("head")?)?;
/// same.set("consumer", "mailer-1")?;
/// same.set("max_attempts", "5")?;
/// same.set("retry", "100..5000")?;
/// assert_eq!(options, same);
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerOptions {
    pub(super) group: Arc<str>,
    pub(super) start: Start,
    consumer: Option<Arc<str>>,
    pub(super) count: usize,
    pub(super) page_bytes: usize,
    pub(super) beat: Duration,
    pub(super) min_idle: Duration,
    pub(super) max_attempts: Option<u64>,
    retry: Option<(Duration, Duration)>,
    pub(super) concurrency: usize,
    pub(super) order_by: Option<Arc<[u8]>>,
    pub(super) on_foreign: OnForeign,
    max_n: Option<usize>,
    pub(super) max_wait: Duration,
}

/// What to do with an entry that this bus did not write (`docs/protocol.md` §6.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnForeign {
    /// Hand it to the handler, without an id.
    Deliver,
    /// Acknowledge it, and say so in a notice.
    Skip,
    /// Treat it as one whose handler failed, and say so in a notice.
    Fail,
}

impl ConsumerOptions {
    /// The names that [`ConsumerOptions::set`] knows, in the order of the table above.
    pub const NAMES: &'static [&'static str] = &[
        "group",
        "start",
        "consumer",
        "count",
        "page_bytes",
        "beat",
        "min_idle",
        "max_attempts",
        "retry",
        "concurrency",
        "order_by",
        "on_foreign",
        "max_n",
        "max_wait",
    ];

    /// The defaults for a consumer of a group. Where a group begins is always said, never assumed.
    ///
    /// Fails with [`Code::InvalidName`].
    pub fn new(group: &str, start: Start) -> Result<Self> {
        Ok(Self {
            group: keyspace::group_name(group)?,
            start,
            consumer: None,
            count: 100,
            page_bytes: PAGE_BYTES,
            beat: Duration::from_secs(1),
            min_idle: Duration::from_secs(30),
            max_attempts: None,
            retry: None,
            concurrency: 1,
            order_by: None,
            on_foreign: OnForeign::Deliver,
            max_n: None,
            max_wait: Duration::ZERO,
        })
    }

    /// Reads all options from names and texts; `group` and `start` must be among them.
    ///
    /// Fails as [`ConsumerOptions::set`] does.
    pub fn parse<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let (mut group, mut start, mut others) = (None, None, Vec::new());
        for (name, value) in options {
            match name {
                "group" => group = Some(value),
                "start" => start = Some(value),
                _ => others.push((name, value)),
            }
        }
        let missing = |name: &str, what: &str| Error::new(Code::InvalidOption, what).about(name);
        let group = group.ok_or_else(|| missing("group", "a consumer has a group"))?;
        let start = start.ok_or_else(|| {
            missing(
                "start",
                "where the group begins must be said: `new`, `head`, an id, or `@` and Unix milliseconds",
            )
        })?;
        let mut options = Self::new(group, Start::parse(start)?)?;
        for (name, value) in others {
            options.set(name, value)?;
        }
        Ok(options)
    }

    /// Sets one option by its name.
    ///
    /// Fails with [`Code::InvalidOption`], naming it, with [`Code::InvalidName`], and for `start` as [`Start::parse`]
    /// does.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let none = value == "none";
        match name {
            "group" => self.group = keyspace::group_name(value)?,
            "start" => self.start = Start::parse(value)?,
            "consumer" => self.consumer = Some(keyspace::consumer_name(value)?),
            "count" => self.count = number(name, value)?,
            "page_bytes" => self.page_bytes = page_size::parse_bytes(name, value)?,
            "beat" => self.beat = duration(name, value)?,
            "min_idle" => self.min_idle = duration(name, value)?,
            "max_attempts" => self.max_attempts = if none { None } else { Some(number(name, value)?) },
            "retry" => self.retry = if none { None } else { Some(retry(name, value)?) },
            "concurrency" => self.concurrency = number(name, value)?,
            "order_by" => self.order_by = Some(value.as_bytes().into()),
            "on_foreign" => self.on_foreign = on_foreign(name, value)?,
            "max_n" => self.max_n = Some(number(name, value)?),
            "max_wait" => self.max_wait = duration(name, value)?,
            _ => return Err(refused(name, "there is no option of that name".to_owned())),
        }
        Ok(())
    }

    /// The consumer's own name. Without one it gets a new one, so that no two share one.
    ///
    /// A name is for one process at a time: a second one would read the first one's pending entries as its own.
    /// Fails with [`Code::InvalidName`].
    pub fn consumer(self, name: &str) -> Result<Self> {
        Ok(Self { consumer: Some(keyspace::consumer_name(name)?), ..self })
    }

    /// How many entries are fetched at once, and held ahead of the handler at most.
    pub fn count(self, entries: usize) -> Self {
        Self { count: entries, ..self }
    }

    /// About how many bytes are fetched at once, and held ahead of the handler at most; an entry that is larger is fetched
    /// alone.
    ///
    /// A server counts entries and not bytes, so how many are fetched at once is learnt from the sizes seen, and a page that
    /// is cut on its way is asked for again with half as many. A batch has no more entries than fit.
    pub fn page_bytes(self, bytes: usize) -> Self {
        Self { page_bytes: bytes, ..self }
    }

    /// How often to look for entries of dead peers; a blocked read lasts as long.
    pub fn beat(self, beat: Duration) -> Self {
        Self { beat, ..self }
    }

    /// After which time without a sign of life an entry is taken from its consumer.
    pub fn min_idle(self, min_idle: Duration) -> Self {
        Self { min_idle, ..self }
    }

    /// After how many failed deliveries an entry becomes a dead letter.
    pub fn max_attempts(self, attempts: u64) -> Self {
        Self { max_attempts: Some(attempts), ..self }
    }

    /// How soon a failed entry comes back: after `first`, then twice as long each time, `longest` at most, each cut by
    /// chance to between a half and the whole of it. Two equal times make it that time exactly.
    pub fn retry(self, first: Duration, longest: Duration) -> Self {
        Self { retry: Some((first, longest)), ..self }
    }

    /// How many workers handle entries at the same time.
    pub fn concurrency(self, workers: usize) -> Self {
        Self { concurrency: workers, ..self }
    }

    /// The field whose values keep their order among several workers.
    pub fn order_by(self, field: impl AsRef<[u8]>) -> Self {
        Self { order_by: Some(field.as_ref().into()), ..self }
    }

    /// What to do with entries that this bus did not write.
    pub fn on_foreign(self, on_foreign: OnForeign) -> Self {
        Self { on_foreign, ..self }
    }

    /// How many entries a batch has at most, and how long it waits for more.
    pub fn batch(self, max_n: usize, max_wait: Duration) -> Self {
        Self { max_n: Some(max_n), max_wait, ..self }
    }

    /// Refuses what does not fit together, as [`Stream::consumer`](crate::Stream::consumer) does: with
    /// [`Code::InvalidOption`](crate::Code::InvalidOption).
    pub fn check(&self) -> Result<()> {
        let longest = Duration::from_secs(24 * 3_600);
        for (name, number, most) in [
            ("count", self.count, 10_000),
            ("concurrency", self.concurrency, 1_024),
            ("max_n", self.max_n(), self.count),
        ] {
            if number < 1 || number > most {
                return Err(refused(name, format!("{number} is not from 1 to {most}")));
            }
        }
        for (name, time, least) in [
            ("beat", self.beat, Duration::from_millis(1)),
            ("min_idle", self.min_idle, Duration::from_millis(1)),
            ("max_wait", self.max_wait, Duration::ZERO),
        ] {
            if time < least || time > longest {
                let (least, longest) = (least.as_millis(), longest.as_millis());
                return Err(refused(name, format!("{time:?} is not from {least} to {longest} milliseconds")));
            }
        }
        page_size::check_bytes("page_bytes", self.page_bytes)?;
        if self.max_attempts == Some(0) {
            return Err(refused("max_attempts", "an entry is delivered at least once".to_owned()));
        }
        match self.retry {
            Some((first, longest)) if first > longest => {
                Err(refused("retry", format!("{first:?} is longer than {longest:?}")))
            }
            Some((_, longest)) if longest > self.min_idle => Err(refused(
                "retry",
                format!(
                    "{longest:?} is longer than min_idle, {:?}, after which it comes back anyway",
                    self.min_idle
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The consumer's name, made up where none was given.
    pub(super) fn consumer_name(&self) -> Arc<str> {
        self.consumer.clone().unwrap_or_else(|| ulid::Ulid::generate().to_string().into())
    }

    /// How many entries a batch has at most.
    pub(super) fn max_n(&self) -> usize {
        self.max_n.unwrap_or(self.count.min(100))
    }

    /// How soon an entry comes back that failed this delivery; nothing when `min_idle` decides.
    pub(super) fn retry_delay(&self, attempts: u64) -> Option<Duration> {
        let (first, longest) = self.retry?;
        if first == longest {
            return Some(first);
        }
        let doublings = attempts.saturating_sub(1).min(30) as u32;
        let whole = first.saturating_mul(1 << doublings).min(longest);
        Some(whole.mul_f64(0.5 + fastrand::f64() / 2.0))
    }
}

fn refused(name: &str, why: String) -> Error {
    Error::new(Code::InvalidOption, why).about(name)
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| value.parse().ok())
        .flatten()
        .ok_or_else(|| refused(name, format!("`{}` is no number that fits", value.escape_debug())))
}

fn duration(name: &str, value: &str) -> Result<Duration> {
    number(name, value).map(Duration::from_millis)
}

fn retry(name: &str, value: &str) -> Result<(Duration, Duration)> {
    let (first, longest) = value.split_once("..").unwrap_or((value, value));
    Ok((duration(name, first)?, duration(name, longest)?))
}

fn on_foreign(name: &str, value: &str) -> Result<OnForeign> {
    match value {
        "deliver" => Ok(OnForeign::Deliver),
        "skip" => Ok(OnForeign::Skip),
        "fail" => Ok(OnForeign::Fail),
        _ => Err(refused(name, format!("`{}` is none of deliver, skip and fail", value.escape_debug()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, value: &str) -> Result<ConsumerOptions> {
        let mut options = ConsumerOptions::new("g", Start::Head)?;
        options.set(name, value)?;
        options.check()?;
        Ok(options)
    }

    #[test]
    fn every_option_has_its_name_in_the_table() {
        let documented: Vec<&str> = include_str!("options.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("/// | `")?.split('`').next())
            .collect();
        assert_eq!(documented, ConsumerOptions::NAMES);
        for name in ConsumerOptions::NAMES {
            let known = given(name, "é").err().is_none_or(|error| !error.message().contains("no option"));
            assert!(known, "{name}");
        }
        assert_eq!(given("beet", "1").unwrap_err().code(), Code::InvalidOption);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (name, value) in [
            ("count", "0"),
            ("count", "10001"),
            ("count", "+5"),
            ("count", ""),
            ("page_bytes", "0"),
            ("page_bytes", "4M"),
            ("beat", "0"),
            ("beat", "86400001"),
            ("min_idle", "0"),
            ("max_attempts", "0"),
            ("concurrency", "0"),
            ("max_n", "101"),
            ("retry", "5..4"),
            ("retry", "30001"),
            ("retry", "x"),
            ("on_foreign", "ignore"),
        ] {
            let error = given(name, value).unwrap_err();
            assert_eq!((error.code(), error.subject()), (Code::InvalidOption, Some(name)), "{name}={value}");
        }
        for name in ["consumer", "group"] {
            assert_eq!(given(name, "Streams").unwrap_err().code(), Code::InvalidName);
        }
        assert_eq!(given("start", "tail").unwrap_err().code(), Code::MalformedId);
    }

    #[test]
    fn group_and_start_are_never_assumed() {
        for missing in ["group", "start"] {
            let all = [("group", "g"), ("start", "head"), ("count", "5")];
            let error =
                ConsumerOptions::parse(all.into_iter().filter(|(name, _)| *name != missing)).unwrap_err();
            assert_eq!((error.code(), error.subject()), (Code::InvalidOption, Some(missing)));
            assert!(ConsumerOptions::parse(all).is_ok());
        }
    }

    #[test]
    fn retries_double_within_their_bounds() {
        let ms = Duration::from_millis;
        assert_eq!(given("retry", "none").unwrap().retry_delay(1), None);
        assert_eq!(given("retry", "70").unwrap().retry_delay(9), Some(ms(70)));
        let growing = given("retry", "100..1000").unwrap();
        for (attempts, whole) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (200, 1_000)] {
            let delay = growing.retry_delay(attempts).unwrap();
            assert!(ms(whole) / 2 <= delay && delay <= ms(whole), "{attempts}: {delay:?}");
        }
    }

    #[test]
    fn a_consumer_without_a_name_gets_one_of_its_own() {
        let options = ConsumerOptions::new("g", Start::New).unwrap();
        assert_ne!(options.consumer_name(), options.consumer_name());
        assert_eq!(&*options.consumer("me").unwrap().consumer_name(), "me");
    }
}
