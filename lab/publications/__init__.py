"""The lint of what studies published: their texts, and recipes of shell commands."""
