"""The report as one HTML file that needs no network: plots, tables, findings and conditions of measurement."""
