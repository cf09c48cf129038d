#!/usr/bin/env bash
# evaluate: the trainer's score for that step, the same text on any number of ranks, raw weights and moving average, --follow.
# usage: evaluate.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
small_data "$folder/data"
data=$folder/data/small

evaluate() {  # RANKS OPTIONS...
  ranks "$1" evaluate --threads 1 --data "$data" "${@:2}"
  expect "evaluate ${*:2} on $1 ranks" test "$code" = 0
}
score_in_out() { grep -oE 'top-1 [0-9.]+ %, top-5 [0-9.]+ %, loss [0-9.]+, 100 samples' "$folder/out"; }
run_options=(--dataset hdf5 --data "$data" --model tutorial --shards 2 --steps 4 --lr 0.05 --eval-every 4)

train 2 "${run_options[@]}" --checkpoint-every 3 --run "$folder/averaged"
reported=$(score_in_out)
train 2 "${run_options[@]}" --ema 0 --run "$folder/plain"
reported_raw=$(score_in_out)
expect "the two differ" test "$reported" != "$reported_raw"

# --- a file, a folder, ranks, weights ------------------------------------------------------------------------------------
file=$(step_file "$folder/averaged" 4)
evaluate 1 "$file"
expect "the moving average has the score that the trainer reported" test "$(score_in_out)" = "$reported"
expect_line "names step, file and weights" "^step.4 $file moving.average top-1"
expect_line "a heading of the table" '^true 0 9'
expect "ten rows that sum to ten each" test "$(awk '/ %$/ && !/top-1/ { sum = 0; for (i = NF - 11; i <= NF - 2; ++i) sum += $i; n += sum == 10 } END { print n }' "$folder/out")" = 10
right=$(awk '/ %$/ && !/top-1/ { ++row; sum += $(NF - 12 + row) } END { printf "%.2f", sum }' "$folder/out")
expect "the diagonal is top-1 ($right)" grep -qF "top-1 $right %" "$folder/out"
cp "$folder/out" "$folder/one"
evaluate 3 "$folder/averaged"
expect "three ranks print the same text, of the newest in the folder" cmp "$folder/one" <(sed 1d "$folder/out")
evaluate 2 --weights raw --no-confusion "$file"
expect "the raw weights have the score of the trainer without averages" test "$(score_in_out)" = "$reported_raw"
expect "without a table" test "$(wc -l <"$folder/out")" = 1
evaluate 2 --no-confusion "$folder/plain"
expect "so do the weights if there is no average" test "$(score_in_out)" = "$reported_raw"
expect_line "the line names the raw weights" 'raw.weights top-1'
ranks 2 evaluate --data "$data" --logits "$folder/none/logits.h5" "$file"
expect_error "a missing folder, before the evaluation" 74 'none/logits.h5: No.such.file'

# --- a folder that is followed -------------------------------------------------------------------------------------------
mkdir "$folder/followed"
set -m
: >"$folder/out"
began=$SECONDS
timeout --kill-after=5 $limit mpirun -np 2 "$build/evaluate" --threads 1 --data "$data" --no-confusion --follow --interval 0.2 "$folder/followed" \
  >"$folder/out" 2>"$folder/raw" </dev/null &
launcher=$!
set +m
deliver() { cp "$1" "$folder/followed/arriving" && mv "$folder/followed/arriving" "$folder/followed/$(basename "${2:-$1}")"; }
deliver "$(step_file "$folder/averaged" 3)"
await 40 grep -q '^step 3 ' "$folder/out"
deliver "$build/CMakeCache.txt" "$(step_file . 5)"  # no checkpoint: named once, however often the folder is read
deliver "$file"
await 40 grep -q '^step 4 ' "$folder/out"
await 10 grep -q 'step-0000000005.h5' "$folder/raw"
sleep 1
kill -TERM "$(pid_of_rank 1)"
collect
expect "SIGTERM ends it in order" test "$code" = 0
expect "each checkpoint once" test "$(grep -c '^step ' "$folder/out")" = 2
expect_error "the damaged file is named once" 0 '^evaluate: /step-0000000005.h5 text.file'
expect "its score is that of one look" grep -qF "$reported" "$folder/out"

# --- beside a run that saves at every step and keeps one ------------------------------------------------------------------
start 1 --model tutorial --dataset hdf5 --data "$data" --steps 100000 --checkpoint-every 1 --keep 1 --run "$folder/hurried"
running=$launcher out=$(mktemp -p "$folder")
await 40 compgen -G "$folder/hurried/checkpoints/step-*.h5" >/dev/null
for _ in 1 2; do
  timeout --kill-after=5 $limit "$build/evaluate" --threads 1 --data "$data" --no-confusion "$folder/hurried" >"$out" 2>&1 || complain "beside a run: $(cat "$out")"
  expect "one line beside a run" grep -qE '^step [0-9]+ ' "$out"
done
launcher=$running
kill -TERM "$(pid_of_rank 0)"
collect

# --- errors --------------------------------------------------------------------------------------------------------------
wrong() {  # CODE PATTERN OPTIONS...
  ranks 2 evaluate "${@:3}"
  expect_error "evaluate ${*:3}" "$1" "^evaluate: $2"
}
wrong 2 'RUN missing' --threads 1
wrong 2 'option --weigths --weights' --weigths raw "$file"
wrong 2 '--weights "rwa"' --weights rwa "$file"
wrong 2 '--interval 0' --interval 0 "$file"
wrong 2 "--follow $file" --follow "$file"
wrong 1 '/none.h5 No.such.file' "$folder/none.h5"
ln -s loop "$folder/loop"
wrong 1 '/loop Too.many.levels.of.symbolic.links' "$folder/loop"
wrong 2 '--follow /loop' --follow "$folder/loop"
wrong 1 "$folder checkpoint" "$folder"
wrong 1 'CMakeCache.txt text.file checkpoint' "$build/CMakeCache.txt"
wrong 2 "step-0000000004.h5 moving.average --weights.raw" --weights ema --data "$data" "$folder/plain"
wrong 2 "$folder/nowhere --data" --data "$folder/nowhere" "$file"
train 1 --steps 1 --run "$folder/generated"
wrong 2 'step-0000000001.h5 --data' --data "$folder/nowhere" "$folder/generated"
two_commands "$build/evaluate" "$file" // "$build/evaluate" --help
expect_error "ranks that differ" 2 '^evaluate: rank.1 options'
run "$build/evaluate" --help
expect "help" test "$code-$(grep -c '^Usage:' "$folder/out")" = 0-1
finish
