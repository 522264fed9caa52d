# Values that are derived from the variables.

locals {
  # A validation has no folder of its own. Any existing folder will do, because Packer opens nothing.
  work_dir = var.work_dir == null ? path.root : var.work_dir
  is_bake  = var.work_dir != null

  # Packer's validation would fetch a list of checksums. Without a list, it checks only the form, and needs no network.
  image_url      = local.is_bake ? var.image_url : "file:///dev/null"
  image_checksum = local.is_bake ? var.image_checksum : "sha256:${join("", [for _ in range(64) : "0"])}"

  # A PC starts from QEMU's BIOS, but the arm64 board has no firmware.
  board              = { amd64 = "pc", arm64 = "virt" }[var.architecture]
  qemu_binary        = { amd64 = "qemu-system-x86_64", arm64 = "qemu-system-aarch64" }[var.architecture]
  firmware_arguments = var.architecture == "arm64" ? [["-bios", var.firmware]] : []

  cpu_model = var.cpu_model == null ? (var.accelerator == "kvm" ? "host" : "max") : var.cpu_model

  # Lab disks are QEMU arguments. Disks from disk_additional_size have no serial numbers, and current Packer versions
  # would treat them as a part of the image.
  lab_disks = [for number in range(1, var.lab_disk_count + 1) : format("%02d", number)]
  lab_disk_arguments = concat(
    [for disk in local.lab_disks : [
      "-blockdev", "driver=raw,node-name=lab${disk},cache.direct=off,discard=unmap,file.driver=file,file.filename=${local.work_dir}/lab${disk}.img"
    ]],
    # The devices must follow the system disk on the bus, because the BIOS starts from the first disk that it finds.
    [for number in range(1, var.lab_disk_count + 1) : [
      "-device", format("virtio-blk-pci,addr=0x%x,drive=lab%02d,serial=RAIDLAB-%02d", 11 + number, number, number)
    ]]
  )

  # The payload is read from a disk, because a copy over ssh takes a minute under emulation.
  payload_arguments = [
    ["-blockdev", "driver=raw,node-name=payload,read-only=on,file.driver=file,file.filename=${local.work_dir}/payload.tar"],
    ["-device", "virtio-blk-pci,addr=0x1c,drive=payload,serial=PAYLOAD"],
  ]

  # A -device or -netdev replaces all of Packer's own, so the network card is given again. The forwarded port is bound
  # to loopback, unlike Packer's own.
  qemu_arguments = concat(
    [
      ["-cpu", local.cpu_model],
      ["-netdev", "user,id=user.0,hostfwd=tcp:127.0.0.1:{{ .SSHHostPort }}-:22"],
      ["-device", "virtio-net,netdev=user.0"],
      ["-serial", "file:${local.work_dir}/console.log"],
    ],
    local.firmware_arguments,
    local.lab_disk_arguments,
    local.payload_arguments
  )
}
