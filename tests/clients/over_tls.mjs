// Speaks MCP over HTTPS as Node programs do.
//
// usage: over_tls.mjs https|fetch|http2 URL SESSIONS SIZE…
//
// URL/warm is asked for first. Then each of the sessions, all at once, calls `echo` with a text of each size; the first one alone with the last.

// With OTHER in the environment, each message is preceded by a request of OTHER/noise, over another connection.

import http2 from 'node:http2';
import https from 'node:https';

const other = process.env.OTHER;
const [mode, url, count, ...rest] = process.argv.slice(2);
const sizes = rest.map(Number);

function* messages(session) {
  const clientInfo = { name: 'over-tls', version: '1' };
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  yield { jsonrpc: '2.0', id: 1, method: 'initialize', params };
  yield { jsonrpc: '2.0', method: 'notifications/initialized' };
  yield { jsonrpc: '2.0', id: 2, method: 'tools/list' };
  for (const [place, size] of (session === 0 ? sizes : sizes.slice(0, -1)).entries()) {
    const text = `${session}-${place} `.repeat(size / 4 + 1).slice(0, size);
    yield { jsonrpc: '2.0', id: 3 + place, method: 'tools/call', params: { name: 'echo', arguments: { text } } };
  }
}

function head(session) {
  const fields = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  return session === undefined ? fields : { ...fields, 'mcp-session-id': session };
}

// Each opens a connection: what asks over it, and what closes it.
const openers = {
  https(url) {
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
    const ask = (method, path, session, body) =>
      new Promise((done, failed) => {
        const request = https.request(url + path, { agent, method, headers: head(session) }, (response) => {
          response.resume();
          response.on('end', () => done(response.headers['mcp-session-id']));
        });
        request.on('error', failed);
        request.end(body);
      });
    return { ask, close: () => agent.destroy() };
  },
  fetch(url) {
    const ask = async (method, path, session, body) => {
      const response = await fetch(url + path, { method, headers: head(session), body });
      await response.text();
      return response.headers.get('mcp-session-id');
    };
    return { ask, close() {} };
  },
  http2(url) {
    const connection = http2.connect(url, { rejectUnauthorized: false });
    const ask = (method, path, session, body) =>
      new Promise((done, failed) => {
        const stream = connection.request({ ':method': method, ':path': path, ...head(session) });
        let got;
        stream.on('response', (fields) => (got = fields['mcp-session-id']));
        stream.on('data', () => {});
        stream.on('end', () => done(got));
        stream.on('error', failed);
        stream.end(body);
      });
    return { ask, close: () => connection.close() };
  },
};

async function run(session) {
  const { ask, close } = openers[mode](url);
  const noise = other && openers[mode](other);
  let id;
  for (const message of messages(session)) {
    await noise?.ask('GET', '/noise');
    id = (await ask('POST', '/mcp', id, JSON.stringify(message))) ?? id;
  }
  await ask('DELETE', '/mcp', id);
  close();
  noise?.close();
}

const { ask, close } = openers[mode](url);
await ask('GET', '/warm');
close();
await Promise.all(Array.from({ length: Number(count) }, (_, session) => run(session)));
