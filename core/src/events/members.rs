//! The members of a JSON object, in their order, with what is there twice, and with values as they are written.
//!
//! Nothing more of the payload is copied here than is asked for. `serde_json`'s own values and maps take several times the
//! time of an event, and change how a number is written.

use super::signal::{EVENT, JOB};
use crate::id::branded::BrandedId;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// What nearly everyone asks for.
#[derive(Default)]
pub(super) struct About {
    /// Where the member `event` is a text.
    pub(super) name: Option<String>,
    /// Where the member `job` is a well-formed id.
    pub(super) job: Option<BrandedId>,
}

impl<'a> Deserialize<'a> for About {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'a> Visitor<'a> for Object {
            type Value = About;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<About, A::Error> {
                let mut about = About::default();
                while let Some(Text(name)) = map.next_key()? {
                    match &*name {
                        EVENT => about.name = string(map.next_value()?).map(Cow::into_owned),
                        JOB => {
                            about.job = string(map.next_value()?).and_then(|job| BrandedId::parse(&*job).ok())
                        }
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(about)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// What a JSON string says; nothing of what is none, or has half a surrogate in it.
pub(super) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(value.get()).ok().map(|Text(text)| text)
}

/// All members of an object.
pub(super) struct Members<'a>(pub(super) Vec<(Text<'a>, &'a RawValue)>);

impl<'a> Deserialize<'a> for Members<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'a> Visitor<'a> for Object {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Members<'a>, A::Error> {
                let mut members = Vec::with_capacity(4);
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A JSON string, copied only where it has escapes.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'a> Deserialize<'a> for Text<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfString;

        impl<'a> Visitor<'a> for OfString {
            type Value = Text<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(OfString)
    }
}
