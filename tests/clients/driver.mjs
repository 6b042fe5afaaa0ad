// Drives one MCP server with the official TypeScript client and logs what goes over the wire.
//
// usage: node driver.mjs PLAN.json LOG.jsonl
//
// The plan: {"command": "…", "args": [], "env": {}, "cwd": null, "calls": [{"name": "…", "arguments": {}}]};
// or, in place of a command, {"url": "…", "transport": "http" | "sse"}.
// The log: one {"dir": "c2s" | "s2c", "message": …} a line, in the order in which this client sent and received.
// Exits with 0 when everything was answered; a tool that answers with an error has answered.

import { readFileSync, openSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const TIMEOUT_MS = 60_000;

const [planPath, logPath] = process.argv.slice(2);
if (!planPath || !logPath) {
  console.error('usage: node driver.mjs PLAN.json LOG.jsonl');
  process.exit(2);
}

// The SDK is installed below the target directory, not beside this file: MCPWARDEN_NODE says where.
const require = createRequire(pathToFileURL(join(process.env.MCPWARDEN_NODE ?? process.cwd(), 'package.json')));
const sdk = async path => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${path}`)));
const { Client } = await sdk('client/index.js');
const { SSEClientTransport } = await sdk('client/sse.js');
const { StdioClientTransport } = await sdk('client/stdio.js');
const { StreamableHTTPClientTransport } = await sdk('client/streamableHttp.js');

const plan = JSON.parse(readFileSync(planPath, 'utf8'));
const log = openSync(logPath, 'w');
const write = (dir, message) => writeSync(log, JSON.stringify({ dir, message }) + '\n');

const connect = () => {
  if (plan.transport === 'sse') return new SSEClientTransport(new URL(plan.url));
  if (plan.url) return new StreamableHTTPClientTransport(new URL(plan.url));
  return new StdioClientTransport({
    command: plan.command,
    args: plan.args ?? [],
    env: plan.env ?? undefined,
    cwd: plan.cwd ?? undefined
  });
};
const transport = connect();
const send = transport.send.bind(transport);
transport.send = (message, options) => {
  write('c2s', message);
  return send(message, options);
};

const client = new Client({ name: 'mcpwarden-e2e', version: '1.0.0' }, { capabilities: {} });

// The client sets the handler while it connects: a property catches it whenever that is.
let handler;
Object.defineProperty(transport, 'onmessage', {
  get: () => handler,
  set: inner => {
    handler = inner && ((message, extra) => {
      write('s2c', message);
      inner(message, extra);
    });
  }
});

const timeout = setTimeout(() => {
  console.error(`not done within ${TIMEOUT_MS} ms`);
  process.exit(1);
}, TIMEOUT_MS);

await client.connect(transport);
const capabilities = client.getServerCapabilities() ?? {};
if (capabilities.tools) await client.listTools();
if (capabilities.prompts) await client.listPrompts();
if (capabilities.resources) await client.listResources();
for (const call of plan.calls ?? []) {
  await client.callTool({ name: call.name, arguments: call.arguments });
}
if (transport.terminateSession) await transport.terminateSession();
await client.close();
clearTimeout(timeout);
