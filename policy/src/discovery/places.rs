//! Where a program lies, without what changes from day to day: versions, hashes of caches and stores, temporary names.

use super::options::is_in;

/// What stands in place of a part of a path that changes.
const CHANGES: &str = "*";

/// Directories of which the next parts change, and how many do. `*` is any name; a slash in front is the root.
const CHANGING: &[(&str, usize)] = &[
    // uv: environments of `uvx`, and of `uv run --with` (crates/uv-cache: CacheBucket)
    ("uv/archive-v*", 1),
    ("uv/builds-v*", 1),
    ("uv/environments-v*", 1),
    ("uv/python", 1),
    ("uv/git-v*/checkouts/*", 1),
    // npm: libnpmexec, a hash of the packages asked for
    ("_npx", 1),
    // pnpm dlx: a hash, then time and process; older ones have `dlx-PID`
    ("pnpm/dlx", 2),
    // yarn berry: archives, unplugged packages and virtual ones carry hashes; the package follows in `node_modules`
    (".yarn/cache", 1),
    ("berry/cache", 1),
    (".yarn/unplugged", 1),
    ("__virtual__", 2),
    ("__virtual__/*/*/cache", 1),
    // pyapp: a number for each distribution, in front of the version (ofek.dev/pyapp)
    ("pyapp/*", 1),
    // pipx run: a hash of the specification
    ("pipx/.cache", 1),
    (".cache/pipx", 1),
    // deno: a hash or a version behind the package
    ("deno/npm/registry.npmjs.org/*", 1),
    ("deno/npm/registry.npmjs.org/@*/*", 1),
    // snapd: revisions; flatpak: architecture, branch, commit
    ("/snap/*", 1),
    ("flatpak/app/*", 3),
    // Version managers whose versions need not look like one (`22`, `lts`, `temurin-21`); nvm, pyenv, rbenv and volta have
    // full ones
    ("mise/installs/*", 1),
    (".asdf/installs/*", 1),
    ("asdf/installs/*", 1),
    ("fnm_multishells", 1),
    ("node-versions", 1),
    ("candidates/java", 1),
    (".rustup/toolchains", 1),
    // Homebrew
    ("Cellar/*", 1),
    ("Caskroom/*", 1),
    // Toolbox of JetBrains: builds; VS Code: commits
    ("JetBrains/Toolbox/apps/*/*", 1),
    (".vscode-server/bin", 1),
    (".vscode-server/cli/servers", 1),
];

/// Directories in which programs make temporary ones.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp", "/dev/shm", "/run/user/*"];

/// What follows a version in the name of an archive, a directory or a jar.
const CLASSIFIERS: &str = "all snapshot release final fat shaded shadow standalone uber exec runner bin dist with dependencies jar linux darwin \
    windows win32 x64 x86 amd64 arm64 aarch64 armhf x86_64 gnu musl universal noarch any none alpha beta rc pre preview dev next canary nightly m ga \
    unstable stable cr sp ea eap milestone jre jdk native plain fc el deb temurin tem post a b";

/// What says behind a version that it is a release in advance (semver.org, maven.apache.org/pom.html#version-order-specification,
/// PEP 440, spring.io's milestones).
const PRERELEASES: &str =
    "snapshot rc cr alpha beta m milestone pre preview dev next canary nightly ea eap a b";
/// What may follow the numbers of a version behind a dot: the same, and releases (OSGi's qualifiers, PEP 440).
const QUALIFIERS: &str = "final release ga sp post snapshot rc cr alpha beta m pre preview dev";

/// Endings of programs, in any case (learn.microsoft.com, `start` and `PATHEXT`).
pub(super) const PROGRAMS: [&str; 3] = [".exe", ".cmd", ".bat"];
/// Endings of scripts and programs that are not part of their name.
const EXTENSIONS: [&str; 47] = [
    ".mjs",
    ".cjs",
    ".js",
    ".jsx",
    ".mts",
    ".cts",
    ".ts",
    ".tsx",
    ".pyz",
    ".pex",
    ".pyw",
    ".py",
    ".jar",
    ".war",
    ".exs",
    ".ex",
    ".clj",
    ".bb",
    ".scm",
    ".rkt",
    ".tcl",
    ".sif",
    ".ps1",
    ".jl",
    ".r",
    ".R",
    ".dart",
    ".cr",
    ".nim",
    ".swift",
    ".rb",
    ".php",
    ".phar",
    ".pl",
    ".lua",
    ".java",
    ".kts",
    ".kt",
    ".go",
    ".sh",
    ".bash",
    ".dll",
    ".csproj",
    ".fsproj",
    ".cs",
    ".wasm",
    ".AppImage",
];

