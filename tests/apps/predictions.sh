#!/usr/bin/env bash
# Back to the files: evaluate --predictions, the names in evaluation.json, and classify with files that it cannot read, with
# CSV, and with names that arrive one by one. Names have commas, quotes, line ends and bytes that are no UTF-8.
# usage: predictions.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
limit=120
cd "$folder" || exit 1
"$python" - <<'END'
import os, struct
names = [b"a,b.bmp", b'say "hi".bmp', b"two\nlines.bmp", b"bad\xff.bmp", b"tab\there.bmp"]
for part, count in ((b"train", 12), (b"test", 47)):
    for name, pixel in ((b"cat", b"\x20\x10\xd0"), (b'dog, "wild"', b"\xd0\x20\x10"), (b"fox", b"\x30\xd0\x30")):
        os.makedirs(b"photos/%s/%s" % (part, name))
        for i in range(count):
            row = bytes((2 * value + 3 * i * i) % 256 if i % 3 == 0 else value for value in pixel) * 16
            data = row * 16
            head = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(data), 0, 0, 54, 40, 16, 16, 1, 24, 0, len(data), 0, 0, 0, 0)
            file = names[i] if i < len(names) else b"%d.bmp" % i
            with open(b"photos/%s/%s/%s" % (part, name, file), "wb") as out:
                out.write(head + data)
END
run=(train_images --data photos --model resnet_small --image-size 16 --global-batch 8 --shards 2 --ema 0 --lr 0.02 --threads 1)
ranks 2 "${run[@]}" --steps 20 --eval-every 20 --run ./run
expect "training" test "$code" = 0

# --- evaluate --predictions ------------------------------------------------------------------------------------------------
for count in 1 2 3; do
  ranks "$count" evaluate ./run --threads 1 --predictions "$count.csv"
  expect "evaluate on $count ranks" test "$code" = 0
done
expect "two ranks" cmp 1.csv 2.csv
expect "three ranks" cmp 1.csv 3.csv
cat >check.py <<'END'
import csv, json, os, re, sys
file, out = sys.argv[1:]
with open(file, newline="", encoding="utf-8", errors="surrogateescape") as lines:
    head, *rows = csv.reader(lines)
classes = ["cat", 'dog, "wild"', "fox"]
assert head == ["file", "true", "predicted"] + [f"p({name})" for name in classes], head
files = [os.path.join(root, name) for root, _, names in os.walk("photos/test") for name in names]
assert sorted(row[0] for row in rows) == sorted(files), set(files) ^ {row[0] for row in rows}
for row in rows:
    assert row[1] == row[0].split("/")[2], row
    shares = [float(value) for value in row[3:]]
    assert abs(sum(shares) - 1) < 1e-5 and row[2] == classes[shares.index(max(shares))], row
right = sum(row[1] == row[2] for row in rows)
text = open(out).read()
top1 = float(re.search(r"top-1 ([0-9.]+) %", text)[1])
assert abs(100 * right / len(rows) - top1) < 0.01 and 0 < right < len(rows), (right, top1)
# The rows are those of the confusion matrix.
matrix = [[int(n) for n in re.findall(r" +(\d+)(?= )", line)][-3:] for line in text.splitlines()
          if re.fullmatch(r".{10}( +\d+){3} +[0-9.]+ %", line)]
counted = [[sum(row[1:3] == [a, b] for row in rows) for b in classes] for a in classes]
assert matrix == counted, (matrix, counted)
# The worst mistakes have the names of these files.
mistakes = json.load(open("run/evaluation.json"))["mistakes"]
shown = {row[0].encode(errors="surrogateescape").decode(errors="replace") for row in rows if row[1] != row[2]}
assert mistakes and all(mistake["file"] in shown for mistake in mistakes), mistakes
END
expect "a row for each file" "$python" check.py 1.csv out
"$python" -c 'import json; [print(m["file"]) for m in json.load(open("run/evaluation.json"))["mistakes"]]' >files
expect "the page has the names" bash -c 'while read -r name; do grep -qF "$(basename "$name" | cut -c1-4)" run/report.html || exit 1; done <files'
run "$build/pack_images" photos photos.h5
expect "packing" test "$code" = 0
ranks 1 "${run[0]}" "${run[@]:3}" --dataset packed --data photos.h5 --steps 1 --run ./packed
ranks 1 evaluate ./packed --threads 1 --predictions packed.csv
expect "files of a packed set" grep -qE '^photos.h5/test/fox/9.bmp,fox,' packed.csv
ranks 1 train_cifar "${small[@]}" --dataset folder --data photos --model resnet_small --steps 1 --run ./stored
ranks 1 evaluate ./stored --threads 1 --predictions stored.csv
expect "files of images in memory" grep -qE '^photos/test/fox/9.bmp,fox,' stored.csv
small_data data
ranks 1 train_cifar "${small[@]}" --dataset hdf5 --data data/small --model resnet_small --steps 1 --run ./numbers
ranks 2 evaluate ./numbers --threads 1 --predictions numbers.csv
expect "numbers of samples that are no files" bash -c "head -n 1 numbers.csv | grep -q '^sample,true,predicted,p(0),' && cut -d, -f1,2 numbers.csv | tail -n 1 | grep -qx 99,9 && [[ \$(wc -l <numbers.csv) == 101 ]]"

