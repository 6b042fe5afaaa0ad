// An MCP server over HTTPS, HTTP/1.1 and HTTP/2, that logs what it reads and answers.
//
// usage: over_tls.mjs CERTIFICATE.pem KEY.pem DIRECTORY
//
// Its port is the first line that it prints. What is said in a session is logged to DIRECTORY/SESSION.jsonl, one
// {"dir": "c2s" | "s2c", "message": …} a line. `echo` gives its text back, `add` says that it was run; every second answer is an event.
// A request of /warm is answered once DIRECTORY/go exists, and the connection is closed after it.

import fs from 'node:fs';
import http2 from 'node:http2';

const [certificate, key, directory] = process.argv.slice(2);
let sessions = 0;

function answer(message) {
  if (message.method === 'initialize') {
    return {
      protocolVersion: '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 'over-tls', version: '1' },
    };
  }
  if (message.method === 'tools/list') {
    return { tools: ['echo', 'add'].map((name) => ({ name, inputSchema: { type: 'object' } })) };
  }
  const text = message.params.name === 'add' ? 'added' : message.params.arguments.text;
  return { content: [{ type: 'text', text }] };
}

function answered(message) {
  const { id, method, params } = message;
  const isUnknown = method === 'tools/call' && !['echo', 'add'].includes(params.name);
  const error = { code: -32602, message: `unknown tool: ${params?.name}` };
  return { jsonrpc: '2.0', id, ...(isUnknown ? { error } : { result: answer(message) }) };
}

function handle(request, response, body) {
  if (request.method !== 'POST') {
    response.writeHead(request.method === 'DELETE' ? 200 : 405, { 'content-length': 0 });
    response.end();
    return;
  }
  const message = JSON.parse(body);
  const session = request.headers['mcp-session-id'] ?? `session-${++sessions}`;
  const log = (dir, message) =>
    fs.appendFileSync(`${directory}/${session}.jsonl`, JSON.stringify({ dir, message }) + '\n');
  log('c2s', message);
  if (message.id === undefined) {
    response.writeHead(202, { 'mcp-session-id': session, 'content-length': 0 });
    response.end();
    return;
  }
  const answer = answered(message);
  log('s2c', answer);
  const isEvent = message.id % 2 === 0;
  const text = isEvent
    ? `event: message\ndata: ${JSON.stringify(answer)}\n\n`
    : JSON.stringify(answer);
  response.writeHead(200, {
    'mcp-session-id': session,
    'content-type': isEvent ? 'text/event-stream' : 'application/json',
  });
  response.end(text);
}

function warm(request, response) {
  if (!fs.existsSync(`${directory}/go`)) {
    setTimeout(() => warm(request, response), 10);
    return;
  }
  response.writeHead(200, request.httpVersionMajor === 2 ? {} : { connection: 'close' });
  response.end();
  request.stream?.session?.close();
}

const options = { allowHTTP1: true, cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };
const server = http2.createSecureServer(options, (request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    if (request.url === '/warm') {
      warm(request, response);
    } else {
      handle(request, response, Buffer.concat(chunks).toString());
    }
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
