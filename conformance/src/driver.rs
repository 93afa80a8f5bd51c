//! A driver process: started, told what to do line by line, and ended.

use crate::protocol::{Reply, Token, request};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How much of what a driver says on standard error is shown.
const SHOWN_DIAGNOSTICS: u64 = 2048;

/// The pause between two looks at a process that is about to end.
const STEP: Duration = Duration::from_millis(2);

/// A running driver. The process and all that it started end with this value.
pub struct Driver {
    child: Child,
    lines: Sender<String>,
    replies: Receiver<String>,
    /// What the driver says on standard error. A file holds it as soon as it is said, which a pipe's reader does not.
    diagnostics: File,
    /// How much of that belongs to earlier cases.
    forgotten: u64,
    deadline: Duration,
    asked: u64,
}

impl Driver {
    /// Starts `conformance/drivers/<language>/run` from the root of the project.
    ///
    /// `deadline` is how long it may take over any answer, and over its end. `environment` is given to it on top of
    /// the judge's own, of which the default node is taken away, so that only what a case says decides.
    ///
    /// # Errors
    ///
    /// Says why it cannot be started.
    pub fn start(
        root: &Path,
        language: &str,
        environment: &[(String, String)],
        deadline: Duration,
    ) -> Result<Self, String> {
        let diagnostics =
            tempfile::tempfile().map_err(|error| format!("no file for diagnostics: {error}"))?;
        let program = root.join("conformance/drivers").join(language).join("run");
        let errors = diagnostics.try_clone().map_err(|error| format!("no file for diagnostics: {error}"))?;
        let mut child = Command::new(&program)
            .current_dir(root)
            .env_remove("ECHOMQ_NODE_ID")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the driver has no pipes".to_owned());
        };

        let (lines, to_write) = mpsc::channel::<String>();
        // A driver that does not read must not hold the judge up, so the writing is done elsewhere.
        thread::spawn(move || {
            while let Ok(line) = to_write.recv() {
                if input.write_all(line.as_bytes()).and_then(|()| input.flush()).is_err() {
                    return;
                }
            }
        });
        let (send_reply, replies) = mpsc::channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while let Ok(1..) = output.read_until(b'\n', &mut line) {
                let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
                if send_reply.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Ok(Self { child, lines, replies, diagnostics, forgotten: 0, deadline, asked: 0 })
    }

    /// Asks for one op and waits for its reply.
    ///
    /// # Errors
    ///
    /// Says so where no reply comes in time, the driver has ended, or its line breaks the protocol. The driver is of
    /// no further use then.
    pub fn ask(&mut self, op: &str, arguments: &[Token]) -> Result<Reply, String> {
        self.begin(op, arguments);
        self.finish_op(op)
    }

    /// Asks for one op, and leaves its reply to [`Driver::finish_op`].
    pub fn begin(&mut self, op: &str, arguments: &[Token]) {
        self.asked += 1;
        // Where the writer has given up, the driver has ended, which the missing reply shows.
        let _ = self.lines.send(format!("{}\n", request(self.asked, op, arguments)));
    }

    /// Waits for the reply to the op that was begun.
    ///
    /// # Errors
    ///
    /// As [`Driver::ask`].
    pub fn finish_op(&mut self, op: &str) -> Result<Reply, String> {
        match self.replies.recv_timeout(self.deadline) {
            Ok(line) => Reply::parse(self.asked, &line),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("no reply to {op} within {} s", self.deadline.as_secs_f32()))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.ended()?;
                Err(format!("the driver ended with {status} instead of answering {op}"))
            }
        }
    }

    /// The end of what the driver has said on standard error.
    pub fn diagnostics(&self) -> String {
        let length = self.said();
        let from = self.forgotten.max(length.saturating_sub(SHOWN_DIAGNOSTICS));
        let mut shown = vec![0; usize::try_from(length - from).unwrap_or_default()];
        match self.diagnostics.read_exact_at(&mut shown, from) {
            Ok(()) => String::from_utf8_lossy(&shown).trim().to_owned(),
            Err(error) => format!("(unreadable: {error})"),
        }
    }

    /// Forgets what the driver has said on standard error so far.
    pub fn forget_diagnostics(&mut self) {
        self.forgotten = self.said();
    }

    /// How much the driver has said on standard error.
    fn said(&self) -> u64 {
        self.diagnostics.metadata().map_or(0, |file| file.len())
    }

    /// Closes the driver's standard input and waits until it has ended by itself.
    ///
    /// # Errors
    ///
    /// Says so where it goes on, fails, or says more than it was asked.
    pub fn finish(mut self) -> Result<(), String> {
        let (closed, _) = mpsc::channel();
        self.lines = closed;
        match self.replies.recv_timeout(self.deadline) {
            Err(RecvTimeoutError::Disconnected) => {}
            Ok(line) => {
                return Err(format!("a line that nothing asked for: {}", crate::protocol::shorten(&line)));
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err("the driver goes on after its input has ended".to_owned());
            }
        }
        let status = self.ended()?;
        if status.success() { Ok(()) } else { Err(format!("the driver ended with {status}")) }
    }

    /// Waits for the end of a driver that has closed its standard output.
    fn ended(&mut self) -> Result<ExitStatus, String> {
        let until = Instant::now() + self.deadline;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < until => thread::sleep(STEP),
                Ok(None) => return Err("the driver goes on without its standard output".to_owned()),
                Err(error) => return Err(format!("the driver's end cannot be seen: {error}")),
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A group that has ended takes no signal, which is as good.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
