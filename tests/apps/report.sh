#!/usr/bin/env bash
# The page of a run, report.html, and the comparison of runs: their numbers, their files, and a browser that draws them.
# usage: report.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$folder" || exit 1
options=(--model resnet_small --global-batch 16 --threads 1 --log-every 1 --summary-every 0)
kept() {  # RANKS OPTION...: must succeed
  run mpirun -np "$1" "$build/train_cifar" "${options[@]}" "${@:2}"
  expect "exit code $code: ${*:2}" test "$code" = 0
}

export LOCKSTEP_CHANGE="lost host a (rank 2)" LOCKSTEP_CHANGED_AT=1
kept 2 --run one --steps 12 --eval-every 6
unset LOCKSTEP_CHANGE LOCKSTEP_CHANGED_AT
kept 1 --run two --steps 8 --eval-every 0 --lr 0.05
expect "the page is small" test "$(stat -c %s runs/one/report.html)" -lt 1000000
expect "summary.json has the memory, the buckets and the ranks" python3 - <<'PYTHON'
import json
s = json.load(open("runs/one/summary.json"))
assert s["memory"]["parameters"] > 0 and s["communication"]["buckets"]["count"] > 0, s
assert len(s["placement"]) == 2 and s["hosts"] == 1, s
assert "log-every" in s["changed_options"] and "seed" not in s["changed_options"], s
assert s["commands"]["repeat"].endswith("--config runs/one/config.toml --run runs/one --new"), s
change = s["changes"][0]
assert len(s["changes"]) == 1 and (change["change"], change["step"], change["ranks"]) == ("lost host a (rank 2)", 0, 2), s["changes"]
found = json.load(open("runs/one/evaluation.json"))
assert found["step"] == 12 and sum(map(sum, found["confusion"])) == found["samples"] == 10000, found
assert [row[2] for row in found["per_class"]] == [found["confusion"][i][i] for i in range(10)]
losses = [m["loss"] for m in found["mistakes"]]
assert losses == sorted(losses, reverse=True) and all(m["label"] != m["predicted"] for m in found["mistakes"])
PYTHON

# --- compare -------------------------------------------------------------------------------------------------------------
run "$build/compare_runs" one runs/two/
expect "two runs are compared" test "$code" = 0
expect_line "their names" '^run one two$'
expect_line "their steps" '^steps 12/12 8/8$'
expect_line "the option that differs" '^--lr 0\.1 0\.05$'
expect "and no option that is the same" test "$(grep -c -- '--log-every' out)" = 0
expect "the page lies beside the runs" test -s runs/compare.html
run "$build/compare_runs" one two --json --output other.html
expect "as JSON" python3 -c 'import json; r = json.load(open("out")); assert [x["results"]["step"] for x in r["runs"]] == [12, 8] and "lr" in r["differing_options"]'
cp -r runs/two runs/hostile
python3 - <<'PYTHON'
import json
file = "runs/hostile/summary.json"
summary = json.load(open(file))
summary.update(status="\x1b[31mx\x9b1m\nsteps 99/99 99/99", model="\x1b[2J")
json.dump(summary, open(file, "w"))
config = open("runs/hostile/config.toml").read()
open("runs/hostile/config.toml", "w").write(config + "a\x1b[5mb=1\nlr=\x1b]0;c\x07\n")
PYTHON
run "$build/compare_runs" one hostile --output hostile.html
expect "control characters of other people's runs are replaced" test "$code-$(tr -d '\n' <out | grep -cP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]')" = 0-0
expect "and no cell makes a line of its own" test "$(grep -c '^steps' out)" = 1
run "$build/report_runs" hostile
expect "report_runs names its file" test "$code" = 0
rm -r runs/hostile
echo mine >mine.html
for command in "compare_runs one two" "report_runs one"; do
  # shellcheck disable=SC2086  # a list of words
  run "$build/"$command --output mine.html
  expect_error "$command keeps a file of the user" 1 'mine\.html'
