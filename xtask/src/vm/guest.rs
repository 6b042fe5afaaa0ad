//! One virtual machine: QEMU, and virtiofsd for its files.

use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::initramfs::Initramfs;
use super::kernel::Kernel;
use crate::harness::Counts;
use crate::packages::Packages;
use crate::util::{as_root, command_line, doing, done, exists, root};

/// What has to be there before the host's files are, where it is not built into the kernel; and what the tests need, since
/// the files of this machine have no modules of the guest's kernel.
const MODULES: [&str; 11] = [
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "fs/fuse/fuse",
    "fs/fuse/virtiofs",
    "fs/overlayfs/overlay",
    "net/ipv4/inet_diag",
    "net/ipv4/tcp_diag",
    "net/ipv4/udp_diag",
];
/// How the last line of a job begins; its status follows.
const EXIT: &str = "mcpwarden-vm: exit ";
/// Where distributions put it: Debian 12, then 13.
const VIRTIOFSD: [&str; 2] = ["/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd"];

/// What a guest is for.
pub enum Job {
    /// Test programs, one after the other.
    Tests {
        /// They.
        programs: Vec<Program>,
        /// Those that are run once more, with the backend that every kernel has.
        again: Vec<Program>,
    },
    /// A command, in the root of the checkout.
    Command(Vec<String>),
    /// A shell on this terminal.
    Shell,
    /// The life of the service, under systemd.
    Service {
        /// The package that has it.
        package: PathBuf,
        /// A server for it to see.
        server: PathBuf,
    },
}

/// A test program.
#[derive(Clone)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// The tests of it that are run.
    pub tests: Vec<String>,
}

/// What makes a guest's time pass.
#[derive(Clone, Copy)]
pub enum Clock {
    /// This machine's clock.
    Host,
    /// Its own instructions: each takes a nanosecond. So a time that it measures is a number of instructions, which neither
    /// emulation nor other work on this machine changes.
    Instructions,
}

impl Clock {
    /// What QEMU is told. Two processors would take turns, and each one's instructions move the clock of both.
    fn args(self) -> &'static [&'static str] {
        match self {
            Self::Host => &["-smp", "2"],
            Self::Instructions => &["-smp", "1", "-icount", "shift=0"],
        }
    }

    /// What the kernel is told: to trust its time stamp counter. QEMU's says of itself that it may stop, and any other clock is
    /// read through a device, which takes instructions by the hundred.
    fn words(self) -> &'static str {
        match self {
            Self::Host => "",
            Self::Instructions => "tsc=reliable",
        }
    }
}

/// How a guest ended.
pub enum Ending {
    /// The job ended with this status.
    Exit(i32),
    /// The guest went down before: it panicked, or could not start.
    Lost,
    /// It was stopped after so many seconds.
    TimedOut(u64),
}

impl Ending {
    /// Whether the job went well.
    pub fn well(&self) -> bool {
        matches!(self, Self::Exit(0))
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(status) => write!(formatter, "exit status {status}"),
            Self::Lost => formatter.write_str("the guest went down before the end"),
            Self::TimedOut(seconds) => write!(formatter, "stopped after {seconds} s"),
        }
    }
}

/// Installs what a guest needs on this machine, and gives the path of a busybox that needs no libraries.
///
/// # Errors
/// A package is missing and cannot be installed.
pub fn install(packages: &Packages, directory: &Path) -> Result<PathBuf> {
    let by_hand = "install it by hand, then try again";
    let why =
        |what: &str| doing(&format!("installing {what}: the tests run on other kernels in virtual machines"));
    if exists("qemu-system-x86_64") {
        done("QEMU");
    } else {
        why("QEMU");
        packages.install(&["qemu-system-x86"], by_hand)?;
    }
    // Debian 12 has it in a package that QEMU's brings along.
    if virtiofsd().is_none() {
        why("virtiofsd");
        packages.install(&["virtiofsd"], by_hand)?;
    }
    if !exists("xz") {
        why("xz");
        packages.install(&["xz-utils"], by_hand)?;
    }
    let busybox = directory.join("busybox/bin/busybox");
    let usr = directory.join("busybox/usr/bin/busybox");
    if !busybox.is_file() && !usr.is_file() {
        let into = directory.join("busybox");
        fs::create_dir_all(&into).with_context(|| format!("cannot create {}", into.display()))?;
        packages.unpack(&["busybox-static"], &into)?;
    }
    let found = [busybox, usr].into_iter().find(|path| path.is_file());
    found.context("there is no busybox-static among the packages of this machine")
}

fn virtiofsd() -> Option<&'static str> {
    VIRTIOFSD.into_iter().find(|path| Path::new(path).is_file())
}

