# Base volumes, which are the copies of boxes in libvirt's storage on which machines' own disks are based.

require "rexml/document"

module RaidlabVolumes
  module_function

  # vagrant-libvirt copies each new box into the pool and never removes one. Copies on which no machine is based may be
  # removed. These are older boxes, and incomplete copies, which the next machine would treat as complete.
  def remove_old_bases(machine)
    client = machine.provider.driver.connection.client
    bases = /\A#{Regexp.escape(machine.config.vm.box.gsub('/', '-VAGRANTSLASH-'))}_vagrant_box_image_0_(\d+)_box\.img\z/
    client.list_all_storage_pools.select(&:active?).each do |pool|
      RaidlabVM.refresh(pool)
      volumes = pool.list_volumes.map { |name| pool.lookup_volume_by_name(name) }
      used = volumes.filter_map { |volume| text_in(volume, "/volume/backingStore/path") }
      volumes.select { |volume| volume.name.match?(bases) && !used.include?(volume.path) }.each do |volume|
        remove(machine, volume) unless current?(machine, volume, volume.name[bases, 1].to_i)
      end
    end
  end

  def current?(machine, volume, modified_seconds)
    file = machine.box.directory.join("box.img").to_s
    size = text_in(volume, "/volume/physical").to_i
    modified_seconds == File.mtime(file).to_i && (size.zero? || size >= File.size(file))
  end

  def remove(machine, volume)
    machine.ui.info("removing the unused copy of a box: #{volume.name}")
    volume.delete
  end

  def text_in(volume, path)
    REXML::XPath.first(REXML::Document.new(volume.xml_desc), path)&.text
  end
end
