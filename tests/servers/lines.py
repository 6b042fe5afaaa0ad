"""A client and a server that speak in lines over a socket with an address; or what speaks something else over one.

usage: lines.py VARIANT: the functions below. A server lists its tools and has one called; what is printed is the process that listens,
the client, the URL of the server, and what it answered.
"""

import array
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

from echo import answer

HERE = os.path.abspath(__file__)
PIDFD_OPEN, PIDFD_GETFD = 434, 438
LIBC = ctypes.CDLL(None, use_errno=True)
DIRECTORY = tempfile.TemporaryDirectory()
CHILDREN = []


# Who serves.


def serve(read, write):
    waiting = b""
    while piece := os.read(read, 65536):
        waiting += piece
        *lines, waiting = waiting.split(b"\n")
        for line in filter(bytes.strip, lines):
            if "id" in (message := json.loads(line.decode("utf-8-sig"))):
                os.write(write, json.dumps(answer(message)).encode() + b"\n")


def forever(listener, accepted):
    """Serves one connection after the other."""
    while True:
        connection, _ = listener.accept()
        accepted(connection)
        connection.close()


def plainly(connection):
    serve(connection.fileno(), connection.fileno())


def first(connection):
    """The server has the first word."""
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "welcome"}}
    os.write(connection.fileno(), json.dumps(log).encode() + b"\n")
    plainly(connection)


def in_child(connection):
    """A process for each connection."""
    if os.fork() == 0:
        plainly(connection)
        os._exit(0)


def as_stdio(connection):
    """A program for each connection, which is its standard input and output (`Accept=yes`)."""
    program = [sys.executable, HERE, "--serve"]
    subprocess.Popen(program, stdin=connection, stdout=connection).wait()


def silently(connection):
    """Reads what comes."""
    while connection.recv(65536):
        pass


def banner(text):
    def accepted(connection):
        if text:
            connection.sendall(text)
        silently(connection)

    return accepted


def listening(address, backlog=128):
    family = socket.AF_UNIX if isinstance(address, (str, bytes)) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen(backlog)
    return listener


def listens(address, accepted, backlog=128):
    """The process that listens, and where."""
    told, tell = os.pipe()
    if (child := os.fork()) == 0:
        listener = listening(address, backlog)
        os.write(tell, json.dumps(listener.getsockname()[:2] if listener.family != socket.AF_UNIX else None).encode())
        os.close(tell)
        forever(listener, accepted)
    os.close(tell)
    CHILDREN.append(child)
    name = json.loads(os.read(told, 1000))
    return child, address if name is None else tuple(name)


def path():
    return os.path.join(DIRECTORY.name, "mcp.sock")


def name():
    return b"\0mcp-lines-%d" % os.getpid()


# Who connects.


def url(address):
    if isinstance(address, bytes):
        return "unix:@" + address[1:].decode()
    if isinstance(address, str):
        return "unix:" + address
    return "tcp://" + ("[%s]:%d" if ":" in address[0] else "%s:%d") % address


def connect(address):
    family = socket.AF_UNIX if isinstance(address, (str, bytes)) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    client = socket.socket(family)
    client.connect(address)
    return client


class Asking:
    """What a client says over a descriptor; `begin` is what it says before."""

    def __init__(self, end, begin=b"", piece=None):
        self.end, self.begin, self.piece, self.number, self.unread = end, begin, piece, 0, b""

    def write(self, data):
        size = self.piece or len(data)
        for at in range(0, len(data), size):
            os.write(self.end, data[at : at + size])

    def request(self, method, params):
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.write(self.begin + json.dumps(message).encode() + b"\n")
        self.begin = b""
        while True:
            while b"\n" not in self.unread:
                piece = os.read(self.end, 65536)
                if not piece:
                    raise SystemExit("the server has ended")
                self.unread += piece
            line, self.unread = self.unread.split(b"\n", 1)
            if "result" in (message := json.loads(line)):
                return message["result"]

    def initialize(self):
        client = {"name": "c", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})

    def rest(self):
        self.request("tools/list", {})
        arguments = {"name": "echo", "arguments": {"text": sys.argv[1]}}
        return self.request("tools/call", arguments)["content"][0]["text"]

    def all(self):
        self.initialize()
        return self.rest()


def over(server, begin=b"", piece=None):
    """The client is this process."""
    listener, address = server
    client = connect(address)
    return listener, address, Asking(client.fileno(), begin, piece).all(), client


# Variants that are servers.


def tcp4():
    return over(listens(("127.0.0.1", 0), plainly))


def tcp6():
    return over(listens(("::1", 0), plainly))


def named():
    return over(listens(path(), plainly))


def abstract():
    return over(listens(name(), plainly))


def server_first_tcp():
    return over(listens(("127.0.0.1", 0), first))


def server_first_unix():
    return over(listens(name(), first))


def forked_server_tcp():
    return over(listens(("127.0.0.1", 0), in_child))


def forked_server_unix():
    return over(listens(path(), in_child))


def blanks_first_tcp():
    """Nobody looks for the process that listens: this may become HTTP."""
    return None, *over(listens(("127.0.0.1", 0), plainly), begin=b"\r\n \n")[1:]


def mark_first_unix():
    """The mark of an encoding."""
    return over(listens(name(), plainly), begin=b"\xef\xbb\xbf")


def byte_by_byte_tcp():
    return over(listens(("127.0.0.1", 0), plainly), piece=1)


def byte_by_byte_unix():
    return over(listens(name(), plainly), piece=1)


def not_waiting_tcp():
    """The connection is made while the client does something else."""
    listener, address = listens(("127.0.0.1", 0), plainly)
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(address)
    client.settimeout(10)
    client.send(b"")
    while client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        pass
    os.set_blocking(client.fileno(), True)
    return listener, address, Asking(client.fileno()).all(), client


