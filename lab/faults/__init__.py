"""Named ways to break an array, each with what must follow and how to mend it."""
