// A guard that denies calls of tools outside working hours (UTC).
//
// Configuration: `from` and `to`, hours of the day (8 and 18 if not given), and `tools`, a list of names; without it, the
// guard judges all tools.

import { getConfig, log, recordMetric } from 'mcp:security-guard/host@0.1.0';

const allow = { tag: 'allow' };

// Whether a time is within working hours. `metadata` is JSON with the time of the operation; the clock of the guard shows
// the same time.
export function isWorkingTime(metadata, from, to) {
  const time = new Date(JSON.parse(metadata).time);
  if (Number.isNaN(time.getTime())) throw new Error('the metadata have no time');
  const hour = time.getUTCHours();
  const day = time.getUTCDay();
  const isDaytime = from <= to ? from <= hour && hour < to : from <= hour || hour < to;
  return isDaytime && day !== 0 && day !== 6;
}

// Values that are not strings arrive as JSON.
function configured(key, otherwise) {
  const value = getConfig(key);
  return value === undefined ? otherwise : JSON.parse(value);
}

function judgeCall(toolName, context) {
  const tools = configured('tools', null);
  if (tools !== null && !tools.includes(toolName)) return allow;
  if (isWorkingTime(context.metadata, configured('from', 8), configured('to', 18))) return allow;
  log('info', `${toolName} of ${context.serverName} was called outside working hours`);
  recordMetric('calls_outside_hours', 1, [['tool', toolName.slice(0, 20)]]);
  return {
    tag: 'deny',
    val: { code: 'outside_hours', message: `${toolName} may be called in working hours only`, details: undefined },
  };
}

export const guard = {
  evaluateToolsList() {
    return allow;
  },
  evaluateToolCall(toolName, _arguments, context) {
    try {
      return judgeCall(toolName, context);
    } catch (error) {
      // A thrown string becomes the error of the function; any other exception traps.
      throw String(error.message);
    }
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
