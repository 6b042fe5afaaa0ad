"""A client and a server that speak HTTP/1.1; the client calls what is denied.

usage: stopped_http.py ADDRESS [CERTIFICATE KEY]: of loopback; with a certificate over TLS, and who it is is printed first then: it connects with
the first line on its standard input, and makes another connection with the second. The client initializes and lists, and prints who it is. For each line on its standard input
it does what that says, and prints what came of it: `{"write": [TEXT, ...]}`: each in a write of its own, as it is (`"latin": true`: a
letter is a byte); `"answers": N`: so many answers are read, of each the status and what its body says; `"anew": true`: over a new
connection.
"""

import errno
import http.server
import json
import os
import signal
import socket
import ssl
import sys

from echo import answer

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "add")]
READS_WITHIN = 30


IS_OVER_TLS = len(sys.argv) > 2


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET

    def finish_request(self, request, client_address):
        if IS_OVER_TLS:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*sys.argv[2:4])
            request = context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, *_):
        """Whoever lists the server does not know its certificate."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_expect_100(self):
        """The client did not wait."""
        return True

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def say(self, status, said):
        text = json.dumps(said).encode() if said is not None else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.say(405, None)

    def do_POST(self):
        body = self.body()
        if self.headers.get("Content-Encoding"):
            return self.say(415, None)
        message = json.loads(body)
        if isinstance(message, list):
            return self.say(200, [said(one) for one in message])
        self.say(200 if "id" in message else 202, said(message))


def said(message):
    """Knows two tools, and says what it was asked for."""
    if "id" not in message:
        return None
    found = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        found = answer(message)
    elif message["method"] == "tools/list":
        found["result"] = {"tools": TOOLS}
    elif (name := message["params"]["name"]) in ("echo", "add"):
        found["result"] = {"content": [{"type": "text", "text": name}]}
    else:
        found["error"] = {"code": -32602, "message": "unknown tool: " + name}
    return found


def request(message):
    body = json.dumps(message).encode()
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def read(answers):
    """The status of the next answer, and what its body says."""
    status, length = int(answers.readline().split()[1]), 0
    while line := answers.readline().strip():
        name, value = line.split(b":", 1)
        if name.lower() == b"content-length":
            length = int(value)
    body = answers.read(length)
    return [status, json.loads(body) if body else None]


def connect(address):
    client = socket.create_connection(address[:2], timeout=READS_WITHIN)
    if IS_OVER_TLS:
        client = ssl._create_unverified_context().wrap_socket(client)
    return client, client.makefile("rb")


def main():
    server = Server((sys.argv[1], 0), Handler)
    if (child := os.fork()) == 0:
        # Whoever reads what the client says is to see its end.
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        server.serve_forever()
        os._exit(0)
    address = server.server_address
    server.socket.close()
    try:
        drive(address)
    finally:
        os.kill(child, signal.SIGKILL)


def drive(address):
    identity = json.dumps({"client": os.getpid(), "port": address[1]})
    nothing = json.dumps({"errors": [], "answers": []})
    if IS_OVER_TLS:
        print(identity, flush=True)
        sys.stdin.readline()
        first, _ = connect(address)
        print(nothing, flush=True)
        sys.stdin.readline()
    client, answers = connect(address)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    for number, (method, params) in enumerate([("initialize", hello), ("tools/list", {})]):
        client.sendall(request({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        read(answers)
    print(nothing if IS_OVER_TLS else identity, flush=True)
    for line in sys.stdin:
        step, found = json.loads(line), {"errors": [], "answers": []}
        if step.get("anew"):
            answers.close()
            client.close()
            client, answers = connect(address)
        for part in step["write"]:
            try:
                client.sendall(part.encode("latin-1" if step.get("latin") else "utf-8"))
            except OSError as error:
                found["errors"].append(errno.errorcode.get(error.errno, type(error).__name__))
        for _ in range(step["answers"]):
            found["answers"].append(read(answers))
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
