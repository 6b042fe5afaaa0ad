//! Files of this machine. What it lacks is skipped, and that is reported.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Image, Library, Located, Role, Signatures, Step, Way,
    elf::Elf,
    locate,
    x86::{self, Kind},
};

/// Reports that a test has nothing to run on, as `places::skipped` of the end-to-end tests does, of which nothing can be used below the
/// agent.
fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    let file =
        env::var_os("MCPWARDEN_TEST_SKIPS").and_then(|path| File::options().append(true).open(path).ok());
    _ = match file {
        Some(mut file) => file.write_all(line.as_bytes()),
        // Not eprintln!: libtest would swallow it.
        None => std::io::stderr().write_all(line.as_bytes()),
    };
}

/// The first of these files that is there.
fn file(test: &str, candidates: &[&str]) -> Option<PathBuf> {
    let found = candidates.iter().map(PathBuf::from).find(|path| path.is_file());
    if found.is_none() {
        skipped(test, &format!("none of {} is here", candidates.join(", ")));
    }
    found.and_then(|path| fs::canonicalize(path).ok())
}

fn search(path: &Path) -> Located {
    let file = File::open(path).unwrap();
    locate(&mut Image::of_file(&file).unwrap(), &Signatures::built_in().unwrap()).unwrap()
}

/// Where objdump says that instructions begin, from the symbol of a function on.
fn instructions(path: &Path, begin: u64, length: u64) -> Option<BTreeMap<u64, String>> {
    let end = begin + length;
    let output = Command::new("objdump")
        .args([
            "-d",
            "--no-show-raw-insn",
            &format!("--start-address={begin}"),
            &format!("--stop-address={end}"),
        ])
        .arg(path)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let (address, text) = line.split_once(":\t")?;
        Some((u64::from_str_radix(address.trim(), 16).ok()?, text.to_owned()))
    };
    Some(text.lines().filter_map(line).collect())
}

const LIBSSL: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu/libssl.so.3", "/usr/lib64/libssl.so.3", "/lib/x86_64-linux-gnu/libssl.so.3"];

#[test]
fn libssl_is_whole_and_probed_where_the_kernel_emulates() {
    let Some(path) = file("libssl_is_whole_and_probed_where_the_kernel_emulates", &LIBSSL) else { return };
    let located = search(&path);
    assert_eq!(
        (located.stacks.len(), located.unknown.len(), located.problems.len()),
        (1, 0, 0),
        "{located:#?}"
    );
    assert!(located.build_id.is_some() && located.needed.iter().any(|name| name.starts_with("libcrypto")));
    let stack = &located.stacks[0];
    assert_eq!(stack.library, Library::OpenSsl3);
    for name in ["SSL_write", "SSL_write_ex", "SSL_read", "SSL_read_ex", "SSL_do_handshake", "SSL_free"] {
        let function = stack.functions.iter().find(|function| function.name == name).unwrap();
        assert_eq!(function.way, Way::DynamicSymbol, "{name}");
        assert_eq!(function.probe.step, Step::Emulated, "{function:?}");
        // In a library the offsets of code are its addresses, or objdump has other ones.
        let Some(there) = instructions(&path, function.offset, 96) else {
            return skipped("libssl_is_whole_and_probed_where_the_kernel_emulates", "no objdump");
        };
        let text = there
            .get(&function.probe.offset)
            .unwrap_or_else(|| panic!("{name}: {:#x} in {there:#x?}", function.probe.offset));
        assert!(
            ["push", "nop", "j", "call"].iter().any(|emulated| text.starts_with(emulated)),
            "{name}: {text}"
        );
    }
}

#[test]
fn gnutls_is_whole_and_sends_in_one_place() {
    let paths = ["/usr/lib/x86_64-linux-gnu/libgnutls.so.30", "/usr/lib64/libgnutls.so.30"];
    let Some(path) = file("gnutls_is_whole_and_sends_in_one_place", &paths) else { return };
    let located = search(&path);
    assert_eq!((located.stacks.len(), located.unknown.len()), (1, 0), "{located:#?}");
    let functions = &located.stacks[0].functions;
    let writes: Vec<_> = functions.iter().filter(|function| function.role == Role::Write).collect();
    assert_eq!(
        (writes.len(), writes[0].also.as_slice()),
        (1, ["gnutls_record_send".to_owned()].as_slice()),
        "{writes:#?}"
    );
    assert!(located.stacks[0].is_whole());
}

