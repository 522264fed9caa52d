"""The report as one HTML file that needs no network, with plots, tables, findings and measuring conditions."""
