# For Packer 1.10 and later, which brings no plugins: bake.sh runs "packer init packer/plugins". A folder of its own, because
# Packer 1.6 refuses this block.

packer {
  required_plugins {
    qemu = {
      version = "~> 1.1"
      source  = "github.com/hashicorp/qemu"
    }
  }
}
