# Brings a machine's results into this computer's store before the machine is halted or destroyed.

require "digest"
require "fileutils"
require "tmpdir"

module RaidlabResults
  module_function

  GUEST_ARCHIVE ||= "/tmp/raidlab-results.tar"
  GUEST_STORE ||= "${RAIDLAB_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/raidlab}/results"
  ID ||= /\A[A-Za-z0-9][A-Za-z0-9._-]*\z/

  # Returns the folder in which `raidlab results` looks on this computer.
  def store(environment = ENV)
    state = environment["RAIDLAB_STATE"].to_s
    state = File.join(environment["XDG_STATE_HOME"] || File.join(Dir.home, ".local/state"), "raidlab") if state.empty?
    File.join(File.expand_path(state), "results")
  end

  # Reports results that cannot be fetched, but never prevents a halt.
  def fetch(machine)
    return unless machine.id

    mark = machine.data_dir.join("results-fetched")
    if machine.state.id == :running
      names = copy(machine)
      machine.ui.info("copied to #{store}: #{names.join(', ')}") unless names.empty?
      mark.write("")
    elsif !mark.exist?
      machine.ui.warn("this machine is off and was not halted by Vagrant, so its newest results could not be copied out")
      machine.ui.warn("to keep them next time: 'vagrant up' first; results copied earlier are in #{store}")
    end
  rescue Vagrant::Errors::VagrantError, SystemCallError => error
    machine.ui.warn("the results in this machine could not be copied to #{store}: #{error.message}")
  end

  def copy(machine)
    known = guest_sums(machine).select { |id, sum| here?(id, machine.name, sum) }.keys
    Dir.mktmpdir("raidlab-results") do |folder|
      archive = File.join(folder, "results.tar")
      machine.communicate.execute(archive_script(known))
      machine.communicate.download(GUEST_ARCHIVE, archive)
      machine.communicate.execute("rm -f #{GUEST_ARCHIVE}")
      unpack(archive, File.join(folder, "results"), machine.name)
    end
  end

  # tar's status 1 means that a file changed in the meantime, as during a run.
  def archive_script(left_out)
    excluded = ["./.?*", *left_out.map { |id| "./#{id}" }].map { |path| "--exclude='#{path}'" }.join(" ")
    "cd \"#{GUEST_STORE}\" 2>/dev/null || exec tar -cf #{GUEST_ARCHIVE} -T /dev/null; " \
    "tar #{excluded} -cf #{GUEST_ARCHIVE} . || [ $? = 1 ]"
  end

  # Maps the id of each finished result in the machine to the sum of its record.
  def guest_sums(machine)
    said = +""
    machine.communicate.execute("cd \"#{GUEST_STORE}\" 2>/dev/null && sha256sum -- */record.json 2>/dev/null || true") do |kind, text|
      said << text if kind == :stdout
    end
    said.lines.filter_map { |line| line.match(%r{\A(\h{64})  ([^/]+)/record\.json$})&.captures&.reverse }
        .select { |id, _| id.match?(ID) }.to_h
  end

  def here?(id, node, sum)
    [id, "#{id}-#{node}"].any? { |name| sum_of(File.join(store, name)) == sum }
  end

  def sum_of(folder)
    Digest::SHA256.file(File.join(folder, "record.json")).hexdigest
  rescue SystemCallError
    nil
  end

  def unpack(archive, folder, node)
    FileUtils.mkdir_p([folder, store])
    system("tar", "--no-same-owner", "--no-same-permissions", "-C", folder, "-xf", archive, exception: true)
    Dir.children(folder).sort.filter_map do |id|
      # Only plain files are accepted from a machine, because a link could point anywhere on this computer.
      files = Dir.glob(File.join(folder, id, "**/*"), File::FNM_DOTMATCH)
      keep(File.join(folder, id), id, node) if id.match?(ID) && files.all? { |file| plain?(file) }
    end
  end

  def plain?(path)
    kind = File.lstat(path)
    kind.file? || kind.directory?
  end

  # Puts one result into the store, under its own name if that is free or belongs to an unfinished copy of the same run.
  def keep(source, id, node)
    sum = sum_of(source)
    return if sum && here?(id, node, sum)

    name = [id, "#{id}-#{node}"].find { |each| !File.exist?(File.join(store, each, "record.json")) }
    return unless name && worth?(source, File.join(store, name))

    staged = File.join(store, ".new-#{name}")
    FileUtils.rm_rf(staged)
    FileUtils.cp_r(source, staged)
    FileUtils.rm_rf(File.join(store, name))
    File.rename(staged, File.join(store, name))
    name
  end

  def worth?(source, target)
    return false unless File.exist?(File.join(source, "record.json")) || File.exist?(File.join(source, "draft.json"))

    !File.exist?(target) || File.exist?(File.join(source, "record.json")) || cells(source) > cells(target)
  end

  def cells(folder)
    File.size?(File.join(folder, "cells.jsonl")).to_i
  end
end
