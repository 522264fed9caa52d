# Packer 1.10 and later contains no plugins, so bake.sh runs "packer init packer/plugins". This file is in a separate
# folder, because Packer 1.6 refuses this block.

packer {
  required_plugins {
    qemu = {
      version = "~> 1.1"
      source  = "github.com/hashicorp/qemu"
    }
  }
}
