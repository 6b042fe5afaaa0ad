"""Speaks MCP over HTTPS as Python programs do.

usage: over_tls.py sync|async URL SESSIONS SIZE…

URL/warm is asked for first. Then each of the sessions, all at once, calls `echo` with a text of each size; the first one alone with the last.
Each message is preceded by a request of $OTHER/noise, over another connection.
"""

import asyncio
import http.client
import json
import os
import ssl
import sys
import threading
from urllib.parse import urlsplit

MODE, URL, SESSIONS, SIZES = sys.argv[1], urlsplit(sys.argv[2]), int(sys.argv[3]), [int(size) for size in sys.argv[4:]]
OTHER = urlsplit(os.environ["OTHER"])
CONTEXT = ssl._create_unverified_context()
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "over-tls", "version": "1"},
}


def messages(session):
    """What a session sends, in order."""
    yield {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    yield {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    for place, size in enumerate(SIZES if session == 0 else SIZES[:-1]):
        text = (f"{session}-{place} " * (size // 4 + 1))[:size]
        params = {"name": "echo", "arguments": {"text": text}}
        yield {"jsonrpc": "2.0", "id": 3 + place, "method": "tools/call", "params": params}


def head(session_id):
    fields = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return fields | ({"mcp-session-id": session_id} if session_id else {})


def sync_session(session):
    connection = http.client.HTTPSConnection(URL.hostname, URL.port, context=CONTEXT)
    other = http.client.HTTPSConnection(OTHER.hostname, OTHER.port, context=CONTEXT)
    session_id = None
    for message in messages(session):
        other.request("GET", "/noise")
        other.getresponse().read()
        connection.request("POST", "/mcp", json.dumps(message), head(session_id))
        answer = connection.getresponse()
        answer.read()
        session_id = answer.headers["mcp-session-id"]
    connection.request("DELETE", "/mcp", headers=head(session_id))
    connection.getresponse().read()
    connection.close()


def sync_main():
    connection = http.client.HTTPSConnection(URL.hostname, URL.port, context=CONTEXT)
    connection.request("GET", "/warm")
    connection.getresponse().read()
    connection.close()
    threads = [threading.Thread(target=sync_session, args=(session,)) for session in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def ask(reader, writer, method, path, fields, body):
    lines = [f"{method} {path} HTTP/1.1", f"host: {URL.netloc}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    # Body and head are two writes, as many programs have it.
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    writer.write(body)
    await writer.drain()
    answered = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    got = dict(line.split(": ", 1) for line in answered[1:] if line)
    if got.get("transfer-encoding") == "chunked":
        while size := int((await reader.readline()).strip(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        await reader.readexactly(int(got.get("content-length", 0)))
    return got.get("mcp-session-id")


async def async_session(session):
    reader, writer = await asyncio.open_connection(URL.hostname, URL.port, ssl=CONTEXT)
    noise = await asyncio.open_connection(OTHER.hostname, OTHER.port, ssl=CONTEXT)
    session_id = None
    for message in messages(session):
        await ask(*noise, "GET", "/noise", {}, b"")
        body = json.dumps(message).encode()
        session_id = await ask(reader, writer, "POST", "/mcp", head(session_id), body)
    await ask(reader, writer, "DELETE", "/mcp", head(session_id), b"")
    writer.close()


async def async_main():
    reader, writer = await asyncio.open_connection(URL.hostname, URL.port, ssl=CONTEXT)
    await ask(reader, writer, "GET", "/warm", {}, b"")
    writer.close()
    await asyncio.gather(*[async_session(session) for session in range(SESSIONS)])


if MODE == "sync":
    sync_main()
else:
    asyncio.run(async_main())
