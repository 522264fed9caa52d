# The machine in which an image is baked.

source "qemu" "lab" {
  iso_url          = local.image_url
  iso_checksum     = local.image_checksum
  disk_image       = true
  format           = "qcow2"
  disk_size        = "${var.disk_size_gib * 1024}M"
  disk_interface   = "virtio"
  disk_discard     = "unmap"
  disk_cache       = "unsafe" # the result of an interrupted bake is discarded
  skip_compaction  = true     # box.sh rewrites the disk
  output_directory = "${local.work_dir}/machine"
  vm_name          = "lab.qcow2"

  qemu_binary  = local.qemu_binary
  machine_type = local.board
  accelerator  = var.accelerator
  cpus         = var.cpus
  memory       = var.memory_mib
  net_device   = "virtio-net"
  headless     = true
  disable_vnc  = true
  qemuargs     = local.qemu_arguments

  # cloud-init reads user and key from a disc with this label. The key is created for one bake, and removed after it.
  cd_files = local.is_bake ? ["${local.work_dir}/seed/user-data", "${local.work_dir}/seed/meta-data"] : []
  cd_label = "cidata"

  communicator         = "ssh"
  ssh_username         = "vagrant"
  ssh_private_key_file = local.is_bake ? "${local.work_dir}/key" : ""
  ssh_password         = local.is_bake ? "" : "validation"
  ssh_timeout          = "${var.boot_minutes}m"
  shutdown_command     = "sudo systemctl poweroff"
  shutdown_timeout     = "5m"
}
