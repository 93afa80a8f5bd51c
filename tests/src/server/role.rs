//! What a server is while it runs: primary or replica, node of a cluster, and what its clock shows.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::time::{Instant, UNIX_EPOCH};

use super::Server;
use crate::give_up;
use crate::plain::{self, Plain};
use crate::wait::{STEP, wait_until};

impl Server {
    /// Makes the server a replica of `primary` (`REPLICAOF`), and waits until it has what the primary has. What it held
    /// itself is gone, and writes to it are answered `READONLY`.
    #[track_caller]
    pub fn replicate(&self, primary: &Server) {
        let mut plain = Plain::connect(self);
        if let Some(password) = primary.password() {
            plain.command(["CONFIG", "SET", "masterauth", password]);
        }
        // A primary that waits for other replicas to come would start later than it must.
        Plain::connect(primary).command(["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        plain.command(["REPLICAOF", primary.host(), &primary.port().to_string()]);
        wait_until("a replica to have what its primary has", || {
            self.replication("master_link_status") == "up"
        });
        self.follow(primary);
    }

    /// Waits until this replica has carried out everything that `primary` has until now.
    #[track_caller]
    pub fn follow(&self, primary: &Server) {
        let target: u64 = primary.replication("master_repl_offset").parse().unwrap_or(0);
        wait_until("a replica to follow its primary", || {
            self.replication("slave_repl_offset").parse().is_ok_and(|offset: u64| offset >= target)
        });
    }

    /// Makes a replica a primary (`REPLICAOF NO ONE`), with what it has.
    #[track_caller]
    pub fn promote(&self) {
        Plain::connect(self).command(["REPLICAOF", "NO", "ONE"]);
        wait_until("a replica to be promoted", || self.replication("role") == "master");
    }

    /// One line of `INFO replication`.
    #[track_caller]
    fn replication(&self, name: &str) -> String {
        let info: String = Plain::connect(self).query(["INFO", "replication"]);
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().to_owned()
    }

    /// Sets the clock of a server started with [`Builder::clock`](super::Builder::clock): so many milliseconds ahead of
    /// this machine's, or behind where negative; 0 is the value at first. It holds for everything that the server does by
    /// the time of day, and over restarts. Returns once the server, which may look at it a little later, goes by it.
    #[track_caller]
    pub fn set_clock(&self, ahead_ms: i64) {
        if !self.builder.clock {
            give_up("this server was started without a clock that can be set");
        }
        let before = self.clock_ahead();
        let path = self.folder.path().join("clock");
        let written = File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.write_all_at(&(ahead_ms * 1000).to_ne_bytes(), 0));
        if let Err(error) = written {
            give_up(format_args!("the clock of a server cannot be set: {error}"));
        }
        wait_until("a server to go by its new clock", || {
            let now = self.clock_ahead();
            let is_new = now.start() > before.end() || now.end() < before.start();
            now.contains(&ahead_ms) && (is_new || before.contains(&ahead_ms))
        });
    }

    /// How many milliseconds the server's clock is ahead of this machine's: at least and at most.
    #[track_caller]
    pub fn clock_ahead(&self) -> RangeInclusive<i64> {
        let mut plain = Plain::connect(self);
        let now = || UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros() as i64);
        let before = now();
        let (seconds, microseconds): (i64, i64) = plain.query(["TIME"]);
        let time = seconds * 1_000_000 + microseconds;
        // Servers tell the time at which they woke up for a command, up to a millisecond ago.
        (time - now()).div_euclid(1000) - 1..=(time - before).div_euclid(1000) + 1
    }

    /// Gives all slots to the only node of a cluster, and waits until it serves them.
    pub(super) fn take_slots(&mut self, deadline: Instant) -> io::Result<()> {
        if !self.builder.cluster {
            return Ok(());
        }
        let ask = |words: &[&str]| plain::ask(self.address(), self.password(), words);
        // Answers an error where it has them already, from before a restart.
        ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
        while !ask(&["CLUSTER", "INFO"])?.contains("cluster_state:ok") {
            if Instant::now() > deadline {
                return Err(io::Error::other("the node of a cluster did not serve its slots"));
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }
}
