"""Reads a dashboard by Grafana's own types and writes it again: what is lost on the way, Grafana does not know."""

import json
import sys

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard


def lost(before, after, path=""):
    """Places of what is in `before` and not the same in `after`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{path}/{key}"
            else:
                yield from lost(value, after[key], f"{path}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after)):
            yield from lost(one, other, f"{path}/{number}")
    elif before != after:
        yield path


plugins.register_default_plugins()
with open(sys.argv[1], encoding="utf-8") as file:
    text = json.load(file)
known = json.loads(JSONEncoder().encode(dashboard.Dashboard.from_json(text)))
places = list(lost(text, known))
print("\n".join(places))
sys.exit(bool(places))
