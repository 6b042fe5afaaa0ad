//! Builds the kernel half with a nightly toolchain and puts the object where the agent embeds it.
//!
//! `aya-build` does the same but cannot ask for the v3 instruction set (Linux 5.12), which the kernel half needs
//! for atomic additions that return the old value.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use object::{
    build::elf::{Builder, SectionData},
    elf::SHT_STRTAB,
};

#[path = "toolchain.rs"]
mod toolchain;

fn main() -> Result<()> {
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed={}", workspace.join("ebpf").display());
    println!("cargo:rerun-if-changed={}", workspace.join("Cargo.lock").display());

    let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    ensure!(arch == "x86_64", "the tracepoint backend knows x86-64 only, not {arch}");

    // Line numbers in BTF name files: where a package is built, not by their places on that machine.
    let outer = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let remapped = outer.split('\x1f').filter(|flag| flag.starts_with("--remap-path-prefix="));
    let mut flags = vec![
        "-Ctarget-cpu=v3",
        // Without BTF the kernel refuses bpf_loop callbacks ("missing btf func_info").
        "-Cdebuginfo=2",
        "-Clink-arg=--btf",
        // Else to clear or copy a few words is a call that goes byte by byte.
        "-Clink-arg=--disable-expand-memcpy-in-order",
        // The compiler is pinned: a warning is this program's fault, and nobody would see it.
        "-Dwarnings",
    ];
    flags.extend(remapped);
    let toolchain = toolchain::installed().with_context(|| {
        format!(
            "{} is not installed; `cargo xtask setup` installs it and what else is needed",
            toolchain::PINNED
        )
    })?;
    let target = target_directory(&out);
    let output = Command::new("rustup")
        .args(["run", toolchain, "cargo", "build", "--release", "--bins"])
        .args(["--package", "mcpwarden-ebpf", "--target", "bpfel-unknown-none", "-Zbuild-std=core"])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&workspace)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        // Set by the cargo that runs us; the inner one must choose its own.
        .env_remove("RUSTC")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .context("cannot run rustup; it is needed to build the kernel half")?;
    if !output.status.success() {
        bail!(
            "the kernel half does not build; `cargo xtask setup` installs what it needs (rust-src for nightly, \
             bpf-linker)\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let object = target.join("bpfel-unknown-none/release/mcpwarden-ebpf");
    let whole = fs::read(&object).with_context(|| format!("cannot read {}", object.display()))?;
    let part = without_debug_info(&whole).with_context(|| format!("cannot read {}", object.display()))?;
    let to = out.join("mcpwarden.bpf.o");
    fs::write(&to, part).with_context(|| format!("cannot write {}", to.display()))
}

/// The object without DWARF, which is four fifths of it: the kernel and the loader read BTF.
fn without_debug_info(object: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read(object)?;
    for section in &mut builder.sections {
        section.delete =
            [".debug", ".rel.debug"].iter().any(|name| section.name.starts_with(name.as_bytes()));
    }
    builder.delete_orphans();
    // LLVM keeps the names of sections beside those of symbols; what writes the object wants them apart.
    let names = builder.sections.add();
    names.name = b".shstrtab"[..].into();
    (names.sh_type, names.sh_addralign, names.data) = (SHT_STRTAB, 1, SectionData::SectionString);
    let mut part = Vec::new();
    builder.write(&mut part)?;
    Ok(part)
}

/// Where the inner cargo puts what it builds: one place below the target directory, so that whatever runs this script (lints, tests,
/// a release) builds the kernel half once.
fn target_directory(out: &Path) -> PathBuf {
    let outer = out.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists());
    outer.unwrap_or(out).join("ebpf")
}