/// A path, without the parts that change when a program is started, installed or upgraded again: where nothing is known
/// to take their place they are `*`. A relative path stays one.
pub(super) fn lasting(path: &str) -> String {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let parts = resolved(path);
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(part) = parts.get(at) {
        let before = parts.get(..at).unwrap_or_default();
        // Virtual stores of pnpm and bun: `node_modules/.pnpm/NAME@VERSION_PEERS/node_modules/NAME`.
        if matches!(*part, ".pnpm" | ".bun") && parts.get(at + 2) == Some(&"node_modules") {
            at += 3;
            continue;
        }
        if let Some(count) = caches(before, part, parts.get(at + 1..).unwrap_or_default()) {
            kept.extend(std::iter::once(CHANGES.to_owned()));
            at += count;
            continue;
        }
        let changing = CHANGING.iter().find(|(place, _)| ends_with(path, before, place));
        match changing {
            Some((_, count)) if at + 1 < parts.len() => {
                let count = (*count).min(parts.len() - at - 1);
                kept.extend(std::iter::repeat_n(CHANGES.to_owned(), count));
                at += count;
                continue;
            }
            _ => kept.push(name_of(path, before, part)),
        }
        at += 1;
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", kept.join("/"))
}

/// How many parts from this one on are a launcher's directory of the day, wherever its temporary directory or cache is; `None`: it
/// is none. One `*` stands for all of them.
fn caches(before: &[&str], part: &str, behind: &[&str]) -> Option<usize> {
    // bunx: `bunx-UID-SPECIFICATION/node_modules/…`, where a specification may have slashes: `@scope/name@1.2` (bun's
    // bunx_command.zig)
    let uid = part.strip_prefix('.').unwrap_or(part).strip_prefix("bunx-");
    if uid.is_some_and(|rest| is_number(rest.split_once('-').map_or(rest, |(uid, _)| uid))) {
        let more = behind.iter().take(MAX_SPECIFICATION_PARTS).position(|part| *part == "node_modules");
        return more.map(|more| more + 1);
    }
    // yarn dlx: `xfs-XXXXXXXX/dlx-PID/…` (@yarnpkg/fslib: xfs.mktempPromise); pnpm before 9: `dlx-PID`
    let is_temporary = part.strip_prefix("xfs-").is_some_and(|rest| rest.len() == 8 && is_hex(rest))
        || part.strip_prefix("dlx-").is_some_and(is_number);
    if is_temporary && !behind.is_empty() {
        return Some(1);
    }
    // go run and go tool since Go 1.24: `XX/HASH-d/NAME` in the build cache, XX the beginning of the hash
    // (cmd/go/internal/cache: PutExecutable)
    let hash = behind.first().and_then(|part| part.strip_suffix("-d"));
    let is_long = |hash: &str| hash.len() == 64 || hash.len() > 2 && before.last() == Some(&"go-build");
    let is_executable = hash.is_some_and(|hash| is_long(hash) && is_hex(hash) && hash.starts_with(part));
    (part.len() == 2 && is_executable && behind.len() > 1 && !before.is_empty()).then_some(2)
}

/// Parts of uv's cache (crates/uv-cache: CacheBucket).
const BUCKETS: &str = "archive builds environments git";

/// Parts of a path that a specification has at most, in front of `node_modules`.
const MAX_SPECIFICATION_PARTS: usize = 4;

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a part is all of a long hash, as tools call directories by their content.
pub(super) fn is_hash(part: &str) -> bool {
    part.len() >= 32 && is_hex(part)
}

/// Directories in which programs that unpack themselves have one of their hash: pex (pex/cache/dirs.py), scie-jump.
const UNPACKED: &str = "unzipped_pexes venvs installed_wheels user_code bootstraps nce .nce";

/// Whether a part is the hash of a program that was unpacked here, or the number of a layout in front of it: `unzipped_pexes/HASH`,
/// `venvs/HASH/HASH`, `venvs/short/HASH`, in newer ones below a number.
fn is_unpacked(before: &[&str], part: &str) -> bool {
    let is_inner = |part: &&&str| is_number(part) || is_hash(part) || **part == "short";
    let mut outer = before.iter().rev().skip_while(is_inner);
    let Some(cache) = outer.next().filter(|cache| is_in(UNPACKED, cache)) else { return false };
    // Directories of these names may be anybody's; those of pex are in one that is called after it.
    let is_pex = *cache == "unzipped_pexes" || outer.next().is_some_and(|root| root.contains("pex"));
    is_hash(part) || is_pex && (is_number(part) || before.last() == Some(&"short") && is_hex(part))
}

/// One part of a path.
fn name_of(path: &str, before: &[&str], part: &str) -> String {
    if ends_with(path, before, "/nix/store") || ends_with(path, before, "/gnu/store") {
        return store_name(part).to_owned();
    }
    if before.last() == Some(&"uv")
        && let Some((bucket, version)) = part.rsplit_once("-v").filter(|(_, version)| is_number(version))
    {
        // A later layout of the same cache.
        let first = if bucket == "environments" { "2" } else { "0" };
        return format!("{bucket}-v{}", if is_in(BUCKETS, bucket) { first } else { version });
    }
    if is_unpacked(before, part) {
        return CHANGES.to_owned();
    }
    // shiv: the hash of the archive that it unpacks
    if before.last() == Some(&".shiv")
        && let Some((name, _)) = part.rsplit_once('_').filter(|(_, hash)| hash.len() >= 32 && is_hex(hash))
    {
        return format!("{name}{CHANGES}");
    }
    // Tools of .NET: `tools/net8.0/any`
    if before.last() == Some(&"tools") && part.strip_prefix("net").is_some_and(is_version) {
        return format!("net{CHANGES}");
    }
    // yarn's store of the pnpm linker: `.store/NAME-npm-VERSION-HASH/package`
    if before.last() == Some(&".store")
        && let Some((name, _)) = ["-npm-", "-virtual-"]
            .iter()
            .find_map(|sign| part.split_once(sign))
            .filter(|(name, _)| !name.is_empty())
    {
        return name.to_owned();
    }
    // bun's cache: `install/cache/@scope/NAME@VERSION@@@1`
    if ["install/cache", "install/cache/@*"].iter().any(|place| ends_with(path, before, place))
        && let Some((name, _)) = part.rsplit_once("@@@").map_or(part, |(name, _)| name).split_once('@')
        && !name.is_empty()
    {
        return name.to_owned();
    }
    let in_temporary = TEMPORARY.iter().any(|place| ends_with(path, before, place));
    if let Some(kept) = temporary(part, in_temporary) {
        return format!("{kept}{CHANGES}");
    }
    if is_version(part) || before.last() == Some(&"releases") && is_number(part) {
        return CHANGES.to_owned();
    }
    if part.strip_prefix("python").is_some_and(|rest| {
        rest.starts_with(|digit: char| digit.is_ascii_digit()) && is_number(&rest.replace('.', ""))
    }) {
        return "python".to_owned();
    }
    // Directories of JetBrains' programs: `IntelliJIdea2025.1`
    if let Some(name) = of_a_year(part).filter(|_| before.contains(&"JetBrains")) {
        return format!("{name}{CHANGES}");
    }
    let (stem, end) = split_extension(part);
    // nixpkgs' makeWrapper
    let stem = stem.strip_prefix('.').and_then(|stem| stem.strip_suffix("-wrapped")).unwrap_or(stem);
    // Modules of Go: `go/pkg/mod/…/name@v1.2.3`
    let stem =
        stem.split_once("@v").filter(|(_, version)| is_version(version)).map_or(stem, |(name, _)| name);
    format!("{}{end}", unversioned(stem))
}

/// A name in front of a year of this century and a number, with nothing between: `Rider2025.2`.
fn of_a_year(part: &str) -> Option<&str> {
    let (front, number) = part.rsplit_once('.')?;
    let (name, year) = front.split_at_checked(front.len().checked_sub(4)?)?;
    let is_year = year.starts_with("20") && is_number(year);
    (is_year && is_number(number) && name.ends_with(|last: char| last.is_ascii_alphabetic())).then_some(name)
}

/// The version in a path: of a package in a store, of a directory or file that is called `NAME-VERSION`. Directories that
/// are called by a version alone may be an interpreter's.
pub(super) fn version(path: &str) -> Option<&str> {
    let parts: Vec<&str> = path.split('/').collect();
    let of = |at: usize, part: &&'_ str| -> Option<(usize, usize)> {
        let before = parts.get(..at)?;
        let is_store = matches!(before, ["", "nix" | "gnu", "store"]);
        let stem = split_extension(part).0;
        let name = if is_store { store_name(part) } else { unversioned(stem) };
        let from = part.find(name)? + name.len() + 1;
        (from < stem.len()).then_some((from, stem.len()))
    };
    let found = parts.iter().enumerate().rev().find_map(|(at, part)| Some((part, of(at, part)?)));
    let (part, (from, to)) = found?;
    let version = part.get(from..to)?;
    version
        .get(..release_end(version))
        .filter(|version| version.starts_with(|first: char| first.is_ascii_alphanumeric()))
}

