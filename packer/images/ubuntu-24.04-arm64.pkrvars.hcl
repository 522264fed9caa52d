# Ubuntu 24.04 LTS for arm64, the default on arm64 computers.
architecture   = "arm64"
image_url      = "https://cloud-images.ubuntu.com/releases/noble/release/ubuntu-24.04-server-cloudimg-arm64.img"
image_checksum = "file:https://cloud-images.ubuntu.com/releases/noble/release/SHA256SUMS"
