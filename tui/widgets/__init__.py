"""Widgets of the app. Each shows plain values and emits past-tense messages; none knows the lab or the app."""
