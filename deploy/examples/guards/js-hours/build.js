// Builds hours.wasm from guard.js.

import { readFile, writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const { component } = await componentize(await readFile('guard.js', 'utf8'), {
  witPath: '../../../../agent/wasm/wit',
  worldName: 'security-guard',
  // Guards have no network. Clocks and randomness stay: the agent answers them from the request.
  disableFeatures: ['http', 'fetch-event'],
});
await writeFile('hours.wasm', component);
