# The variables of an image. A file in images/ sets some, bake.sh passes others, and the rest keep their defaults.
# Conditions use regex_replace, because Packer 1.6 has no regex(), and can() around it would be false for every value.

variable "image_url" {
  type        = string
  description = "A bootable qcow2 disk with cloud-init: https://, or file:// for one that bake.sh created."
  default     = null

  validation {
    condition     = regex_replace(coalesce(var.image_url, "file://"), "^(https|file)://.*$", "") == "" && var.image_url != ""
    error_message = "The image_url must start with https:// or file://, such as https://host/disk.qcow2."
  }
}

variable "image_checksum" {
  type        = string
  description = "Checksum of that disk: sha256:HEX, sha512:HEX, or file:URL of its publisher's list."
  default     = null

  validation {
    condition     = regex_replace(coalesce(var.image_checksum, "file:https://-"), "^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}|file:https://.+)$", "") == "" && var.image_checksum != ""
    error_message = "The image_checksum must be sha256:HEX, sha512:HEX or file:https://… (the publisher's list of checksums)."
  }
}

variable "architecture" {
  type        = string
  description = "Debian's name for the architecture of the disk and of the machine in which it is baked."
  default     = "amd64"

  validation {
    condition     = contains(["amd64", "arm64"], var.architecture)
    error_message = "The architecture must be amd64 or arm64."
  }
}

variable "firmware" {
  type        = string
  description = "The UEFI file from which an arm64 machine starts, as Debian and Ubuntu package it (qemu-efi-aarch64)."
  default     = "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd"

  validation {
    condition     = regex_replace(var.firmware, "^/[^,]+$", "") == "" && var.firmware != ""
    error_message = "The firmware must be an absolute path without a comma (QEMU separates options by commas)."
  }
}

variable "base_builder" {
  type        = string
  description = "A script base/NAME.sh that creates the disk locally, or null to download image_url."
  default     = null

  validation {
    condition     = regex_replace(coalesce(var.base_builder, "-"), "^[a-z0-9.-]+$", "") == "" && var.base_builder != ""
    error_message = "The base_builder must be the name of a script in packer/base, without folder and without .sh."
  }
}

variable "disk_size_gib" {
  type        = number
  description = "Size of the system disk in GiB; only written data take up space. A whole number, because boxes require it."
  default     = 8

  validation {
    condition     = var.disk_size_gib >= 4 && var.disk_size_gib <= 64 && floor(var.disk_size_gib) == var.disk_size_gib
    error_message = "The disk_size_gib must be a whole number from 4 to 64."
  }
}

variable "lab_disk_count" {
  type        = number
  description = "Lab disks during the bake; the finished box has its own (provision/vagrant/lab-vm.yml)."
  default     = 9

  validation {
    condition     = var.lab_disk_count >= 4 && var.lab_disk_count <= 16 && floor(var.lab_disk_count) == var.lab_disk_count
    error_message = "The lab_disk_count must be a whole number from 4 (RAID 6 and a spare) to 16."
  }
}

variable "cpus" {
  type        = number
  description = "CPUs of the machine in which the image is baked."
  default     = 2

  validation {
    condition     = var.cpus >= 1 && var.cpus <= 16 && floor(var.cpus) == var.cpus
    error_message = "The cpus must be a whole number from 1 to 16."
  }
}

variable "memory_mib" {
  type        = number
  description = "Memory of the machine in which the image is baked, in MiB."
  default     = 1024

  validation {
    condition     = var.memory_mib >= 768
    error_message = "The memory_mib must be at least 768, because the provisioning needs that much."
  }
}

variable "accelerator" {
  type        = string
  description = "How the machine runs: kvm, or tcg (emulation). bake.sh chooses according to the processor's flags."
  default     = "tcg"

  validation {
    condition     = contains(["kvm", "tcg"], var.accelerator)
    error_message = "The accelerator must be kvm (hardware virtualisation) or tcg (emulation)."
  }
}

variable "cpu_model" {
  type        = string
  description = "QEMU's name of the processor model. If it is null, kvm uses the computer's own model, and tcg one with all features."
  default     = null
}

variable "boot_minutes" {
  type        = number
  description = "Time limit for the machine's first answer on ssh; cloud-init's first boot is slow under emulation."
  default     = 8

  validation {
    condition     = var.boot_minutes >= 1
    error_message = "The boot_minutes must be at least 1."
  }
}

variable "work_dir" {
  type        = string
  description = "Folder of this bake, created by bake.sh, with key, seed, payload.tar and labNN.img. Null only for validation."
  default     = null

  validation {
    condition     = regex_replace(coalesce(var.work_dir, "/"), "^/[^,]*$", "") == "" && var.work_dir != ""
    error_message = "The work_dir must be an absolute path without a comma (QEMU separates options by commas)."
  }
}
