"""The catalogue of workloads, their fio jobs, and the parser of fio's output."""
