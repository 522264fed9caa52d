"""Arrays: the Lab screen, composing an array, plans, and the rack of disks."""
