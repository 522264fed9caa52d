# Ubuntu 22.04 LTS for arm64.
architecture   = "arm64"
image_url      = "https://cloud-images.ubuntu.com/releases/jammy/release/ubuntu-22.04-server-cloudimg-arm64.img"
image_checksum = "file:https://cloud-images.ubuntu.com/releases/jammy/release/SHA256SUMS"
