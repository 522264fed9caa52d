"""Kinds of array: what each kind reports about itself holds for its arrays."""

from __future__ import annotations

import pytest

from lab.arrays import kinds
from lab.arrays.array import ArrayKind, ArrayOperations
from lab.arrays.levels import AddedKind
from lab.errors import LabError, SpecError
from lab.plugins import extensions


def test_a_word_that_names_no_array_is_refused() -> None:
    with pytest.raises(SpecError, match="'big' is not an array name"):
        kinds.kind_of_name("big")
    assert kinds.kind_of_name("md7") is not kinds.kind_of_name("adapt7")
    assert not kinds.names_array("disk01")


@pytest.mark.parametrize("kind", kinds.kinds(), ids=lambda kind: type(kind).__name__)
def test_each_kind_knows_its_levels_and_names(kind: ArrayKind) -> None:
    for level in kind.levels:
        assert kinds.kind_of_level(level) is kind
        assert kind.raid(level).minimum_members <= 4
    assert kinds.kind_of_name(kind.name(3)) is kind
    assert kinds.free_name(kind, (kind.name(0),)) == kind.name(1)


def test_the_words_of_each_added_level_are_those_of_its_kind() -> None:
    for added in extensions(AddedKind):
        (kind,) = {kinds.kind_of_level(level) for level in added.levels}
        assert kind.levels == added.levels
        assert set(added.nicknames.values()) <= set(added.levels)


def test_levels_without_a_kind_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "extensions", lambda _: (AddedKind(lambda: "raid7", ("raid7",), "nothing"),))
    with pytest.raises(LabError, match="raid7"):
        kinds.kinds.__wrapped__()


def test_verbs_that_a_volume_cannot_do_are_refused() -> None:
    from lab.adapt.kind import Volume, VolumeArray

    # What is not abstract refuses, unless the kind replaces it; "corrupt" is not a verb of arrays.
    refusing = {name for name, verb in vars(ArrayOperations).items() if callable(verb)}
    refusing -= {*ArrayOperations.__abstractmethods__, "__init__", "refusal"}
    assert {name for name in refusing if getattr(Volume, name) is getattr(ArrayOperations, name)} == (
        VolumeArray.cannot - {"corrupt"}
    )
