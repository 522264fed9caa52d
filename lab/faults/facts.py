"""From evidence to facts, and from facts to checks: what a step's expectations are compared with.

Evidence is what the program on the machine told of a step. Facts are its single words and numbers:

    data, intact, old, new, torn, lost, corrupt, unreadable    the oracle's verdict: one word, and blocks by word
    corrupt_at, lost_at, unreadable_at, bad_at                 which blocks: compared with the level's arithmetic
    array_state, degraded, mismatch_cnt, level …               md's own words
    member_2, errors_2, bad_blocks_2, slot_2, recovery_2       of the member on drive 2; ``gone`` if the array has it
    not
    events_2                                                   the event count in drive 2's superblock
    status, output, refused, text                              of a program, of a value that was written, of a file
    seconds and all other numbers that the step tells          see guest/scenario.py and its steps

An expectation is a value; a list of values of which it is one; ``~ TEXT``: it contains that; ``!~ TEXT``: it does
not; or a comparison such as ``> 0``, ``<= 3``, ``< 0.5 * full.read_sectors``, where ``full`` is the name under
which an earlier step kept its facts. Of blocks: ``= slots 0 1`` are exactly these, ``in row of 5`` at most these
(lab/faults/expected.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from lab.errors import SpecError
from lab.faults.expected import OraclePlaces, numbers_in
from lab.faults.guest.ledger import ALLOWED, CORRUPT, INTACT, LOST, NEW, OLD, TORN, UNREADABLE
from lab.gates.text import shortened

VERDICT_FACTS = {
    "intact": INTACT,
    "old": OLD,
    "new": NEW,
    "torn": TORN,
    "lost": LOST,
    "corrupt": CORRUPT,
    "unreadable": UNREADABLE,
}
BLOCK_FACTS = ("corrupt_at", "lost_at", "unreadable_at", "bad_at")
MD_FACTS = (
    *("array_state", "degraded", "sync_action", "mismatch_cnt", "raid_disks", "resync_start", "consistency_policy"),
    *("reshape_position", "journal_mode"),
)
MEMBER_FACTS = {
    "member": "state",
    "errors": "errors",
    "bad_blocks": "bad_blocks",
    "slot": "slot",
    "recovery": "recovery_start",
}
NUMBER_FACTS = (
    *(
        "seconds",
        "failures",
        "operations",
        "blocks",
        "under_way",
        "fingerprint",
        "lasted",
        "rate",
        "each",
        "exposed",
        "most_degraded",
        "bad_in_flight",
    ),
    *("reads", "read_sectors", "writes", "write_sectors", "flushes", "rounds"),
    *(
        "points",
        "refused",
        "dead",
        "wrong_parity",
        "not_idle",
        "untouched_corrupt",
        "untouched_lost",
        "unreadable_points",
    ),
    *(
        "in_flight_corrupt",
        "outside_open_stripes",
        "untouched_elsewhere",
        "sets",
        "survived",
        "differing",
        "complaints",
    ),
    *("unsettled", "torn_up"),
)
OTHER_FACTS = (
    *("data", "md_level", "status", "output", "text", "idle", "heard", "late", "fits", "culprits", "broke"),
    *("right_after", "settled", "stop_status", "findings", "seeds", "same"),
)
NUMBERED = re.compile(r"(member|errors|bad_blocks|slot|recovery|events|copy|reads|writes)_(\d+)")
KNOWN = (*VERDICT_FACTS, *BLOCK_FACTS, *MD_FACTS, *NUMBER_FACTS, *OTHER_FACTS)
_COMPARISON = re.compile(r"(<=|>=|!=|<|>|=)\s*(-?[\d.]+)?\s*\*?\s*([a-z_][a-z0-9_-]*(?:\.[a-z_0-9]+)?)?\s*")
_LONGEST = 160


class FactCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One expectation and what was found."""

    what: str
    wanted: str
    found: str
    is_met: bool


def is_fact(name: str) -> bool:
    """Whether something of this name can be told."""
    return name in KNOWN or NUMBERED.fullmatch(name) is not None


