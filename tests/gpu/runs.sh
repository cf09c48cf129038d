#!/usr/bin/env bash
# Short runs on a GPU against the same runs on the CPU: losses of the steps, of the evaluations and of evaluate within 2 %.
# They use loaders, optimizers, graphs, summaries, checkpoints and evaluation as a user does, on generated data.
# usage: runs.sh BUILD_FOLDER [DEVICE]   (the device cpu tries this script without a GPU)
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"
device=${2:-cuda}
limit=120
[[ $device == cuda ]] || limit=300 # the CPU may have few cores
if [[ $device == cuda ]]; then
  run "$build/train_cifar" "${small[@]}" --device cuda --check
  if grep -q 'no CUDA device' "$folder/err" && [[ ${LOCKSTEP_REQUIRE_GPU:-0} == 0 ]]; then
    skip "$(grep -o 'no CUDA device ([^)]*)' "$folder/err")"
  fi
  expect "one rank sets up" test $code = 0
fi

# Files as those of CIFAR-10, with noise: airbench94 needs whole images.
mkdir "$folder/noise"
python3 - "$folder/noise" <<'END' || skip "python3 is missing"
import random
import sys
numbers = random.Random(1)
for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
    with open(f"{sys.argv[1]}/{name}.bin", "wb") as file:
        for i in range(10000):
            file.write(bytes([i % 10]) + numbers.randbytes(3072))
with open(f"{sys.argv[1]}/batches.meta.txt", "w") as file:
    file.writelines(f"class{i}\n" for i in range(10))
END

# losses NAME RANKS PROGRAM DEVICE OPTION...: prints the losses of the run, its evaluations and evaluate, one per line
losses() {
  local name=$1 count=$2 program=$3 on=$4 place
  shift 4
  place=$folder/$name-$on
  ranks "$count" "$program" --device "$on" --steps 20 --log-every 1 --eval-every 10 --summary-every 10 \
    --run "$place" "$@"
  expect "$name trains on $on" test $code = 0
  grep -E '"kind":"(train|evaluation)"' "$place/metrics.jsonl" | grep -oE '"loss":[0-9.e+-]+' | cut -d: -f2 >"$place.losses"
  run "$build/evaluate" "$place" --device "$on" --no-confusion "${data[@]}"
  expect "$name is evaluated on $on" test $code = 0
  grep -oE 'loss [0-9.]+' "$folder/out" | cut -d' ' -f2 >>"$place.losses"
}
# compare NAME RANKS PROGRAM OPTION...: `data` are the options for the data, also of evaluate
compare() {
  local name=$1
  losses "$name" "$2" "$3" cpu "${data[@]}" "${@:4}"
  mv "$folder/$name-cpu.losses" "$folder/wanted"
  rm -rf "${folder:?}/$name-cpu"
  losses "$name" "$2" "$3" "$device" "${data[@]}" "${@:4}"
  expect "$name: 23 losses are within 2 % of the CPU's" awk -v name="$name" '
    NR == FNR { wanted[FNR] = $1; next }
    { d = $1 / wanted[FNR] - 1; if (d < 0) d = -d; if (!(d <= worst)) worst = d }
    END { printf "%s: worst difference %.3f %%\n", name, 100 * worst; exit !(FNR == 23 && worst <= 0.02) }' \
    "$folder/wanted" "$folder/$name-$device.losses"
}

data=()
compare tutorial-bf16 1 train_cifar --precision bf16
compare tutorial-two-ranks 2 train_cifar --precision bf16
compare mnist-keras 1 train_mnist --model keras
compare reuters 1 train_reuters
data=(--data "$folder/noise")
compare airbench94 1 train_cifar --dataset cifar10_32 --model airbench94 --global-batch 200
finish