done
expect "it is whole" test "$(cat mine.html)" = mine
for command in compare_runs report_runs; do  # runs/*, where compare_runs has left its page
  run "$build/$command" runs/one runs/two runs/compare.html
  expect "pages of comparisons are no runs" test "$code" = 0
done
run "$build/compare_runs" one none
expect_error "no such run" 2 'none runs/none'
run "$build/compare_runs" one
expect_error "one run" 2 two
mkdir runs/group
cp -r runs/one runs/group/a-name-that-is-rather-long
for i in 1 2 3; do cp -r runs/one "runs/another-name-that-is-long-$i"; done
run "$build/compare_runs" group/a-name-that-is-rather-long another-name-that-is-long-{1,2,3} two
expect "a name in runs/ may be a path" test "$code" = 0
expect_line "results that are the same are named once" '^all runs: status complete, model resnet_small'
expect_line "the others in a line of each run" '^two 0\.05'
cp -r runs/one runs/again
python3 - <<'PYTHON'
import json, re
config = open("runs/again/config.toml").read()
open("runs/again/config.toml", "w").write(re.sub("(?m)^seed=.*", "seed=5", config))
rows = [json.loads(line) for line in open("runs/again/metrics.jsonl")]
for row in rows:
    if row["kind"] == "evaluation":
        row["loss"] *= 1.5
open("runs/again/metrics.jsonl", "w").write("".join(json.dumps(row) + "\n" for row in rows))
PYTHON
run "$build/compare_runs" two one again --output grouped.html
expect "runs with other seeds are compared" test "$code" = 0
mkdir empty
run "$build/report_runs" empty
expect_error "a folder without a run" 2 'empty summary\.json'

# --- a page that cannot be written ---------------------------------------------------------------------------------------
cp mine.html runs/two/report.html
kept 1 --run two --steps 9 --eval-every 0 --lr 0.05
expect "one warning" test "$(grep -c 'report\.html' err)-$(cat runs/two/report.html)" = 1-mine
rm runs/two/report.html
cp -r runs/two runs/three
rm runs/three/summary.json
mkdir runs/three/summary.json
kept 1 --run three --steps 10 --eval-every 0 --lr 0.05
expect "a summary.json that is a folder" grep -q 'warning: runs/three/summary\.json' err

# --- a run that trains, one that was killed, and one that ends early ------------------------------------------------------
page() {  # FILE EXPRESSION: of the page's data d and its run r
  python3 -c 'import json, re, sys; d = json.loads(re.search(r"id=\"data\">(.*?)</script>", open(sys.argv[1]).read()).group(1)); r = d["runs"][0]; print(eval(sys.argv[2]))' "$@"
}
shows_step() { (($(page runs/live/report.html 'r["results"]["step"]') > $1)); }
launch 1 train_cifar "${options[@]}" --run live --steps 100000 --eval-every 0 --log-every 1000000
await 30 shows_step 1
await 100 shows_step "$(page runs/live/report.html 'r["results"]["step"]')"
expect "the page says that it trains" \
  test "$(page runs/live/report.html '[r["results"]["status"], d["next"] >= 10, r["results"]["seconds"] > 0]')" = "['running', True, True]"
cp runs/live/report.html live.html
cp mine.html runs/live/other && mv runs/live/other runs/live/report.html
sleep 15  # until after the next page
kill -TERM "$(pid_of_rank 0)"
collect
expect "another file takes its place: one warning" test "$code-$(grep -c 'report\.html' err)-$(cat runs/live/report.html)" = 75-1-mine
sed 's/"last_sign":[0-9.]*/"last_sign":4102444800/' live.html >new.html  # seconds since 1970, in the year 2100
sed 's/"last_sign":[0-9.]*/"last_sign":1700000000/' live.html >killed.html
rm runs/live/report.html
run "$build/report_runs" live
expect "a stopped run has its reason" test "$(page runs/live/report.html '[r["results"]["status"], r["summary"]["reason"]]')" = "['stopped', 'a signal asked for it']"
kept 1 --run early --steps 50 --eval-every 2 --target 0.01
expect "so has one that ends early" test "$(page runs/early/report.html '[r["results"]["step"], r["summary"]["reason"]]')" = "[2, 'accuracy 0.01 % is reached']"
kept 1 --run early --steps 50 --eval-every 2 --target 0.01
expect_line "it is complete" '^complete already --target'
expect "and keeps its reason" grep -q '"reason": "accuracy' runs/early/summary.json

