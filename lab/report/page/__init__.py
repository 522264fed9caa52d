"""The report as one HTML page that needs no network: plots, tables beside them, findings, conditions."""
