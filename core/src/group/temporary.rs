use crate::stream::Key;
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use std::sync::Arc;
use crate::operation::{Operation,Step};
use crate::record::packed::Packed;
pub(crate) enum Outcome{Moved(EventId),Settled,Lost}
pub(crate) struct DeadLetter;
impl DeadLetter{pub(crate) fn new(_:Key,_:Arc<str>,_:EntryId,_:u64,_:Vec<u8>)->Self{Self}}
impl Operation for DeadLetter{type Reply=Outcome; fn commands(&self,c:&mut Packed){c.command(1).arg("PING");} fn answered(&mut self,_:Vec<redis::Value>)->Step<Outcome>{Step::Done(Ok(Outcome::Settled))}}
