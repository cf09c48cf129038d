#!/usr/bin/env bash
# One notion of a run: each program finds a run by its name, its folder, its checkpoints/ or a file, takes the best checkpoint
# and says why, and follows --which. A program or script that is neither tried nor listed here fails this test.
# usage: one_run.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
limit=120
scripts=$(cd "$here/../../scripts" && pwd)
export PYTHONDONTWRITEBYTECODE=1
cd "$folder" || exit 1
small_data data

small_checkpoints
options=(--dataset hdf5 --data data/small --shards 1 --lr 0.1 --ema 0 --eval-every 2 --checkpoint-every 2 --keep 9 --validation 0.2)
train 1 "${options[@]}" --steps 6 --run first
train 1 "${options[@]}" --steps 1 --run first-2
train 1 "${options[@]}" --steps 2 --eval-every 0 --run plain
train 1 "${options[@]}" --steps 1 --eval-every 0 --run runs/rates/lr=0.1
checkpoints=runs/first/checkpoints
expect "the first evaluation is the best" cmp $checkpoints/best.h5 $checkpoints/step-0000000002.h5
mkdir first && echo "notes" >first/notes.txt  # a folder of the name, which is no run

declare -A tried=()
# finds PROGRAM WORDS COMMAND...: its output has a line with these words; with '' there is no line "model".
finds() {
  tried[$1]=1
  run "${@:3}"
  expect "$1 succeeds" test "$code" = 0
  if [[ -n $2 ]]; then expect_line "$1" "$2"; else expect "$1 makes no choice" test "$(grep -cE '^model .*\.h5 \(|--init .* is ' out)" = 0; fi
}
refuses() {  # WHAT CODE WORDS COMMAND...
  run "${@:4}"
  expect_error "$1" "$2" "$3"
}
# walk PROGRAM COMMAND...: RUN stands for the run, WHICH for the option.
walk() {
  local who=$1 word words name
  shift
  call() {  # RUN WHICH...
    words=()
    for word in "${command[@]}"; do
      case $word in RUN) words+=("$1") ;; WHICH) words+=("${@:2}") ;; *) words+=("$word") ;; esac
    done
    rm -f x.onnx
  }
  local command=("$@")
  local names=(first "$checkpoints/")
  [[ $who != evaluate ]] || names+=(runs/first ./runs/first/ "$folder/runs/first" "$checkpoints")
  for name in "${names[@]}"; do
    call "$name"
    finds "$who" "best.h5 \(best.accuracy step.2\)" "${words[@]}"
  done
  call rates/lr=0.1
  finds "$who" 'runs/rates/lr=0.1/checkpoints/step-0000000001.h5 \(newest,.step.1,.no.best.h5\)' "${words[@]}"
  call plain
  finds "$who" 'runs/plain/checkpoints/step-0000000002.h5 \(newest,.step.2,.no.best.h5\)' "${words[@]}"
  call $checkpoints/step-0000000004.h5
  finds "$who" '' "${words[@]}"
  [[ " ${command[*]} " == *" WHICH "* ]] || return
  call first --which last
  finds "$who" "$checkpoints/step-0000000006.h5 \(newest,.step.6\)" "${words[@]}"
  call first --which 4
  finds "$who" "$checkpoints/step-0000000004.h5 \(step.4\)" "${words[@]}"
  call first --which 5
  run "${words[@]}"
  expect "$who: a step that is not there" test "$code" != 0
  expect "$who names the steps" grep -q "step 5.*6, 4, 2" err
  call $checkpoints/step-0000000004.h5 --which last
  run "${words[@]}"
  expect "$who: --which of a file" bash -c "[[ $code != 0 ]] && grep -q 'which last .*file' err"
}
walk evaluate "$build/evaluate" --threads 1 RUN WHICH
finds evaluate '^data data/small as.in.training' "$build/evaluate" --threads 1 first
finds evaluate 'top-1 100.samples' "$build/evaluate" --threads 1 first
walk export_model "$build/export_model" RUN x.onnx WHICH
"$python" - picture.bmp <<'END'
import struct, sys
head = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + 768, 0, 0, 54, 40, 16, 16, 1, 24, 0, 768, 0, 0, 0, 0)
open(sys.argv[1], "wb").write(head + bytes(range(256)) * 3)
END
walk classify "$build/classify" RUN picture.bmp WHICH
finds classify '' "$build/classify" first --json picture.bmp
walk train_cifar "$build/train_cifar" "${small[@]}" --dataset hdf5 --data data/small --steps 1 --init RUN
walk load_checkpoint "$python" -c 'import sys
sys.path.insert(0, sys.argv.pop(1))
import argparse
from lockstep import networks
parser = argparse.ArgumentParser()
parser.add_argument("run")
networks.add_weights_option(parser)
arguments = parser.parse_args()
networks.read_checkpoint(arguments.run, arguments.weights, arguments.which)' "$scripts" RUN WHICH
walk print_weights "$python" "$scripts/print_weights.py" RUN WHICH
for program in load_pytorch load_keras; do  # they may lack their packages here, but not the one function
  tried[$program]=1
  expect "$program finds runs" grep -qE 'find_checkpoint\(|read_checkpoint\(arguments.run, .*which\)' "$scripts/lockstep/$program.py"
