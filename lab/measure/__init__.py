"""Measurement: samples on the machine's clock, one measured job, rebuilds, CPU cost and data integrity."""
