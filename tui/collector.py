"""Keep the garbage collector out of the user's way.

A full collection looks at every object of the process: 0.1 s with Textual loaded, in which no key is answered. What
has been loaded stays until the end, so it is taken out of the collector's sight; what remains is looked at in a few
milliseconds (Python: gc.freeze, gc.set_threshold).
"""

from __future__ import annotations

import gc

_YOUNG_OBJECTS = 5_000
"""New objects until the youngest are looked at: about what one paint of the screen makes."""
_YOUNG_ROUNDS = 10
_OLD_ROUNDS = 10


def settle_collector() -> None:
    """Call this when much has been loaded that stays. What is garbage at this moment is found later or never."""
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_ROUNDS, _OLD_ROUNDS)
    # The youngest first: most of what loading left behind is there.
    gc.collect(0)
    gc.freeze()