done

# --- programs about whole runs -------------------------------------------------------------------------------------------
for name in first $checkpoints/best.h5; do
  finds report_runs 'page.html' "$build/report_runs" "$name" --output "$folder/page.html"
  finds compare_runs '^run first first-2' "$build/compare_runs" "$name" first-2 --output "$folder/runs.html"
  finds verify_run '^run runs/first' "$build/verify_run" "$name" --stretches 1 --seed 1
  finds plot_run '^runs/first/metrics.jsonl$' "$python" -c 'import sys
sys.path.insert(0, sys.argv[1])
import lockstep
from lockstep import plot_run
assert len(lockstep.read_run(sys.argv[2])["train"]) == 6
print(plot_run.log_of(sys.argv[2]))' "$scripts" "$name"
done

# --- names that mean several things, and none ----------------------------------------------------------------------------
refuses "a file of nothing" 1 'evaluate: nothing.h5 No.such.file' "$build/evaluate" nothing.h5
refuses "the beginning of a name" 2 'evaluate: no.run.fir runs/fir' "$build/evaluate" fir
refuses "also in Python" 1 'no.run.fir runs/fir' "$python" "$scripts/print_weights.py" fir
refuses "a folder that is no run" 1 'evaluate: ./first checkpoint' "$build/evaluate" ./first
mkdir -p first/checkpoints
refuses "two runs of one name" 2 'evaluate: first ./first runs/first' "$build/evaluate" first
refuses "also for compare_runs" 2 'compare_runs: first ./first runs/first' "$build/compare_runs" first
refuses "also for Python" 1 'first ./first runs/first' "$python" "$scripts/print_weights.py" first
rm -r first
refuses "no word of --which" 2 'which bst last' "$build/evaluate" first --which bst
refuses "no word of --which in Python" 1 'which bst last' "$python" "$scripts/print_weights.py" first --which bst
refuses "--follow takes all" 2 'follow --which' "$build/evaluate" first --follow --which last
cp -r runs/first runs/hurt
"$python" -c 'import sys; f = open(sys.argv[1], "r+b"); m = f.seek(0, 2) // 2; f.seek(m); b = f.read(1); f.seek(m); f.write(bytes([b[0] ^ 1]))' \
  runs/hurt/checkpoints/best.h5
refuses "a damaged best.h5 gives no other checkpoint" 1 'best.h5 damaged' "$build/evaluate" hurt
finds evaluate 'step-0000000006.h5' "$build/evaluate" hurt --which last
rm runs/hurt/checkpoints/step-*
run "$build/evaluate" hurt --which last
expect_error "no newest one" 1 'hurt no.whole.checkpoint'
cp $checkpoints/best.h5 runs/hurt/checkpoints
finds evaluate 'best.h5 \(best.accuracy step.2\)' "$build/evaluate" hurt
finds evaluate 'best.h5 \(best,.step.2\)' "$build/evaluate" hurt --which 2
mv data moved
refuses "the data have moved" 2 'evaluate: best.h5 data/small --data' "$build/evaluate" first
finds evaluate 'top-1 100.samples' "$build/evaluate" first --data moved/small
expect "data that the user names are not those of the run" test "$(grep -c '^data' out)" = 0

# --- all programs ----------------------------------------------------------------------------------------------------------
for program in "$here"/../../apps/*.cc "$scripts"/*.py; do
  name=$(basename "${program%.*}")
  case $name in
    pack_images | lockstep_run | convert_images | convert_reuters | mkdocs_index | sweep_runs) ;;  # they read no run
    train_*) ;;  # one source, which train_cifar stands for
    *) expect "$name is tried" test "${tried[$name]:-0}" = 1 ;;
  esac
done
finish
