# Ubuntu 26.04 LTS for arm64.
architecture   = "arm64"
image_url      = "https://cloud-images.ubuntu.com/releases/resolute/release/ubuntu-26.04-server-cloudimg-arm64.img"
image_checksum = "file:https://cloud-images.ubuntu.com/releases/resolute/release/SHA256SUMS"