/// Where the version ends in what stands behind a name: behind its numbers and what says that it is a release in advance, in front of
/// classifiers (`1.2.0-rc.1-linux`, `1.2.0-SNAPSHOT-all`, `1.2.0.Final`).
fn release_end(version: &str) -> usize {
    let ends = ['-', '_', '+', '~'];
    let mut end = version.find(ends).unwrap_or(version.len());
    let mut is_before_release = false;
    while let Some(rest) = version.get(end + 1..).filter(|rest| !rest.is_empty()) {
        let next = rest.get(..rest.find(ends).unwrap_or(rest.len())).unwrap_or(rest);
        let is_build = is_before_release && is_number(next);
        if version.get(end..).is_some_and(|rest| rest.starts_with('+'))
            || !is_build && !is_qualifier(next, PRERELEASES)
        {
            break;
        }
        is_before_release = true;
        end += 1 + next.len();
    }
    end
}

/// Whether the first word of a text, without the number behind it, is one of these.
fn is_qualifier(text: &str, words: &str) -> bool {
    let word = text.split(['.', '-', '_', '+', '~']).next().unwrap_or(text).to_ascii_lowercase();
    is_in(words, word.trim_end_matches(|last: char| last.is_ascii_digit()))
}

/// The parts of a path, without `.` and `..`.
fn resolved(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            _ => parts.push(part),
        }
    }
    parts
}

