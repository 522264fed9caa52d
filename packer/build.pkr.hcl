# From a cloud image to a sealed lab. The scripts of provision/guest do the work; a computer without Packer can run them too.

build {
  sources = ["source.qemu.lab"]

  provisioner "shell" {
    inline = [
      # Status 2 is success with warnings; real problems fail below.
      "sudo cloud-init status --wait >/dev/null || true",
      "mkdir -p /tmp/raidlab && sudo cat /dev/disk/by-id/virtio-PAYLOAD | tar -xf - -C /tmp/raidlab",
    ]
  }

  # Twice: a script that is not safe to repeat must not get into an image.
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

  # A fresh login with the user's own rights: the lab as a student sees it.
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
