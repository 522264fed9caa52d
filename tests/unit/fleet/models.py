"""Fleets with known results: lives and repairs at constant rates, nothing else."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from lab.fleet.engine import BlockSums, Moments, simulate_block, summed
from lab.fleet.model import Block, FleetModel, Spread

TB = 1e12


def exponential(members: int, tolerance: int, life_hours: float, repair_hours: float, **more: Any) -> FleetModel:
    model = FleetModel(
        groups=1,
        group_members=members,
        tolerance=tolerance,
        years=5.0,
        usable_bytes=(members - tolerance) * TB,
        disk_bytes=TB,
        life=Spread(scale_hours=life_hours),
        rebuild=Spread(scale_hours=repair_hours),
    )
    return msgspec.structs.replace(model, **more)


def simulated(model: FleetModel, blocks: int, trials: int = 16_384) -> BlockSums:
    return summed(simulate_block(model, Block(number, trials)) for number in range(blocks))


def mean_and_error(moments: Moments, trials: int) -> tuple[float, float]:
    mean = moments.total / trials
    return mean, math.sqrt(max(moments.squares / trials - mean**2, 0.0) / trials)


def deviations(moments: Moments, trials: int, truth: float) -> float:
    """The error of the estimate in standard errors."""
    mean, error = mean_and_error(moments, trials)
    return abs(mean - truth) / error