def facts_of(evidence: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """All single facts of a step; ``more``: those that only its kind of step tells."""
    found: dict[str, Any] = {name: evidence[name] for name in (*NUMBER_FACTS, *OTHER_FACTS) if name in evidence}
    if isinstance(complaints := evidence.get("complaints"), list):
        found["complaints"] = len(complaints)
    if "verdicts" in evidence:
        found |= _of_verdicts(evidence)
    for name in MD_FACTS:
        if name in evidence.get("state", {}):
            found[name] = evidence["state"][name]
    if "state" in evidence and not evidence["state"]:
        found["array_state"] = "gone"
    if "level" in evidence.get("state", {}):
        found["md_level"] = evidence["state"]["level"]
    for number, words in evidence.get("members", {}).items():
        if isinstance(words, Mapping):
            found |= {f"{fact}_{number}": words[file] for fact, file in MEMBER_FACTS.items() if file in words}
    if isinstance(events := evidence.get("events"), dict):
        found |= {f"events_{number}": count for number, count in events.items()}
    found |= {name: count for name, count in evidence.items() if NUMBERED.fullmatch(name)}
    if "stop" in evidence:
        found["stop_status"] = evidence["stop"]["status"]
    return {**found, **more}


def _of_verdicts(evidence: Mapping[str, Any]) -> dict[str, Any]:
    verdicts: Mapping[str, int] = evidence["verdicts"]
    found: dict[str, Any] = {fact: verdicts.get(word, 0) for fact, word in VERDICT_FACTS.items()}
    bad = [fact for fact, word in VERDICT_FACTS.items() if word not in ALLOWED and verdicts.get(word)]
    found["data"] = " and ".join(bad) or "intact"
    at: Mapping[str, str] = evidence.get("at", {})
    for fact, word in VERDICT_FACTS.items():
        if word not in ALLOWED:
            found[f"{fact}_at"] = at.get(word, "")
    found["bad_at"] = ",".join(at.values())
    return found


def judge(
    name: str, wanted: Any, facts: Mapping[str, Any], kept: Mapping[str, Mapping[str, Any]], places: OraclePlaces
) -> FactCheck:
    """Compare one fact. Raises SpecError for an expectation that cannot be read."""
    match = NUMBERED.fullmatch(name)
    found = facts.get(name)
    if found is None and match and match[1] in MEMBER_FACTS and "array_state" in facts:
        found = "gone"
    told = "" if found is None else str(found)
    options = wanted if isinstance(wanted, list) else [wanted]
    is_met = found is not None and any(_fits(name, each, found, facts, kept, places) for each in options)
    said = " or ".join(_said(each, kept, facts) for each in options)
    return (
        FactCheck(what=name, wanted=said, found=shortened(told, _LONGEST) if told else "nothing", is_met=is_met)
        if name not in BLOCK_FACTS
        else FactCheck(
            what=name, wanted=said, found=f"blocks {shortened(told, _LONGEST)}" if told else "none", is_met=is_met
        )
    )


def _said(wanted: Any, kept: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """An expectation in words, with the number that a name stands for."""
    text = str(wanted)
    parts = _COMPARISON.fullmatch(text)
    if parts and parts[3]:
        return f"{text} ({_number(parts, kept, facts):g})"
    return text


def _fits(
    name: str,
    wanted: Any,
    found: Any,
    facts: Mapping[str, Any],
    kept: Mapping[str, Mapping[str, Any]],
    places: OraclePlaces,
) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return bool(found) is wanted
    if not isinstance(wanted, str):
        return _as_number(found) == float(wanted)
    if name in BLOCK_FACTS:
        return _fits_blocks(wanted, numbers_in(str(found)), places)
    if wanted.startswith("~"):
        return wanted[1:].strip() in str(found)
    if wanted.startswith("!~"):
        return wanted[2:].strip() not in str(found)
    parts = _COMPARISON.fullmatch(wanted)
    if parts and (parts[2] or parts[3]):
        left, right = _as_number(found), _number(parts, kept, facts)
        return (
            left is not None
            and {
                "<": left < right,
                ">": left > right,
                "<=": left <= right,
                ">=": left >= right,
                "=": left == right,
                "!=": left != right,
            }[parts[1]]
        )
    if name.startswith("member_"):
        # Words that may grow in number, with commas between them (Documentation/admin-guide/md.rst).
        return wanted in str(found).split(",")
    return str(found) == wanted


def _fits_blocks(wanted: str, found: frozenset[int], places: OraclePlaces) -> bool:
    if wanted.startswith("="):
        return found == places.meant(wanted[1:])
    if wanted.startswith("in "):
        return found <= places.meant(wanted[3:])
    raise SpecError(f"'{wanted}' compares no blocks", hint="write '= slots 0 1', or 'in row of 5'")


def _number(parts: re.Match[str], kept: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]) -> float:
    factor = float(parts[2]) if parts[2] else 1.0
    if not parts[3]:
        return factor
    name, _, fact = parts[3].partition(".")
    value = kept.get(name, {}).get(fact) if fact else facts.get(name)
    number = _as_number(value)
    if number is None:
        raise SpecError(
            f"there is no number '{parts[3]}' to compare with", hint="an earlier step keeps it: keep = NAME"
        )
    return factor * number


def _as_number(value: Any) -> float | None:
    try:
        return float(str(value).split()[0])
    except (ValueError, IndexError):
        return None
