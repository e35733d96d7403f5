"""What a thought must say before the mind takes it in: the walls of meaning, agency and instruction.

And what words must be before they may be said: the wall of speech. Pure.
"""

import re
import unicodedata

from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.facts import Facts, message_of, speech_hash
from core.domain.mind.values import Anchor, AnchorKind, MemoryKind, TargetKind, Thought

LEAST_SAID = 5
"""How many letters of a reason must stand in words that do not fit every note."""
_STOCK = re.compile(
    "|".join(
        (
            "a|an|and|are|as|at|be|because|been|by|can|clean|cleaned|cleaning|cleanup|clear|cleared|consolidate",
            "consolidated|consumed|delete|deleted|did|distilled|done|duplicate|duplicated|duplicates|entries|entry",
            "expired|fine|finished|for|from|handled|has|have|housekeeping|in|incubation|into|irrelevant|is|it|its",
            "just|keep|kept|longer|maintenance|making|memories|memory|merge|merged|more|necessary|need|needed|no|not",
            "note|notes|now|obsolete|of|old|on|or|outdated|pass|per|processed|prune|pruned|pruning|reason|redundant",
            "relevant|remove|removed|removing|resolved|reviewed|room|routine|short|sleep|some|space|stale|term|that",
            "the|them|these|they|this|tidy|tidying|to|too|unnecessary|unneeded|unused|use|used|useful|was|were|with",
        )
    )
)

_CLOCK_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")
_ROLE = re.compile(r"^[#*\s]*(?:system|developer|assistant|user|human|tool)[*\s]*:", re.IGNORECASE | re.MULTILINE)
_TOOL = re.compile(
    r"<\|[\w ]{1,40}\|>|\[/?INST\]|<</?SYS>>|<<(?:data|end) "
    r"|</?(?:tool_call|tool_result|function_calls?|invoke|think)\b"
    r"|[\"']operation[\"']\s*:",
    re.IGNORECASE,
)


def meaning_wall(thought: Thought, facts: Facts, path: str) -> Rejected | None:
    """Refuse a thought without claim or question, tension, action implication, and proof or the word that it lacks."""
    if thought.claim is None and thought.question is None:
        return Rejected(RejectionCode.NO_CLAIM_OR_QUESTION, f"{path}.claim", "say what is claimed or asked")
    if thought.tension is None:
        return Rejected(RejectionCode.NO_TENSION, f"{path}.tension", "say what is open or pulls apart")
    if thought.action_implication is None:
        return Rejected(RejectionCode.NO_ACTION_IMPLICATION, f"{path}.actionImplication", "say what follows")
    if thought.claim is not None and _same(thought.claim, thought.summary):
        return Rejected(RejectionCode.CONTRADICTION, f"{path}.claim", "repeats the summary")
    return proof_wall(thought, facts, path)


def proof_wall(thought: Thought, facts: Facts, path: str, other_proof: bool = False) -> Rejected | None:
    """Refuse a thought without proof, with nothing but its own words as proof, or that says both."""
    if thought.anchors_missing and thought.proof:
        return Rejected(RejectionCode.CONTRADICTION, f"{path}.anchorsMissing", "anchors are given")
    if not thought.proof and not thought.anchors_missing and not other_proof:
        return Rejected(RejectionCode.NO_ANCHOR, f"{path}.anchorRefs", "name what proves it, or say that nothing does")
    if thought.proof and not other_proof and all(_own(anchor, facts) for anchor in thought.proof):
        return Rejected(RejectionCode.SELF_ANCHORED, f"{path}.anchorRefs", "own words prove nothing")
    return None


def _own(anchor: Anchor, facts: Facts) -> bool:
    message = message_of(anchor.ref)
    if message is not None and message in facts.messages:
        return facts.messages[message].own
    return anchor.kind in (AnchorKind.MEMORY, AnchorKind.RECEIPT)


def agency_wall(thought: Thought, facts: Facts, path: str, other_proof: bool) -> Rejected | None:
    """Refuse a pressure without claim or question, action implication, or anything that it rests on."""
    if thought.claim is None and thought.question is None:
        return Rejected(RejectionCode.NO_CLAIM_OR_QUESTION, f"{path}.claim", "say what is claimed or asked")
    if thought.action_implication is None:
        return Rejected(RejectionCode.NO_ACTION_IMPLICATION, f"{path}.actionImplication", "say what follows")
    return proof_wall(thought, facts, path, other_proof)


def instruction_wall(thought: Thought, kind: MemoryKind, facts: Facts, path: str) -> Rejected | None:
    """Refuse an identity that rests on nothing but what members said: an order is no trait."""
    about_itself = thought.target.kind in (TargetKind.SELF, TargetKind.SYSTEM)
    if not about_itself or kind is not MemoryKind.IDENTITY_SEAM:
        return None
    messages = [facts.messages.get(id_) for a in thought.proof if (id_ := message_of(a.ref)) is not None]
    if thought.proof and len(messages) == len(thought.proof) and not any(m is not None and m.own for m in messages):
        return Rejected(RejectionCode.UNTRUSTED_IDENTITY, f"{path}.kind", "what others say of it is an observation")
    return None


def speech_wall(draft: str, facts: Facts, path: str) -> Rejected | None:
    """Refuse words of which nothing would be seen, with times of a machine, or that read the machinery out."""
    if all(unicodedata.category(each)[0] in "CZM" for each in draft):
        return Rejected(RejectionCode.OUT_OF_RANGE, path, "shows nothing")
    if _CLOCK_TIME.search(draft):
        return Rejected(RejectionCode.BAD_TIMESTAMP, path, "holds a time as machines write it; say how long ago")
    if _ROLE.search(draft) or _TOOL.search(draft):
        return Rejected(RejectionCode.PROMPT_ECHO, path, "holds the markup of roles or tools")
    if speech_hash(draft) in facts.echoed:
        return Rejected(RejectionCode.PROMPT_ECHO, path, "reads its instructions out")
    return None


def reason_wall(reason: str, path: str) -> Rejected | None:
    """Refuse a reason that would fit any note: made of stock words alone."""
    words = re.findall(r"[^\W\d_]+", reason.casefold())
    if sum(len(word) for word in set(words) if _STOCK.fullmatch(word) is None) < LEAST_SAID:
        return Rejected(RejectionCode.WEAK_REASON, path, "say what makes this note go, in words that fit no other")
    return None


def _same(one: str, other: str) -> bool:
    return " ".join(one.casefold().split()) == " ".join(other.casefold().split())
