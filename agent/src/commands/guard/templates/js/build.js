// Builds NAME.wasm from guard.js.

import { readFile, writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const { component } = await componentize(await readFile('guard.js', 'utf8'), {
  witPath: 'wit',
  worldName: 'security-guard',
  disableFeatures: ['http', 'fetch-event'],
});
await writeFile('NAME.wasm', component);
