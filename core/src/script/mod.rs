//! Scripts: embedded Lua whose header is its contract, called by hash, sent whole where the server does not know it.
//!
//! A script is called with `EVALSHA`; a server that answers `NOSCRIPT`, because its cache was emptied or it is another
//! server, gets the whole text with `EVAL`, which also puts it into the cache. Nothing has been carried out by then, so
//! asking again is safe. Every key is declared in `KEYS` (`docs/protocol.md` §2).

use crate::record::packed::{Arguments, Packed};
use redis::ServerError;
use std::sync::OnceLock;

/// One script.
pub(crate) struct Script {
    source: &'static str,
    hash: OnceLock<String>,
}

/// Appends all records of a batch or none.
pub(crate) static APPEND_BATCH: Script = Script::new(include_str!("../../lua/append_batch.lua"));

/// Says how long entries that are pending for a consumer have been idle.
pub(crate) static KEEP_PENDING: Script = Script::new(include_str!("../../lua/keep_pending.lua"));

/// Removes consumers that hold nothing.
pub(crate) static REMOVE_CONSUMERS: Script = Script::new(include_str!("../../lua/remove_consumers.lua"));

/// Writes a job's progress into its row and publishes it.
pub(crate) static UPDATE_PROGRESS: Script = Script::new(include_str!("../../lua/update_progress.lua"));

/// Takes, keeps and gives back the right to mint with a node id.
pub(crate) static NODE_LEASE: Script = Script::new(include_str!("../../lua/node_lease.lua"));

/// A script behind the library that it needs.
macro_rules! sequenced {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("../../lua/sequencer.lua"),
            include_str!(concat!("../../lua/", $file))
        ))
    };
}

/// Appends records to a stream with several writers, all or none.
pub(crate) static APPEND_SEQUENCED: Script = sequenced!("append_sequenced.lua");

/// Moves an entry to the dead letters.
pub(crate) static DEAD_LETTER: Script = sequenced!("dead_letter.lua");

/// Moves a dead letter back to its stream.
pub(crate) static PUT_BACK: Script = sequenced!("put_back.lua");

/// How a script is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By its hash.
    Hash,
    /// With its whole text: once in a pipeline, since the server knows it by its hash from then on.
    Source,
}

impl Script {
    const fn new(source: &'static str) -> Self {
        Self { source, hash: OnceLock::new() }
    }

    /// The SHA-1 that the server knows the script by.
    pub(crate) fn hash(&self) -> &str {
        self.hash.get_or_init(|| sha1_smol::Sha1::from(self.source).digest().to_string())
    }

    /// The call with its keys; that many further arguments follow, the script's values.
    pub(crate) fn call<'a>(
        &self,
        form: Form,
        keys: &[&str],
        values: usize,
        commands: &'a mut Packed,
    ) -> Arguments<'a> {
        let whole = form == Form::Source && !commands.sends_whole(self.source);
        let mut command = commands.command(3 + keys.len() + values);
        match whole {
            false => command.arg("EVALSHA").arg(self.hash()),
            true => command.arg("EVAL").arg(self.source),
        };
        command.number(keys.len() as u64);
        keys.iter().for_each(|key| {
            command.arg(key);
        });
        command
    }
}

/// Whether the server does not know the script.
pub(crate) fn is_unknown(error: &ServerError) -> bool {
    error.code() == "NOSCRIPT"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A changed script is another script: its hash changes with intent.
    #[test]
    fn every_hash_is_pinned() {
        assert_eq!(NODE_LEASE.hash(), "255cae61e58e561df55e591389ab2af1a05fd238");
        assert_eq!(UPDATE_PROGRESS.hash(), "2663f1a22343fc6abf4ec37253564be01fc2d1da");
        assert_eq!(REMOVE_CONSUMERS.hash(), "8515613aa7c4d8e4f9511e38a3f04ae725b015a3");
        assert_eq!(APPEND_SEQUENCED.hash(), "2a14a34edd9fb8f3f308c053cdbade4bd704e959");
        assert_eq!(DEAD_LETTER.hash(), "c0aaf7e4b9c860190effeb3eee1e966080709190");
        assert_eq!(PUT_BACK.hash(), "426d81efd33b10b842b1a03ed1d446859337489b");
        assert_eq!(APPEND_BATCH.hash(), "8bcf700cfc45212b2da4b10bd2084d09540e0abf");
    }

    #[test]
    fn a_call_declares_its_keys() {
        let mut commands = Packed::default();
        APPEND_BATCH.call(Form::Hash, &["k1", "k2"], 0, &mut commands);
        let hash = APPEND_BATCH.hash();
        assert_eq!(
            str::from_utf8(commands.bytes()).unwrap(),
            format!("*5\r\n$7\r\nEVALSHA\r\n$40\r\n{hash}\r\n$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n")
        );
    }
}
