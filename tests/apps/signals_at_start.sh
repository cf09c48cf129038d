#!/usr/bin/env bash
# A request to stop before the first step, from the first line of main() on, is never lost: exit code 75 on all ranks, nothing
# saved.
# usage: signals_at_start.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

early='^train_cifar: stopped first.step continues'  # a run that has steps does not begin again
# SIGNAL SECONDS: so long after the start of a run of one rank.
expect_early() {
  local pid ready=no
  "$build/train_cifar" "${small[@]}" --run "$folder/early" >"$folder/out" 2>"$folder/raw" </dev/null &
  pid=$!
  sleep "$2"
  ! takes_signals $pid 2>/dev/null || ready=yes
  kill -"$1" $pid
  code=0
  wait $pid 2>/dev/null || code=$?
  own_words <"$folder/raw" >"$folder/err"
  if [[ $ready == no ]] && ((code > 128)); then return; fi  # before main()
  came_through=$((came_through + 1))
  expect "SIG$1 after $2 s: exit code 75" test "$code" = 75
  expect "SIG$1 after $2 s: one line" test "$(cat "$folder/err" "$folder/out" | grep -c 'stopped')" = 1
  rm -rf "$folder/early"
}
came_through=0
for seconds in 0 0.05 0.1 0.2 0.4; do
  expect_early USR1 $seconds
  expect_early TERM "$seconds"
done
for seconds in 0.8 1.6 3.2 6.4; do  # on a busy machine
  ((came_through >= 3)) || expect_early TERM $seconds
done
expect "some requests came after main() had begun ($came_through)" test $came_through -ge 3

# SIGNAL RANK: at the first moment of one of two ranks.
expect_early_end() {
  start 2 --run "$folder/early"
  await 60 rank_takes_signals "$2"
  kill -"$1" "$(pid_of_rank "$2")"
  collect
  expect_error "SIG$1 to rank $2 at start-up" 75 "$early"
  expect "nothing is saved" test -z "$(find "$folder/early" -name '*.h5' 2>/dev/null)"
  rm -rf "$folder/early"
}
expect_early_end USR1 1
expect_early_end TERM 0

# While images are checked: a thousand black ones of 4096 x 4096 pixels take longer than the limit.
python3 - "$folder/photos" <<'PYTHON'
import os, struct, sys, zlib
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
first = f"{sys.argv[1]}/a/0.png"
for i in range(1000):
    os.makedirs(f"{sys.argv[1]}/{'ab'[i % 2]}", exist_ok=True)
    if i > 0:
        os.link(first, f"{sys.argv[1]}/{'ab'[i % 2]}/{i}.png")
    else:
        pixels = zlib.compress(bytes((1 + 3 * 4096) * 4096))
        open(first, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4096, 4096, 8, 2, 0, 0, 0))
                                + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))
PYTHON
checks_images() { find "/proc/$(pid_of_rank 0)/fd" -lname '*.png' 2>/dev/null | grep -q .; }
launch 2 train_images --no-run --data "$folder/photos" --image-size 8 --validation 0.5 --check-images decode --threads 1
await 30 checks_images
kill -USR1 "$(children "$launcher")"
collect
expect_error "SIGUSR1 while images are checked" 75 'train_images: stopped first.step'
finish