# --- an evaluation whose loss is NaN, with the best accuracy -------------------------------------------------------------
cp -r runs/one runs/nan
python3 - <<'PYTHON'
import json
rows = [json.loads(line) for line in open("runs/nan/metrics.jsonl")]
last = [row for row in rows if row["kind"] == "evaluation"][-1]
last |= {"loss": "NaN", "top1": 1.0}
with open("runs/nan/metrics.jsonl", "w") as file:
    file.writelines(json.dumps(row) + "\n" for row in rows)
summary = json.load(open("runs/nan/summary.json"))
summary["best"] = None
summary["result"]["loss"] = None
json.dump(summary, open("runs/nan/summary.json", "w"))
PYTHON
run "$build/compare_runs" one nan --json --output other.html
expect "it is never the best" python3 -c 'import json; r = json.load(open("out"))["runs"][1]["results"]; assert r["best_step"] == 6 and r["last"] == 1 and r["loss"] is None, r'
run "$build/compare_runs" one nan
expect_line "its loss is named" '^last loss [0-9.]* NaN$'
run "$build/report_runs" nan
expect "its page" test "$code" = 0

# --- other runs ----------------------------------------------------------------------------------------------------------
mkdir old hostile
cp runs/one/metrics.jsonl old
python3 - <<'PYTHON'
import json
rows = [json.loads(line) for line in open("old/metrics.jsonl")]
with open("old/metrics.jsonl", "a") as file:  # continued a day later
    for row in rows[0], [row for row in rows if row["kind"] == "train"][-1]:
        file.write(json.dumps(row | {"time": row["time"] + 86400}) + "\n")
PYTHON
run "$build/compare_runs" old one --json --output other.html
expect "a pause between starts does not count" python3 -c 'import json; assert 0 < json.load(open("out"))["runs"][0]["results"]["seconds"] < 3600'
run "$build/report_runs" old two
expect "pages of old runs" test "$code-$(ls old/report.html runs/two/report.html | wc -l)" = 0-2
cp runs/one/*.json* runs/one/config.toml hostile
python3 - <<'PYTHON'
import json
text = "</script><script>owned=1</script>@TITLE@<img src=x onerror=owned=1>"
for name in "summary.json", "evaluation.json":
    part = json.load(open("hostile/" + name))
    part.update({"classes": [text] * 10} if name[0] == "e" else {"status": "running", "device": text, "command": text, "placement": 5})
    json.dump(part, open("hostile/" + name, "w"))
open("hostile/config.toml", "a").write(f'data="{text}"\n')
PYTHON
run "$build/report_runs" hostile
expect "a page of hostile texts" test "$code" = 0

sed -i 's/"status": "complete"/"status": "running"/; s/^  "step": 9/  "step": 0/' runs/two/summary.json  # killed
run "$build/compare_runs" one two
expect_line "the logged steps of a killed run" '^steps 12/12 9/9$'
run python3 "$here/page.py" runs/one/report.html runs/one/metrics.jsonl runs/compare.html grouped.html hostile/report.html \
  old/report.html runs/nan/report.html new.html killed.html runs/early/report.html
[[ $code != 77 || $failures != 0 ]] || skip "chromium is not installed (scripts/install_dependencies.sh --tests)"
expect "the pages in a browser" test "$code" = 0
finish
