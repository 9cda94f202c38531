# Lets what follows run as an ordinary user, which is what daemons are for: sandboxes
# refuse root or mean something else there. Sets $ordinary, the command to put in front
# (none where nobody is root), and defines reach. Sourced.
ordinary=()
if [[ $(id -u) -eq 0 ]]; then
  ordinary_home=$(mktemp -d)
  trap 'rm -rf "$ordinary_home"' EXIT
  chown nobody:nogroup "$ordinary_home"
  mkdir "$ordinary_home/reach" && chmod 755 "$ordinary_home"
  ordinary=(setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all
    env "HOME=$ordinary_home" USER=nobody LOGNAME=nobody "TMPDIR=${TMPDIR:-/tmp}")
fi

# reach PATH: where that user finds it: there, or a copy where a directory on the way is
# root's alone, as below /root.
reach() {
  if [[ ${#ordinary[@]} -eq 0 ]] || "${ordinary[@]}" test -r "$1"; then
    printf '%s\n' "$1"
    return
  fi
  cp -a --no-preserve=ownership "$1" "$ordinary_home/reach/"
  printf '%s\n' "$ordinary_home/reach/$(basename "$1")"
}
