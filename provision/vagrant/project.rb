# What the repository adds to the lab's virtual machine. A missing box is baked, raidlab in the machine is updated from
# the working tree, results are copied out before the machine ends, and one Vagrantfile serves a class of machines.

require "digest"
require "fileutils"
require "open3"
require "tmpdir"

module RaidlabProject
  module_function

  # Nothing is run here, because `vagrant status` loads this too.
  def configure(config, root)
    wanted = RaidlabVM.settings
    image = image_of(root)
    RaidlabVM.configure(config, wanted)
    config.vm.box = "raidlab/#{image}"
    config.vm.box_url = "file://#{box_file(root, image)}"
    config.vm.post_up_message = ""
    # Two clones in folders of the same name must not be the same machine to libvirt.
    prefix = "raidlab-#{Digest::SHA256.hexdigest(root)[0, 6]}-"
    config.vm.provider(:libvirt) { |libvirt| libvirt.default_prefix = prefix }
    node_names(root, wanted[:nodes]).each_with_index { |name, index| define_node(config, name, index) }
    add_triggers(config, root, image)
  end

  def image_of(root, environment = ENV)
    images = Dir[File.join(root, "packer/images/*.pkrvars.hcl")].map { |file| File.basename(file, ".pkrvars.hcl") }.sort
    asked = environment["RAIDLAB_IMAGE"].to_s.strip
    default = RaidlabVM.arm64? ? "ubuntu-24.04-arm64" : "ubuntu-24.04"
    RaidlabVM.word(asked.empty? ? default : asked, "RAIDLAB_IMAGE", images)
  end

  def box_file(root, image)
    File.join(root, "packer/output", image, "raidlab-#{image}.box")
  end

  # Existing machines stay known until they are destroyed, whatever RAIDLAB_NODES says now, so that a plain `vagrant
  # destroy` ends the whole class.
  def node_names(root, count)
    folder = File.expand_path(ENV["VAGRANT_DOTFILE_PATH"] || ".vagrant", root)
    made = Dir[File.join(folder, "machines/raidlab*/libvirt/id")].map { |file| File.basename(File.dirname(file, 2)) }
    wanted = (1..count).map { |number| number == 1 ? "raidlab" : "raidlab#{number}" }
    (wanted | made.grep(/\Araidlab\d*\z/)).sort_by { |name| name.delete_prefix("raidlab").to_i }
  end

  def define_node(config, name, index)
    config.vm.define(name, primary: index.zero?) do |node|
      node.vm.hostname = name unless index.zero?
    end
  end

  def add_triggers(config, root, image)
    trigger(config, :before, :up, "the box of #{image}") { |machine| prepare_box(machine, root, image) }
    trigger(config, :after, :up, "ready") { |machine| say_what_to_type(machine) }
    trigger(config, :after, :provision, "raidlab from the working tree") { |machine| update_raidlab(machine, root) }
    trigger(config, :before, :halt, "results") { |machine| RaidlabResults.fetch(machine) }
    trigger(config, :before, :destroy, "results") { |machine| RaidlabResults.fetch(machine) }
  end

  def trigger(config, moment, action, name)
    config.trigger.public_send(moment, action) do |each|
      each.name = name
      each.ruby { |_, machine| yield machine }
    end
  end

  def say_what_to_type(machine)
    machine.data_dir.join("results-fetched").delete if machine.data_dir.join("results-fetched").exist?
    node = machine.name == :raidlab ? "" : " #{machine.name}"
    machine.ui.success("the lab is ready; type: vagrant ssh#{node}, then: raidlab")
  end

  # Machines start in parallel, and the first one bakes for all.
  def prepare_box(machine, root, image)
    @preparing ||= Mutex.new
    @preparing.synchronize do
      inputs = inputs_of(root, image)
      if machine.id
        tell_if_stale(machine, inputs)
      else
        bake(machine, root, image)
        machine.box = add_box(machine, box_file(root, image))
        RaidlabVolumes.remove_old_bases(machine)
        machine.data_dir.join("inputs").write(inputs)
      end
    end
  end

  # Returns a word that identifies the inputs of a box if it were baked now.
  def inputs_of(root, image)
    read(root, "packer/steps/status.sh", "--inputs", image)
  end

  def tell_if_stale(machine, inputs)
    made_from = machine.data_dir.join("inputs")
    return if !made_from.file? || made_from.read == inputs

    machine.ui.warn("this machine is older than the sources that it is made from; it starts unchanged")
    machine.ui.warn("next: 'vagrant provision' updates raidlab in it; 'vagrant destroy -f && vagrant up' makes a new one")
  end

  def bake(machine, root, image)
    state = read(root, "packer/bake.sh", "--status", image)
    return if state == "current"

    if state == "stale" && other_machines?(machine)
      machine.ui.warn("the box of #{image} is older than its sources; it is kept, because a class already exists")
      machine.ui.warn("next: 'vagrant destroy -f && vagrant up' recreates all machines")
      return
    end
    machine.ui.info("the box of #{image} is #{state == 'stale' ? 'older than its sources' : 'not there yet'}: baking it, " \
                    "which takes minutes; log: #{File.join(root, 'packer/output', "#{image}.log")}")
    return if system(File.join(root, "packer/bake.sh"), image, chdir: root)

    raise RaidlabVM::SettingError, "the box of #{image} was not baked; the reason is above. Next: fix it, then run 'vagrant up'"
  end

  def other_machines?(machine)
    Dir[machine.data_dir.join("../../*/libvirt/id").to_s].any?
  end

  # Makes Vagrant unpack the newest box. By itself, Vagrant never replaces a box that it already has under this name.
  def add_box(machine, file)
    sum = File.read("#{file}.sha256").split.first
    name = machine.config.vm.box
    found = find_box(machine, name)
    stamp = found&.directory&.join("raidlab.sha256")
    return found if stamp&.file? && stamp.read == sum

    machine.env.action_runner.run(
      Vagrant::Action.action_box_add,
      ui: machine.ui, box_name: name, box_url: "file://#{file}", box_provider: "libvirt", box_force: true,
      box_checksum: sum, box_checksum_type: "sha256",
    )
    find_box(machine, name).tap { |box| box.directory.join("raidlab.sha256").write(sum) }
  end

  def find_box(machine, name)
    machine.env.boxes.find(name, :libvirt, ">= 0")
  end

  def update_raidlab(machine, root)
    return unless machine.state.id == :running

    Dir.mktmpdir("raidlab") do |folder|
      wheels = File.join(folder, "wheels")
      architecture = image_of(root).end_with?("-arm64") ? "arm64" : "amd64"
      run(machine, root, "provision/host/wheelhouse.sh", wheels, architecture)
      FileUtils.cp_r(File.join(root, "provision/guest"), folder)
      archive = File.join(folder, "update.tar")
      run(machine, root, "tar", "-C", folder, "-cf", archive, "wheels", "guest")
      install_in_guest(machine, archive)
    end
    machine.data_dir.join("inputs").write(inputs_of(root, image_of(root)))
  end

  def install_in_guest(machine, archive)
    machine.communicate.upload(archive, "/tmp/raidlab-update.tar")
    script = "set -e; folder=$(mktemp -d); trap 'rm -rf \"$folder\" /tmp/raidlab-update.tar' EXIT; " \
             "tar -C \"$folder\" -xf /tmp/raidlab-update.tar; \"$folder/guest/prepare.sh\" \"$folder/wheels\""
    machine.communicate.sudo(script) { |_, text| machine.ui.detail(text.chomp) unless text.strip.empty? }
  end

  # Returns the output of a program of this repository. Raises an error with its messages if it fails.
  def read(root, program, *arguments)
    said, complaint, status = Open3.capture3(File.join(root, program), *arguments, chdir: root)
    return said.strip if status.success?

    raise RaidlabVM::SettingError, "#{program} #{arguments.join(' ')} failed: #{complaint.strip}"
  end

  def run(machine, root, program, *arguments)
    path = program.include?("/") ? File.join(root, program) : program
    return if system(path, *arguments, chdir: root)

    raise RaidlabVM::SettingError, "#{program} failed; the reason is above. Next: fix it, then run the command again"
  end
end
