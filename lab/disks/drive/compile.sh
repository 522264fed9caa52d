# Compiles the plugin for drives with mechanics. Usage: compile.sh PLUGIN FOLDER. Status 127 means no compiler.
# tcc takes a tenth of gcc's time and a hundredth of its space. If headers are too new for it, another compiler is used.
# shellcheck shell=sh

found=127
rm -f "$1"
for compiler in tcc gcc cc; do
  command -v $compiler >/dev/null || continue
  found=0
  $compiler -O2 -shared -fPIC -o "$1.new" "$2/plugin.c" -lm -lpthread || continue
  python3 -IS "$2/plain_stack.py" "$1.new" && mv "$1.new" "$1" && exit 0
done
exit $((found ? found : 1))
