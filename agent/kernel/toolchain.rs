// Which compiler builds the kernel half: shared by this crate's build script and `cargo xtask setup`.

use std::process::{Command, Stdio};

/// Pinned, since the LLVM of the nightly of the day is one that no distribution has yet.
pub const PINNED: &str = "nightly-2026-05-20";
/// The LLVM of that nightly. bpf-linker reads the bitcode that it writes, so both must be of one major version.
pub const LLVM_MAJOR: u32 = 22;

/// The pinned nightly, or the one that is called `nightly` where it will do; `None` where neither is installed.
pub fn installed() -> Option<&'static str> {
    [PINNED, "nightly"].into_iter().find(|name| {
        let rustc = Command::new("rustup").args(["run", name, "rustc", "-vV"]).stderr(Stdio::null()).output();
        let version = format!("LLVM version: {LLVM_MAJOR}.");
        rustc.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(&version))
    })
}
