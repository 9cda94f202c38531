# shellcheck shell=bash
# For what is fetched from elsewhere, which does not always answer. Sourced.

# thrice COMMAND…: until it succeeds, three times at most, some seconds apart.
thrice() {
  local time
  for time in 1 2 3; do
    if "$@"; then return 0; fi
    printf 'failed, %d of 3 times: %s\n' "$time" "$*" >&2
    [ "$time" -eq 3 ] || sleep $((time * 5))
  done
  return 1
}
