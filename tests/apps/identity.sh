#!/usr/bin/env bash
# Identity of a run: the same command resumes it, another run or other data are refused, two runs never share a folder, and
# each change of the bits of a resumed run is noted.
# usage: identity.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
small_checkpoints

# --- the same command again ----------------------------------------------------------------------------------------------
never=(--resume never --run "$folder/never" --checkpoint-every 2)
train 1 --steps 4 "${never[@]}"
train 1 --steps 6 "${never[@]}"
expect_line "--resume never resumes its own run" '^resumed /never/checkpoints/step-0000000004\.h5 4 6'
expect_line "--resume never gives a note" '^note --resume.never'

from=(--resume "$(step_file "$folder/never" 4)" --run "$folder/child" --checkpoint-every 1 --keep 1)
train 1 --steps 5 "${from[@]}"
expect_line "--resume FILE begins there" '^resumed /never/checkpoints/step-0000000004\.h5 4 5'
train 1 --steps 6 "${from[@]}"
expect_line "--resume FILE resumes its own run" '^resumed /child/checkpoints/step-0000000005\.h5 5 6'
expect "its logs name the run that it came from" \
  test "$(grep -cE '^\{"kind":"run",.*"parent":"[0-9a-f]{32} at step 4"' "$folder/child/metrics.jsonl")" = 2
rm "$(step_file "$folder/never" 4)" # as --keep of that run may do
train 1 --steps 7 "${from[@]}"
expect_line "--resume FILE resumes without the file" '^resumed /child/checkpoints/step-0000000006\.h5 6 7'

ranks 1 train_cifar "${small[@]}" --steps 9 --resume "$(step_file "$folder/never" 6)" --run "$folder/child"
expect_error "another file in that folder" 2 'child/checkpoints/step-0000000007\.h5 --new'
ranks 1 train_cifar "${small[@]}" --steps 9 --resume never --run "$folder/child"
expect_error "--resume never in that folder" 2 'child/checkpoints/step-0000000007\.h5 --new'
back=(--checkpoint-every 1 --resume "$(step_file "$folder/back" 4)" --run "$folder/back")
train 1 --steps 6 --checkpoint-every 2 --run "$folder/back"
ranks 1 train_cifar "${small[@]}" "${back[@]}" --steps 8
expect_error "back to an older checkpoint" 2 'back/checkpoints/step-0000000006\.h5 higher|newer|later'
rm "$(step_file "$folder/back" 6)"
train 1 "${back[@]}" --steps 8
expect_line "back to an older checkpoint, as the error advises" '^resumed /back/checkpoints/step-0000000004\.h5 4 8'
train 1 "${back[@]}" --steps 9
expect_line "and on from there" '^resumed /back/checkpoints/step-0000000008\.h5 8 9'

# The name of that file, but another run's.
train 1 --seed 2 --steps 4 --run "$folder/foreign"
mv "$(step_file "$folder/foreign" 4)" "$(step_file "$folder/never" 4)"
ranks 1 train_cifar "${small[@]}" --steps 9 "${from[@]}"
expect_error "--resume FILE that is now another run's" 2 'child/checkpoints/step-0000000007\.h5'

# A folder whose name is no UTF-8.
odd=$folder/$'\xff\xfe odd'
train 1 --shards 2 --steps 2 --run "$odd/run"
train 2 --steps 3 --run "$odd/run"
expect "a folder whose name is no UTF-8" env LC_ALL=C grep -qa '^resumed .*step-0000000002\.h5' "$folder/out"