/// Whether the directories in front end in `place`.
fn ends_with(path: &str, before: &[&str], place: &str) -> bool {
    let wanted: Vec<&str> = place.trim_start_matches('/').split('/').collect();
    let Some(at) = before.len().checked_sub(wanted.len()) else { return false };
    let is_whole = !place.starts_with('/') || at == 0 && path.starts_with('/');
    let is_name = |(part, wanted): (&&str, &&str)| match wanted.strip_suffix('*') {
        Some(start) => part.starts_with(start),
        None => part == wanted,
    };
    is_whole && before.iter().skip(at).zip(&wanted).all(is_name)
}

/// What stays of a temporary name; `None`: it is none. Names that are not unmistakable count in the temporary directories
/// alone.
fn temporary(part: &str, in_temporary: bool) -> Option<&str> {
    let is_random = |rest: &str, length: usize| {
        rest.len() >= length && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    // mktemp(1): `tmp.XXXXXXXXXX`; the tempfile crate: `.tmpXXXXXX`
    if part.strip_prefix("tmp.").is_some_and(|rest| is_random(rest, 6))
        || part.strip_prefix(".tmp").is_some_and(|rest| is_random(rest, 6) && rest.len() == 6)
    {
        return Some("");
    }
    // AppImage: the first letters of its name, and six of chance
    if let Some(name) = part
        .strip_prefix(".mount_")
        .filter(|name| name.len() >= 6 && name.is_ascii() && !name.ends_with(CHANGES))
    {
        return part.get(..".mount_".len() + name.len() - 6);
    }
    if let Some(rest) = part.strip_prefix("go-build").filter(|rest| is_number(rest)) {
        return part.strip_suffix(rest);
    }
    if !in_temporary {
        return None;
    }
    // Python's tempfile: `tmpXXXXXXXX`; bunx: `bunx-UID-SPECIFICATION`; yarn: `xfs-HASH`; PyInstaller: `_MEIXXXXXX`;
    // Nuitka: `onefile_PID_TIME`
    let is_known = part.strip_prefix("tmp").is_some_and(|rest| is_random(rest, 8) && rest.len() == 8)
        || ["bunx-", "xfs-", "dlx-", "_MEI", "onefile_"].iter().any(|start| part.starts_with(start));
    if is_known {
        return Some("");
    }
    // `tmp` of npm: `tmp-PID-XXXXXXXXXXXX`
    let is_tmp = part.strip_prefix("tmp-").is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_digit()) && is_random(&rest.replace('-', "_"), 6)
    });
    if is_tmp {
        return Some("");
    }
    // Node's mkdtemp and others: six letters of chance behind a name
    let (name, chance) = part.rsplit_once(['-', '.', '_'])?;
    let is_chance = matches!(chance.len(), 6 | 8 | 10)
        && is_random(chance, 6)
        && chance.bytes().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && chance.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_chance.then(|| part.get(..=name.len())).flatten()
}

