"""Scores the description of a tool: how much it reads like orders to the model."""

import re

# A pattern, and its weight.
PATTERNS = [
    (re.compile(r"\b(ignore|disregard|forget)\b.{0,40}\b(instructions?|rules|above)\b", re.I | re.S), 3),
    (re.compile(r"\b(do not|don't|never)\b.{0,20}\b(tell|mention|inform|show)\b", re.I | re.S), 3),
    (re.compile(r"\byou (must|should) (always|first)\b", re.I), 2),
    (re.compile(r"(\.ssh/|id_rsa|\.env\b|/etc/passwd)", re.I), 2),
    (re.compile(r"<(important|system|secret)>", re.I), 2),
    (re.compile(r"\bbefore (using|calling) (this|any)\b", re.I), 1),
]


def score(text: str) -> int:
    """The sum of the weights of all patterns that occur in the text."""
    return sum(weight for pattern, weight in PATTERNS if pattern.search(text))