# --- whole or not at all (a full disk: mpi.evaluation) -------------------------------------------------------------------------
ranks 2 evaluate ./run --threads 1 --predictions nowhere/none.csv
expect_error "a missing folder" 74 'nowhere/none.csv No.such.file'
cp "$(step_file run 20)" own.h5
ranks 1 evaluate own.h5 --predictions own.h5
expect_error "the checkpoint itself" 2 'own.h5 exists'
ranks 1 evaluate own.h5 --predictions one --logits one
expect_error "one file for two" 2 'logits predictions one'
expect "no temporary is left" test "$(find . -name '*.tmp-*' | wc -l)" = 0

# --- classify -----------------------------------------------------------------------------------------------------------------
echo "no image" >bad.jpg
mkdir empty
run "$build/classify" ./run --csv bad.jpg photos/test/cat nowhere.jpg empty photos/test/fox/9.bmp
expect "files that cannot be read: exit code 1" test "$code" = 1
expect "one line for each of them" test "$(grep -cE '^classify: .*(bad.jpg|nowhere.jpg|empty)' err)-$(wc -l <err)" = 3-3
cp out answers.csv
cat >compare.py <<'END'
import csv
def rows(file):
    with open(file, newline="", encoding="utf-8", errors="surrogateescape") as lines:
        return list(csv.reader(lines))
answers, predictions = rows("answers.csv"), rows("1.csv")
assert answers[0] == predictions[0][:1] + predictions[0][2:], answers[0]
expected = {row[0]: row[2:] for row in predictions[1:]}
assert len(answers) == 1 + 47 + 1
for file, *answer in answers[1:]:
    wanted = expected[file]
    assert answer[0] == wanted[0] and all(abs(float(a) - float(b)) < 1e-4 for a, b in zip(answer[1:], wanted[1:])), file
END
expect "CSV has the answers of evaluate" "$python" compare.py
run "$build/classify" ./run --csv --json bad.jpg
expect_error "two forms" 2 'json csv'
run "$build/classify" ./run photos/test/cat/two*
expect_error "a name with a line end on the command line" 2 'FILES two.lines.bmp control.characters folder'
run "$build/classify" ./run --json photos/test/cat
expect "JSON has nothing but objects" "$python" -c 'import json; assert len([json.loads(line)["file"] for line in open("out")]) == 47'
run "$build/classify" ./run empty
expect_error "a folder without images" 1 'classify: empty no.image'
run bash -c "head -c 300000 /dev/zero | tr '\\0' x | '$build/classify' ./run -"
expect_error "a line without an end" 1 'standard.input no.name'
run bash -c "printf '' | '$build/classify' ./run -"
expect_error "no names" 2 'FILES no.image'
cat >ask.py <<'END'
# Each name is answered before the next one is written.
import subprocess, sys
program = subprocess.Popen([sys.argv[1], "./run", "--csv", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
assert program.stdout.readline().startswith(b"file,predicted,")
for name in (b"photos/test/fox/9.bmp", b"bad.jpg", b"photos/test/cat/9.bmp\r", b"\n", b"photos/test/cat/8.bmp"):
    program.stdin.write(name + b"\n")
    program.stdin.flush()
    if name.startswith(b"photos"):
        answer = program.stdout.readline()
        assert answer.startswith(name.strip() + b","), answer
    elif name.startswith(b"bad"):
        assert b"bad.jpg" in program.stderr.readline()
for part in (b"photos/test/cat/6.bmp\n", b"photos/test/"):  # the next name is not complete
    program.stdin.write(part)
    program.stdin.flush()
answer = program.stdout.readline()
assert answer.startswith(b"photos/test/cat/6.bmp,"), answer
program.stdin.write(b"cat/7.bmp")  # without a line end
rest = program.communicate()[0]
assert rest.startswith(b"photos/test/cat/7.bmp,") and program.returncode == 1, (rest, program.returncode)
END
expect "answers while standard input is open" timeout 30 "$python" ask.py "$build/classify"
find photos/test -name '*9.bmp' >list
run bash -c "'$build/classify' ./run --csv - <list"
expect "a list of names" test "$(wc -l <out)" = $((1 + $(wc -l <list)))
finish
