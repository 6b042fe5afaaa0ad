// A relay from standard input and output to a server's: what the npm package mcp-proxy relays with, whose own program
// listens on a port.
//
// usage: node relay.mjs COMMAND ARG…

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [command, ...args] = process.argv.slice(2);
if (!command) {
  console.error('usage: node relay.mjs COMMAND ARG…');
  process.exit(2);
}

// The packages are installed below the target directory, not beside this file: MCPWARDEN_NODE says where.
const require = createRequire(pathToFileURL(join(process.env.MCPWARDEN_NODE ?? process.cwd(), 'package.json')));
const load = async (path) => import(pathToFileURL(require.resolve(path)));
const { proxyServer } = await load('mcp-proxy');
const { Client } = await load('@modelcontextprotocol/client');
const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
const { Server } = await load('@modelcontextprotocol/server');
const { StdioServerTransport } = await load('@modelcontextprotocol/server/stdio');

const client = new Client({ name: 'mcp-proxy', version: '6.7.19' });
await client.connect(new StdioClientTransport({ command, args, stderr: 'inherit' }));
const serverCapabilities = client.getServerCapabilities();
const server = new Server(client.getServerVersion(), { capabilities: serverCapabilities });
await proxyServer({ client, server, serverCapabilities });
await server.connect(new StdioServerTransport());
process.stdin.on('end', () => client.close());
