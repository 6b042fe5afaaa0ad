"""A client and a server that speak in lines over a socket, connected before the agent starts; or what speaks something else.

usage: early.py VARIANT: the functions below. What comes before `yield` is done at once; what comes after it, when a line is read from
standard input: as in lines.py the server then lists its tools and has one called, and what is printed is the same.
"""

import array
import http.client
import http.server
import json
import os
import resource
import signal
import socket
import subprocess
import sys

import lines
from lines import CHILDREN, LOG, OTHERS, Asking, connect, listens, name, path, plainly, url

TCP4, TCP6 = ("127.0.0.1", 0), ("::1", 0)
# A line here has the server go on.
GO, TELL = os.pipe()


def told():
    os.read(GO, 1)


def tell():
    os.write(TELL, b".")


class Begun:
    """A connection over which a client has begun to speak."""

    def __init__(self, address, accepted=plainly, initializes=True, backlog=128):
        self.listener, self.address = listens(address, accepted, backlog)
        self.client = connect(self.address)
        self.asking = Asking(self.client.fileno())
        if initializes:
            self.asking.initialize()

    def said(self, text):
        return self.listener, self.address, text, self.client, os.getpid()

    def rest(self):
        return self.said(self.asking.rest())


def begun(*arguments, **named):
    def variant():
        connection = Begun(*arguments, **named)
        yield
        yield connection.rest()

    return variant


# Servers.


def notifying(connection):
    """The server is the first to say anything more."""
    read = connection.recv(65536)
    connection.sendall(json.dumps(lines.answer(json.loads(read))).encode() + b"\n")
    told()
    lines.first(connection)


def halved(connection):
    """Half of an answer is sent before the agent starts."""
    plain = connection.recv(65536)
    answer = json.dumps(lines.answer(json.loads(plain))).encode() + b"\n"
    connection.sendall(answer[:40])
    told()
    connection.sendall(answer[40:])
    plainly(connection)


# Variants.


def idle(address):
    def variant():
        connection = Begun(address, initializes=False)
        yield
        yield connection.said(connection.asking.all())

    return variant


