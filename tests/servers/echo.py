"""What a server with one tool answers, whatever carries it."""


def answer(message):
    method, params = message["method"], message.get("params", {})
    result = {}
    if method == "initialize":
        info = {"name": "echo", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}
