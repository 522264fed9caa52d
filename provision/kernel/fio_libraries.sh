#!/usr/bin/env bash
# A start of fio loads 60 libraries, nearly all for engines that read from servers: three quarters of what it takes in virtual
# time. This makes stand-ins for those, which end the program with a word if they are called. Usage: fio_libraries.sh FOLDER
# FOLDER/for says of which fio they are (size and time of change), since another may ask for more. Without fio: no folder.
set -euo pipefail
umask go-w

# What fio needs for the disks of this computer.
readonly kept='^(lib(c|m|dl|rt|pthread|z|numa|aio|uring)|ld-linux-x86-64)\.so'

say() { printf 'kernel: %s\n' "$*" >&2; }

# NAME VERSION of all that fio asks of a library; "-" where it has no versions.
asked_of() {
  awk '
    NR == FNR { wanted[$1]; next }
    { split($2, part, /@+/) }
    $1 !~ /[TWi]/ { next }
    $2 in wanted || part[1] in wanted || part[1] "@" part[2] in wanted { print part[1], part[2] ? part[2] : "-" }
  ' <(nm -D --undefined-only "$fio" | awk '{ print $NF }') <(nm -D --defined-only --with-symbol-versions "$1" | awk '{ print $2, $3 }')
}

stand_in() {
  local name="$1" versions=()
  asked_of "$2" >"$folder/asked"
  {
    printf '#include <unistd.h>\nstatic const char text[] = "fio: %s is not loaded in virtual time\\n";\n' "$name"
    printf 'static void absent(void) { (void)!write(2, text, sizeof text - 1); _exit(1); }\n'
    awk '{ printf "void %s(void) __attribute__((alias(\"absent\")));\n", $1 }' "$folder/asked"
  } >"$folder/absent.c"
  awk '$2 != "-" { names[$2] = names[$2] " " $1 ";" } END { for (each in names) printf "%s {%s };\n", each, names[each] }' \
    "$folder/asked" >"$folder/versions"
  [[ ! -s $folder/versions ]] || versions=("-Wl,--version-script=$folder/versions")
  gcc -O2 -fno-builtin -shared -fPIC "-Wl,-soname,$name" "${versions[@]}" -o "$folder/$name" "$folder/absent.c"
}

main() {
  local fio name file
  folder="$1"
  fio="$(readlink -e /usr/bin/fio)" || return 0
  mkdir -p "$folder"
  while read -r name file; do
    [[ $name =~ $kept ]] || stand_in "$name" "$file"
  done < <(join <(readelf -d "$fio" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort) <(ldd "$fio" | awk '$2 == "=>" { print $1, $3 }' | sort))
  rm -f "$folder"/{asked,absent.c,versions}
  if LD_LIBRARY_PATH="$folder" "$fio" --version >"$folder/for" 2>&1 && [[ $(<"$folder/for") == "$("$fio" --version)" ]]; then
    stat -c '%s %Y' "$fio" >"$folder/for"
  else
    say "fio does not start without the libraries of its other engines: it loads them all"
    rm -r "$folder"
  fi
}

folder=""
main "$@"
