# Debian 13 for arm64.
architecture   = "arm64"
image_url      = "https://cloud.debian.org/images/cloud/trixie/latest/debian-13-genericcloud-arm64.qcow2"
image_checksum = "file:https://cloud.debian.org/images/cloud/trixie/latest/SHA512SUMS"
