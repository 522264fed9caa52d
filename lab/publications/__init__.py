"""The lint of published studies, with rules for their texts and for their shell commands."""
