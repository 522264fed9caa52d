# Debian 12 for arm64.
architecture   = "arm64"
image_url      = "https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-genericcloud-arm64.qcow2"
image_checksum = "file:https://cloud.debian.org/images/cloud/bookworm/latest/SHA512SUMS"
