#!/usr/bin/env bash
# The blocks of the other pages run too. commands.py lists those that do not, each with its reason.
# usage: commands_docs.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=SCRIPTDIR/lib_clone.sh
. "$(dirname "$0")/lib_clone.sh"

# Earlier pages have made data, photos of two classes, and runs.
run env -C "$clone" scripts/get_data.sh cifar10
expect "the data are there" [ $code = 0 ]
for name in first second third; do
  run env -C "$clone" build/train_cifar --model resnet_small --run $name --steps 2 --global-batch 16 --eval-every 2 --lr 0.0${#name}
done
cp "$clone"/runs/first/checkpoints/{step-*,best}.h5

pages=()
for path in "$root"/CONTRIBUTING.md "$root"/docs/*.md "$root/bench/predictions.md"; do
  [[ $path == */getting-started.md ]] || pages+=("${path#"$root/"}")
done
for name in "${pages[@]}"; do
  page_works "$name"
  [[ $name != docs/data.md ]] || rm "$clone/photos.h5"  # another page makes it too
done
run "$python" "$here/commands.py" --unused "$root/README.md" "$root/docs/getting-started.md" "${pages[@]/#/"$root/"}"
expect "each row of NOT_RUN is needed: $(cat "$folder/raw")" [ $code = 0 ]
finish
