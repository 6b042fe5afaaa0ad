// The API of a model over HTTPS, which wants the first tool of each request to be called.
//
// usage: model.mjs CERTIFICATE.pem KEY.pem DIRECTORY
//
// Its port is the first line that it prints. /v1/messages is answered by events in small pieces, /v1/chat/completions by one compressed value.
// A request of /warm is answered once DIRECTORY/go exists.

import fs from 'node:fs';
import http2 from 'node:http2';
import zlib from 'node:zlib';

const [certificate, key, directory] = process.argv.slice(2);
const WANTED = { text: 'as the model wants it' };

function messages(request, response) {
  const events = [
    { type: 'message_start', message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'model-1', content: [] } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'a secret of the user' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'content_block_start', index: 1, content_block: { type: 'tool_use', id: 'toolu_1', name: request.tools[0].name, input: {} } },
    ...JSON.stringify(WANTED).match(/.{1,5}/g).map((partial_json) => ({
      type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json },
    })),
    { type: 'content_block_stop', index: 1 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 9 } },
    { type: 'message_stop' },
  ];
  response.writeHead(200, { 'content-type': 'text/event-stream', 'request-id': 'req_1' });
  const next = () => {
    const event = events.shift();
    if (!event) {
      response.end();
      return;
    }
    response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    setTimeout(next, 2);
  };
  next();
}

function completions(request, response) {
  const call = { name: request.tools[0].function.name, arguments: JSON.stringify(WANTED) };
  const answer = {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    model: 'model-2',
    choices: [{
      index: 0,
      finish_reason: 'tool_calls',
      message: { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: call }] },
    }],
  };
  const body = zlib.gzipSync(JSON.stringify(answer));
  response.writeHead(200, {
    'content-type': 'application/json', 'content-encoding': 'gzip', 'content-length': body.length, 'x-request-id': 'req_2',
  });
  response.end(body);
}

function warm(response) {
  if (!fs.existsSync(`${directory}/go`)) {
    setTimeout(() => warm(response), 10);
    return;
  }
  response.writeHead(200, { 'content-length': 0 });
  response.end();
}

const options = { allowHTTP1: true, cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };
const server = http2.createSecureServer(options, (request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString();
    if (request.url === '/warm') {
      warm(response);
    } else if (request.url === '/v1/messages') {
      messages(JSON.parse(body), response);
    } else {
      completions(JSON.parse(body), response);
    }
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
