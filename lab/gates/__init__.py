"""Validate all external input: numbers, names, text and files. Code behind a gate does not validate it again.

External input is typed by a user, contained in a file, sent by another computer, or read from a folder to which other
users may write. Each gate documents what it guarantees. ``SECURITY.md`` describes how the gates work together.
"""
