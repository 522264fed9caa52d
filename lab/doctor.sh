# Lists what a machine has, for check_machine in doctor.py. One shell runs all checks, because starting a process takes
# 15 ms in the embedded kernel. The functions of a module that is not loaded are read from its file, without loading it.
# Arguments: programs, modules, modules with features, functions separated by "|"
# shellcheck shell=sh

for program in $1; do
  printf 'program %s ' "$program"
  command -v "$program" || echo
done
for module in $2; do modprobe -n -q "$module" && echo "module $module"; done
# Only the lines that they print themselves, because a loader's error may name versions, too.
for program in mdadm fio; do "$program" --version; done 2>&1 | sed -nE 's/^(mdadm|fio) ?-/version \1 &/p'
{
  cat /proc/kallsyms
  for module in $3; do
    [ ! -e "/sys/module/$module" ] || continue
    file=$(modprobe --show-depends "$module" | sed -nE 's/^insmod ([^ ]+).*/\1/p' | tail -n 1)
    case $file in *.xz) xz -dc "$file" ;; *.zst) zstd -dcq "$file" ;; *.gz) gzip -dc "$file" ;; ?*) cat "$file" ;; esac
  done
} 2>/dev/null | grep -aowE "$4" | sort -u | sed 's/^/function /'
for file in /sys/block/*/queue/atomic_write_unit_max_bytes; do
  [ -e "$file" ] && read -r bytes <"$file" && echo "atomic $bytes"
done
true
