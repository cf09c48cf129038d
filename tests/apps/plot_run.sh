#!/bin/bash
# scripts/plot_run.py: plots of complete, young and empty runs, and its error if matplotlib is missing.
set -eu
script=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts" && pwd)/plot_run.py
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

{
  for step in 10 20 30 40; do
    echo '{"kind":"train","step":'$step',"epoch":0.1,"loss":'$((50 - step)).5',"images_per_s":1000}'
  done
  echo '{"kind":"train","step":50,"loss":"NaN","images_per_s":1000}'
  echo '{"kind":"evaluation","step":40,"top1":0.7,"top5":0.9,"loss":1.5,"samples":10000}'
  echo '{"kind":"train","st'
} >metrics.jsonl

# $1: words that the error must contain. The rest is the command.
must_fail() {
  local words=$1 text
  shift
  if text=$("$@" 2>&1); then
    echo "should have failed: $*"
    exit 1
  fi
  grep -qF "$words" <<<"$text" || { echo "the error '$text' does not contain '$words'"; exit 1; }
}

mkdir broken
echo 'raise ImportError' >broken/matplotlib.py
must_fail 'sudo apt install python3-matplotlib' env PYTHONPATH=broken python3 "$script" metrics.jsonl run.png

for python in python3 /usr/bin/python3 none; do
  "$python" -c 'import matplotlib' 2>/dev/null && break
done
if [ "$python" = none ]; then
  echo "skipped: no python has the package matplotlib (apt install python3-matplotlib)"
  exit 77
fi
"$python" "$script" metrics.jsonl run.png --title "a run" | grep -F '5 training rows, 1 evaluations, up to step 50'
[ "$(head -c 8 run.png | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ]
{
  printf '\xff\xfe\n[1]\n{"kind":["train"],"step":1}\n{"kind":"train","step":"1"}\n'
  cat metrics.jsonl
} >foreign.jsonl
"$python" "$script" foreign.jsonl run.png | grep -F '5 training rows, 1 evaluations, up to step 50'
head -1 metrics.jsonl >young.jsonl
"$python" "$script" young.jsonl run.svg
grep -q '<svg' run.svg

# Several runs: the legend has the options that differ. Texts of an SVG stay texts.
export MPLCONFIGDIR=$directory
echo 'svg.fonttype: none' >matplotlibrc
for lr in 0.1 0.2; do
  mkdir "$lr"
  { echo '{"kind":"run","step":0,"options":{"lr":'$lr',"model":"keras"}}'; cat metrics.jsonl; } >$lr/metrics.jsonl
done
mkdir -p runs/rates
mv 0.1 runs/rates
[ "$("$python" "$script" rates/0.1 0.2/metrics.jsonl both.svg | grep -c 'up to step 50')" = 2 ]
for label in 'lr 0.1' 'lr 0.2'; do grep -qF ">$label<" both.svg || { echo "no $label in the legend"; exit 1; }; done
! grep -q keras both.svg || { echo "an option that does not differ is in the legend"; exit 1; }
echo '{"kind":"find-lr","suggested":0.05,"points":[{"lr":0.01,"loss":2,"smoothed":2},{"lr":1,"loss":"nan","smoothed":"nan"}]}' >rates.json
"$python" "$script" rates.json rates.svg | grep -F '2 learning rates'
grep -qF 'suggested 0.05' rates.svg
: >empty.jsonl
must_fail 'contains no steps yet' "$python" "$script" empty.jsonl run.png
must_fail 'No such file' "$python" "$script" none.jsonl run.png
must_fail 'is not supported' "$python" "$script" metrics.jsonl run.unknown