def half_a_request(address):
    def variant():
        connection = Begun(address)
        request = {"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {"_meta": {"pad": "x" * 50}}}
        request = json.dumps(request).encode() + b"\n"
        connection.asking.write(request[:80])
        yield
        connection.asking.write(request[80:])
        connection.client.recv(65536)
        yield connection.rest()

    return variant


def half_an_answer(address):
    def variant():
        connection = Begun(address, halved, initializes=False)
        request = {"jsonrpc": "2.0", "id": 9, "method": "ping", "params": {}}
        connection.asking.write(json.dumps(request).encode() + b"\n")
        connection.client.recv(40)
        yield
        tell()
        connection.client.recv(65536)
        yield connection.rest()

    return variant


def server_first(address):
    def variant():
        connection = Begun(address, notifying)
        yield
        tell()
        connection.client.recv(65536)
        yield connection.rest()

    return variant


def forked(address):
    """A child of the client speaks."""

    def variant():
        connection = Begun(address)
        yield
        heard, says = os.pipe()
        if os.fork() == 0:
            os.write(says, connection.asking.rest().encode())
            os._exit(0)
        yield connection.said(os.read(heard, 1000).decode())

    return variant


def left(address):
    """The client has ended before, and a child of it has the connection."""

    def variant():
        heard, says = os.pipe()
        go, tells = os.pipe()
        connection = Begun(address)
        # Who connects is a process of its own.
        connection.client.close()
        if (client := os.fork()) == 0:
            connection.client = connect(connection.address)
            connection.asking = Asking(connection.client.fileno())
            connection.asking.initialize()
            if (child := os.fork()) == 0:
                os.read(go, 1)
                os.write(says, connection.asking.rest().encode())
                signal.pause()
            os.write(says, b"%d" % child)
            os._exit(0)
        os.waitpid(client, 0)
        child = int(os.read(heard, 20))
        CHILDREN.append(child)
        yield
        os.write(tells, b".")
        yield connection.said(os.read(heard, 1000).decode())[:-1] + (child,)

    return variant


def inherited(address):
    """A program that the client starts speaks."""

    def variant():
        connection = Begun(address, initializes=False)
        yield
        descriptor = connection.client.fileno()
        program = [sys.executable, lines.HERE, sys.argv[1], "--ask", str(descriptor)]
        asked = subprocess.run(program, pass_fds=(descriptor,), stdout=subprocess.PIPE, check=True)
        yield connection.said(asked.stdout.decode())

    return variant


def nobody_listens():
    connection = Begun(TCP4, in_one)
    yield
    yield (None, *connection.rest()[1:])


def in_one(connection):
    """The process that listens ends, and what it has accepted is another's."""
    if os.fork() == 0:
        descriptor = connection.fileno()
        os.closerange(3, descriptor)
        os.closerange(descriptor + 1, 100)
        plainly(connection)
    os._exit(0)


def in_namespace():
    """In a network namespace of its own, where the loopback is up."""
    libc = lines.LIBC
    if libc.unshare(0x40000000) != 0:
        raise OSError("unshare")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    connection = Begun(TCP4)
    yield
    yield connection.rest()


def another(address, begins, says):
    """Something else is spoken, before and after; then the same process speaks with a server."""

    def variant():
        _, at = listens(address, lines.banner(begins))
        client = connect(at)
        if begins:
            client.recv(65536)
        client.sendall(says)
        yield
        for _ in range(3):
            client.sendall(says or LOG)
        client.close()
        connection = Begun(TCP4)
        yield (None, *connection.rest()[1:])

    return variant


def crowd():
    """More connections than are adopted of one user; then a new one."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
    _, at = listens(path(), holds)
    held = [connect(at) for _ in range(3_000)]
    yield
    connection = Begun(TCP4)
    del held
    yield connection.rest()


def unseen(address):
    """A process that nobody watches takes the client's socket, has a tool called and reads the answer; what is printed then is how many
    bytes that were."""

    def variant():
        here, there = socket.socketpair()
        if (child := os.fork()) == 0:
            here.close()
            take(there)
        CHILDREN.append(child)
        connection = Begun(address)
        yield
        yield connection.rest()
        lines.Taken.send(here, connection.client)
        asked, answered = array.array("Q", here.recv(16))
        yield {"asked": asked, "answered": answered}

    return variant


def take(there):
    """Without the standard input and output that it was forked with, which somebody watches."""
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in range(2):
        os.dup2(null, descriptor)
    taken = lines.Taken.receive(there)
    params = {"name": "echo", "arguments": {"text": "unseen"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": params}).encode() + b"\n"
    os.write(taken, request)
    answer = os.read(taken, 65536)
    os.close(taken)
    there.send(array.array("Q", [len(request), len(answer)]).tobytes())
    signal.pause()


class Web(http.server.BaseHTTPRequestHandler):
    """Answers over HTTP."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(lines.answer(message)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


class AskingWeb(Asking):
    """Asks over one connection of HTTP."""

    def __init__(self, connection):
        self.connection, self.number = connection, 0

    def request(self, method, params):
        self.number += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        self.connection.request("POST", "/mcp", body, {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())["result"]


def web():
    """A connection of HTTP that is kept."""
    server = http.server.HTTPServer(TCP4, Web)
    if (child := os.fork()) == 0:
        server.serve_forever()
    CHILDREN.append(child)
    connection = http.client.HTTPConnection(*server.server_address)
    asking = AskingWeb(connection)
    asking.initialize()
    yield
    url = "http://127.0.0.1:%d/mcp" % server.server_address[1]
    yield None, url, asking.rest(), connection, os.getpid()


HELD = []


def holds(connection):
    """Keeps it, though it is closed by who accepted it."""
    HELD.append(connection.dup())


VARIANTS = {
    "tcp4": begun(TCP4),
    "tcp6": begun(TCP6),
    "named": begun(path()),
    "abstract": begun(name()),
    "idle_tcp": idle(TCP4),
    "idle_unix": idle(path()),
    "server_first_tcp": server_first(TCP6),
    "server_first_unix": server_first(name()),
    "half_a_request_tcp": half_a_request(TCP4),
    "half_a_request_unix": half_a_request(name()),
    "half_an_answer_tcp": half_an_answer(TCP4),
    "half_an_answer_unix": half_an_answer(path()),
    "forked_tcp": forked(TCP4),
    "forked_unix": forked(path()),
    "left_tcp": left(TCP4),
    "left_unix": left(name()),
    "inherited_tcp": inherited(TCP6),
    "inherited_unix": inherited(path()),
    "forked_server_tcp": begun(TCP4, lines.in_child),
    "forked_server_unix": begun(path(), lines.in_child),
    "nobody_listens": nobody_listens,
    "no_backlog": begun(TCP4, backlog=0),
    "in_namespace": in_namespace,
    "crowd": crowd,
    "web": web,
    "unseen_tcp": unseen(TCP4),
    "unseen_named": unseen(path()),
    "unseen_abstract": unseen(name()),
}


def main():
    variant = sys.argv[1]
    steps = another(*OTHERS[variant]) if variant in OTHERS else VARIANTS[variant]
    try:
        play(steps())
    finally:
        # Whatever fails: who is left would keep the test's pipe open.
        for child in CHILDREN:
            os.kill(child, signal.SIGKILL)


def play(steps):
    next(steps)
    print(json.dumps({"client": os.getpid()}), flush=True)
    sys.stdin.readline()
    listener, address, text, client, speaker = next(steps)
    is_web = isinstance(address, str) and address.startswith("http:")
    said = {"server": listener, "client": speaker, "url": address if is_web else url(address), "text": text}
    print(json.dumps(said), flush=True)
    # Until the test has seen what it waits for.
    while sys.stdin.readline():
        print(json.dumps(next(steps)), flush=True)
    client.close()


if __name__ == "__main__":
    main()
