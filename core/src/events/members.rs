//! The members of a JSON object, in their order and with what is there twice.
//!
//! They are read into texts at once: `serde_json`'s own values and maps take more than twice the time of an event.

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// All members of an object.
pub(super) struct Members(pub(super) Vec<(String, Member)>);

/// The value of a member.
pub(super) enum Member {
    /// A string, without its quotes and escapes.
    String(String),
    /// Anything else, as its JSON text.
    Other(String),
}

impl Member {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::String(text) | Self::Other(text) => text,
        }
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
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

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

fn other<E>(value: impl Into<Value>) -> Result<Member, E> {
    Ok(Member::Other(value.into().to_string()))
}

impl<'de> Visitor<'de> for Any {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Member, E> {
        Ok(Member::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Member, E> {
        Ok(Member::String(text))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Member, E> {
        other(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Member, E> {
        other(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Member, E> {
        other(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Member, E> {
        other(value)
    }

    fn visit_unit<E>(self) -> Result<Member, E> {
        other(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Member, A::Error> {
        other(Value::deserialize(SeqAccessDeserializer::new(items))?)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Member, A::Error> {
        other(Value::deserialize(MapAccessDeserializer::new(members))?)
    }
}
