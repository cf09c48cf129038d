#!/usr/bin/env bash
# Locks of folders over time: a run that lost its lock writes no more lines. A run waits for a silent claim of another host,
# which may be a dead run's, until that claim gives a sign of life.
# usage: folder_lock.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
small_checkpoints

need_moved_clock
claim() {  # FOLDER: a run on another host holds it
  mkdir -p "$1"
  printf '%s = %s\n' host elsewhere pid 1 space another since yesterday token 1 >"$1/run.lock.1"
}
waits() { grep -qE '^waiting .*elsewhere' "$folder/out"; }

# --- a lost lock, before the first checkpoint ------------------------------------------------------------------------------
logs=$folder/logs
start 2 --steps 1000000 --run "$logs"
await 60 has_done 2
claim "$folder/other"
mv "$folder/other/run.lock.1" "$logs/run.lock.2"  # a take-over makes its own claim first
rm "$logs/run.lock.1"
await 30 ended
lines=$(wc -l <"$logs/metrics.jsonl")
collect
expect_error "logs that were taken over" 69 "$logs host.elsewhere"
expect "nothing more is written" test "$(wc -l <"$logs/metrics.jsonl")" = "$lines"
expect "the other's claim stays" test -e "$logs/run.lock.2"

# --- a claim of another host that is silent --------------------------------------------------------------------------------
claim "$folder/dead"
touch -d '1 hour ago' "$folder/dead/run.lock.1"  # by a clock that was set since
preloaded start 2 --steps 1 --run "$folder/dead"
await 60 waits
for real in 3600 -3600; do
  move "$real" 170
  sleep 1
  expect "a clock that is set ends no wait" test -e "$folder/dead/run.lock.1" -a ! -e "$folder/dead/run.lock.2"
done
move -3600 185
collect
move 0 0
expect "it waits until the silence is over" test "$code" = 0
expect_line "a line names the time" '^waiting 180.s'
expect_line "it takes over" '^note --run host.elsewhere'
expect "it trains" test -e "$(step_file "$folder/dead" 1)"

claim "$folder/alive"
start 1 --steps 1 --run "$folder/alive"
await 60 waits
touch -d '1 hour ago' "$folder/alive/run.lock.1"  # by a clock that was set back
collect
expect_error "a sign of life ends the wait" 69 "--run $folder/alive host.elsewhere"
expect_files "and nothing is written" "$folder/alive" run.lock.1

claim "$folder/released"
start 1 --steps 1 --run "$folder/released"
await 60 waits
rm "$folder/released/run.lock.1"
collect
expect "a claim that is given back ends the wait" test "$code" = 0

# --- requests to stop: to the rank that looks, and to one that does not -----------------------------------------------------
for rank in 0 1; do
  claim "$folder/stopped"
  start 2 --steps 1 --run "$folder/stopped"
  await 60 waits
  kill -USR1 "$(pid_of_rank "$rank")"
  collect
  expect_error "a request to rank $rank ends the wait" 75 '^train_cifar: first.step'
  expect_files "and nothing is written" "$folder/stopped" run.lock.1
done
claim "$folder/stopped"
ranks 1 train_cifar "${small[@]}" --check --run "$folder/stopped"
expect "--check does not wait" bash -c "! grep -q '^waiting' '$folder/out'"

# --- of two that wait one wins ----------------------------------------------------------------------------------------------
claim "$folder/two"
for i in 1 2; do
  LD_PRELOAD=$folder/clock.so timeout --kill-after=5 $limit "$build/train_cifar" "${small[@]}" --steps 100000 --run "$folder/two" \
    >"$folder/out$i" 2>"$folder/err$i" </dev/null &
  runs[i]=$!
done
both_wait() { [[ $(grep -l '^waiting' "$folder/out1" "$folder/out2" | wc -l) == 2 ]]; }
await 40 both_wait
move 0 185
wait -n -p loser "${runs[1]}" "${runs[2]}"
loser_code=$?
winner=$([[ $loser == "${runs[1]}" ]] && echo 2 || echo 1)
has_begun() { grep -q 'step 1/' "$folder/out$winner"; }
await 40 has_begun
kill -TERM "${runs[winner]}"
winner_code=0
wait "${runs[winner]}" || winner_code=$?
expect "one is refused" test "$loser_code" = 69
expect "the error names the other run" grep -qE '[0-9a-f]{32}' "$folder/err$((3 - winner))"
expect "the other trains until it is stopped: $(cat "$folder/err$winner")" test "$winner_code" = 75
finish
