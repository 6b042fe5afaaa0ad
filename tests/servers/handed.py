"""A client and a server whose standard input and output become a connection without an exec, or are none that is captured.

usage: handed.py VARIANT: starts the server in that way, lists its tools and calls one, and prints the server's process id and what
it answered. The variants are the functions below.
"""

import ctypes
import json
import multiprocessing
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import time

from echo import answer

LIBC = ctypes.CDLL(None, use_errno=True)
HERE = os.path.abspath(__file__)


def serve():
    """Answers on descriptors 0 and 1, whatever Python's own streams are."""
    waiting = b""
    while piece := os.read(0, 65536):
        waiting += piece
        *lines, waiting = waiting.split(b"\n")
        for line in lines:
            if "id" in (message := json.loads(line)):
                os.write(1, json.dumps(answer(message)).encode() + b"\n")


def ask(read, write):
    """What a client says, and the text that it gets in the end. One line is one read and one write."""
    def request(number, method, params):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        os.write(write, json.dumps(message).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(read, 65536)
            if not piece:
                raise SystemExit("the server has ended")
            line += piece
        return json.loads(line)["result"]

    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    request(1, "initialize", client)
    request(2, "tools/list", {})
    return request(3, "tools/call", {"name": "echo", "arguments": {"text": sys.argv[1]}})["content"][0]["text"]


def pipes():
    """The server's ends and the client's ends."""
    (server_in, client_out), (client_in, server_out) = os.pipe(), os.pipe()
    return (server_in, server_out), (client_in, client_out)


def forked(place, ends=pipes):
    """The server is a child that never runs a program of its own; `place` puts its ends into their places."""
    theirs, ours = ends()
    child = os.fork()
    if child == 0:
        for end in set(ours):
            os.close(end)
        place(*theirs)
        serve()
        os._exit(0)
    for end in set(theirs):
        os.close(end)
    return child, ours


def dup2(read, write):
    os.dup2(read, 0)
    os.dup2(write, 1)


def dup2_of_stdout_first(read, write):
    os.dup2(write, 1)
    os.dup2(read, 0)


def dup3(read, write):
    os.dup2(read, 0, inheritable=False)
    os.dup2(write, 1, inheritable=False)


def close_and_dup(read, write):
    for end, descriptor in ((read, 0), (write, 1)):
        os.close(descriptor)
        assert LIBC.dup(end) == descriptor


def dup2_later(read, write):
    os.dup2(read, 0)
    time.sleep(0.5)
    os.dup2(write, 1)


def fork_dup2():
    return forked(dup2)


def fork_dup2_of_stdout_first():
    return forked(dup2_of_stdout_first)


def fork_dup3():
    return forked(dup3)


def fork_close_and_dup():
    return forked(close_and_dup)


def fork_dup2_later():
    return forked(dup2_later)


def fork_with_sockets():
    def ends():
        server, client = socket.socketpair()
        server, client = server.detach(), client.detach()
        return (server, server), (client, client)

    return forked(dup2, ends)


def fork_twice():
    """The process between ends."""
    theirs, ours = pipes()
    told, tell = os.pipe()
    middle = os.fork()
    if middle == 0:
        if server := os.fork():
            os.write(tell, str(server).encode())
            os._exit(0)
        for end in ours:
            os.close(end)
        dup2(*theirs)
        serve()
        os._exit(0)
    for end in theirs:
        os.close(end)
    os.waitpid(middle, 0)
    return int(os.read(told, 100)), ours


def of_multiprocessing(read, write):
    dup2(read, write)
    serve()


def multiprocessing_fork():
    theirs, ours = pipes()
    child = multiprocessing.get_context("fork").Process(target=of_multiprocessing, args=theirs, daemon=True)
    child.start()
    for end in theirs:
        os.close(end)
    return child.pid, ours


def thread_of_child():
    """The child's main thread waits, another puts the ends into their places and serves."""
    import threading

    def place(read, write):
        thread = threading.Thread(target=lambda: (dup2(read, write), serve()))
        thread.start()
        thread.join()
        os._exit(0)

    return forked(place)


def run(*args, **more):
    """A program of its own."""
    return subprocess.Popen([sys.executable, HERE, *args], **more)


def exec_dup2():
    """The program has no pipes as stdin and stdout, and puts those that it inherited there."""
    theirs, ours = pipes()
    null = subprocess.DEVNULL
    child = run("--place", *map(str, theirs), stdin=null, stdout=null, pass_fds=theirs)
    for end in theirs:
        os.close(end)
    return child.pid, ours


def exec_received():
    """The program gets its pipes as a message (`SCM_RIGHTS`)."""
    theirs, ours = pipes()
    here, there = socket.socketpair()
    null = subprocess.DEVNULL
    child = run("--receive", str(there.fileno()), stdin=null, stdout=null, pass_fds=(there.fileno(),))
    socket.send_fds(here, [b"."], list(theirs))
    for end in theirs:
        os.close(end)
    return child.pid, ours


def exec_late():
    """The usual way, but slow: the exec comes when the client has long since asked."""
    def place(read, write):
        dup2(read, write)
        time.sleep(1)
        os.execv(sys.executable, [sys.executable, HERE, "--serve"])

    return forked(place)


def prefork():
    """A server that was started as all are, and has its children serve."""
    theirs, ours = pipes()
    child = run("--prefork", stdin=theirs[0], stdout=theirs[1])
    for end in theirs:
        os.close(end)
    return child.pid, ours


def packets(kind):
    server, client = socket.socketpair(socket.AF_UNIX, kind)
    child = run("--serve-mcp-server-packets", stdin=server, stdout=server)
    server.close()
    end = client.detach()
    return child.pid, (end, end)


def sequenced_packets():
    return packets(socket.SOCK_SEQPACKET)


def datagrams():
    return packets(socket.SOCK_DGRAM)


def terminal():
    client, server = pty.openpty()
    attributes = termios.tcgetattr(server)
    attributes[1] &= ~termios.OPOST
    attributes[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(server, termios.TCSANOW, attributes)
    child = run("--serve-mcp-server-pty", stdin=server, stdout=server)
    os.close(server)
    return child.pid, (client, client)


def serving(args):
    if args[0] == "--place":
        dup2(*map(int, args[1:]))
    elif args[0] == "--receive":
        with socket.socket(fileno=int(args[1])) as there:
            _, ends, _, _ = socket.recv_fds(there, 1, 2)
        dup2(*ends)
    elif args[0] == "--prefork" and os.fork():
        os.wait()
        return
    serve()


if sys.argv[1].startswith("--"):
    serving(sys.argv[1:])
else:
    pid, (read, write) = globals()[sys.argv[1]]()
    text = ask(read, write)
    print(json.dumps({"server": pid, "client": os.getpid(), "text": text}), flush=True)
    # Until the test has seen what it waits for.
    sys.stdin.read()
    for end in {read, write}:
        os.close(end)
    # Not everything that carries messages has an end.
    os.kill(pid, signal.SIGKILL)
