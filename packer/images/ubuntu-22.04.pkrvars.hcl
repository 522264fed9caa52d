# Ubuntu 22.04 LTS. There, raidlab runs on the distribution's Python 3.11.
image_url      = "https://cloud-images.ubuntu.com/releases/jammy/release/ubuntu-22.04-server-cloudimg-amd64.img"
image_checksum = "file:https://cloud-images.ubuntu.com/releases/jammy/release/SHA256SUMS"
