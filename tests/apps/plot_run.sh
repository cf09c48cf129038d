#!/bin/bash
# scripts/plot_run.py: pictures of whole, young and empty runs, and its error without matplotlib.
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

# $1: the expected error; the rest: arguments.
must_fail() {
  local said=$1 text
  shift
  if text=$("$@" 2>&1); then
    echo "should have failed: $*"
    exit 1
  fi
  grep -qF "$said" <<<"$text" || { echo "said '$text' and not '$said'"; exit 1; }
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
: >empty.jsonl
must_fail 'holds no steps yet' "$python" "$script" empty.jsonl run.png
must_fail 'No such file' "$python" "$script" none.jsonl run.png
must_fail 'is not supported' "$python" "$script" metrics.jsonl run.unknown
