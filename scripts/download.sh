# Downloads that continue after a break and are checked (sourced, not run).
# shellcheck shell=bash

say() { echo "${0##*/}: $*" >&2; }
die() { say "$@"; exit 1; }

bytes_of() { if [[ -f $1 ]]; then stat --format=%s "$1"; else echo 0; fi; }
checksum_of() { sha256sum "$1" | cut --delimiter=' ' --fields=1; }

# fetch URL FILE: appends the missing part of FILE. Fails after a minute without data.
fetch() {
  if command -v curl >/dev/null; then
    curl --fail --location --continue-at - --connect-timeout 60 --speed-limit 1 --speed-time 60 --progress-bar \
      --output "$2" "$1"
  elif command -v wget >/dev/null; then
    wget --no-verbose --show-progress --continue --tries=1 --timeout=60 --output-document="$2" "$1"
  else
    die "curl and wget are missing. Install one of them: sudo apt-get install curl"
  fi
}

# download URL FILE MIRROR: repeats fetch as long as each attempt adds bytes. MIRROR is the variable for another URL, for
# the error.
download() {
  local url=$1 file=$2 mirror=$3 before
  while true; do
    before=$(bytes_of "$file")
    fetch "$url" "$file" && return
    if (($(bytes_of "$file") == 0)); then
      rm -f "$file"
      die "cannot download $url (see above). Check the network and the free disk space and run this again," \
        "or set $mirror to a mirror."
    fi
    (($(bytes_of "$file") > before)) ||
      die "cannot continue the download of $url (see above). Check the network and the free disk space and run this again," \
        "move $file away to start over, or set $mirror to a mirror."
    say "the connection broke after $(bytes_of "$file") bytes; the download continues there"
    sleep 1
  done
}

# download_whole URL FILE SHA256 MIRROR: downloads FILE unless its checksum, or the beginning of it, is already right.
# Removes a download with a wrong checksum.
download_whole() {
  local url=$1 file=$2 sha256=$3 mirror=$4 sum
  if [[ $(bytes_of "$file") != 0 && $(checksum_of "$file") == "$sha256"* ]]; then return; fi
  say "downloading $url"
  download "$url" "$file" "$mirror"
  sum=$(checksum_of "$file")
  if [[ $sum != "$sha256"* ]]; then
    rm -f "$file"
    die "wrong checksum: $url has sha256 $sum instead of $sha256, and the download was removed." \
      "Run this again, or set $mirror to a mirror."
  fi
}

make_directory() {
  if ! mkdir -p "$1" || [[ ! -w $1 ]]; then die "cannot write to $1. Name another directory."; fi
}
