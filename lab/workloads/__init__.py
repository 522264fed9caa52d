"""Workloads: the catalogue, their fio jobs, and the parser of fio's output."""
