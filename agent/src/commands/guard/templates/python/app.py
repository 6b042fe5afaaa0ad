"""A guard of mcpwarden. It denies calls whose arguments contain the configured `word`."""

import json

from wit_world import exports
from wit_world.exports.guard import Decision, Decision_Allow, Decision_Deny, DenyReason, GuardContext, Tool
from wit_world.imports import host


class Guard(exports.Guard):
    def evaluate_tools_list(self, tools: list[Tool], context: GuardContext) -> Decision:
        return Decision_Allow()

    def evaluate_tool_call(self, tool_name: str, arguments: str, context: GuardContext) -> Decision:
        """`arguments` is JSON."""
        if (host.get_config("word") or "secret") not in arguments:
            return Decision_Allow()
        host.log(host.LogLevel.INFO, f"{tool_name}: the word is in the arguments")
        message = f"the arguments of {tool_name} contain a word that must not leave"
        return Decision_Deny(DenyReason("word", message, json.dumps({"valid_for": "10m"})))

    def evaluate_tool_response(self, tool_name: str, result: str, context: GuardContext) -> Decision:
        return Decision_Allow()

    def evaluate_prompt_request(self, prompt_name: str, arguments: str, context: GuardContext) -> Decision:
        return Decision_Allow()

    def evaluate_resource_request(self, uri: str, context: GuardContext) -> Decision:
        return Decision_Allow()
