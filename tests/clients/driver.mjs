// Drives one MCP server with the official TypeScript client and logs what goes over the wire.
//
// usage: node driver.mjs PLAN.json LOG.jsonl
//
// The plan: {"command": "…", "args": [], "env": {}, "cwd": null, "calls": [{"name": "…", "arguments": {}}]};
// or, in place of a command, {"url": "…", "transport": "http" | "sse"}.
// The log: one {"dir": "c2s" | "s2c", "message": …} a line, in the order in which this client sent and received.
// Exits with 0 when everything was answered; a tool that answers with an error has answered.
//
// With "outcomes": FILE in the plan, what each call gives its caller is written there, one a line, {"tool": "…"} with
// "result" (the answer), "error" (what is thrown) or "hangs" (seconds without either), and calling goes on after errors.
// With "pause_until": FILE, the calls wait until FILE exists.
// With "warm": URL, that is asked for first, over a connection of its own.
// With "sdk": 2, the client is that of @modelcontextprotocol/client, in place of @modelcontextprotocol/sdk.
// With "mode": "auto", "legacy" or a version, that client settles the era of the protocol so; it answers what servers ask.

import { existsSync, readFileSync, openSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const TIMEOUT_MS = 60_000;
// How long a call may be without an answer, where outcomes are wanted.
const HANG_MS = 15_000;

const [planPath, logPath] = process.argv.slice(2);
if (!planPath || !logPath) {
  console.error('usage: node driver.mjs PLAN.json LOG.jsonl');
  process.exit(2);
}

// The SDK is installed below the target directory, not beside this file: MCPWARDEN_NODE says where.
const require = createRequire(pathToFileURL(join(process.env.MCPWARDEN_NODE ?? process.cwd(), 'package.json')));
const load = async path => import(pathToFileURL(require.resolve(`@modelcontextprotocol/${path}`)));
const plan = JSON.parse(readFileSync(planPath, 'utf8'));
const isSecond = plan.sdk === 2;
const { Client } = await load(isSecond ? 'client' : 'sdk/client/index.js');
const { StdioClientTransport } = await load(isSecond ? 'client/stdio' : 'sdk/client/stdio.js');
if (plan.warm) {
  await (await fetch(plan.warm)).text();
}
const log = openSync(logPath, 'w');
const write = (dir, message) => writeSync(log, JSON.stringify({ dir, message }) + '\n');

const connect = async () => {
  if (plan.transport === 'sse') {
    const { SSEClientTransport } = await load('sdk/client/sse.js');
    return new SSEClientTransport(new URL(plan.url));
  }
  if (plan.url) {
    const { StreamableHTTPClientTransport } = await load(isSecond ? 'client' : 'sdk/client/streamableHttp.js');
    return new StreamableHTTPClientTransport(new URL(plan.url));
  }
  return new StdioClientTransport({
    command: plan.command,
    args: plan.args ?? [],
    env: plan.env ?? undefined,
    cwd: plan.cwd ?? undefined
  });
};
const transport = await connect();
const send = transport.send.bind(transport);
transport.send = (message, options) => {
  write('c2s', message);
  return send(message, options);
};

const mode = ['auto', 'legacy'].includes(plan.mode) ? plan.mode : { pin: plan.mode };
const options = plan.mode
  ? { capabilities: { elicitation: {}, sampling: {}, roots: {} }, versionNegotiation: { mode } }
  : { capabilities: {} };
const client = new Client({ name: 'mcpwarden-e2e', version: '1.0.0' }, options);
if (plan.mode) {
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { name: 'Ada' } }));
  client.setRequestHandler('sampling/createMessage', async () => ({
    role: 'assistant',
    content: { type: 'text', text: 'Canada' },
    model: 'm'
  }));
  client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///work', name: 'work' }] }));
}

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
while (plan.pause_until && !existsSync(plan.pause_until)) {
  await new Promise(resolve => setTimeout(resolve, 20));
}
const outcome = async call => {
  let timer;
  const hangs = new Promise(resolve => {
    timer = setTimeout(() => resolve({ hangs: HANG_MS / 1000 }), HANG_MS);
  });
  const answered = client.callTool({ name: call.name, arguments: call.arguments }).then(
    result => ({ result }),
    error => ({ error: `${error.name}: ${error.message}` })
  );
  const found = await Promise.race([answered, hangs]);
  clearTimeout(timer);
  return found;
};
const outcomes = plan.outcomes && openSync(plan.outcomes, 'w');
for (const call of plan.calls ?? []) {
  if (outcomes) writeSync(outcomes, JSON.stringify({ tool: call.name, ...(await outcome(call)) }) + '\n');
  else await client.callTool({ name: call.name, arguments: call.arguments });
}
if (transport.terminateSession) await transport.terminateSession();
await client.close();
clearTimeout(timeout);
