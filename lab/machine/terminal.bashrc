# What bash reads in a terminal of the lab, in place of its user's own ~/.bashrc.

# Whoever looks into /proc/mdstat before the first array needs the driver to be there.
[ -e /proc/mdstat ] || modprobe -q md_mod

# Only the embedded kernel's guest has its drivers there.
if [ -d /run/raidlab/modroot ]; then
  echo 'Here are the system'"'"'s files, read-only, and the lab'"'"'s disks (/dev/lab). Write in /root, /tmp and /run, which end with the'
  echo "machine; they are not the computer's. To read a file of yours here: raidlab --on 'uml:?show=PATH' (or qemu:)"
fi

# Every line with its time, also one that stands there already: drills look at what was typed.
_lab_run=$RAIDLAB_RUN
HISTFILE=$_lab_run/history HISTTIMEFORMAT='%F %T ' HISTCONTROL='' HISTSIZE=5000 HISTFILESIZE=20000
shopt -s histappend checkwinsize cmdhist lithist

# What the client is told: a command begins, a command has ended. The word in front is known to this shell alone, so that
# no program passes for it. All in bash itself: on an embedded kernel a process is dear.
_lab_word=$RAIDLAB_WORD _lab_begun='' _lab_last='' _lab_none=' '
unset RAIDLAB_WORD RAIDLAB_RUN
_lab_quote() { # text: without what would end the sequence, or disturb a terminal
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
    # "   12  ls" or "   12* ls", and a newline.
    line=${entry#"${entry%%[! ]*}"}
    line=${line#*[ *]}
    _lab_quote "${line# }"
    printf '\e]7777;%s;%s;%s;%s;%s\a' "$_lab_word" "$status" "$micros" "$folder" "${_lab_quoted%"%0A"}"
  fi
  _lab_last=$entry _lab_begun=''
}
PROMPT_COMMAND=_lab_prompt
# Expanded after a line was read and before it runs: the number is kept, and of the blank nothing is left to print.
PS0='${_lab_none:$((_lab_begun=${EPOCHREALTIME/./})):0}'
PS1='\[\e[1;31m\]lab\[\e[0m\]:\[\e[1;34m\]\w\[\e[0m\]# '
trap 'rm -f "$_lab_run/history.$$"' EXIT

alias ls='ls --color=auto' ll='ls -l' grep='grep --color=auto' ip='ip --color=auto' diff='diff --color=auto'
export LESS='-R'

# Its file is long: it is read when something is first completed.
_lab_completion() {
  complete -r -D
  . /usr/share/bash-completion/bash_completion && return 124
}
[ -r /usr/share/bash-completion/bash_completion ] && complete -D -F _lab_completion
