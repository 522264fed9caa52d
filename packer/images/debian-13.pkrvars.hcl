# Debian 13, the image for virtual machines. Its kernel lacks only drivers for real hardware.
image_url      = "https://cloud.debian.org/images/cloud/trixie/latest/debian-13-genericcloud-amd64.qcow2"
image_checksum = "file:https://cloud.debian.org/images/cloud/trixie/latest/SHA512SUMS"
