# The lab's virtual machine for Vagrant and libvirt: its disks, memory and processors.
#
# The repository's Vagrantfile loads this, and the box's own Vagrantfile loads a copy inside the box. Vagrant would add
# the disks of both, so a box leaves everything to a project that sets `$raidlab_project`.

require "yaml"

module RaidlabVM
  module_function

  # More than an unused qcow2 file takes, and far less than the first start of a system writes.
  UNTOUCHED_BYTES = 1 << 20

  # A sentence about a wrong setting. Vagrant prints such errors without a backtrace.
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

  # Returns the checked settings. Raises SettingError, which says which variable or line of the data file to change.
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

  # Whether this computer's processor, and therefore the box's, is arm64.
  def arm64?
    RbConfig::CONFIG["host_cpu"] == "aarch64"
  end

  # A PC's processor flags decide as well, because in some virtual machines /dev/kvm exists but guests hang.
  def driver(asked, cpuinfo: "/proc/cpuinfo", device: "/dev/kvm")
    return asked unless asked == "auto"
    return File.exist?(device) ? "kvm" : "qemu" if arm64?

    flags = File.foreach(cpuinfo).grep(/\Aflags\s*:/).first.to_s.split
    (flags & %w[vmx svm]).any? && File.exist?(device) ? "kvm" : "qemu"
  rescue SystemCallError
    "qemu"
  end

  # Configures what `vagrant up` makes from a raidlab box.
  def configure(config, wanted = settings)
    config.vm.synced_folder ".", "/vagrant", disabled: true
    config.vm.box_check_update = false
    config.vm.boot_timeout = 600
    # This is also right for Ubuntu. Otherwise Vagrant would first test for fifteen other systems, each with a command
    # over ssh.
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
      # This board has no firmware. The package qemu-efi-aarch64 contains UEFI for it.
      libvirt.machine_type = "virt"
      libvirt.loader = "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd"
    end
    # Without a screen, nothing listens for it, and the machine starts sooner. For the serial console, use
    # virsh console NAME.
    libvirt.graphics_type = "none"
    libvirt.random model: "random"
    # vagrant-libvirt chooses the kind of SCSI controller only if the system disk is on it, too.
    libvirt.disk_bus = wanted[:disk_bus]
    wanted[:disks].times { |index| libvirt.storage(:file, **disk(index + 1, wanted)) }
  end

  # The type is qcow2, because vagrant-libvirt extends raw volumes to at least a gibibyte. With cache none, the guest's
  # own cache is the only one. With unmap, a blanked disk takes no space.
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

  # vagrant-libvirt removes the disks that are configured now, not those with which the machine was made. An `up` that
  # was killed leaves volumes behind, or a machine that Vagrant has not recorded yet, and then the next `up` fails. A
  # machine that it has recorded would be started as it is, and Vagrant would wait ten minutes for a network interface
  # that was never added.
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

  # Removes the volumes of a machine that does not exist or is only defined, and that machine. A machine that has run is
  # left alone, because somebody may have deleted .vagrant, and the machine's work is on its disks.
  def remove_leftovers(machine)
    client = machine.provider.driver.connection.client
    name = domain_name(machine)
    left = volumes(client, name)
    domain = client.list_all_domains.find { |each| each.name == name }
    return if domain && (domain.active? || left.values.any? { |volume| volume.info.allocation > UNTOUCHED_BYTES })
    # Vagrant knows a machine whose disks cannot be seen, so it is unknown whether the machine has run.
    return if machine.id && (domain.nil? || left.empty?)

    domain&.undefine
    machine.id = nil if machine.id
    left.each do |file, volume|
      machine.ui.info("removing the volume #{file}")
      volume.delete
    end
  end

  # Returns the volumes of a machine, recognised by their files' names.
  def volumes(client, name)
    ours = /\A#{Regexp.escape(name)}(\.img|_\d+\.img|-[sv]d[a-z]+\.qcow2)\z/
    client.list_all_storage_pools.select(&:active?).each_with_object({}) do |pool, found|
      refresh(pool)
      # list_all_volumes is not used, because ruby-libvirt's volumes from there have no names.
      pool.list_volumes.grep(ours).each { |file| found[file] = pool.lookup_volume_by_name(file) }
    end
  end

  # libvirt refuses to refresh while another machine's volume is being written. Its existing list is then good enough.
  def refresh(pool)
    pool.refresh
  rescue Libvirt::Error
    nil
  end

  # Returns the name that vagrant-libvirt gives a machine (action/set_name_of_domain.rb).
  def domain_name(machine)
    prefix = machine.provider_config.default_prefix || "#{machine.env.root_path.basename}_"
    "#{prefix}#{machine.name}".gsub(/[^-a-z0-9_.]/i, "")
  end
end
