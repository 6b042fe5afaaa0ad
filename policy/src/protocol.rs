//! A frame into JSON-RPC messages; which methods are MCP.
