# What a machine has, for check_machine in doctor.py. One shell for all checks: starting a process takes 15 ms in the
# embedded kernel. The functions of a module that is not loaded are read from its file, without loading it.
# Arguments: programs, modules, modules with features, functions separated by "|"
# shellcheck shell=sh

for program in $1; do path=$(command -v "$program") && echo "program $program $path"; done
for module in $2; do modprobe -n -q "$module" && echo "module $module"; done
for program in mdadm fio; do echo "version $program $("$program" --version 2>&1)"; done
{
  cat /proc/kallsyms
  for module in $3; do
    [ ! -e "/sys/module/$module" ] || continue
    file=$(modprobe --show-depends "$module" | sed -nE 's/^insmod ([^ ]+).*/\1/p' | tail -n 1)
    case $file in *.xz) xz -dc "$file" ;; *.zst) zstd -dcq "$file" ;; *.gz) gzip -dc "$file" ;; ?*) cat "$file" ;; esac
  done
} 2>/dev/null | grep -aowE "$4" | sort -u | sed 's/^/function /'
for file in /sys/block/*/queue/atomic_write_unit_max_bytes; do [ -e "$file" ] && echo "atomic $(cat "$file")"; done
true