def accepted_as_stdio_unix():
    return over(listens(path(), as_stdio))


def accepted_as_stdio_tcp():
    return over(listens(("127.0.0.1", 0), as_stdio))


def activated(address):
    """A program inherits a socket that listens (`Accept=no`)."""
    listener = listening(address)
    bound = address if listener.family == socket.AF_UNIX else listener.getsockname()[:2]
    program = [sys.executable, HERE, "--listen", str(listener.fileno())]
    child = subprocess.Popen(program, pass_fds=(listener.fileno(),))
    CHILDREN.append(child.pid)
    listener.close()
    return over((child.pid, bound))


def activated_tcp():
    return activated(("127.0.0.1", 0))


def activated_unix():
    """Here the process that listened first is told."""
    return os.getpid(), *activated(path())[1:]


def handed_on(address, hand_on):
    """Another process than the one that connects speaks: a child that was there before."""
    here, there = socket.socketpair()
    told, tell = os.pipe()
    if (child := os.fork()) == 0:
        there_fd = hand_on.receive(there)
        os.write(tell, Asking(there_fd).all().encode())
        os._exit(0)
    os.close(tell)
    listener, address = listens(address, plainly)
    client = connect(address)
    hand_on.send(here, client)
    text = os.read(told, 1000).decode()
    os.waitpid(child, 0)
    return listener, address, text, client


class Rights:
    """As a message (`SCM_RIGHTS`)."""

    @staticmethod
    def send(here, client):
        socket.send_fds(here, [b"."], [client.fileno()])

    @staticmethod
    def receive(there):
        return socket.recv_fds(there, 1, 1)[1][0]


class Taken:
    """The other process takes it (`pidfd_getfd`)."""

    @staticmethod
    def send(here, client):
        here.send(array.array("i", [os.getpid(), client.fileno()]).tobytes())

    @staticmethod
    def receive(there):
        pid, descriptor = array.array("i", there.recv(8))
        pidfd = LIBC.syscall(PIDFD_OPEN, pid, 0)
        taken = LIBC.syscall(PIDFD_GETFD, pidfd, descriptor, 0)
        if taken < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        return taken


def passed_tcp():
    return handed_on(("127.0.0.1", 0), Rights)


def passed_unix():
    return handed_on(name(), Rights)


def taken_tcp():
    return handed_on(("127.0.0.1", 0), Taken)


def taken_unix():
    return handed_on(name(), Taken)


def inherited(server):
    """A program that the client starts speaks."""
    listener, address = server
    client = connect(address)
    program = [sys.executable, HERE, sys.argv[1], "--ask", str(client.fileno())]
    asked = subprocess.run(program, pass_fds=(client.fileno(),), stdout=subprocess.PIPE, check=True)
    return listener, address, asked.stdout.decode(), client


def inherited_tcp():
    return inherited(listens(("127.0.0.1", 0), plainly))


def inherited_unix():
    return inherited(listens(name(), plainly))


# Variants that are no servers: where it connects to, what comes from there first, and what the client says.


def line(**message):
    return json.dumps(message).encode() + b"\n"


LOG = line(level="info", message="tools/list", time=1)
OTHERS = {
    "log_tcp": (("127.0.0.1", 0), b"", LOG * 10),
    "log_named": (path(), b"", LOG * 10),
    "log_abstract": (name(), b"", LOG * 10),
    "log_of_megabytes": (name(), b"", LOG * 30_000),
    "log_of_server": (name(), LOG * 10, b""),
    "arrays": (("127.0.0.1", 0), b"", b'["tools/list", 1]\n' * 10),
    "language_server_in_lines": (
        ("127.0.0.1", 0),
        b"",
        line(jsonrpc="2.0", id=1, method="initialize", params={"processId": 1, "rootUri": None, "capabilities": {}}),
    ),
    "language_server": (("127.0.0.1", 0), b"", b"Content-Length: 2\r\n\r\n{}"),
    "other_methods": (name(), b"", b"".join(line(jsonrpc="2.0", id=id, method="eth_call") for id in range(20))),
    "no_version": (name(), b"", b"".join(line(id=id, method="call", params=[]) for id in range(20))),
    "banner": (("127.0.0.1", 0), b"220 ready\r\n", b"EHLO\r\n"),
    "banner_unix": (name(), b"OK MPD 0.23\n", b"status\n"),
    "binary": (name(), b"", bytes(range(256))),
    "http_over_unix": (path(), b"", b"GET /version HTTP/1.1\r\nHost: docker\r\n\r\n"),
    "half_a_message": (name(), b"", b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"'),
}


def other(variant):
    address, begins, says = OTHERS[variant]
    _, address = listens(address, banner(begins))
    client = connect(address)
    if begins:
        client.recv(65536)
    client.sendall(says)
    client.close()
    # The same process then speaks with a server: what is reported of it comes behind what would be reported of the other. Who
    # listens is not looked for as often as there are connections here.
    return None, *over(listens(("127.0.0.1", 0), plainly))[1:]


def main():
    if sys.argv[1] == "--serve":
        return serve(0, 1)
    if sys.argv[1] == "--listen":
        return forever(socket.socket(fileno=int(sys.argv[2])), plainly)
    if sys.argv[2:] and sys.argv[2] == "--ask":
        return print(Asking(int(sys.argv[3])).all(), end="")
    variant = sys.argv[1]
    result = other(variant) if variant in OTHERS else globals()[variant]()
    listener, address, text, client = result
    said = {"server": listener, "client": os.getpid(), "url": url(address), "text": text}
    print(json.dumps(said), flush=True)
    # Until the test has seen what it waits for.
    sys.stdin.read()
    client.close()
    for child in CHILDREN:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
