"""Bundles, results as signed files that go from one computer to another, and what a folder of them says together."""
