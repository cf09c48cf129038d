#!/usr/bin/env bash
# Classes of images from a table: --labels and metadata.csv train to the weights of class folders, a resume with another table
# is refused, evaluate knows the table of the run, and errors are one line.
# usage: labels.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
cd "$folder" || exit 1
"$python" - <<'END'
import csv, os, random, struct
rows = {"train": [], "test": []}
for part, count in (("train", 12), ("test", 6)):
    for folder in (f"folders/{part}/blue sky", f"folders/{part}/röt", f"flat/{part}", "all"):
        os.makedirs(folder, exist_ok=True)
    for label, pixel in (("blue sky", b"\xd0\x20\x10"), ("röt", b"\x20\x10\xd0")):
        for i in range(count):
            width, height = 20 + 3 * i, 40 - i
            row = bytes(value + i for value in pixel) * width
            data = (row + b"\0" * (-len(row) % 4)) * height
            file = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(data), 0, 0, 54, 40, width, height, 1, 24, 0, len(data),
                               0, 0, 0, 0)
            name = f"{i:02}, {label[:1]}.bmp"
            for place in (f"folders/{part}/{label}/{name}", f"flat/{part}/{name}", f"all/{part} {name}"):
                with open(place, "wb") as out:
                    out.write(file + data)
            rows[part].append((label, name, part))
def write(table, header, lines, end="\n", mark=""):
    with open(table, "w", newline="", encoding="utf-8") as out:
        out.write(mark)
        csv.writer(out, lineterminator=end).writerows([header, *lines])
random.seed(1)
lines = rows["train"] + rows["test"]
random.shuffle(lines)
header = ["file", "label", "part"]
nested = [(f"{part}/{label}/{name}", label, part) for label, name, part in lines]
beside = [(f"{part} {name}", label, part) for label, name, part in lines]
first = ("train 00, b.bmp", "röt", "train")
write("folders.csv", ["label", "file"], [(label, name) for name, label, _ in nested], "\r\n", "\ufeff")
write("all.csv", header, beside)
write("absolute.csv", header, [(os.path.abspath(f"all/{a}" if i % 2 else f"folders/{b}"), label, part)
                               for i, ((a, label, part), (b, *_)) in enumerate(zip(beside, nested))])
write("other.csv", header, [first if row[0] == first[0] else row for row in beside])
write("tested.csv", ["file", "label"], [(f"test {name}", label) for label, name, _ in rows["test"][:7]])
for part in rows:
    write(f"flat/{part}/metadata.csv", ["file_name", "label"], [(name, label) for label, name, own in lines if own == part])
write("lost.csv", header, [(name + "x" * (i % 9 == 4), *rest) for i, (name, *rest) in enumerate(beside)])
write("twice.csv", header, [*beside, first])
END
run=(train_images --model resnet_small --image-size 16 --global-batch 8 --shards 2 --ema 0 --lr 0.01 --eval-every 0
     --summary-every 0 --threads 1 --steps 9)

# --- the weights of class folders ------------------------------------------------------------------------------------------
ranks 2 "${run[@]}" --data folders --run ./folders_run
expect "class folders" test "$code" = 0
same() {  # RUN WORDS OPTION...: trains alike; the summary contains WORDS
  ranks 2 "${run[@]}" "${@:3}" --run "./$1"
  expect "$1" test "$code" = 0
  expect_line "the summary of $1" "^data 24 2.classes $2"
  expect_same_state "$1" "$(step_file folders_run 9)" "$(step_file "$1" 9)"
}
same table 'labelled.by.folders.csv röt' --data folders --labels folders.csv
same metadata 'labelled.by.*flat/train/metadata.csv.*flat/test/metadata.csv' --data flat
same one_folder 'labelled.by.all.csv' --data all --labels all.csv
ln -s all link
sed "2,9s,^\"\?,&$PWD/all/," all.csv >real.csv
same by_link 'labelled.by.real.csv' --data link --labels real.csv
expect "no image is left out" bash -c "! grep -q 'left out' out"
run "$build/pack_images" all all.h5 --labels all.csv
expect "packing" test "$code" = 0
same packed 'from.all.h5' --dataset packed --data all.h5
ranks 2 "${run[@]}" --data all --labels absolute.csv --run ./absolute
expect_line "images that the table lacks" '^note 18.images all left.out absolute.csv'
sed 's,"train/,",; /test/d' folders.csv >train.csv
ranks 2 "${run[@]}" --data folders/train --fold 2/3 --run ./fold
ranks 2 "${run[@]}" --data folders/train --fold 2/3 --labels train.csv --run ./fold_of_table
expect_line "a fold of a table" '^data 16 train.csv'
expect_same_state "a fold of a table" "$(step_file fold 9)" "$(step_file fold_of_table 9)"
ranks 1 evaluate ./fold_of_table --threads 1
expect "its own fold" grep -q 'note: 8 of 24 .*kept from training' raw
cp train.csv kept.csv
sed -i 5,7d train.csv
ranks 1 evaluate ./fold_of_table --threads 1
expect "a table that has changed" grep -q 'note: [0-9]* of 21 .*have changed' raw
mv kept.csv train.csv

# --- several folders -------------------------------------------------------------------------------------------------------
cp -r folders one
for class in train/röt "train/blue sky" test/röt; do
  mkdir -p "two/$class"
  mv one/"$class"/0[2-5]* "two/$class"
