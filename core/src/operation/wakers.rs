//! Whoever is to be woken, each until it is woken or gives up waiting.

use std::mem;
use std::task::Waker;

/// Wakers, each with a key by which it can be taken out.
#[derive(Default)]
pub(crate) struct Wakers {
    slots: Vec<Slot>,
    /// The first free slot; each free one knows the next.
    free: Option<usize>,
    /// How many wait.
    waiting: usize,
    /// How often all were taken: a key of an earlier time is of no use any longer.
    taken: u64,
}

enum Slot {
    Free(Option<usize>),
    Waiting(Waker),
}

/// Where a waker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    slot: usize,
    taken: u64,
}

impl Wakers {
    /// Has a waker woken by the next change, in the place of the one that the key stands for, if it is still there. Answers
    /// the one that it takes the place of.
    pub(crate) fn put(&mut self, key: &mut Option<Key>, waker: &Waker) -> Option<Waker> {
        if let Some(key) = key.filter(|key| key.taken == self.taken)
            && let Some(Slot::Waiting(known)) = self.slots.get_mut(key.slot)
        {
            return (!known.will_wake(waker)).then(|| mem::replace(known, waker.clone()));
        }
        let slot = match self.free {
            Some(slot) => {
                let free = mem::replace(&mut self.slots[slot], Slot::Waiting(waker.clone()));
                self.free = if let Slot::Free(next) = free { next } else { None };
                slot
            }
            None => {
                self.slots.push(Slot::Waiting(waker.clone()));
                self.slots.len() - 1
            }
        };
        self.waiting += 1;
        *key = Some(Key { slot, taken: self.taken });
        None
    }

    /// Takes out the waker that the key stands for, if it is still there.
    pub(crate) fn remove(&mut self, key: &mut Option<Key>) -> Option<Waker> {
        let Key { slot, .. } = key.take().filter(|key| key.taken == self.taken)?;
        let Slot::Waiting(waker) = mem::replace(self.slots.get_mut(slot)?, Slot::Free(self.free)) else {
            return None;
        };
        self.free = Some(slot);
        self.waiting -= 1;
        if self.waiting == 0 {
            // Nothing is kept of a crowd that has gone; a key has to be in its place, so it cannot be done before.
            (self.slots, self.free) = (Vec::new(), None);
            self.taken += 1;
        }
        Some(waker)
    }

    /// All of them, to be woken.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.free = None;
        self.waiting = 0;
        self.taken += 1;
        mem::take(&mut self.slots).into_iter().filter_map(|slot| match slot {
            Slot::Waiting(waker) => Some(waker),
            Slot::Free(_) => None,
        })
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    proptest! {
        /// Whatever is put, taken out and woken: each that waits is woken once, and nobody else.
        #[test]
        fn each_that_waits_is_woken_once(steps in prop::collection::vec((0..8_usize, 0..10_u8), 0..200)) {
            let counts: Vec<Arc<Count>> = (0..8).map(|_| Arc::default()).collect();
            let mut keys = [None; 8];
            let (mut wakers, mut waiting, mut expected) = (Wakers::default(), BTreeSet::new(), [0; 8]);
            for (who, what) in steps {
                match what {
                    0 => {
                        wakers.take().for_each(Waker::wake);
                        std::mem::take(&mut waiting).into_iter().for_each(|who: usize| expected[who] += 1);
                    }
                    1..=3 => prop_assert_eq!(wakers.remove(&mut keys[who]).is_some(), waiting.remove(&who)),
                    _ => {
                        wakers.put(&mut keys[who], &Waker::from(counts[who].clone()));
                        waiting.insert(who);
                    }
                }
                prop_assert_eq!(wakers.len(), waiting.len());
                prop_assert!(wakers.slots.len() <= 8);
                let found: Vec<u32> = counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect();
                prop_assert_eq!(&found, &expected);
                let kept = counts.iter().filter(|count| Arc::strong_count(count) > 1).count();
                prop_assert_eq!(kept, waiting.len(), "a waker is kept of whoever does not wait");
            }
        }
    }
}
