"""Random changes to JSON documents, as if another program had written to a file of raidlab."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from typing import Any

WORDS = (
    *("", "latest", "../../x", "\x1b[2J", "[bold]x[/]", "[/x]", "<b>", "=1+1", "a|b", "x" * 299, "x" * 301, "\u202e"),
    *("é", "{{x}}", "read", "rebuilding", "single", "raid5", "raid0-3", "%(x)s", "\x00", "2099-01-01", "\n\n# x"),
)
NUMBERS = (0, 1, -1, 2, 999, 10**15, -(10**15), 2**63 - 1, 1e15, 5e-324, 1e-12, 1e-9, 0.5, -0.0, 1e308)
ANYTHING: tuple[Any, ...] = (*NUMBERS, *WORDS, None, True, [], {}, [None], [[]], {"a": 1}, -(2**63), 10**400)
_OF_ITS_KIND: Mapping[type, tuple[Any, ...]] = {str: WORDS, int: NUMBERS, float: NUMBERS}


def change_tree(tree: Any, draw: random.Random, more: Sequence[Any] = ()) -> None:
    """Replace, remove or duplicate one value somewhere below ``tree``; ``more`` lists further replacement values."""
    while tree:
        key = draw.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
        if isinstance(tree[key], dict | list) and tree[key] and draw.random() < 0.9:
            tree = tree[key]
            continue
        how = draw.random()
        if how < 0.1:
            del tree[key]
        elif how < 0.2 and isinstance(tree, list):
            tree.append(copy.deepcopy(tree[key]))
        else:
            # Most replacements are of the same type, otherwise hardly any record would get past its decoder.
            kind = _OF_ITS_KIND.get(type(tree[key]), ANYTHING) if draw.random() < 0.9 else ANYTHING
            tree[key] = draw.choice((*kind, *(each for each in more if type(each) is type(tree[key]))))
        return
