// Run: node --test

import assert from 'node:assert/strict';
import { register } from 'node:module';
import { test } from 'node:test';

// The functions of the agent, as the tests have them.
const config = new Map();
const reported = [];
globalThis.host = {
  getConfig: (key) => config.get(key),
  log: (level, message) => reported.push(`${level} ${message}`),
  recordMetric: (name, value) => reported.push(`${name} ${value}`),
};
const stub = 'data:text/javascript,export const { getConfig, log, recordMetric } = globalThis.host;';
const hooks = `export const resolve = (specifier, context, next) =>
  specifier.startsWith('mcp:') ? { url: ${JSON.stringify(stub)}, shortCircuit: true } : next(specifier, context);`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
const { guard } = await import('./guard.js');

const cases = [
  ['in the morning', '2026-11-26T08:00:00Z', {}, 'allow'],
  ['in the last minute', '2026-11-26T17:59:59Z', {}, 'allow'],
  ['in the evening', '2026-11-26T18:00:00Z', {}, 'deny'],
  ['at night', '2026-11-26T03:00:00Z', {}, 'deny'],
  ['on a Sunday', '2026-11-29T12:00:00Z', {}, 'deny'],
  ['in a night shift', '2026-11-26T03:00:00Z', { from: '22', to: '6' }, 'allow'],
  ['of another tool', '2026-11-26T03:00:00Z', { tools: '["delete"]' }, 'allow'],
  ['of this tool', '2026-11-26T03:00:00Z', { tools: '["delete","send"]' }, 'deny'],
];
for (const [name, time, values, expected] of cases) {
  test(`a call ${name}`, () => {
    config.clear();
    for (const [key, value] of Object.entries(values)) config.set(key, value);
    reported.length = 0;
    const context = { serverName: 'mail', metadata: JSON.stringify({ time }) };
    assert.equal(guard.evaluateToolCall('send', '{}', context).tag, expected);
    assert.equal(reported.length, expected === 'deny' ? 2 : 0);
  });
}

test('metadata without a time', () => {
  config.clear();
  const call = () => guard.evaluateToolCall('send', '{}', { serverName: 'mail', metadata: '{}' });
  assert.throws(call, (thrown) => thrown === 'the metadata have no time');
});
