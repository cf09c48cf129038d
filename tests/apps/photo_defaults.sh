#!/usr/bin/env bash
# The model, the length and the batch that train_images chooses for photos, also with weights of others.
# usage: photo_defaults.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

cd "$folder" || exit 1
python3 "$here/example_data.py" . 8 1 1  # images of 40 to 68 x 48 pixels
photos() { run "$build/train_images" --data photos --threads 1 "$@"; }
trained() { run mpirun -np 2 "$build/train_images" --data photos --threads 1 --eval-every 0 "$@"; }

trained --check
expect_line "small images get a small network" '^model resnet20'
expect_line "it is explained" 'chosen because 44.pixels --model'
expect "its weights are not published" test "$(grep -c get_weights.sh "$folder/out")" = 0
expect_line "the batch suits few photos" '^batch 48 2.shards.of.24'
expect_line "batch norm sees all of them" '^batch.norm global.batch'
expect_line "and the length" '^length 30.steps,.90.0.epochs'
photos --image-size 64 --check
expect_line "larger ones get a network for photos" '^model resnet18'
expect_line "whose weights are published" 'random.weights get_weights.sh.resnet18 --init'
photos --image-size 32 --model resnet18 --check
expect "a model that is named needs no reason" test "$code:$(grep -c '^ .*chosen' "$folder/out")" = 0:0
expect_line "and has the same batch" '^batch 48'
expect_line "for which its rate is scaled" '^optimizer lr.0\.01875 0\.1 256'
photos --image-size 32 --model resnet18 --global-batch 256 --epochs 5 --check
expect_line "the rate follows the batch" '^optimizer lr.0\.1.cosine 256'
photos --image-size 32 --model resnet18 --lr 0.05 --check
expect_line "but the user's rate is as it stands" '^optimizer lr.0\.05.cosine.to'
run mpirun -np 5 "$build/train_images" --data photos --threads 1 --eval-every 0 --steps 1 --run five
expect_line "five ranks get a batch that they divide" '^batch 50 5.shards.of.10'
expect_line "a note tells it" '^note 50,.not.48 5 --shards'
weights=$(grep '^weights .*sha256' "$folder/out")
trained --shards 5 --steps 1 --run two
expect "two ranks with as many shards" grep -qxF "$weights" "$folder/out"
mv photos moved
trained --run two
expect_error "photos that are gone" 2 'photos does.not.exist --data'
mv moved photos
run mpirun -np 5 "$build/train_images" --config runs/five/config.toml --run five --new
expect "its config.toml repeats it" test "$code" = 0
photos --model tutorial --check
expect "no note about what only the recipe sets" test "$code:$(grep -c 'does nothing' "$folder/out")" = 0:0
photos --model airbench94 --epochs 1 --no-run
expect "a recipe for images in memory leaves out what photos refuse" test "$code" = 0

# A run continues with the same options.
trained --model resnet_small --steps 2 --run old
expect "a run with a model of its own" test "$code" = 0
trained --steps 4 --run old
expect_error "which does not choose the next one" 2 'runs/old --model resnet_small resnet20'
trained --steps 1
trained --steps 1
expect_line "the same command finds its run" '^complete.already runs/train_images-resnet20-1/'
trained --steps 1 --model resnet20
expect_line "so does one that names the model" '^complete.already runs/train_images-resnet20-1/'

photos --init old --no-run --check
expect_error "nor the one that starts with its weights" 1 'runs/old resnet_small'
photos --init old --model resnet_small --no-run --check
expect_line "with weights the run is short" '^length 3.steps,.9.00.epochs'
cp -r runs/old resnet_small.weights
photos --init resnet_small.weights --no-run --check
expect_line "their name decides" '^model resnet_small,'
# The files of recipes set what the defaults are.
facts() { grep -E '^(model|batch|length|optimizer|augmentation|batch norm) ' "$folder/out"; }
recipe() { photos --config "$here/../../apps/recipes/$1.toml" --no-run --check "${@:2}"; }
photos --no-run --check
defaults=$(facts)
recipe photos
expect "photos.toml has the defaults" test "$code:$(facts)" = "0:$defaults"
photos --init resnet_small.weights --no-run --check
defaults=$(facts)
recipe fine_tuning --init resnet_small.weights
expect "fine_tuning.toml has those of --init" test "$code:$(facts)" = "0:$defaults"
photos --init resnet34.safetensors --image-size 32 --no-run --check
expect_error "the name of weights that do not exist" 1 '^train_images: resnet34.safetensors'
photos --init resnet34 --no-run
expect_error "the name of a model whose weights are published" 2 '^train_images: --init.resnet34 get_weights.sh.resnet34'
photos --data nothing --no-run
expect_error "a folder that does not exist" 2 '^train_images: nothing'

launch 2 train_images --data photos --threads 1 --eval-every 0 --no-run --epochs 1000000
await 30 grep -q '^step .* ETA [0-9:]*' "$folder/out"
kill -USR1 "$(pid_of_rank 0)"
collect
expect_error "it stops" 1 'Nothing.was.saved'
finish
