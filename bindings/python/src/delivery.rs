//! `echomq.Delivery`: an entry in hand, for both kinds of consumers.

use crate::record::Record;
use crate::text::{string, text};
use crate::{arguments, error};
use echomq::{Code, EntryId, EventId, Failure};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};
use std::sync::{Arc, Mutex, PoisonError};

/// An entry of a group in hand. It gets one verdict: ``ack`` or ``fail``.
///
/// While it is in hand it is kept from other consumers, however long that takes. One that is dropped without a verdict
/// stays pending, and comes back after ``min_idle``. A second verdict fails with ``StateError``, and in a forked child
/// every verdict with ``ClosedError``.
///
/// >>> with echomq.Client(url, node_id=7) as client:
/// ...     events = client.stream("codemojex", "deliveries")
/// ...     id = events.append({"kind": "guessed"})
/// ...     with events.consumer("mailer", start="head") as consumer:
/// ...         delivery = next(consumer)
/// ...         delivery.ack()
/// >>> delivery.id == id, delivery.attempts, delivery.group, delivery.record.get("kind")
/// (True, 1, 'mailer', 'guessed')
#[pyclass(frozen, module = "echomq")]
pub(crate) struct Delivery {
    id: Option<EventId>,
    entry_id: EntryId,
    /// How often the entry was delivered, this delivery included.
    #[pyo3(get)]
    attempts: u64,
    group: Arc<str>,
    hand: Mutex<Hand>,
    record: PyOnceLock<Py<Record>>,
}

/// Whether the verdict is still to be given.
enum Hand {
    Open(echomq::Delivery),
    /// The record stays for whoever asks for it after the verdict.
    Settled(Option<echomq::Record>),
}

impl Delivery {
    pub(crate) fn new(delivery: echomq::Delivery, group: &Arc<str>) -> Self {
        Self {
            id: delivery.id(),
            entry_id: delivery.entry_id(),
            attempts: delivery.attempts(),
            group: group.clone(),
            hand: Mutex::new(Hand::Open(delivery)),
            record: PyOnceLock::new(),
        }
    }

    /// Takes the entry out of the hand, for its verdict; nothing where it had one.
    fn close(&self, py: Python<'_>) -> PyResult<Option<echomq::Delivery>> {
        let asked = self.record.get(py).is_some();
        let mut hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
        let Hand::Open(delivery) = &*hand else { return Ok(None) };
        if let Err(error) = delivery.check() {
            drop(hand);
            return Err(error::raise(py, &error));
        }
        let record = (!asked).then(|| delivery.record().clone());
        match std::mem::replace(&mut *hand, Hand::Settled(record)) {
            Hand::Open(delivery) => Ok(Some(delivery)),
            Hand::Settled(_) => Ok(None),
        }
    }

    fn open(&self, py: Python<'_>) -> PyResult<echomq::Delivery> {
        self.close(py)?.ok_or_else(|| {
            error::refuse(
                py,
                Code::State,
                "the delivery has its verdict already",
                Some(&self.entry_id.to_string()),
            )
        })
    }
}

#[pymethods]
impl Delivery {
    /// The branded id, by which a handler tells an entry that comes twice; ``None`` for a foreign entry.
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.id.map(|id| PyString::new(py, id.as_str()))
    }

    /// The server's own id of the entry, ``<ms>-<seq>``.
    #[getter]
    fn entry_id(&self) -> String {
        self.entry_id.to_string()
    }

    /// The group that it was delivered to.
    #[getter]
    fn group(&self) -> &str {
        &self.group
    }

    /// The record.
    #[getter]
    fn record(&self, py: Python<'_>) -> PyResult<Py<Record>> {
        let made = self.record.get_or_try_init(py, || {
            // Nothing is locked while an object is made, which may run other code of Python.
            let record = match &mut *self.hand.lock().unwrap_or_else(PoisonError::into_inner) {
                Hand::Open(delivery) => Some(delivery.record().clone()),
                Hand::Settled(record) => record.clone(),
            };
            let gone = || error::refuse(py, Code::State, "the delivery has no record any longer", None);
            Py::new(py, Record::from(record.ok_or_else(gone)?))
        })?;
        Ok(made.clone_ref(py))
    }

    /// The entry was handled: the group forgets it.
    ///
    /// The acknowledgement leaves together with others, within 5 ms; ``flush`` of the consumer waits for it.
    fn ack(&self, py: Python<'_>) -> PyResult<()> {
        self.open(py)?.ack();
        Ok(())
    }

    /// The entry was not handled, for that reason: it comes back, or becomes a dead letter, which keeps the reason.
    ///
    /// With ``delay``, a ``timedelta``, it comes back after that time, ``min_idle`` at most, whatever the consumer's
    /// ``retry`` says.
    #[pyo3(signature = (reason, *, delay = None))]
    fn fail(&self, reason: &Bound<'_, PyAny>, delay: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = reason.py();
        let failure = Failure::new(text(reason, "the reason")?.as_ref());
        let delay = delay.map(|delay| arguments::duration(delay, "delay")).transpose()?;
        self.open(py)?.fail(match delay {
            Some(delay) => failure.after(delay),
            None => failure,
        });
        Ok(())
    }

    /// Shows a sign of life for this entry now.
    ///
    /// The consumer does so by itself, at a third of ``min_idle``; this is for a handler that is about to keep the
    /// process too busy for that.
    fn extend(&self, py: Python<'_>) -> PyResult<()> {
        let hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
        let Hand::Open(delivery) = &*hand else {
            drop(hand);
            return self.open(py).map(drop);
        };
        let known = delivery.check();
        delivery.extend();
        drop(hand);
        known.map_err(|error| error::raise(py, &error))
    }

    /// Gives the entry back as if it had not been handed out: to the front of what its consumer has, or to the group
    /// where the consumer has stopped.
    fn give_back(&self, py: Python<'_>) -> PyResult<()> {
        self.open(py)?.give_back();
        Ok(())
    }

    /// The verdict of a handler that has ended, with the reason where it failed, unless the handler gave one itself.
    fn _settle(&self, py: Python<'_>, reason: Option<&Bound<'_, PyBytes>>) -> PyResult<()> {
        match (self.close(py)?, reason) {
            (Some(delivery), None) => delivery.ack(),
            (Some(delivery), Some(reason)) => delivery.fail(Failure::new(reason.as_bytes())),
            (None, _) => {}
        }
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let id = self.id(py).map_or_else(|| "None".to_owned(), |id| format!("'{id}'"));
        let group = string(py, self.group.as_bytes())?.repr()?;
        Ok(format!(
            "Delivery(id={id}, entry_id='{}', attempts={}, group={group})",
            self.entry_id, self.attempts
        ))
    }
}