/// A virtual machine that is ready to boot.
pub struct Guest {
    qemu: Command,
    files: Command,
    socket: PathBuf,
    console: PathBuf,
    interactive: bool,
}

impl Guest {
    /// Prepares a guest; `append` is added to the kernel's command line, `directory` holds its files.
    ///
    /// # Errors
    /// Something that it is made of is missing.
    pub fn new(
        kernel: &Kernel,
        job: &Job,
        append: &str,
        directory: &Path,
        busybox: &Path,
        clock: Clock,
    ) -> Result<Self> {
        let at = |name: &str| directory.join(format!("{name}-{}", kernel.version));
        let (initramfs, socket, console) = (at("initramfs"), at("files"), at("console"));
        fs::write(&initramfs, archive(kernel, job, busybox)?)
            .with_context(|| format!("cannot write {}", initramfs.display()))?;
        let virtiofsd = virtiofsd().context("there is no virtiofsd; install it, then try again")?;
        let mut files = as_root(virtiofsd)?;
        files.arg(format!("--socket-path={}", socket.display()));
        files.args(["-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot"]);
        let interactive = matches!(job, Job::Shell);
        // With BPF among the LSMs, as Debian's own default has it. Without `panic=-1` a panic would hang.
        let line = format!(
            "console=ttyS0 quiet panic=-1 oops=panic lsm=lockdown,capability,landlock,yama,apparmor,bpf {} {append}",
            clock.words()
        );
        // One thread for both processors: with one each, QEMU before 8.1 can translate code of which the other processor has
        // written half, and a kernel that patches itself, as for every tracepoint, runs into a breakpoint that is gone.
        let mut qemu = as_root("qemu-system-x86_64")?;
        qemu.args(["-machine", "q35,memory-backend=memory", "-accel", "tcg,thread=single", "-cpu", "max"])
            .args(["-object", "memory-backend-memfd,id=memory,size=3G,share=on", "-m", "3G"])
            .args(clock.args())
            .args(["-display", "none", "-no-reboot", "-net", "none", "-monitor", "none"])
            .arg("-kernel")
            .arg(kernel.image())
            .arg("-initrd")
            .arg(&initramfs)
            .args(["-append", &line])
            .args(["-chardev", &format!("socket,id=files,path={}", socket.display())])
            .args(["-device", "vhost-user-fs-pci,chardev=files,tag=host"])
            .args(["-serial", &format!("file:{}", console.display()), "-serial", "stdio"]);
        Ok(Self { qemu, files, socket, console, interactive })
    }

