#!/usr/bin/env bash
# Files of a run that another program has open or left half written: each program reports that and changes nothing. The same
# command continues later. Skipped without h5py.
# usage: open_checkpoint.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
small_checkpoints
unset HDF5_USE_FILE_LOCKING

good=$folder/good
train 1 --steps 4 --checkpoint-every 2 --run "$good"
newest=$(step_file "$folder/bad" 4)

cat >"$folder/hold.py" <<'END'
import fcntl
import os
import sys
import h5py
path, how, held = sys.argv[1:]
whole = open(path, "rb").read()
if how in ("r", "r+", "a", "w"):
    file = h5py.File(path, how)
elif how == "w and data":
    file = h5py.File(path, "w")
    file["images"] = range(1000)
    file.flush()
elif how == "no lock":
    file = h5py.File(path, "r+", locking=False)
elif how == "w, no lock":
    file = h5py.File(path, "w", locking=False)
elif how == "swmr reader":
    file = h5py.File(path, "r", swmr=True, libver="latest")
elif how == "swmr":
    file = h5py.File(path, "r+", libver="latest")
    file.swmr_mode = True
elif how == "crash":
    file = h5py.File(path, "r+")
    os._exit(0)
else:  # a copy that is half done, an empty one, or a file that an editor writes
    file = open(path, "wb")
    file.write(whole[:0 if how == "begun" else len(whole) // 2])
    file.flush()
open(held, "w").close()
sys.stdin.read()
if how == "half":
    file.write(whole[len(whole) // 2:])
file.close()
END
hold() {  # FILE HOW: a program in the background opens FILE, and closes it at `release`
  rm -f "$folder/pipe" "$folder/held"
  mkfifo "$folder/pipe"
  "$python" "$folder/hold.py" "$1" "$2" "$folder/held" <"$folder/pipe" &
  holder=$!
  exec 9>"$folder/pipe"
  await 20 test -e "$folder/held"
}
release() {
  exec 9>&-
  wait "$holder"
}
fresh() { rm -rf "$folder/bad" && cp -r "$good" "$folder/bad"; }
state() { (cd "$folder/bad" && find . -type f -exec md5sum {} + | sort); }
continues() {  # WHAT: the same command goes on from step 4
  train 1 --steps 5 --run "$folder/bad"
  expect_line "$1: it continues" 'resumed step-0000000004.h5'
}
refuses() {  # WHAT CODE WORDS PROGRAM OPTION...: one error, and nothing in the folder changes
  local what=$1 expected=$2 words=$3 before
  before=$(state)
  shift 3
  ranks 1 "$@"
  expect_error "$what: $1" "$expected" "$words"
  expect "$what: $1 changes nothing" test "$(state)" = "$before"
}
resume=(train_cifar "${small[@]}" --steps 5 --run "$folder/bad")
open_words="step-0000000004.h5 now open same.command"

# --- the newest checkpoint ------------------------------------------------------------------------------------------------
for how in r 'swmr reader'; do  # readers change nothing
  fresh
  hold "$newest" "$how"
  continues "$how"
  release
done
for how in r+ a 'no lock' swmr half; do
  fresh
  hold "$newest" "$how"
  refuses "$how" 69 "$open_words" "${resume[@]}"
  release
  continues "$how"
done
for how in w 'w, no lock' 'w and data' begun; do  # these destroy it
  fresh
  hold "$newest" "$how"
  refuses "$how" 69 "$open_words" "${resume[@]}"
  release
  train 1 --steps 5 --run "$folder/bad"
  expect_line "$how: afterwards the one before counts" 'resumed step-0000000002.h5'
done
fresh
cp "$newest" "$folder/whole.h5"
"$python" "$folder/hold.py" "$newest" crash "$folder/held"
refuses "a crash" 74 'step-0000000004.h5 now not.closed h5clear.-s' "${resume[@]}"
cp "$folder/whole.h5" "$newest"
continues "a crash"

# --- each program that reads it -------------------------------------------------------------------------------------------
fresh
hold "$newest" r+
refuses "a file" 69 "$open_words" evaluate --threads 1 "$folder/bad"
refuses "a file" 69 "$open_words" evaluate --threads 1 "$newest"
refuses "a file" 69 "$open_words" classify --threads 1 "$folder/bad" "$folder/none.png"
refuses "a file" 69 "$open_words" export_model "$folder/bad" "$folder/a.onnx"
refuses "a file" 69 "$open_words" train_cifar "${small[@]}" --steps 5 --init "$folder/bad"
refuses "a file" 69 "$open_words" train_cifar "${small[@]}" --steps 5 --resume "$newest"
release
cp "$newest" "$folder/bad/checkpoints/best.h5"
hold "$folder/bad/checkpoints/best.h5" half
refuses "best.h5" 69 'best.h5 now open' evaluate --threads 1 "$folder/bad"
release

# --- files of the run -----------------------------------------------------------------------------------------------------
fresh
hold "$folder/bad/summary.json" half
refuses "summary.json" 69 'summary.json now open' "${resume[@]}"
refuses "summary.json" 69 'summary.json now open' compare_runs "$folder/bad" "$good" --output "$folder/page.html"
refuses "summary.json" 69 'summary.json now open' report_runs "$folder/bad"
release
hold "$folder/bad/metrics.jsonl" half
ranks 1 "${resume[@]}"
expect_error "metrics.jsonl" 69 'metrics.jsonl now open'
release
continues "metrics.jsonl"
finish
