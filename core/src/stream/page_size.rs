//! How many entries to ask for, so that a page has a bounded number of bytes.
//!
//! A server bounds a reply in entries and not in bytes, so the number is learnt from the sizes seen. This does no I/O and
//! reads no clock.

use crate::error::{Code, Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many bytes a page has at most unless its reader says otherwise.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// How many entries are asked for while nothing is known. Sixteen of the largest that a client writes by default have 16 MiB.
const FIRST: usize = 16;

/// A page has at most so many times the entries that were seen before it.
const GROWTH: usize = 4;

/// A page that is expected to have fewer bytes than this is cut for another reason than its size.
const LEAST: usize = 64 << 10;

/// After how many whole pages more is tried than what is known to be carried: after the first cut, and at most.
const PATIENCE: u32 = 8;
const MOST_PATIENCE: u32 = 1_024;

/// Reads an option that says how many bytes a page has. Fails with `invalid_option`.
pub(crate) fn parse_bytes(name: &str, value: &str) -> Result<usize> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| value.parse().ok()).flatten().ok_or_else(|| {
        let text = value.escape_debug();
        Error::new(Code::InvalidOption, format!("`{text}` is no number of bytes that fits")).about(name)
    })
}

/// Refuses a page of no byte at all with `invalid_option`.
pub(crate) fn check_bytes(name: &str, bytes: usize) -> Result<usize> {
    if bytes == 0 {
        return Err(Error::new(Code::InvalidOption, "a page has at least one byte").about(name));
    }
    Ok(bytes)
}

/// What is known of the sizes of a stream's entries, and of how much the way to the server carries at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSize {
    max_entries: usize,
    max_bytes: usize,
    /// How many bytes an entry has, a mean of the last ones; nothing while none was seen.
    mean: Option<usize>,
    /// How many entries are asked for while none has come, at first or after a cut.
    first: usize,
    /// How many entries have come since then.
    seen: usize,
    /// A page was cut, and none has come since.
    cut: bool,
    carried: Option<Carried>,
}

/// What one reader of a stream leaves to the next.
#[derive(Debug, Default)]
pub(crate) struct Learnt(AtomicU64);

/// What is carried where a page was cut: fewer bytes than the bound, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Carried {
    bytes: usize,
    /// After how many pages of about this size twice as much is tried.
    left: u32,
    patience: u32,
}

impl PageSize {
    /// Pages of at most so many entries and about so many bytes, each at least 1.
    pub(crate) fn new(max_entries: usize, max_bytes: usize) -> Self {
        let (max_entries, max_bytes) = (max_entries.max(1), max_bytes.max(1));
        Self { max_entries, max_bytes, mean: None, first: FIRST, seen: 0, cut: false, carried: None }
    }

    /// The same with what others have learnt of the same entries.
    pub(crate) fn with(self, learnt: &Learnt) -> Self {
        let known = learnt.0.load(Ordering::Relaxed);
        let (mean, seen) = ((known >> 32) as usize, known as u32 as usize);
        if mean == 0 { self } else { Self { mean: Some(mean), seen, ..self } }
    }

    /// Has others know what was learnt; nothing where pages were cut, so that they begin with small ones.
    pub(crate) fn teach(&self, learnt: &Learnt) {
        let half = |number: usize| u64::from(u32::try_from(number).unwrap_or(u32::MAX));
        let known = match (self.mean, self.carried) {
            (Some(mean), None) => half(mean) << 32 | half(self.seen),
            _ => 0,
        };
        learnt.0.store(known, Ordering::Relaxed);
    }

    /// The same with another bound on entries.
    pub(crate) fn with_max_entries(self, max_entries: usize) -> Self {
        Self { max_entries: max_entries.max(1), ..self }
    }

