# Debian 12 from this computer's own package sources: no image is downloaded. Needs Debian 12 and root.
base_builder = "debian-12"