/// Interpreters whose name and version nixpkgs puts in front of a package of theirs: `python3.12-NAME-1.0`, `ruby3.3-NAME-1.0`
/// (nixpkgs: mk-python-derivation.nix, build-ruby-gem, buildPerlPackage, buildLuarocksPackage, buildDunePackage).
const STORE_INTERPRETERS: &str = "python pypy ruby perl php lua luajit ocaml coq";

/// The name of a package in a store without that of its interpreter.
fn without_interpreter(name: &str) -> &str {
    let Some((front, rest)) = name.split_once('-') else { return name };
    let interpreter = front.trim_end_matches(|last: char| last.is_ascii_digit() || last == '.');
    let is_front = interpreter.len() < front.len() && is_in(STORE_INTERPRETERS, interpreter);
    if is_front && rest.starts_with(char::is_alphabetic) { rest } else { name }
}

/// The name in a store's `HASH-NAME-VERSION`: the version begins behind the first dash that no letter follows (nix:
/// `builtins.parseDrvName`).
fn store_name(part: &str) -> &str {
    let is_hash = |hash: &str| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let Some((_, name)) = part.split_once('-').filter(|(hash, _)| is_hash(hash)) else { return part };
    let name = without_interpreter(name);
    let dashes = name.match_indices('-').map(|(at, _)| at);
    let is_version = |at: &usize| {
        name.get(at + 1..).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphabetic()))
    };
    dashes.into_iter().find(is_version).and_then(|at| name.get(..at)).unwrap_or(name)
}

/// The ending of a program, in whatever case.
pub(super) fn program_ending(name: &str) -> Option<&str> {
    let at = name.len().checked_sub(PROGRAMS.first()?.len())?;
    let (stem, end) = name.split_at_checked(at)?;
    (!stem.is_empty() && PROGRAMS.iter().any(|known| end.eq_ignore_ascii_case(known))).then_some(end)
}

/// A name, and what ends it if that ends scripts and programs.
pub(super) fn split_extension(name: &str) -> (&str, &str) {
    let stem = EXTENSIONS.iter().find_map(|end| name.strip_suffix(end)).filter(|stem| !stem.is_empty());
    let program = || name.strip_suffix(program_ending(name)?);
    let stem = stem.or_else(program);
    name.split_at(stem.unwrap_or(name).len())
}

/// Whether a name is of chance and says nothing: `.tmpAb12Cd`.
pub(super) fn is_of_chance(name: &str) -> bool {
    temporary(name, false) == Some("")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a whole name is a version of at least two numbers: `1.2`, `v1.2.3-rc.1`, `1.4.0_1`, `1.2.0.Final`. Four numbers alone are an address.
pub(super) fn is_version(text: &str) -> bool {
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let end = text.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let is_qualified = numbers.ends_with('.') && is_qualifier(rest, QUALIFIERS);
    let numbers: Vec<&str> = numbers.trim_end_matches('.').split('.').collect();
    let is_address = numbers.len() == 4 && rest.is_empty();
    numbers.len() >= 2
        && !is_address
        && numbers.iter().all(|number| is_number(number))
        && (rest.is_empty() || is_qualified || rest.starts_with(['-', '_', '+', 'r', 'a', 'b', '@', '(']))
}

/// A name without the version at its end, and without what may follow that: `name-1.2.3-all` → `name`.
pub(super) fn unversioned(name: &str) -> &str {
    let is_classifier = |word: &str| {
        let word = word.to_ascii_lowercase();
        let bare = word.trim_end_matches(|last: char| last.is_ascii_digit());
        bare.is_empty()
            || is_in(CLASSIFIERS, &word)
            || is_in(CLASSIFIERS, bare)
            || bare == "py"
            || bare == "cp"
    };
    let is_version_from = |at: usize| {
        let Some(rest) = name.get(at + 1..) else { return false };
        let end = rest.find(['-', '_', '+']).unwrap_or(rest.len());
        let (version, behind) = rest.split_at(end);
        is_version(version) && behind.split(['-', '_', '+', '.']).all(is_classifier)
    };
    let at = name.match_indices(['-', '_']).map(|(at, _)| at).find(|at| *at > 0 && is_version_from(*at));
    at.and_then(|at| name.get(..at)).unwrap_or(name)
}

#[cfg(test)]
mod tests;