    /// Boots it and waits for its end; what it prints is printed line by line, each behind `prefix`, and what its tests say of
    /// themselves is counted.
    ///
    /// # Errors
    /// QEMU or virtiofsd cannot be started.
    pub fn run(mut self, limit_seconds: u64, prefix: &str) -> Result<(Ending, Counts)> {
        let mut out = std::io::stdout();
        let _ = fs::remove_file(&self.socket);
        let log = fs::File::create(self.socket.with_extension("log")).context("cannot write a log")?;
        let mut files = Running::start(self.files.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log))?;
        self.await_socket(&mut files)?;
        if self.interactive {
            let status = self.qemu.status().context("cannot start QEMU")?;
            return Ok((Ending::Exit(status.code().unwrap_or(1)), Counts::default()));
        }
        let mut qemu = Running::start(self.qemu.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let stdout = qemu.child.stdout.take().context("QEMU has no output")?;
        let limit = Duration::from_secs(limit_seconds);
        // Reading ends when QEMU does, and this sees to it that it does.
        let watchdog = thread::spawn(move || qemu.end_within(limit));
        let (mut status, mut counts) = (None, Counts::default());
        let mut lines = BufReader::new(stdout);
        let mut line = Vec::new();
        while let Ok(1..) = lines.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line);
            match text.trim_end().strip_prefix(EXIT) {
                Some(code) => status = code.parse().ok(),
                // A terminal that went away is no reason to stop the guest.
                None => {
                    counts.read(&text);
                    let line = [prefix.as_bytes(), &line].concat();
                    drop(out.write_all(&line).and_then(|()| out.flush()));
                }
            }
            line.clear();
        }
        let in_time = watchdog.join().unwrap_or(false);
        let ending = match (status, in_time) {
            (Some(code), _) => Ending::Exit(code),
            (None, true) => Ending::Lost,
            (None, false) => Ending::TimedOut(limit_seconds),
        };
        if !matches!(ending, Ending::Exit(_)) {
            self.show_console();
        }
        // The test's program counts what had nothing to run on as passed.
        counts.passed = counts.passed.saturating_sub(counts.skipped);
        Ok((ending, counts))
    }

    fn await_socket(&self, files: &mut Running) -> Result<()> {
        let started = Instant::now();
        while !self.socket.exists() {
            if files.has_ended() || started.elapsed() > Duration::from_secs(10) {
                bail!("virtiofsd does not start; see {}", self.socket.with_extension("log").display());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The last lines of what the kernel said.
    fn show_console(&self) {
        let console = fs::read(&self.console).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = console.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default();
        println!("the kernel's last words ({}):\n{}", self.console.display(), tail.join("\n"));
    }
}

/// A program that ends with this value.
struct Running {
    child: Child,
}

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let line = command_line(command);
        let child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
        Ok(Self { child })
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; says whether that came in time.
    fn end_within(mut self, limit: Duration) -> bool {
        let started = Instant::now();
        while !self.has_ended() {
            if started.elapsed() > limit {
                return false;
            }
            thread::sleep(Duration::from_millis(50));
        }
        true
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn archive(kernel: &Kernel, job: &Job, busybox: &Path) -> Result<Vec<u8>> {
    let mut archive = Initramfs::default();
    for path in ["bin", "proc", "sys", "dev", "host", "layer", "root", "modules"] {
        archive.directory(path);
    }
    let program = fs::read(busybox).with_context(|| format!("cannot read {}", busybox.display()))?;
    archive.file("bin/busybox", &program);
    for name in MODULES {
        if let Some(bytes) = kernel.module(name)? {
            let file = name.rsplit('/').next().unwrap_or(name);
            archive.file(&format!("modules/{file}.ko"), &bytes);
        }
    }
    archive.file("init", include_bytes!("init.sh"));
    archive.file("job", script(job)?.as_bytes());
    if let Job::Service { package, server } = job {
        // Wherever they lie: such a guest does not see this machine's /tmp.
        for (name, path) in [("package.deb", package), ("benign-server", server)] {
            let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            archive.file(name, &bytes);
        }
        archive.file("unit", include_bytes!("service.unit"));
    }
    Ok(archive.finish())
}

/// The script of a job.
fn script(job: &Job) -> Result<String> {
    let mut script = include_str!("job.sh").to_owned();
    let is_service = matches!(job, Job::Service { .. });
    if !is_service {
        script += include_str!("mounts.sh");
    }
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let path = std::env::var("PATH").context("PATH is not set or not UTF-8")?;
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let directory = root();
    let directory = directory.to_str().context("the path of the checkout is not UTF-8")?;
    // Of the service's guest nothing is in the checkout.
    let directory = if is_service { "/" } else { directory };
    script += &format!("export PATH={} HOME={}\ncd {}\n", quoted(&path), quoted(&home), quoted(directory));
    for name in [super::AGENT, super::BACKEND] {
        if let Ok(value) = std::env::var(name) {
            script += &format!("export {name}={}\n", quoted(&value));
        }
    }
    match job {
        Job::Tests { programs, again } => {
            script += "status=0\n";
            let line = |Program { path, tests }: &Program| {
                let tests: Vec<String> = tests.iter().map(|name| quoted(name)).collect();
                let program = path.to_str().context("the path of a test is not UTF-8")?;
                anyhow::Ok(format!(
                    "{} --test-threads=1 --exact {} || status=1\n",
                    quoted(program),
                    tests.join(" ")
                ))
            };
            for program in programs {
                script += &line(program)?;
            }
            if !again.is_empty() {
                script += &format!("export {}=tracepoints\n", super::BACKEND);
            }
            for program in again {
                script += &line(program)?;
            }
            script += "finish $status\n";
        }
        Job::Command(words) => {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            script += &format!("{}\nfinish $?\n", words.join(" "));
        }
        Job::Service { .. } => {
            script += "package=/package.deb\nserver=/benign-server\n";
            script += include_str!("service.sh");
        }
        Job::Shell => script += "stty sane; setsid -c sh; finish 0\n",
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_job_quotes_words_and_ends_guest() {
        let cases = [
            (Job::Command(vec!["echo".into(), "it's".into()]), r"'echo' 'it'\''s'"),
            (
                Job::Tests {
                    programs: vec![Program { path: "/t/a b".into(), tests: vec!["x y".into(), "z".into()] }],
                    again: vec![Program { path: "/t/c".into(), tests: vec!["a".into()] }],
                },
                "'/t/a b' --test-threads=1 --exact 'x y' 'z' || status=1\nexport MCPWARDEN_TEST_BACKEND=tracepoints\n'/t/c' --test",
            ),
        ];
        for (job, words) in cases {
            let script = script(&job).unwrap();
            assert!(script.contains(words), "{script}");
            assert!(script.trim_end().lines().last().unwrap().starts_with("finish "), "{script}");
        }
    }
}
