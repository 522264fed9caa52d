"""Rows of chunks for ``lab.fault_lab``; all other packages import ``lab.arrays.geometry``."""

from lab.arrays.geometry import Chunk, ChunkKind, ChunkPlace, StripeRow, period_rows, place_on_member, stripe_rows

__all__ = ["Chunk", "ChunkKind", "ChunkPlace", "StripeRow", "period_rows", "place_on_member", "stripe_rows"]
