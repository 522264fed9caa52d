"""What comes from outside passes here: numbers, names, text, files. Nothing behind a gate asks the same again.

From outside is what somebody typed, wrote into a file, or sent from another computer, and what lies in a folder in
which others may write. Each gate says which promise it keeps; ``SECURITY.md`` says what they protect together.
"""
