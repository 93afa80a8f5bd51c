//! Reading a range of a stream, page by page or record by record.

use crate::connection::door::Door;
use crate::connection::local::Local;
use crate::connection::shared::Shared;
use crate::error::{Code, Result};
use crate::operation::pending::Pending;
use crate::record::Record;
use crate::stream::read::{Cursor, Page};
use futures_core::Stream as AsyncIterator;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

/// The records of a range, asked for a page at a time.
///
/// With [`blocking::Client`](crate::blocking::Client) it is an [`Iterator`] of results; otherwise it is a
/// [`futures_core::Stream`] of them, and [`Reader::next_page`] needs no such trait. Records appended while it is read
/// are seen when they lie in the range ahead of it. After an error it can be asked again and goes on where it was.
///
/// # Cancel safety
///
/// A future of [`Reader::next_page`] that is dropped loses nothing: the page is asked for again.
pub struct Reader<D: Door = Shared> {
    door: D,
    cursor: Cursor,
    asked: Option<Pending<Page>>,
    page: vec::IntoIter<Record>,
}

impl<D: Door> Reader<D> {
    pub(super) fn new(door: D, cursor: Cursor) -> Self {
        Self { door, cursor, asked: None, page: Vec::new().into_iter() }
    }

    /// Gives no more than that many records in all.
    pub fn limit(mut self, records: u64) -> Self {
        self.cursor.limit(records);
        self
    }

    /// Asks for that many records at a time at most, and at least one; 1 000 unless said otherwise.
    ///
    /// A page has fewer of them where they are large; see [`Reader::page_bytes`].
    pub fn page_size(mut self, records: u64) -> Self {
        self.cursor.page(records);
        self
    }

    /// Asks for about that many bytes at a time at most, and at least one; 4 MiB unless said otherwise.
    ///
    /// A server counts records and not bytes, so the size of the next page is learnt from the sizes seen: the first one has
    /// at most 16 records. A record that is larger comes alone. A page that is cut, because the connection breaks or the time
    /// for it is over, is asked for again with half as many records.
    pub fn page_bytes(mut self, bytes: u64) -> Self {
        self.cursor.page_bytes(bytes);
        self
    }

    fn turn(&mut self, page: Result<Page>) -> Result<Option<Vec<Record>>> {
        let page = page.inspect_err(|error| {
            if matches!(error.code(), Code::Disconnected | Code::Timeout) {
                self.cursor.cut();
            }
        })?;
        let page = self.cursor.advance(page);
        Ok(if page.is_empty() { None } else { Some(page) })
    }

    /// What is left of the page that records were taken from one by one.
    fn rest(&mut self) -> Option<Vec<Record>> {
        let rest: Vec<Record> = self.page.by_ref().collect();
        if rest.is_empty() { None } else { Some(rest) }
    }
}

impl Reader<Shared> {
    /// The next page, or what is left of one that records were taken from, never an empty one; nothing at the end of the
    /// range.
    ///
    /// Fails as every call of a [`Stream`](crate::Stream) does.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Record>>> {
        if let Some(rest) = self.rest() {
            return Ok(Some(rest));
        }
        std::future::poll_fn(|context| self.poll_page(context)).await
    }

    /// All records that are left, in one list.
    pub async fn all(mut self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        while let Some(page) = self.next_page().await? {
            records.extend(page);
        }
        Ok(records)
    }

    fn poll_page(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Vec<Record>>>> {
        if self.asked.is_none() {
            match self.cursor.next() {
                Some(page) => self.asked = Some(self.door.run(Ok(page))),
                None => return Poll::Ready(Ok(None)),
            }
        }
        let Some(asked) = &mut self.asked else { return Poll::Ready(Ok(None)) };
        let page = ready!(Pin::new(asked).poll(context));
        self.asked = None;
        Poll::Ready(self.turn(page))
    }
}

impl AsyncIterator for Reader<Shared> {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(record) = self.page.next() {
                return Poll::Ready(Some(Ok(record)));
            }
            match ready!(self.poll_page(context)) {
                Ok(Some(page)) => self.page = page.into_iter(),
                Ok(None) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl Reader<Local> {
    /// The next page, or what is left of one that records were taken from, never an empty one; nothing at the end of the
    /// range.
    ///
    /// Fails as every call of a [`Stream`](crate::Stream) does.
    pub fn next_page(&mut self) -> Result<Option<Vec<Record>>> {
        if let Some(rest) = self.rest() {
            return Ok(Some(rest));
        }
        match self.cursor.next() {
            Some(page) => {
                let page = self.door.run(Ok(page));
                self.turn(page)
            }
            None => Ok(None),
        }
    }

    /// All records that are left, in one list.
    pub fn all(self) -> Result<Vec<Record>> {
        self.collect()
    }
}

impl Iterator for Reader<Local> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.page.next() {
                return Some(Ok(record));
            }
            match self.next_page() {
                Ok(Some(page)) => self.page = page.into_iter(),
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl<D: Door> fmt::Debug for Reader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reader").field(&self.cursor).finish()
    }
}
