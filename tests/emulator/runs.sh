#!/usr/bin/env bash
# Short runs in the emulator against the same runs on the CPU: losses of the steps and of the evaluations within 2 %. Any
# report of the emulator is a failure, because it sets the exit code.
# usage: runs.sh BUILD_FOLDER [all]   (the folder of the emulated programs; all: every program and every kind of run)
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"
need_h5py
limit=400
which=${2:-quick}
small_data "$folder/data"
mkdir "$folder/photos.d" && "$python" "$here/example_data.py" "$folder/photos.d" 4 10 10
photos=(--data "$folder/photos.d/photos" --image-size 32)
small=(--dataset hdf5 --data "$folder/data/small" --model resnet_small)

# losses RUN: prints the losses of its steps and its evaluations, one per line
losses() { grep -hE '"kind":"(train|evaluation)"' "$1/metrics.jsonl" | grep -oE '"loss":[0-9.e+-]+' | cut -d: -f2; }
# compare NAME RANKS GPUS ORDER PROGRAM OPTION...: `more` are options only for the CPU
compare() {
  local name=$1 count=$2 gpus=$3 order=$4 program=$5 device
  shift 5
  for device in cpu cuda; do
    EMULATOR_ORDER=$order EMULATOR_DEVICES=$gpus ranks "$count" "$program" --device $device --threads 1 --global-batch 8 --steps 5 \
      --log-every 1 --summary-every 0 --deterministic --run "$folder/$name-$device" "$@"
    expect "$name trains on $device" test $code = 0
    losses "$folder/$name-$device" >"$folder/$device.losses"
  done
  expect "$name: losses are within 2 % of the CPU's" awk -v name="$name" '
    NR == FNR { wanted[FNR] = $1; next }
    { d = $1 / wanted[FNR] - 1; if (d < 0) d = -d; if (!(d <= worst)) worst = d }
    END { printf "%s: %d losses, worst difference %.3f %%\n", name, FNR, 100 * worst; exit !(FNR >= 3 && worst <= 0.02) }' \
    "$folder/cpu.losses" "$folder/cuda.losses"
}

half=fp32
if has_bf16; then half=bf16; fi
compare small-$half 1 1 random train_cifar "${small[@]}" --precision $half --eval-every 5
compare two-gpus 2 2 thread train_cifar "${small[@]}" --sync-bn --eval-every 0

# An evaluation of four batches of a thousand, of which a graph repeats all but the first and the last. Each has its own label and
# brightness, so that one batch instead of another changes the loss by more than 2 %.
cp -r "$folder/data/small" "$folder/data/many"
"$python" -c 'import h5py, numpy, sys
with h5py.File(sys.argv[1], "w") as file:
    batch = numpy.arange(3010) // 1000
    file["images"] = numpy.random.RandomState(2).randint(0, 256, (3010, 16, 16, 3)).astype("u1") >> batch.astype("u1")[:, None, None, None]
    file["labels"] = batch' "$folder/data/many/test.h5"
cat >"$folder/one.toml" <<'EOF'
about = "one dense layer"
sample = [16, 16, 3]
layers = [{name = "dense", type = "dense", features = "$classes"}]
EOF
compare evaluation 1 1 random train_cifar --dataset hdf5 --data "$folder/data/many" --model "$folder/one.toml" --eval-every 5
if [[ $which != all ]]; then finish; exit; fi

compare one-gpu 2 1 thread train_cifar "${small[@]}" --eval-every 0
compare tutorial 1 1 late train_cifar --eval-every 0
compare lamb 1 1 random train_cifar "${small[@]}" --optimizer lamb --clip-norm 1 --weight-decay 0.01 --eval-every 0
compare muon 1 1 random train_cifar "${small[@]}" --optimizer muon --eval-every 0
compare lars 1 1 random train_cifar "${small[@]}" --optimizer lars --mixup 0.4 --cutmix 1 --label-smoothing 0.1 --precision $half --eval-every 0
compare adam 1 1 eager train_cifar "${small[@]}" --optimizer adam --accumulate 2 --ema 0.9 --cutout 4 --eval-every 5
compare mnist 1 1 random train_mnist --data "$folder/data/mnist" --model keras --eval-every 5
compare reuters 1 1 random train_reuters --data "$folder/data/reuters" --eval-every 5
compare airbench 1 1 late train_cifar --dataset hdf5 --data "$folder/data/whole" --model airbench94 --global-batch 2 --eval-every 0
# vit_b_16 with 2 blocks of width 192: the detector of races needs 16 times the memory of a network.
sed 's/repeat = 12/repeat = 2/; s/width = 768/width = 192/' "$here/../../apps/networks/vit_b_16.toml" >"$folder/vit_small.toml"
for model in resnet18 mobilenet_v3_large convnext_tiny "$folder/vit_small.toml"; do
  compare "$(basename "$model" .toml)" 1 1 late train_images "${photos[@]}" --model "$model" --global-batch 2 --steps 3 --lr 0.001 \
    --sync-bn=false --timeout 600 --eval-every 0
done

# A checkpoint, a resume, evaluate, classify, export.
train_small() { EMULATOR_ORDER=random ranks 1 train_cifar --device cuda --threads 1 "${small[@]}" --deterministic --global-batch 8 --eval-every 0 --summary-every 0 "$@"; }
train_small --steps 6 --run "$folder/whole"
train_small --steps 3 --run "$folder/parts"
train_small --steps 6 --run "$folder/parts"
expect "a run resumes" test $code = 0
expect_same_state "a resumed run" "$(step_file "$folder/whole" 6)" "$(step_file "$folder/parts" 6)"
for device in cpu cuda; do
  run "$build/evaluate" "$folder/whole" --device $device --data "$folder/data/small" --no-confusion
  expect "evaluate on $device" test $code = 0
  grep -oE 'loss [0-9.]+' "$folder/out" >"$folder/$device.loss"
done
expect "evaluate is the CPU's" cmp "$folder/cpu.loss" "$folder/cuda.loss"
ranks 1 train_images --device cuda --threads 1 "${photos[@]}" --model resnet_small --image-size 16 --steps 3 --global-batch 4 --run "$folder/pictures"
expect "photos train" test $code = 0
run "$build/classify" --device cuda "$folder/pictures" "$folder"/photos.d/photos/test/cat/0.bmp
expect "classify" test $code = 0
run "$build/export_model" "$folder/whole" "$folder/model.onnx"
expect "export" test $code = 0
finish