# --- two runs in one folder ----------------------------------------------------------------------------------------------
start 1 --steps 100000 --run "$folder/live"
await 60 test -e "$folder/live/run.lock.1"
ranks 1 train_cifar "${small[@]}" --steps 1 --run "$folder/live"
expect_error "a second run in the folder" 69 "--run $folder/live $(hostname) process"
ranks 1 train_cifar "${small[@]}" --check --run "$folder/live"
expect_line "--check names the holder" '^note in.use process'
kill -KILL "$(pid_of_rank 0)"
collect
expect "a killed run leaves its lock" test -e "$folder/live/run.lock.1"
train 1 --steps 1 --run "$folder/live"
expect_line "it is taken over" '^note --run [0-9a-f]{32} process'
expect "the locks are given back" test -z "$(find "$folder/live" -name 'run.lock.*')"
expect "and it is trained" compgen -G "$folder/live/checkpoints/step-*.h5" >/dev/null
# A run that stood still until another took its folder writes no more there.
start 1 --steps 100000 --checkpoint-every 100000 --run "$folder/lost"
await 60 has_done 2
printf '%s = %s\n' host elsewhere pid 1 space another token 1 >"$folder/lost/run.lock.2"
kill -USR1 "$(pid_of_rank 0)"
collect
expect_error "a folder that was taken over" 69 'lost host.elsewhere'
expect "nothing is saved there" test -z "$(find "$folder/lost" -name '*.h5')"
ranks 1 train_cifar "${small[@]}" --steps 1 --run "$folder/bad/c" --resume "$folder/none.h5"
expect "a failed start leaves no folder" test ! -e "$folder/bad"

# --- the data ------------------------------------------------------------------------------------------------------------
data=$folder/data/cifar-10-batches-bin
mkdir -p "$data"
head -c 30730000 /dev/zero >"$data/data_batch_1.bin"
for name in data_batch_{2,3,4,5} test_batch; do ln "$data/data_batch_1.bin" "$data/$name.bin"; done
seq 10 >"$data/batches.meta.txt"
on_data=(--steps 1 --data "$folder/data" --run "$folder/on_data")
train 1 "${on_data[@]}"
cp -rl "$data" "$folder/other"
cp --remove-destination "$data/test_batch.bin" "$folder/other/data_batch_4.bin"
printf '\x01' | dd of="$folder/other/data_batch_4.bin" bs=1 seek=30729999 conv=notrunc status=none
ranks 1 train_cifar "${small[@]}" --steps 2 --data "$folder/other" --run "$folder/on_data"
expect_error "other data of the same size" 2 'step-0000000001\.h5 content.of.data_batch_4\.bin --data --init'
mkdir "$folder/node0" "$folder/node1"
ln -s "$folder/data" "$folder/node0/data"
ln -s "$folder/other" "$folder/node1/data"
one=("$build/train_cifar" "${small[@]}" --steps 1 --data data)
two_commands env -C "$folder/node0" "${one[@]}" // env -C "$folder/node1" "${one[@]}"
expect_error "ranks with other data" 2 '^train_cifar: rank.1 data_batch_4\.bin'
mv "$folder/data" "$folder/moved"
train 1 --steps 2 --data "$folder/moved" --run "$folder/on_data"
expect_line "the same data elsewhere" '^resumed'
seq 11 20 >"$folder/moved/cifar-10-batches-bin/batches.meta.txt"
ranks 1 evaluate --threads 1 --data "$folder/moved" "$folder/on_data"
expect_line "classes have the checkpoint's names" '^true 1 2 9 10'

# --- changes of the bits of a resumed run --------------------------------------------------------------------------------
noted() {  # WHAT PATTERN RANKS OPTIONS...: --check of a resume gives a note
  local what=$1 pattern=$2 count=$3
  shift 3
  train "$count" --check --steps 9 --lr-schedule cosine --run "$folder/noted" "$@"
  expect_line "$what" "^note $pattern"
}
train 1 --shards 4 --steps 1 --lr-schedule cosine --arithmetic fast --run "$folder/noted"
noted "another end under cosine" '9 1 --lr-schedule' 1
noted "another arithmetic" 'portable oneDNN' 1
noted "a reducer without the canonical order" 'mpi 4.ranks 1.MiB canonical' 4 --reducer mpi
if grep -qw avx512f /proc/cpuinfo; then
  ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2 noted "another instruction set" 'oneDNN AVX2 auto' 1 --arithmetic fast
fi
train 1 --check --steps 1 --lr-schedule cosine --arithmetic fast --run "$folder/noted"
checks=$((checks + 1))
grep '^note ' "$folder/out" | grep -qv 'no CUDA device' && complain "a resume that changes nothing has a note"
finish
