//! Programs of all four languages: started, signalled, killed, and heard by the lines they write.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::give_up;
use crate::wait::{DEADLINE, STEP};

/// In which language a program is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// An example of this crate, as cargo has built it.
    Rust,
    /// A script in `workers`, on the Elixir binding as it was compiled last.
    Elixir,
    /// A script in `workers`, on the Python binding in the checkout.
    Python,
    /// A script in `workers`, on the Node binding in the checkout.
    Node,
}

impl Language {
    /// Every language.
    pub const ALL: [Language; 4] = [Language::Rust, Language::Elixir, Language::Python, Language::Node];

    /// The name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::Elixir => "Elixir",
            Language::Python => "Python",
            Language::Node => "Node",
        }
    }

    /// What starts its program of that name, without arguments; `NotFound` where it is not built.
    fn command(self, program: &str) -> io::Result<Command> {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = |extension| crate_folder.join("workers").join(program).with_extension(extension);
        let mut command = match self {
            Language::Rust => {
                let target =
                    std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("../target"));
                Command::new(built(crate_folder.join(target).join("debug/examples").join(program))?)
            }
            Language::Elixir => {
                let mut elixir = Command::new("elixir");
                elixir.args(["--erl", "-noinput", "-pa"]).arg(compiled_elixir(crate_folder)?);
                elixir.arg(script("exs"));
                elixir
            }
            Language::Python => {
                let mut python = Command::new("python3");
                python.arg("-B").arg(script("py"));
                python
            }
            Language::Node => {
                let mut node = Command::new("node");
                node.arg(script("mjs"));
                node
            }
        };
        // What the machine that tests is called must not decide.
        command.env_remove("ECHOMQ_NODE_ID");
        Ok(command)
    }
}

/// The folder of the Elixir binding's modules that was compiled last.
fn compiled_elixir(crate_folder: &Path) -> io::Result<PathBuf> {
    let builds = fs::read_dir(crate_folder.join("../bindings/elixir/_build"))?;
    let compiled = builds.flatten().map(|build| build.path().join("lib/echo_mq"));
    let with_age = compiled.filter_map(|folder| {
        let manifest = fs::metadata(folder.join(".mix/compile.elixir")).ok()?;
        Some((manifest.modified().ok()?, folder.join("ebin")))
    });
    with_age.max().map(|(_, folder)| folder).ok_or_else(|| missing("the Elixir binding"))
}

fn built(program: PathBuf) -> io::Result<PathBuf> {
    if program.is_file() { Ok(program) } else { Err(missing(&program.display().to_string())) }
}

fn missing(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{what} is not built: run scripts/test-faults"))
}

/// A running program that writes lines to a file. It is killed when this is dropped.
#[derive(Debug)]
pub struct Program {
    language: Language,
    child: Child,
    log: File,
    unfinished: Vec<u8>,
    lines: Vec<String>,
    errors: PathBuf,
    /// What its clocks show.
    clock: Option<PathBuf>,
}

impl Program {
    /// Starts the program of that name. Its log, given to it as `log=…`, and what it says on standard error are files in
    /// `folder`, which must exist and be kept as long as this. Panics with one sentence when it cannot be started.
    #[track_caller]
    pub fn start(language: Language, name: &str, folder: &Path, arguments: &[(&str, &str)]) -> Self {
        Self::started(language, name, folder, arguments, None)
    }

    /// Starts a program as [`Program::start`] does, on a host whose clock is so many milliseconds ahead of this machine's,
    /// or behind where negative. It goes on from there as clocks do.
    #[track_caller]
    pub fn start_with_clock(
        language: Language,
        name: &str,
        folder: &Path,
        arguments: &[(&str, &str)],
        ahead_ms: i64,
    ) -> Self {
        Self::started(language, name, folder, arguments, Some(ahead_ms))
    }

    #[track_caller]
    fn started(
        language: Language,
        name: &str,
        folder: &Path,
        arguments: &[(&str, &str)],
        ahead_ms: Option<i64>,
    ) -> Self {
        match Self::try_start(language, name, folder, arguments, ahead_ms) {
            Ok(program) => program,
            Err(error) => give_up(format_args!("the {name} in {} did not start: {error}", language.name())),
        }
    }

