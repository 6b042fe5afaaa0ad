// A guard of mcpwarden. It denies calls whose arguments contain the configured `word`.

import { getConfig, log } from 'mcp:security-guard/host@0.1.0';

const allow = { tag: 'allow' };

export const guard = {
  evaluateToolsList() {
    return allow;
  },
  // `args` is JSON.
  evaluateToolCall(toolName, args) {
    if (!args.includes(getConfig('word') ?? 'secret')) return allow;
    log('info', `${toolName}: the word is in the arguments`);
    const message = `the arguments of ${toolName} contain a word that must not leave`;
    return { tag: 'deny', val: { code: 'word', message, details: JSON.stringify({ valid_for: '10m' }) } };
  },
  evaluateToolResponse() {
    return allow;
  },
  evaluatePromptRequest() {
    return allow;
  },
  evaluateResourceRequest() {
    return allow;
  },
};