#[test]
fn node_has_openssl_inside_or_needs_it() {
    let Some(path) = file("node_has_openssl_inside_or_needs_it", &["/usr/bin/node", "/usr/local/bin/node"])
    else {
        return;
    };
    let located = search(&path);
    if located.stacks.is_empty() {
        let needs = |name: &String| name.starts_with("libnode") || name.starts_with("libssl");
        assert!(located.needed.iter().any(needs), "{located:#?}");
        return;
    }
    let stack = &located.stacks[0];
    assert!(stack.library == Library::OpenSsl3 && stack.is_whole(), "{stack:#?}");
    assert!(stack.version.as_ref().is_some_and(|version| version.starts_with("3.")), "{:?}", stack.version);
}

#[test]
fn programs_without_tls_have_none() {
    let paths = ["/bin/ls", "/usr/bin/ls"];
    let Some(path) = file("programs_without_tls_have_none", &paths) else { return };
    let located = search(&path);
    assert_eq!(
        (located.stacks.len(), located.unknown.len(), located.problems.len()),
        (0, 0, 0),
        "{located:#?}"
    );
}

#[test]
fn go_program_has_functions_and_returns() {
    let name = "go_program_has_functions_and_returns";
    let paths = [
        "/usr/bin/kubectl",
        "/usr/lib/google-cloud-sdk/bin/kubectl",
        "/usr/bin/gh",
        "/usr/bin/docker",
        "/usr/bin/podman",
    ];
    let Some(path) = file(name, &paths) else { return };
    let located = search(&path);
    let stack = located.stacks.iter().find(|stack| stack.library == Library::Go).unwrap();
    assert!(stack.is_whole() && stack.version.is_some(), "{stack:#?}");
    let read = stack.functions.iter().find(|function| function.role == Role::Read).unwrap();
    let bytes = fs::read(&path).unwrap();
    let returns = read.returns.as_ref().unwrap();
    assert!(returns.iter().all(|at| bytes[*at as usize] == 0xc3), "{returns:x?}");
}

#[test]
fn own_agent_has_rustls_with_ring() {
    let name = "own_agent_has_rustls_with_ring";
    // Beside the directory of the tests' programs, where it was built.
    let beside = env::current_exe().ok().and_then(|path| Some(path.parent()?.parent()?.join("mcpwarden")));
    let Some(path) = beside.filter(|path| path.is_file()) else {
        return skipped(name, "mcpwarden was not built");
    };
    let located = search(&path);
    assert_eq!((located.stacks.len(), located.unknown.len()), (1, 0), "{located:#?}");
    assert_eq!(located.stacks[0].library, Library::RustlsRing);
    assert!(located.stacks[0].is_whole());
}

/// Every instruction of a library has the length that objdump says, or is not decoded.
#[test]
fn lengths_are_those_of_objdump() {
    let name = "lengths_are_those_of_objdump";
    let Some(path) = file(name, &LIBSSL) else { return };
    let bytes = fs::read(&path).unwrap();
    let elf = Elf::read(&mut Image::of_bytes(&bytes), &mut Vec::new()).unwrap();
    let Some(text) = elf.section(".text") else { return skipped(name, "it has no section .text") };
    let Some(there) = instructions(&path, text.address, text.size) else {
        return skipped(name, "no objdump");
    };
    let places: Vec<(&u64, &String)> = there.iter().collect();
    let (mut decoded, mut unknown) = (0, 0);
    for pair in places.windows(2) {
        let (address, expected) = (*pair[0].0, pair[1].0 - pair[0].0);
        let offset = usize::try_from(elf.offset(address).unwrap()).unwrap();
        // objdump prints prefixes that it takes for instructions of their own, and goes on behind what it does not know.
        if expected > x86::MAX_LENGTH as u64 || pair[0].1.contains("(bad)") {
            continue;
        }
        match x86::decode(&bytes[offset..]) {
            Some(instruction) => {
                assert_eq!(u64::from(instruction.length), expected, "{address:#x}: {}", pair[0].1);
                let is_return = pair[0].1.starts_with("ret");
                assert_eq!(instruction.kind == Kind::Return, is_return, "{address:#x}: {}", pair[0].1);
                decoded += 1;
            }
            None => unknown += 1,
        }
    }
    assert!(decoded > 10_000 && unknown == 0, "{decoded} decoded, {unknown} not");
}
