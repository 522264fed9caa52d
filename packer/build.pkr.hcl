# Makes a sealed lab from a cloud image. The scripts in provision/guest do the work, and also run without Packer.

build {
  sources = ["source.qemu.lab"]

  provisioner "shell" {
    inline = [
      # Status 2 means success with warnings. Real problems make a later step fail.
      "sudo cloud-init status --wait >/dev/null || true",
      "mkdir -p /tmp/raidlab && sudo cat /dev/disk/by-id/virtio-PAYLOAD | tar -xf - -C /tmp/raidlab",
    ]
  }

  # Run the scripts twice, so that a script that is not safe to repeat cannot get into an image.
  provisioner "shell" {
    inline = [
      "cd /tmp/raidlab",
      "for pass in first second; do",
      "  echo \"== $pass pass\"",
      "  sudo provision/guest/prepare.sh wheelhouse",
      "  sudo provision/guest/virtual.sh",
      "done",
    ]
    execute_command = "{{ .Vars }} bash -euo pipefail {{ .Path }}"
  }

  # This is a new login with the user's own rights, so it sees the lab as a student sees it.
  provisioner "shell" {
    inline          = ["/tmp/raidlab/provision/guest/prove.sh", "/tmp/raidlab/provision/guest/facts.sh >/tmp/facts"]
    execute_command = "{{ .Vars }} bash -euo pipefail {{ .Path }}"
  }

  provisioner "file" {
    direction   = "download"
    source      = "/tmp/facts"
    destination = "${local.work_dir}/facts"
  }

  provisioner "shell" {
    inline          = ["sudo /tmp/raidlab/provision/guest/seal.sh"]
    execute_command = "{{ .Vars }} bash -euo pipefail {{ .Path }}"
  }
}
