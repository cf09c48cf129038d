#!/usr/bin/env bash
# bench/peers/compare.sh with stand-ins for Lockstep and for the environments of the peers: which peers run and how, which
# are left out, the best peer, and the file of all runs.
# usage: peers.sh BUILD_FOLDER
. "$(dirname "$0")/lib.sh" "$@"
compare=$(cd "$here/../../bench/peers" && pwd)/compare.sh
export LOCKSTEP_PEERS=$folder/peers LOCKSTEP_BUILD=$folder/build PATH=$folder/bin:$PATH
mkdir -p "$folder/bin" "$folder/build"

stand_in() {  # FILE: makes a program of the script on stdin
  mkdir -p "$(dirname "$1")"
  { echo '#!/bin/bash'; cat; } >"$1"
  chmod +x "$1"
}

stand_in "$folder/build/bench_step" <<<'echo "{\"images_per_s\":600,\"parameters\":7}"'
stand_in "$folder/bin/mpirun" <<<'shift 2; "$@"'
# Its rate depends on the options and on the number of the run. It writes its command line to the log.
for name in pytorch ipex keras; do
  stand_in "$LOCKSTEP_PEERS/$name/bin/python" <<<'
[[ $1 != -c ]] || exit 0
all="$*" parameters=7 rate=100
echo "$(basename "$(dirname "$(dirname "$0")")") ${all#*peers/}" >>"'"$folder"'/log"
case $all in
  *--jax*bf16* | *bf16*--jax*) echo "an early line" >&2; echo "no bf16 here" >&2; echo >&2; exit 1 ;;
  *deep_mnist*--jax) parameters=8 ;;
  *--net\ reuters*--compile) [[ $(grep -c reuters.*compile "'"$folder"'/log") == 1 ]] || { echo "not twice" >&2; exit 1; } ;;
  *--net\ tower*) echo "there is no tower" >&2; exit 1 ;;
  *"--ranks 1"*keras* | *keras*"--ranks 1"*) rate=200 ;;
  *--ipex) rate=$((150 + 10 * $(grep -c ipex "'"$folder"'/log"))) ;;
esac
echo "a line of a library"
echo "{\"peer\": \"stand-in\", \"parameters\": $parameters, \"images_per_s\": $rate}"'
done

compared() {  # EXIT_CODE OPTION...: runs compare.sh
  local wanted=$1
  shift
  code=0
  rm -f "$folder/log"
  timeout "$limit" "$compare" --steps 1 --warmup 1 "$@" >"$folder/out" 2>"$folder/raw" </dev/null || code=$?
  expect "exit code $wanted, not $code, of compare.sh $*" [ "$code" = "$wanted" ]
}
printed() { expect "a line of the table" grep -qE -- "$1" "$folder/out"; }
reported() { expect "a line on stderr" grep -qE -- "$1" "$folder/raw"; }
called() { expect "a call" grep -qE -- "$1" "$folder/log"; }

# All peers, in turns.
compared 0 --rounds 2 --peers all --net 'tutorial deep_mnist' --precision fp32 --json "$folder/runs"
printed '^\| samples/s, fp32 +\| tutorial +\| deep_mnist +\|$'
printed '^\| lockstep +\| 600 +\| 600 +\|$'
printed '^\| jax +\| 200 +\| - +\|$'
reported '^compare.sh: jax deep_mnist fp32 is left out: its network has 8 parameters, but Lockstep.s has 7\.$'
expect "a peer that was left out does not run again" [ "$(grep -c 'deep_mnist.*--jax' "$folder/log")" = 1 ]
expect "the last row names the best peer" grep -qE '^\| Lockstep / the best peer \| 3.00 (keras|jax) +\| 3.00 keras +\|$' <(tail -n 1 "$folder/out")
called '^pytorch pytorch_ddp.py --net tutorial --dtype fp32 --ranks 2 --batch 64 --threads 1 --steps 1 --warmup 1$'
called '^pytorch pytorch_ddp.py .*--ranks 2 .*--compile$'
called '^pytorch pytorch_ddp.py .*--ranks 1 --batch 128 --threads 2 .*--warmup 1$'
called '^pytorch pytorch_ddp.py .*--ranks 1 --batch 128 --threads 2 .*--compile$'
called '^ipex pytorch_ddp.py .*--ranks 1 --batch 128 --threads 2 .*--ipex$'
called '^keras keras_step.py .*--ranks 2 --batch 64 --threads 1 .*--warmup 1$'
called '^keras keras_step.py .*--ranks 2 .*--xla$'
called '^keras keras_step.py .*--ranks 1 --batch 128 --threads 2 .*--warmup 1$'
called '^keras keras_step.py .*--ranks 1 --batch 128 --threads 2 .*--jax$'
expect "each run is a line of JSON" python3 -c '
import json, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
ten = {(r["round"], r["program"]) for r in runs if r["network"] == "tutorial"}
assert len(ten) == 20 and len(runs) == 38, len(runs)
assert runs[0] == {"round": 1, "program": "lockstep", "network": "tutorial", "type": "fp32", "images_per_s": 600, "parameters": 7}
assert [r["program"] for r in runs[:3]] == ["lockstep", "pytorch", "pytorch-compile"], "in turns"' "$folder/runs"

