"""A server of the official Python SDK, over stdio, with a tool that takes a path: it keeps what is written, and writes nothing."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("files", instructions="Keeps files.")
files: dict[str, str] = {}


@server.tool()
def write_file(path: str, content: str) -> str:
    """Write a file."""
    files[path] = content
    return f"wrote {path}"


@server.tool()
def read_file(path: str) -> str:
    """Read a file."""
    return files[path]


server.run("stdio")
