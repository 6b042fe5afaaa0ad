"""A server of the official Python SDK whose tools need something of their client: its user, its model, its roots.

usage: asking.py [PORT]: over streamable HTTP on this port of loopback, at /mcp; over stdio without one.

A client of 2025-11-25 is sent requests while it waits; one of 2026-07-28 gets answers that require input.
"""

import sys
from typing import Annotated

from mcp.server.mcpserver import Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp_types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("asking", instructions="Greets people.")


class Name(BaseModel):
    """What the user is asked for."""

    name: str


def ask_name() -> Elicit[Name]:
    """Ask the user."""
    return Elicit("Whom shall I greet?", Name)


def ask_model(name: Annotated[Name, Resolve(ask_name)]) -> Sample:
    """Ask the model, with what the user said."""
    text = TextContent(type="text", text=f"Find a rhyme on {name.name}.")
    return Sample([SamplingMessage(role="user", content=text)], max_tokens=20)


def ask_roots() -> ListRoots:
    """Ask the client where to work."""
    return ListRoots()


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def greet(greeting: str, name: Annotated[Name, Resolve(ask_name)]) -> str:
    """Greet the user: one round."""
    return f"{greeting}, {name.name}!"


@server.tool()
def rhyme(
    name: Annotated[Name, Resolve(ask_name)], rhyme: Annotated[CreateMessageResult, Resolve(ask_model)]
) -> str:
    """Rhyme on the user: two rounds."""
    return f"{name.name}: {rhyme.content}"


@server.tool()
def where(roots: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Tell the roots: one round."""
    return f"{len(roots.roots)} roots"


if sys.argv[1:]:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run()
