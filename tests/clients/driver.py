"""Drives one MCP server with the official Python client and logs what goes over the wire.

usage: driver.py PLAN.json LOG.jsonl

The plan: {"command": "…", "args": [], "env": {}, "cwd": null, "calls": [{"name": "…", "arguments": {}}]};
or, in place of a command, {"url": "…", "transport": "http" | "sse"}.
The log: one {"dir": "c2s" | "s2c", "message": …} a line, in the order in which this client sent and received.
Exits with 0 when everything was answered; a tool that answers with an error has answered.

With "outcomes": FILE in the plan, what each call gives its caller is written there, one a line, {"tool": "…"} with
"result" (the answer), "error" (what is raised) or "hangs" (seconds without either), and calling goes on after errors.
With "pause_until": FILE, the calls wait until FILE exists.
With "warm": URL, that is asked for first, over a connection of its own.
With "mode": "auto", "legacy" or a version, the client settles the era of the protocol so; it answers what servers ask, and calls at once.
"""

import asyncio
import contextlib
import json
import os
import sys
import urllib.request

from mcp import Client, ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

# How long a call may be without an answer, where outcomes are wanted.
HANG_S = 15


class Log:
    """The file that every message is written to."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "w", encoding="utf-8")

    def write(self, direction: str, session_message) -> None:
        text = session_message.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._file.write(f'{{"dir":"{direction}","message":{text}}}\n')
        self._file.flush()


class Reader:
    """The stream that the session reads from, with a look at what passes."""

    def __init__(self, inner, log: Log) -> None:
        self._inner = inner
        self._log = log

    def _seen(self, item):
        if not isinstance(item, Exception):
            self._log.write("s2c", item)
        return item

    async def receive(self):
        return self._seen(await self._inner.receive())

    def __aiter__(self):
        return self

    async def __anext__(self):
        return self._seen(await self._inner.__anext__())

    async def __aenter__(self):
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exception):
        return await self._inner.__aexit__(*exception)

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Writer:
    """The stream that the session writes to, with a look at what passes."""

    def __init__(self, inner, log: Log) -> None:
        self._inner = inner
        self._log = log

    async def send(self, item) -> None:
        # Before the send: the answer may be logged before a send returns.
        self._log.write("c2s", item)
        await self._inner.send(item)

    async def __aenter__(self):
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exception):
        return await self._inner.__aexit__(*exception)

    def __getattr__(self, name):
        return getattr(self._inner, name)


def connect(plan):
    """What gives the streams of the server."""
    if plan.get("transport") == "sse":
        return sse_client(plan["url"])
    if plan.get("url"):
        return streamable_http_client(plan["url"])
    return stdio_client(
        StdioServerParameters(
            command=plan["command"], args=plan.get("args", []), env=plan.get("env"), cwd=plan.get("cwd")
        )
    )


async def outcome(session, call):
    """What a call gives its caller."""
    try:
        async with asyncio.timeout(HANG_S):
            result = await session.call_tool(call["name"], call.get("arguments"))
    except TimeoutError:
        return {"hangs": HANG_S}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


async def call_all(session, plan):
    """Makes the calls; where outcomes are wanted, one that fails ends nothing."""
    if "outcomes" not in plan:
        for call in plan.get("calls", []):
            await session.call_tool(call["name"], call.get("arguments"))
        return
    with open(plan["outcomes"], "w", encoding="utf-8") as file:
        for call in plan["calls"]:
            file.write(json.dumps({"tool": call["name"]} | await outcome(session, call)) + "\n")


@contextlib.asynccontextmanager
async def logged(plan, log: Log):
    """The streams of the server, with a look at what passes."""
    async with connect(plan) as (read, write):
        yield Reader(read, log), Writer(write, log)


async def elicited(_context, _params):
    """What the user answers."""
    return ElicitResult(action="accept", content={"name": "Ada"})


async def sampled(_context, _params):
    """What the model answers."""
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Canada"), model="m")


async def rooted(_context):
    """Where servers may work."""
    return ListRootsResult(roots=[Root(uri="file:///work", name="work")])


async def drive_mode(plan, log: Log) -> None:
    """Makes the calls as a client that settles the era of the protocol by itself."""
    answers = {"elicitation_callback": elicited, "sampling_callback": sampled, "list_roots_callback": rooted}
    async with Client(logged(plan, log), mode=plan["mode"], **answers) as client:
        await client.list_tools()
        for call in plan["calls"]:
            await client.call_tool(call["name"], call.get("arguments"))


async def main(plan_path: str, log_path: str) -> None:
    with open(plan_path, encoding="utf-8") as file:
        plan = json.load(file)
    log = Log(log_path)
    if "warm" in plan:
        urllib.request.urlopen(plan["warm"], timeout=60).read()
    if "mode" in plan:
        return await drive_mode(plan, log)
    async with connect(plan) as (read, write):
        async with ClientSession(Reader(read, log), Writer(write, log)) as session:
            await session.initialize()
            capabilities = session.server_capabilities
            if capabilities and capabilities.tools is not None:
                await session.list_tools()
            if capabilities and capabilities.prompts is not None:
                await session.list_prompts()
            if capabilities and capabilities.resources is not None:
                await session.list_resources()
            while "pause_until" in plan and not os.path.exists(plan["pause_until"]):
                await asyncio.sleep(0.02)
            await call_all(session, plan)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: driver.py PLAN.json LOG.jsonl")
    asyncio.run(asyncio.wait_for(main(sys.argv[1], sys.argv[2]), timeout=60))
