# shellcheck shell=bash
# For scripts that are started by hand and take minutes (arm.sh, bare_machine.sh). They set `folder`, which gets the logs.

# step NAME COMMAND...: prints the seconds that it took. If it fails, prints the end of its log and ends the script with 1.
step() {
  local began=$SECONDS name=$1 code=0
  shift
  # shellcheck disable=SC2154  # `folder` is of the script
  "$@" >"$folder/${name// /_}.log" 2>&1 || code=$?
  echo "$name: $((SECONDS - began)) s"
  [[ $code == 0 ]] || { tail -n 30 "$folder/${name// /_}.log"; echo "${0##*/}: $name failed with code $code"; exit 1; }
}