    /// The same with another bound on bytes.
    pub(crate) fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes.max(1), ..self }
    }

    /// How many bytes a page may have.
    fn bytes(&self) -> usize {
        self.carried.map_or(self.max_bytes, |carried| carried.bytes.min(self.max_bytes))
    }

    /// How many entries the next page may have, at least one.
    pub(crate) fn next(&self) -> usize {
        self.beside(0).max(1)
    }

    /// How many entries the next page may have where so many bytes are held already, which may be none.
    pub(crate) fn beside(&self, held: usize) -> usize {
        let left = self.bytes().saturating_sub(held);
        let fitting = self.mean.map_or(usize::MAX, |mean| left / mean);
        let known = self.first.max(self.seen.saturating_mul(GROWTH));
        known.min(fitting).min(self.max_entries)
    }

    /// How many bytes so many entries are expected to have; none while nothing is known.
    pub(crate) fn expected(&self, entries: usize) -> usize {
        self.mean.unwrap_or(0).saturating_mul(entries)
    }

    /// A page has come with so many entries and bytes.
    pub(crate) fn came(&mut self, entries: usize, bytes: usize) {
        if entries == 0 {
            return;
        }
        let of_page = bytes.div_ceil(entries).max(1);
        if std::mem::take(&mut self.cut)
            && let Some(carried) = &mut self.carried
        {
            carried.bytes = carried.bytes.min(of_page.saturating_mul(self.first).max(LEAST));
        }
        // Larger entries count at once. Of smaller ones, what is asked for decides how much they weigh: each full page of them
        // triples the next, and a single one among large ones changes little.
        self.mean = Some(self.mean.map_or(of_page, |mean| {
            let weight = self.next().div_ceil(2);
            let sum = mean.saturating_mul(weight).saturating_add(bytes);
            sum.div_ceil(weight.saturating_add(entries)).max(of_page)
        }));
        self.seen = self.seen.saturating_add(entries);
        self.try_more(bytes);
    }

    /// After enough pages of about the size that is known to be carried, twice as much is tried.
    fn try_more(&mut self, bytes: usize) {
        let Some(carried) = &mut self.carried else { return };
        if bytes < carried.bytes / 2 {
            return;
        }
        carried.left = carried.left.saturating_sub(1);
        if carried.left == 0 {
            if carried.bytes >= self.max_bytes {
                self.carried = None;
            } else {
                carried.bytes = carried.bytes.saturating_mul(2);
                carried.left = carried.patience;
            }
        }
    }

    /// A page of so many entries was on its way when the connection broke, or did not come in time.
    pub(crate) fn cut(&mut self, entries: usize) {
        self.first = (entries / 2).max(1);
        self.seen = 0;
        let patience = match self.carried {
            Some(carried) if self.cut => carried.patience,
            Some(carried) => (2 * carried.patience).min(MOST_PATIENCE),
            None => PATIENCE,
        };
        self.carried = Some(Carried { bytes: self.bytes(), left: patience, patience });
        self.cut = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: usize = 1 << 10;

    /// Reads entries of these sizes, from a server and over a way that carries so many bytes at once; each page as how many
    /// entries it was to have and how many bytes it had, and how many pages were cut.
    fn read(size: &mut PageSize, entries: &[usize], carried: usize) -> (Vec<(usize, usize)>, usize) {
        let (mut pages, mut cuts, mut at) = (Vec::new(), 0, 0);
        while at < entries.len() {
            let asked = size.next();
            let page = &entries[at..entries.len().min(at + asked)];
            let bytes = page.iter().sum();
            if bytes > carried {
                size.cut(asked);
                cuts += 1;
                assert!(
                    cuts < 10_000,
                    "{asked} of {bytes} bytes in all are asked for again and again: {size:?}"
                );
            } else {
                size.came(page.len(), bytes);
                pages.push((asked, bytes));
                at += page.len();
            }
        }
        (pages, cuts)
    }

    fn sizes() -> impl Strategy<Value = Vec<usize>> {
        let run = (prop_oneof![1..2_000_usize, 1..2_000 * KIB], 1..200_usize);
        let runs = prop::collection::vec(run, 0..12);
        runs.prop_map(|runs| runs.into_iter().flat_map(|(size, times)| vec![size; times]).collect())
    }

    proptest! {
        /// Whatever came before: pages of one size soon have as many entries as fit, and never more bytes than they may.
        #[test]
        fn a_page_has_what_fits(before in sizes(), size in 1..6_000 * KIB, max_bytes in 1..8_000 * KIB) {
            let mut pages = PageSize::new(1_000, max_bytes);
            read(&mut pages, &before, usize::MAX);
            let (found, _) = read(&mut pages, &vec![size; 30_000], usize::MAX);
            let fitting = (max_bytes / size).clamp(1, 1_000);
            for (at, (asked, bytes)) in found.into_iter().enumerate() {
                prop_assert!(asked == 1 || bytes <= max_bytes || at == 0, "page {}: {} are {} bytes", at, asked, bytes);
                prop_assert!(at < 40 || (asked + 1 >= fitting && asked <= fitting), "page {}: {} of {}", at, asked, fitting);
            }
        }

        /// However large the entries were: a few pages of small ones later the pages are full again.
        #[test]
        fn small_entries_are_read_in_full_pages_again(before in sizes()) {
            let mut pages = PageSize::new(1_000, PAGE_BYTES);
            read(&mut pages, &before, usize::MAX);
            let (found, _) = read(&mut pages, &vec![100; 20_000], usize::MAX);
            prop_assert!(found.iter().skip(12).all(|(asked, _)| *asked == 1_000), "{:?}", found);
        }

        /// What the entries that are expected have in all is what a page may have, unless it is a single one.
        #[test]
        fn what_is_expected_is_bounded(
            came in prop::collection::vec((0..2_000_usize, 0..3_000 * KIB, any::<bool>()), 0..60),
            max_entries in 0..2_000_usize,
            max_bytes in 0..8_000 * KIB,
            held in 0..8_000 * KIB,
        ) {
            let mut pages = PageSize::new(max_entries, max_bytes);
            for (entries, size, whole) in came {
                if whole { pages.came(entries, entries * size) } else { pages.cut(entries) }
                let next = pages.next();
                prop_assert!((1..=max_entries.max(1)).contains(&next));
                prop_assert!(next == 1 || pages.expected(next) <= max_bytes, "{:?}", pages);
                let beside = pages.beside(held);
                prop_assert!(beside == 0 || pages.mean.is_none() || held + pages.expected(beside) <= max_bytes);
            }
        }

        /// Over a way that carries little at once everything arrives, and few pages are cut.
        #[test]
        fn what_is_cut_is_asked_for_again_smaller(size in 1..1_000 * KIB, more in 0..8_000 * KIB) {
            let mut pages = PageSize::new(1_000, PAGE_BYTES);
            let (found, cuts) = read(&mut pages, &vec![size; 5_000], size + more);
            prop_assert!(cuts <= 14, "{} cuts", cuts);
            // Nor are the pages so small that there is no end.
            let fewest = 5_000_usize.div_ceil(((size + more) / size).min(1_000).min((PAGE_BYTES / size).max(1)));
            prop_assert!(found.len() <= 4 * fewest + 60, "{} pages where {} were enough", found.len(), fewest);
        }

        /// The same for any mixture of sizes.
        #[test]
        fn whatever_is_carried_one_by_one_arrives(entries in sizes(), more in 0..4_000 * KIB) {
            let largest = entries.iter().copied().max().unwrap_or(0);
            let mut pages = PageSize::new(1_000, PAGE_BYTES);
            let (found, _) = read(&mut pages, &entries, largest + more);
            let (found, all): (usize, usize) = (found.iter().map(|(_, bytes)| bytes).sum(), entries.iter().sum());
            prop_assert_eq!(found, all);
        }
    }

    #[test]
    fn the_next_reader_begins_with_what_the_last_one_learnt() {
        let (learnt, new) = (Learnt::default(), PageSize::new(1_000, PAGE_BYTES));
        assert_eq!(new.with(&learnt), new);
        for (size, entries, next) in [(100, 20, 80), (100, 5_000, 1_000), (1 << 20, 20, 4), (5 << 32, 2, 1)] {
            let mut pages = new;
            pages.came(entries, entries * size);
            pages.teach(&learnt);
            assert_eq!(new.with(&learnt).next(), next, "{size}");
        }
        let mut cut = new.with(&learnt);
        cut.cut(8);
        cut.came(2, 200);
        cut.teach(&learnt);
        assert_eq!(new.with(&learnt), new);
    }

    #[test]
    fn a_connection_that_broke_by_chance_costs_little() {
        let mut pages = PageSize::new(1_000, PAGE_BYTES);
        read(&mut pages, &[100; 5_000], usize::MAX);
        assert_eq!(pages.next(), 1_000);
        pages.cut(1_000);
        assert_eq!(pages.next(), 500);
        let (found, _) = read(&mut pages, &[100; 20_000], usize::MAX);
        assert!(found.len() <= 35, "{found:?}");
        assert_eq!(found[found.len() - 2].0, 1_000);
    }

    #[test]
    fn entries_that_come_one_by_one_are_learnt_from_too() {
        let mut pages = PageSize::new(1_000, PAGE_BYTES);
        (0..1_000).for_each(|_| pages.came(1, 100));
        assert_eq!(pages.next(), 1_000);
        pages.came(1, 1 << 20);
        assert_eq!(pages.next(), 4);
    }
}
