"""Shortens the pauses of the garbage collector.

A full collection traverses every object of the process. With Textual loaded that takes 0.1 s, during which the app does
not respond to keys. Loaded modules stay until the end, so they are excluded from collection; the remaining objects take
a few milliseconds (Python: gc.freeze, gc.set_threshold).
"""

from __future__ import annotations

import gc

_YOUNG_OBJECTS = 5_000
"""New objects before the youngest generation is collected: about as many as one paint of the screen creates."""
_YOUNG_ROUNDS = 10
_OLD_ROUNDS = 10


def settle_collector() -> None:
    """Exclude all current objects from collection. Older garbage that exists at this moment may never be collected."""
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_ROUNDS, _OLD_ROUNDS)
    # Collect the youngest generation first: it holds most of the garbage of loading.
    gc.collect(0)
    gc.freeze()
