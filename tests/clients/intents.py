"""An agent: asks the API of a model over HTTPS, and calls the tools of an MCP server as that wants, once with other arguments.

usage: intents.py MODEL_URL MCP_URL
"""

import http.client
import json
import ssl
import sys
from urllib.parse import urlsplit

MODEL, SERVER = urlsplit(sys.argv[1]), urlsplit(sys.argv[2])
CONTEXT = ssl._create_unverified_context()
PROMPT = {"role": "user", "content": "another secret of the user"}
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}


def connect(url):
    return http.client.HTTPSConnection(url.hostname, url.port, context=CONTEXT)


def post(connection, path, message, fields=None):
    head = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    connection.request("POST", path, json.dumps(message), head | (fields or {}))
    answer = connection.getresponse()
    answer.read()
    return answer.headers["mcp-session-id"]


warm = connect(MODEL)
warm.request("GET", "/warm")
warm.getresponse().read()
warm.close()

server, model = connect(SERVER), connect(MODEL)
session = {"mcp-session-id": post(server, "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS})}
post(server, "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
post(server, "/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, session)

tools = [{"name": "mcp__remote__echo", "description": "d", "input_schema": {"type": "object"}}]
post(model, "/v1/messages", {"model": "m", "max_tokens": 9, "system": "s", "stream": True, "messages": [PROMPT], "tools": tools})
call = {"name": "echo", "arguments": {"text": "as the model wants it"}}
post(server, "/mcp", {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call}, session)

tools = [{"type": "function", "function": {"name": "remote-echo", "parameters": {"type": "object"}}}]
post(model, "/v1/chat/completions", {"model": "m", "messages": [PROMPT], "tools": tools})
call = {"name": "echo", "arguments": {"text": "something else"}}
post(server, "/mcp", {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": call}, session)
call = {"name": "echo", "arguments": {"text": "what no model wanted"}}
post(server, "/mcp", {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call}, session)