# Three runs of ipex give 160, 170 and 180: the table has the median.
compared 0 --peers 'pytorch ipex' --precision fp32
printed '^\| ipex +\| 170 +\|$'
printed '^\| Lockstep / the best peer \| 3.53 ipex +\|$'

# A peer that fails: for one type, in a later round, for one network, and for all.
compared 0 --peers 'tensorflow jax' --precision both --rounds 1
reported '^compare.sh: jax tutorial bf16 is left out: no bf16 here$'
expect "two tables" [ "$(grep -cE '^\| jax +\| (200|-) ' "$folder/out")" = 2 ]
compared 0 --peers 'pytorch pytorch-compile' --net reuters --precision fp32 --rounds 2
reported '^compare.sh: pytorch-compile reuters fp32 is left out: not twice$'
printed '^\| pytorch-compile +\| - +\|$'
compared 0 --peers keras --net 'tower tutorial' --rounds 1
printed '^\| keras +\| - +\| 200 +\|$'
printed '^\| Lockstep / the best peer \| - +\| 3.00 keras +\|$'
compared 1 --peers 'keras ipex' --net tower
reported '^compare.sh: no peer is left. The lines above say why\.$'

# Both groups of networks.
compared 0 --peers pytorch --net 'all photos' --precision fp32 --rounds 1
expect "a column for each of 13 networks" [ "$(grep -E '^\| lockstep ' "$folder/out" | grep -o 600 | wc -l)" = 13 ]

# Environments that are missing.
rm -r "$LOCKSTEP_PEERS/ipex"
compared 0 --peers 'pytorch ipex' --net 'tutorial resnet50' --precision fp32 --rounds 1
reported "^compare.sh: ipex is left out: there is no environment $LOCKSTEP_PEERS/ipex. Run bench/peers/install.sh\.$"
expect "the peer without an environment has no row" [ "$(grep -c ipex "$folder/out")" = 0 ]
compared 1 --peers ipex
reported '^compare.sh: no peer is left. Run bench/peers/install.sh'

# Wrong options.
compared 2 --peers 'pytorch numpy'
reported '^compare.sh: unknown peer numpy'
compared 2 --net resnet
reported '^compare.sh: unknown network resnet\. Use all, photos'
compared 2 --json "$folder/no/folder"
reported "^compare.sh: cannot write the file '$folder/no/folder' of --json"
stand_in "$folder/build/bench_step" <<<'echo "Lockstep broke" >&2; exit 1'
compared 1 --peers pytorch
reported '^Lockstep broke$'

# install.sh: one environment per set of packages; if one fails, the others are installed.
stand_in "$folder/bin/curl" <<<'exit 0'
stand_in "$folder/bin/python3" <<<'
stand_in=$3/bin/pip
mkdir -p "$3/bin"
printf "#!/bin/bash\necho \"\$0 \$*\" >>\"'"$folder"'/log\"\n[[ \$* != *extension-for* ]]\n" >"$stand_in"
chmod +x "$stand_in"'
rm -f "$folder/log"
code=0
"$(dirname "$compare")/install.sh" >"$folder/out" 2>"$folder/raw" || code=$?
expect "install.sh reports a failure" [ "$code" = 1 ]
reported '^install.sh: cannot install ipex\.'
called "/peers/pytorch/bin/pip install .*--extra-index-url .* torch==[0-9.]+ torchvision=="
called '/peers/keras/bin/pip install .* keras==[0-9.]+ tensorflow-cpu=='
finish
