"""A client and a server that speak in lines over a socket with an address; the client calls what is denied.

usage: stopped.py VARIANT: one of those in ADDRESSES. The client initializes and lists, prints who it is, and for each line on its
standard input writes what that says (`{"write": [MESSAGE or text, ...]}`: each in a write of its own, several messages in a list in
one) and prints what came back: the error of a write, or as many answers as are expected (`"answers": N`). With `"anew": true` it
closes its connection before, and makes another one.
"""

import json
import os
import signal
import sys

import lines
from echo import answer

ADDRESSES = {
    "tcp4": ("127.0.0.1", 0),
    "tcp6": ("::1", 0),
    "named": lines.path(),
    "abstract": lines.name(),
}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "add")]


def serve(connection):
    """Knows two tools, and says what it was asked for."""
    for line in connection.makefile("rb"):
        message = json.loads(line)
        if "id" not in message:
            continue
        said = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "initialize":
            said = answer(message)
        elif message["method"] == "tools/list":
            said["result"] = {"tools": TOOLS}
        elif (name := message["params"]["name"]) in ("echo", "add"):
            said["result"] = {"content": [{"type": "text", "text": name}]}
        else:
            said["error"] = {"code": -32602, "message": "unknown tool: " + name}
        connection.sendall(json.dumps(said).encode() + b"\n")


def encoded(part):
    """A text as it is, a message in a line, or several of them."""
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, list):
        return b"".join(map(encoded, part))
    return json.dumps(part).encode() + b"\n"


def main():
    listener, address = lines.listens(ADDRESSES[sys.argv[1]], serve)
    client = lines.connect(address)
    answers = client.makefile("rb")
    asking = lines.Asking(client.fileno())
    if "late" not in sys.argv[2:]:
        asking.initialize()
        asking.request("tools/list", {})
    print(json.dumps({"server": listener, "client": os.getpid(), "url": lines.url(address)}), flush=True)
    for line in sys.stdin:
        step, said = json.loads(line), {"errors": [], "answers": []}
        if step.get("anew"):
            client.close()
            answers.close()
            client = lines.connect(address)
            answers = client.makefile("rb")
        for part in step["write"]:
            try:
                os.write(client.fileno(), encoded(part))
            except OSError as error:
                said["errors"].append(error.errno)
        for _ in range(step["answers"]):
            said["answers"].append(json.loads(answers.readline()))
        print(json.dumps(said), flush=True)
    client.close()
    for child in lines.CHILDREN:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
