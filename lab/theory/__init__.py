"""What an array should give, from what its disks give."""
