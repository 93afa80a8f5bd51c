//! `echomq.Reader`.

use crate::arguments;
use crate::record::Record;
use crate::wait::wait;
use echomq::blocking;
use pyo3::prelude::*;
use std::vec;

/// How a reader is to read.
pub(crate) struct Pace {
    limit: Option<u64>,
    page_size: Option<u64>,
    page_bytes: Option<u64>,
}

impl Pace {
    pub(crate) fn new(
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
        page_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let count = |value: Option<&Bound<'_, PyAny>>, what| {
            value.map(|value| arguments::count(value, what)).transpose()
        };
        Ok(Self {
            limit: count(limit, "limit")?,
            page_size: count(page_size, "page_size")?,
            page_bytes: count(page_bytes, "page_bytes")?,
        })
    }

    /// Gives them to a reader, each by the method that takes it.
    pub(crate) fn set<R>(
        self,
        mut reader: R,
        limit: impl Fn(R, u64) -> R,
        page_size: impl Fn(R, u64) -> R,
        page_bytes: impl Fn(R, u64) -> R,
    ) -> R {
        if let Some(records) = self.limit {
            reader = limit(reader, records);
        }
        if let Some(records) = self.page_size {
            reader = page_size(reader, records);
        }
        if let Some(bytes) = self.page_bytes {
            reader = page_bytes(reader, bytes);
        }
        reader
    }

    pub(crate) fn reader(self, reader: blocking::Reader) -> Reader {
        let (limit, size) = (blocking::Reader::limit, blocking::Reader::page_size);
        let reader = self.set(reader, limit, size, blocking::Reader::page_bytes);
        Reader { reader, page: Vec::new().into_iter() }
    }
}

/// The records of a range, asked for a page at a time: an iterator of ``Record``, made by ``Stream.read`` and its kin.
///
/// Records appended while it is read are seen when they lie in the range ahead of it. After an exception it can be asked
/// again and goes on where it was.
///
/// >>> with echomq.Client(url, node_id=7) as client:
/// ...     numbers = client.stream("codemojex", "readers")
/// ...     ids = numbers.append_batch([{"n": str(n)} for n in range(5)])
/// ...     reader = numbers.read(page_size=2)
/// ...     next(reader).get("n")
/// ...     [record.get("n") for record in reader.next_page()]
/// ...     [record.get("n") for record in reader.next_page()]
/// ...     [record.get("n") for record in reader.all()]
/// '0'
/// ['1']
/// ['2', '3']
/// ['4']
#[pyclass(module = "echomq")]
pub(crate) struct Reader {
    reader: blocking::Reader,
    page: vec::IntoIter<echomq::Record>,
}

#[pymethods]
impl Reader {
    /// The next page as a list, or what is left of the one under way; ``None`` at the end of the range.
    fn next_page(&mut self, py: Python<'_>) -> PyResult<Option<Vec<Record>>> {
        if self.page.len() == 0 && !self.turn(py)? {
            return Ok(None);
        }
        Ok(Some(self.page.by_ref().map(Record::from).collect()))
    }

    /// All records that are left, as a list.
    fn all(&mut self, py: Python<'_>) -> PyResult<Vec<Record>> {
        let (reader, mut records) = (&mut self.reader, self.page.by_ref().collect::<Vec<_>>());
        let read = wait(py, || {
            while let Some(page) = reader.next_page()? {
                records.extend(page);
            }
            Ok(())
        });
        if let Err(raised) = read {
            self.page = records.into_iter();
            return Err(raised);
        }
        Ok(records.into_iter().map(Record::from).collect())
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Record>> {
        if self.page.len() == 0 && !self.turn(py)? {
            return Ok(None);
        }
        Ok(self.page.next().map(Record::from))
    }

    fn __repr__(&self) -> &'static str {
        "<echomq.Reader>"
    }
}

impl Reader {
    /// Asks for the next page; false at the end.
    fn turn(&mut self, py: Python<'_>) -> PyResult<bool> {
        let (reader, page) = (&mut self.reader, &mut self.page);
        // What has arrived is kept, whatever the handler of a signal raises meanwhile.
        wait(py, || {
            let read = reader.next_page()?;
            let more = read.is_some();
            *page = read.unwrap_or_default().into_iter();
            Ok(more)
        })
    }
}
