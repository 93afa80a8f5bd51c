//! What is answered.

use crate::field::encode;
use echomq::{Code, Error};
use std::fmt::Display;

/// The values of an answer, some of them in groups.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer(String);

impl Answer {
    /// Adds a value.
    pub fn value(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.push('\t');
        self.0.push_str(&encode(bytes.as_ref()));
        self
    }

    /// Adds a value by its text.
    pub fn text(self, text: impl Display) -> Self {
        self.value(text.to_string())
    }

    /// Several groups of values, with a bar between each two.
    pub fn groups(groups: impl IntoIterator<Item = Self>) -> Self {
        let groups: Vec<String> = groups.into_iter().map(|group| group.0).collect();
        Self(groups.join("\t|"))
    }

    /// What the line says behind the number of the order.
    pub(crate) fn fields(&self) -> &str {
        &self.0
    }
}

/// Why an order was not carried out.
#[derive(Debug)]
pub enum Refusal {
    /// This driver does not know the op.
    Unsupported,
    /// The bus, or the driver for want of a sensible order, refused.
    Refused(Code, String),
}

impl Refusal {
    /// An order that makes no sense.
    pub(crate) fn senseless(why: impl Into<String>) -> Self {
        Self::Refused(Code::InvalidOption, why.into())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let subject = error.subject().map(|subject| format!(" ({subject})")).unwrap_or_default();
        Self::Refused(error.code(), format!("{}{subject}", error.message()))
    }
}
