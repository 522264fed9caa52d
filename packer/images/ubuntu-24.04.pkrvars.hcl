# Ubuntu 24.04 LTS, the default.
image_url      = "https://cloud-images.ubuntu.com/releases/noble/release/ubuntu-24.04-server-cloudimg-amd64.img"
image_checksum = "file:https://cloud-images.ubuntu.com/releases/noble/release/SHA256SUMS"
