# Bash reads this in a terminal of the lab, instead of the user's own ~/.bashrc.

# /proc/mdstat exists only once the driver is loaded, and users read it before they create an array.
[ -e /proc/mdstat ] || modprobe -q md_mod

# Only the guests of uml: and qemu: have this folder, which leads to their drivers.
if [ -d /run/raidlab/modroot ]; then
  echo 'Here are the system'"'"'s files, read-only, and the lab'"'"'s disks (/dev/lab). Write in /root, /tmp and /run. They exist'
  echo "only on this machine, and are lost when it ends. To read a file of yours here: raidlab --on 'uml:?show=PATH' (or qemu:)"
fi

# Record every line with its time, even if it is already in the history, because drills look at what was typed.
_lab_run=$RAIDLAB_RUN
HISTFILE=$_lab_run/history HISTTIMEFORMAT='%F %T ' HISTCONTROL='' HISTSIZE=5000 HISTFILESIZE=20000
shopt -s histappend checkwinsize cmdhist lithist

# Tell the client when a command has ended, in an escape sequence with a word that only this shell knows, so that no
# program can forge it. All of this runs in bash itself, because starting a process is slow on an embedded kernel.
_lab_word=$RAIDLAB_WORD _lab_begun='' _lab_last='' _lab_none=' '
unset RAIDLAB_WORD RAIDLAB_RUN
_lab_quote() { # text: escape characters that would end the sequence or disturb a terminal
  _lab_quoted=${1//%/%25}
  _lab_quoted=${_lab_quoted//$'\n'/%0A}
  _lab_quoted=${_lab_quoted//;/%3B}
  _lab_quoted=${_lab_quoted//[[:cntrl:]]/%3F}
}
_lab_prompt() {
  local status=$? entry='' line folder micros
  history -a
  HISTTIMEFORMAT='' history 1 >"$_lab_run/history.$$"
  IFS= read -r -d '' entry <"$_lab_run/history.$$"
  if [ "$_lab_begun" ] && [ "$entry" != "$_lab_last" ]; then
    micros=$((${EPOCHREALTIME/./} - _lab_begun))
    _lab_quote "$PWD"
    folder=$_lab_quoted
    # The entry is "   12  ls" or "   12* ls", and a newline.
    line=${entry#"${entry%%[! ]*}"}
    line=${line#*[ *]}
    _lab_quote "${line# }"
    printf '\e]7777;%s;%s;%s;%s;%s\a' "$_lab_word" "$status" "$micros" "$folder" "${_lab_quoted%"%0A"}"
  fi
  _lab_last=$entry _lab_begun=''
}
PROMPT_COMMAND=_lab_prompt
# PS0 is expanded after a line is read and before it runs. It stores the time, and expands to nothing.
PS0='${_lab_none:$((_lab_begun=${EPOCHREALTIME/./})):0}'
PS1='\[\e[1;31m\]lab\[\e[0m\]:\[\e[1;34m\]\w\[\e[0m\]# '
trap 'rm -f "$_lab_run/history.$$"' EXIT

alias ls='ls --color=auto' ll='ls -l' grep='grep --color=auto' ip='ip --color=auto' diff='diff --color=auto'
export LESS='-R'

# The completion file is long, so it is read only when something is first completed.
_lab_completion() {
  complete -r -D
  . /usr/share/bash-completion/bash_completion && return 124
}
[ -r /usr/share/bash-completion/bash_completion ] && complete -D -F _lab_completion
