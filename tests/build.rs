//! Builds the clock that a test server and a program can be given, with the C compiler that links Rust's own programs.

use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/server/clock.c");
    let library = Path::new(&std::env::var("OUT_DIR")?).join("libclock.so");
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg("src/server/clock.c")
        .status()
        .map_err(|error| format!("the C compiler cc does not run: {error}"))?;
    if !status.success() {
        return Err(format!("cc could not build src/server/clock.c: {status}").into());
    }
    println!("cargo::rustc-env=ECHOMQ_TEST_CLOCK_LIBRARY={}", library.display());
    Ok(())
}
