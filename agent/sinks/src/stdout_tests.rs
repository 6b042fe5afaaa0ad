use std::{
    io::{PipeReader, Read as _, pipe},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{fs::OpenOptionsExt as _, net::UnixStream},
    },
    sync::Arc,
    thread::JoinHandle,
    time::Instant,
};

use mcpwarden_policy::config::Overflow::{DropNewest, DropOldest};
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::*;

/// A line of so many bytes with its line feed, which begins with its number.
fn chunk(number: usize, bytes: usize) -> Chunk {
    let mut text = number.to_string();
    text.extend(std::iter::repeat_n(' ', bytes - 1 - text.len()));
    Chunk { text: (text + "\n").into(), events: 1 }
}

fn started(out: impl Into<OwnedFd>, queue: Queue<Chunk>) -> (Arc<Queue<Chunk>>, JoinHandle<()>) {
    let (queue, out) = (Arc::new(queue), File::from(out.into()));
    let of_thread = Arc::clone(&queue);
    let thread = std::thread::spawn(move || run(&out, &of_thread));
    (queue, thread)
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "waited for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn end(queue: &Queue<Chunk>, thread: JoinHandle<()>) {
    queue.close();
    thread.join().unwrap();
}

/// Outputs that take nothing: why nothing is written, and all that waits is counted as dropped at the end.
#[test]
fn unwritable_outputs_are_reported_and_counted() {
    let full = || File::options().write(true).open("/dev/full").unwrap().into();
    let closed_pipe = || OwnedFd::from(pipe().unwrap().1);
    let closed_socket = || OwnedFd::from(UnixStream::pair().unwrap().0);
    let shut_socket = || {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        // Its other end lives on.
        std::mem::forget(theirs);
        OwnedFd::from(ours)
    };
    let not_writable = || OwnedFd::from(File::open("/dev/null").unwrap());
    let directory = || OwnedFd::from(File::open("/").unwrap());
    let hung_up_terminal = || {
        let pty = nix::pty::openpty(None, None).unwrap();
        pty.slave
    };
    let cases: [(&str, &dyn Fn() -> OwnedFd, &str); 7] = [
        ("a full disk", &full, "No space left"),
        ("a pipe without a reader", &closed_pipe, "Broken pipe"),
        ("a socket without its other end", &closed_socket, "Broken pipe"),
        ("a socket that was shut down", &shut_socket, "Broken pipe"),
        ("a descriptor to read from", &not_writable, "Bad file descriptor"),
        ("a directory", &directory, "Bad file descriptor"),
        ("a terminal that is gone", &hung_up_terminal, "Input/output error"),
    ];
    for (name, output, expected) in cases {
        let (queue, thread) = started(output(), Queue::new(1 << 20, DropOldest));
        (0..3).for_each(|number| queue.push(chunk(number, 100)));
        wait_until(name, || queue.counters().failing.is_some_and(|why| why.contains(expected)));
        assert!(queue.counters().failures > 0, "{name}");
        end(&queue, thread);
        let counters = queue.counters();
        assert_eq!((counters.written, counters.dropped, counters.waiting_bytes), (0, 3, 0), "{name}");
    }
}

fn read_all(mut from: impl io::Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}

fn numbers(text: &str) -> Vec<usize> {
    text.lines().map(|line| line.trim().parse().unwrap()).collect()
}

/// Nothing is lost and no line is torn, whether or not the descriptor blocks, while the reader is slower than the agent.
#[test]
fn slow_reader_gets_every_line_whole() {
    for (name, nonblocking) in [("blocking", false), ("nonblocking", true)] {
        let (mut reader, writer) = pipe().unwrap();
        if nonblocking {
            fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        }
        let (queue, thread) = started(writer, Queue::new(16 << 20, DropOldest));
        (0..40).for_each(|number| queue.push(chunk(number, 50_000)));
        let mut first = [0; 10];
        reader.read_exact(&mut first).unwrap();
        queue.close();
        let text = String::from_utf8(first.to_vec()).unwrap() + &read_all(reader);
        thread.join().unwrap();
        assert_eq!(numbers(&text), (0..40).collect::<Vec<_>>(), "{name}");
        let counters = queue.counters();
        assert_eq!((counters.written, counters.dropped, counters.failures), (40, 0, 0), "{name}");
    }
}

/// With a reader that has stopped: whom the bound drops, and that what is left is whole.
#[test]
fn stopped_reader_costs_the_bound_and_no_torn_line() {
    const BYTES: usize = 100_000;
    for (overflow, last) in [(DropOldest, 99), (DropNewest, 10)] {
        let (reader, writer): (PipeReader, _) = pipe().unwrap();
        let (queue, thread) = started(writer, Queue::new(10 * (BYTES + OVERHEAD_BYTES), overflow));
        queue.push(chunk(0, BYTES));
        // The writer has it, and is held up: the pipe has room for less.
        wait_until("the first", || queue.counters().waiting_bytes == 0);
        (1..100).for_each(|number| queue.push(chunk(number, BYTES)));
        let waiting = queue.counters();
        assert_eq!((waiting.written, waiting.dropped), (0, 89), "{overflow:?}");
        queue.close();
        let found = numbers(&read_all(reader));
        thread.join().unwrap();
        assert_eq!((found.len(), found[0], found[10]), (11, 0, last), "{overflow:?}");
        let counters = queue.counters();
        assert_eq!((counters.written, counters.dropped), (11, 89), "{overflow:?}");
    }
}

/// A named pipe whose reader goes and comes back: the line that it holds a part of is ended, whole ones follow, and the failure
/// is over.
#[test]
fn returned_reader_gets_whole_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = || File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
    let first = reader();
    let writer = File::options().write(true).open(&path).unwrap();
    let (queue, thread) = started(writer, Queue::new(16 << 20, DropOldest));
    // More than the pipe holds: it is written in part.
    queue.push(chunk(1, 200_000));
    let readable = || PollFd::new(first.as_fd(), PollFlags::POLLIN);
    wait_until("the first", || poll(&mut [readable()], PollTimeout::ZERO).is_ok_and(|ready| ready == 1));
    drop(first);
    wait_until("the failure", || queue.counters().failing.is_some());
    let second = reader();
    fcntl(&second, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    queue.push(chunk(2, 100));
    let text = std::thread::spawn(move || read_all(second));
    wait_until("the second", || queue.counters().written == 2);
    assert_eq!(queue.counters().failing, None);
    end(&queue, thread);
    let text = text.join().unwrap();
    assert_eq!(numbers(&text), [1, 1, 2]);
    let lengths: Vec<_> = text.lines().map(|line| line.len() + 1).collect();
    assert!(lengths[0] < 200_000 && lengths[1..] == [200_000, 100], "{lengths:?}");
}

/// A chunk that waits when the reader goes is dropped at once: nothing is kept for nobody.
#[test]
fn gone_reader_empties_the_queue() {
    let (reader, writer) = pipe().unwrap();
    let (queue, thread) = started(writer, Queue::new(16 << 20, DropOldest));
    (0..20).for_each(|number| queue.push(Chunk { events: 2, ..chunk(number, 100_000) }));
    drop(reader);
    wait_until("that nothing waits", || queue.counters().waiting_bytes == 0 && queue.counters().failures > 0);
    end(&queue, thread);
    let counters = queue.counters();
    assert_eq!(counters.written + counters.dropped, 40);
}
