"""Validation of all external input: numbers, names, text and files. Code behind a gate does not validate input again.

External input is typed by a user, contained in a file, sent from another computer, or read from a folder to which other
users may write. Each gate documents its guarantee. ``SECURITY.md`` describes how the gates protect in combination.
"""
