# Debian 12 from this computer's own package sources, without downloading an image. This needs Debian 12 and root.
base_builder = "debian-12"