done
"$python" - <<'END'
import csv, os
with open("two.csv", "w", newline="") as out:
    rows = [(label, file, file.split("/")[0]) for label, file in csv.reader(open("folders.csv", encoding="utf-8-sig"))][1:]
    rows = [(label, f"../two/{file}" if os.path.exists(f"two/{file}") else file, part) for label, file, part in rows]
    csv.writer(out).writerows([("label", "file", "part"), *rows])
END
ranks 2 "${run[@]}" --data one --labels two.csv --run ./of_table
ranks 2 "${run[@]}" --data one --data two --run ./several
expect "several folders" test "$code" = 0
expect_line "their summary" '^data 24 2.classes one,.two,.resized'
ranks 1 "${run[@]}" --data one --data two --steps 5 --run ./several_parts
ranks 1 "${run[@]}" --data one --run ./several_parts
expect_error "a resume with one of them" 2 'step-0000000005.h5 other.data'
ranks 1 train_images --config several_parts/config.toml --steps 9 --run ./several_parts
for name in of_table several_parts; do
  expect_same_state "several folders: $name" "$(step_file several 9)" "$(step_file $name 9)"
done
ranks 2 evaluate ./several --threads 1
expect_line "evaluate knows them" '^data one,.two,.as.in.training'
expect "all of their test images" grep -q ' 12 samples' out
ranks 1 evaluate ./several --threads 1 --data one --data two
expect "--data passed twice" grep -q ' 12 samples' out
mv two gone
ranks 2 evaluate ./several --threads 1
expect_error "one of them is gone" 2 'two does.not.exist --data'
run "$build/verify_run" ./several --stretches 1 --np 2 --data one --data gone
expect "verify_run finds it under another name" test "$code" = 0
rm gone/train/röt/02*
run "$build/verify_run" ./several --all --np 1 --data one --data gone
expect "other data are no fault of the run" test "$code" = 65
expect_line "they are named" '^steps 0 not.replayed data --data'
mv gone two

# --- resume and evaluate ---------------------------------------------------------------------------------------------------
ranks 1 "${run[@]}" --steps 5 --data all --labels all.csv --run ./parts
ranks 2 "${run[@]}" --data all --labels other.csv --run ./parts
expect_error "a resume with another table" 2 'step-0000000005.h5 other.data training.image.files'
cp all.csv whole.csv
cp other.csv all.csv
ranks 2 "${run[@]}" --data all --labels all.csv --run ./parts
expect_error "a resume with other classes" 2 'step-0000000005.h5 other.data training.image.files'
cp whole.csv all.csv
ranks 2 "${run[@]}" --data all --labels ./all.csv --run ./parts
expect_same_state "a resume with the table, by another path" "$(step_file folders_run 9)" "$(step_file parts 9)"
for place in "" "--data all" "--labels all.csv --data ./all"; do
  # shellcheck disable=SC2086
  ranks 2 evaluate ./parts --threads 1 --predictions "answers.csv" $place
  expect "evaluate $place" bash -c "[[ $code == 0 && ! -s err ]] && grep -q ' 12 samples' out"
  expect "files of evaluate $place" bash -c "grep -qE '^\"(./)?all/test 03, r.bmp\",röt,' answers.csv"
  rm -f answers.csv
done
ranks 1 evaluate ./parts --threads 1 --data all --labels tested.csv
expect "another table" grep -q ' 7 samples' out
ranks 1 evaluate ./parts --threads 1 --data folders
expect "another folder has its own classes" grep -q ' 12 samples' out
ranks 1 evaluate ./absolute --threads 1 --predictions answers.csv
expect "names of both folders" bash -c "grep -q '^\"$PWD/folders/test/' answers.csv && grep -q '^\"all/test ' answers.csv"
ranks 1 evaluate ./packed --threads 1 --labels all.csv
expect_error "a set without tables" 2 'packed --labels'
mv all.csv gone.csv
ranks 2 evaluate ./parts --threads 1
expect_error "a table that is gone" 2 'all.csv does.not.exist --labels'
mv gone.csv all.csv

# --- errors ----------------------------------------------------------------------------------------------------------------
refused() {  # WHAT CODE WORDS OPTION...
  ranks 1 "${run[@]}" "${@:4}" --run ./none
  expect_error "$@"
  expect "$1: no run" test ! -e none
}
refused "files that do not exist" 65 '4.of.36 do.not.exist lost.csv,.line relative.to.all' --data all --labels lost.csv
refused "two classes" 65 'twice.csv,.line and.38 two.classes train.00,.b.bmp blue.sky röt' \
  --data all --labels twice.csv
printf '{"file": "%s", "label": %s}\n' "train 00, b.bmp" 18446744073709551617 "train 00, r.bmp" 1 >numbers.jsonl
refused "a number that is not kept" 65 'numbers.jsonl line.1 class whole.number' --data all --labels numbers.jsonl
refused "no table" 65 'nowhere.csv No.such.file' --data all --labels nowhere.csv
refused "a folder" 65 'folders' --data all --labels folders
refused "neither table nor class folders" 65 'all 0.class.folders' --data all --validation 0.1
run "$build/pack_images" all none.h5 --labels lost.csv
expect_error "packing" 1 'pack_images: 4.of.36 lost.csv'
expect "packing: no file" test ! -e none.h5
finish
