# Debian 12, the image for virtual machines. Its kernel lacks only drivers for real hardware.
image_url      = "https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-genericcloud-amd64.qcow2"
image_checksum = "file:https://cloud.debian.org/images/cloud/bookworm/latest/SHA512SUMS"