    fn try_start(
        language: Language,
        name: &str,
        folder: &Path,
        arguments: &[(&str, &str)],
        ahead_ms: Option<i64>,
    ) -> io::Result<Self> {
        let file = |suffix| {
            let prefix = format!("{name}-{}-", language.name());
            tempfile::Builder::new()
                .prefix(&prefix)
                .suffix(suffix)
                .tempfile_in(folder)?
                .keep()
                .map_err(io::Error::other)
        };
        let ((log, log_path), (error_log, errors)) = (file(".log")?, file(".err")?);
        let mut command = language.command(name)?;
        command.arg(format!("log={}", log_path.display()));
        command.args(arguments.iter().map(|(name, value)| format!("{name}={value}")));
        let mut set_clock = None;
        if let Some(ahead_ms) = ahead_ms {
            let (mut clock, clock_path) = file(".clock")?;
            clock.write_all(&(ahead_ms * 1000).to_ne_bytes())?;
            command.env("LD_PRELOAD", env!("ECHOMQ_TEST_CLOCK_LIBRARY"));
            command.env("ECHOMQ_TEST_CLOCK", &clock_path);
            set_clock = Some(clock_path);
        }
        let child = command.stdin(Stdio::null()).stdout(error_log.try_clone()?).stderr(error_log).spawn()?;
        Ok(Self { language, child, log, unfinished: Vec::new(), lines: Vec::new(), errors, clock: set_clock })
    }

    /// In which language it is written.
    pub fn language(&self) -> Language {
        self.language
    }

    /// All whole lines that it has written, those of a program that has ended too.
    #[track_caller]
    pub fn lines(&mut self) -> &[String] {
        if let Err(error) = self.log.read_to_end(&mut self.unfinished) {
            give_up(format_args!("the log of a program cannot be read: {error}"));
        }
        let whole = self.unfinished.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let read: Vec<u8> = self.unfinished.drain(..whole).collect();
        self.lines.extend(String::from_utf8_lossy(&read).lines().map(String::from));
        &self.lines
    }

    /// Waits until its lines are as they should be. Panics, naming `what` and showing what the program said, when it ends
    /// or the deadline passes before.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, mut condition: impl FnMut(&[String]) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let ended = self.has_ended();
            if condition(self.lines()) {
                return;
            }
            if ended || Instant::now() > deadline {
                self.give_up(&format!("waited in vain for {what}"));
            }
            std::thread::sleep(STEP);
        }
    }

    /// Whether the process has ended, for whatever reason.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the program to end (`SIGTERM`).
    pub fn terminate(&self) {
        // A process that has ended by itself no longer takes signals, which is as good.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Has the program stand still (`SIGSTOP`) until [`Program::go_on`].
    pub fn stand_still(&self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::STOP);
    }

    /// Has the host of a program that was started with a clock have slept for so many milliseconds, to be told while the program
    /// stands still: the clock that counts suspends moves on, the monotonic one does not.
    #[track_caller]
    pub fn host_slept(&self, ms: i64) {
        let Some(clock) = &self.clock else { give_up("this program was started without a clock of its own") };
        let written = File::options().write(true).open(clock).and_then(|mut clock| {
            clock.seek(SeekFrom::Start(8))?;
            clock.write_all(&(ms * 1000).to_ne_bytes())
        });
        if let Err(error) = written {
            give_up(format_args!("the clock of a program cannot be set: {error}"));
        }
    }

    /// Has it go on (`SIGCONT`).
    pub fn go_on(&self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::CONT);
    }

    /// Ends the program at once (`SIGKILL`) and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only for a process that is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until the program has ended by itself. Panics, showing what it said, when it does not.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(STEP),
                _ => self.give_up("the program goes on"),
            }
        }
    }

    /// Waits until the program has ended by itself without a fault. Panics, showing what it said, when it does not.
    #[track_caller]
    pub fn wait_for_success(&mut self) {
        let status = self.wait_for_end();
        if !status.success() {
            self.give_up(&format!("the program ended with {status}"));
        }
    }

    /// Fails the test with a sentence about this program and the end of what it said.
    #[track_caller]
    pub fn give_up(&mut self, sentence: &str) -> ! {
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        let lines = self.lines();
        let last = lines[lines.len().saturating_sub(10)..].join(" | ");
        let state = if self.has_ended() { "has ended" } else { "runs" };
        let language = self.language.name();
        give_up(format_args!(
            "{language} ({state}): {sentence}; its last lines: {last}; its errors: {errors}"
        ))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
