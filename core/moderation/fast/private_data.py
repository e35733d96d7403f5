"""Where people live and how they are reached, by its form: telephone numbers, streets with numbers, bank accounts.

A hint: the form does not say whose it is, nor whether its owner minds.
"""

import re

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.fold import CAP
from core.moderation.fast.look import Look

_CALLED = re.compile(
    r"(?<![\w.+/-])(?:(?:\+|00)[1-9]\d{0,2}[ ./()-]{0,2}\d(?:[ ./()-]{0,2}\d){6,12}"
    r"|\(?0?\d{3,5}\)?[ /-]{1,2}\d{3,4}[ -]\d{3,5})(?![\w-])"
)
_ACCOUNT = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_STREET = re.compile(
    r"(?<!\w)(?:[A-ZÄÖÜ][\wäöüß.-]{2,40}(?:straße|strasse|str\.|weg|gasse|allee|platz|ring|damm)\s+\d{1,4}\s?[a-z]?"
    r"|\d{1,5}\s+(?:[A-Z][\w'-]{1,30}\s+){1,3}(?:Street|Avenue|Ave|Road|Rd|Lane|Drive|Boulevard|Blvd|Court)\.?)(?!\w)"
)
_DIGIT = re.compile(r"\d")
_PATTERNS = (("telephone number", _CALLED), ("bank account", _ACCOUNT), ("street", _STREET))


def find(look: Look) -> Finding | None:
    """Return the first thing in a message that has the form of something private."""
    text = look.message.text[:CAP]
    if not _DIGIT.search(text):
        return None
    for what, pattern in _PATTERNS:
        if match := pattern.search(text):
            return look.finding(Detector.PRIVATE_DATA, 1, 1, span=match.span(), what=what, hint=True)
    return None
