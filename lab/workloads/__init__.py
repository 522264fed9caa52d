"""What is run on an array: the catalogue of workloads, their fio jobs, and what fio says of them."""
