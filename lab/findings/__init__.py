"""Run scripts that reproduce findings in md and mdadm, on several kernels and versions of mdadm."""
