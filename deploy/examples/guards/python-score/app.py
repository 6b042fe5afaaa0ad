"""A guard that denies lists with descriptions of tools that read like orders to the model.

Configuration: `threshold`, the score from which it denies (5 if not given).

Build: componentize-py -d ../../../../agent/wasm/wit -w security-guard componentize app -o score.wasm
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.guard import Decision, Decision_Allow, Decision_Deny, DenyReason, GuardContext, Tool
from wit_world.imports import host

from score import score


def threshold() -> int:
    value = host.get_config("threshold")
    if value is None:
        return 5
    try:
        return int(value)
    except ValueError:
        raise Err(f"`threshold` is not a number: {value[:40]}")


class Guard(exports.Guard):
    def evaluate_tools_list(self, tools: list[Tool], context: GuardContext) -> Decision:
        limit = threshold()
        scores = {tool.name: score(tool.description or "") for tool in tools}
        worst = [name for name, value in scores.items() if value >= limit]
        host.record_metric("highest_score", max(scores.values(), default=0), [])
        if not worst:
            return Decision_Allow()
        host.log(host.LogLevel.WARN, f"{context.server_name}: {len(worst)} tools score {limit} or more")
        details = json.dumps({"tools": worst})
        return Decision_Deny(DenyReason("suspicious_description", "descriptions read like orders to the model", details))

    def evaluate_tool_call(self, tool_name: str, arguments: str, context: GuardContext) -> Decision:
        return Decision_Allow()

    def evaluate_tool_response(self, tool_name: str, result: str, context: GuardContext) -> Decision:
        return Decision_Allow()

    def evaluate_prompt_request(self, prompt_name: str, arguments: str, context: GuardContext) -> Decision:
        return Decision_Allow()

    def evaluate_resource_request(self, uri: str, context: GuardContext) -> Decision:
        return Decision_Allow()
