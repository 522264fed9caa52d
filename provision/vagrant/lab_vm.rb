# The lab's virtual machine for Vagrant and libvirt: its disks, memory and processors.
#
# Loaded by the repository's Vagrantfile and, from a copy inside the box, by the box's own. Vagrant adds the disks of
# both up, so a box leaves everything to a project that says `$raidlab_project`.

require "yaml"

module RaidlabVM
  module_function

  # More than a qcow2 file takes that nothing was written to, and far less than the first start of a system writes.
  UNTOUCHED_BYTES = 1 << 20

  # A sentence about a wrong setting, and nothing else: Vagrant prints these without a backtrace.
  class SettingError < Vagrant::Errors::VagrantError
    def initialize(sentence)
      @sentence = sentence
      super()
    end

    def error_message
      @sentence
    end
  end

  def data_file
    File.expand_path("lab-vm.yml", __dir__)
  end

  # The checked settings. Raises SettingError that names the variable, or the line of the data file, to change.
  def settings(environment = ENV)
    data = YAML.safe_load(File.read(data_file))
    value = lambda do |key|
      variable = "RAIDLAB_#{key.upcase}"
      given = environment[variable].to_s.strip
      given.empty? ? [data[key].to_s, "#{key} in #{data_file}"] : [given, variable]
    end
    {
      disks: whole(*value.call("disks"), 1..16),
      disk_mebibytes: mebibytes(*value.call("disk_size"), 16..1_048_576),
      disk_bus: word(*value.call("disk_bus"), %w[virtio scsi]),
      memory_mebibytes: mebibytes(*value.call("memory"), 512..1_048_576),
      cpus: whole(*value.call("cpus"), 1..64),
      nodes: whole(*value.call("nodes"), 1..16),
      driver: driver(word(*value.call("driver"), %w[auto kvm qemu])),
    }
  end

  def whole(text, name, range)
    return text.to_i if text.match?(/\A\d{1,9}\z/) && range.cover?(text.to_i)

    raise SettingError, "#{name} is '#{text}'; it must be a whole number from #{range.first} to #{range.last}"
  end

  def mebibytes(text, name, range)
    number, unit = text.match(/\A(\d{1,9})([MG])(?:iB)?\z/i)&.captures
    amount = number.to_i * (unit.to_s.upcase == "G" ? 1024 : 1)
    return amount if number && range.cover?(amount)

    raise SettingError, "#{name} is '#{text}'; it must be a size such as 500M or 2G, from #{range.first}M to #{range.last / 1024}G"
  end

  def word(text, name, known)
    return text.downcase if known.include?(text.downcase)

    raise SettingError, "#{name} is '#{text}'; it must be #{known[0..-2].join(', ')} or #{known.last}"
  end

  # Whether this computer's processor is arm64: then so is the box's.
  def arm64?
    RbConfig::CONFIG["host_cpu"] == "aarch64"
  end

  # A PC's flags decide as well: in some virtual machines /dev/kvm is there and guests hang on it.
  def driver(asked, cpuinfo: "/proc/cpuinfo", device: "/dev/kvm")
    return asked unless asked == "auto"
    return File.exist?(device) ? "kvm" : "qemu" if arm64?

    flags = File.foreach(cpuinfo).grep(/\Aflags\s*:/).first.to_s.split
    (flags & %w[vmx svm]).any? && File.exist?(device) ? "kvm" : "qemu"
  rescue SystemCallError
    "qemu"
  end

  # What `vagrant up` makes of a box of raidlab.
  def configure(config, wanted = settings)
    config.vm.synced_folder ".", "/vagrant", disabled: true
    config.vm.box_check_update = false
    config.vm.boot_timeout = 600
    # Ubuntu's images too. Vagrant would ask for fifteen other systems first, each with a command over ssh.
    config.vm.guest = :debian
    config.vm.post_up_message = "'vagrant ssh', then 'raidlab doctor'; 'raidlab --help' lists the rest"
    config.vm.provider(:libvirt) { |libvirt| configure_libvirt(libvirt, wanted) }
    clean_leftovers(config)
  end

  def configure_libvirt(libvirt, wanted)
    libvirt.driver = wanted[:driver]
    libvirt.memory = wanted[:memory_mebibytes]
    libvirt.cpus = wanted[:cpus]
    libvirt.cpu_mode = wanted[:driver] == "kvm" ? "host-passthrough" : "maximum"
    if arm64?
      # This board has no firmware of its own; the package qemu-efi-aarch64 has UEFI for it.
      libvirt.machine_type = "virt"
      libvirt.loader = "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd"
    end
    # No screen: one thing less that listens, and starts sooner. The serial console is there: virsh console NAME.
    libvirt.graphics_type = "none"
    libvirt.random model: "random"
    # vagrant-libvirt chooses the kind of SCSI controller only if the system disk is on it too.
    libvirt.disk_bus = wanted[:disk_bus]
    wanted[:disks].times { |index| libvirt.storage(:file, **disk(index + 1, wanted)) }
  end

  # qcow2, since vagrant-libvirt writes raw volumes out to a gibibyte at least; cache none, so that the guest's own
  # cache is the only one; unmap, so that a blanked disk takes no room.
  def disk(number, wanted)
    {
      size: "#{wanted[:disk_mebibytes]}M",
      type: "qcow2",
      bus: wanted[:disk_bus],
      serial: format("RAIDLAB-%02d", number),
      cache: "none",
      discard: "unmap",
    }
  end

  # vagrant-libvirt removes the disks that are configured now, not those the machine was made with, and an `up` that
  # was killed half-way leaves volumes, or a machine that Vagrant has not noted yet, on which the next one stumbles. One
  # that it has noted it would start as it is, and wait ten minutes for the network interface that was never added.
  def clean_leftovers(config)
    config.trigger.before(:up) do |trigger|
      trigger.name = "leftovers of an interrupted 'up'"
      trigger.ruby { |_, machine| RaidlabVM.remove_leftovers(machine) }
    end
    config.trigger.after(:destroy) do |trigger|
      trigger.name = "every disk is gone"
      trigger.ruby { |_, machine| RaidlabVM.remove_leftovers(machine) unless machine.id }
    end
  end

  # Removes the volumes named after a machine that is not there, or is only defined, and that. One that has run is left
  # alone: somebody may have deleted .vagrant, and the machine's work is on its disks.
  def remove_leftovers(machine)
    client = machine.provider.driver.connection.client
    name = domain_name(machine)
    left = volumes(client, name)
    domain = client.list_all_domains.find { |each| each.name == name }
    return if domain && (domain.active? || left.values.any? { |volume| volume.info.allocation > UNTOUCHED_BYTES })
    # Vagrant knows a machine whose disks are not to be seen: nothing tells whether it has run.
    return if machine.id && (domain.nil? || left.empty?)

    domain&.undefine
    machine.id = nil if machine.id
    left.each do |file, volume|
      machine.ui.info("removing the volume #{file}")
      volume.delete
    end
  end

  # Those of a machine, by their file's name.
  def volumes(client, name)
    ours = /\A#{Regexp.escape(name)}(\.img|_\d+\.img|-[sv]d[a-z]+\.qcow2)\z/
    client.list_all_storage_pools.select(&:active?).each_with_object({}) do |pool, found|
      refresh(pool)
      # Not list_all_volumes: ruby-libvirt's volumes from there cannot tell their names.
      pool.list_volumes.grep(ours).each { |file| found[file] = pool.lookup_volume_by_name(file) }
    end
  end

  # libvirt refuses while another machine's volume is being written, and then its list is good enough.
  def refresh(pool)
    pool.refresh
  rescue Libvirt::Error
    nil
  end

  # As vagrant-libvirt makes it (action/set_name_of_domain.rb).
  def domain_name(machine)
    prefix = machine.provider_config.default_prefix || "#{machine.env.root_path.basename}_"
    "#{prefix}#{machine.name}".gsub(/[^-a-z0-9_.]/i, "")
  end
end
