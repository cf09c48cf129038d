#!/usr/bin/env bash
# Simulates every all-reduce algorithm on machines of any size. SimGrid runs the schedules and messages of collectives/
# unchanged. The results are compared with the cost model of the schedules.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../scripts/common.sh
. "$(dirname "$0")/../scripts/common.sh"
ranks='16 64 256' bytes='4096 65536 1048576' topology=cluster latency=2 gbits=100 plot=
# Each algorithm is in a file with its name.
algorithms=$(cd "$root/collectives/algorithms" && printf '%s\n' *.cc | sed '/^algorithms/d; s/\.cc$//' | paste -sd ' ')

usage() {
  cat <<HELP
usage: bench/simulate.sh [options]

  --ranks LIST        numbers of ranks ($ranks)
  --bytes LIST        bytes of a bucket ($bytes)
  --algorithms LIST   algorithms ($algorithms)
  --topology NAME     cluster: a crossbar; fat_tree: two levels, needs a square number of ranks ($topology)
  --latency US        latency of one link in microseconds; a path has two links, across a fat tree four ($latency)
  --bandwidth GBIT    bandwidth of one link in each direction, in Gbit/s ($gbits)
  --plot FILE         also plot the results (needs python3-matplotlib)

Prints the simulated time, the cost by the alpha-beta model of collectives/schedule.h, and their ratio. Then it prints the
fastest algorithm for each number of ranks and bytes. Adding takes no time here. 1024 ranks with 1 MiB need minutes and
2 GiB of memory. Needs SimGrid: apt install libsimgrid-dev.
HELP
}

while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --ranks | --bytes | --algorithms | --topology | --latency | --bandwidth | --plot)
      [[ -n ${2:-} ]] || fail "$1 needs a value. See --help." 2
      name=${1#--}
      declare "${name/bandwidth/gbits}=$2"
      shift 2 ;;
    *) fail "unknown option $1. See --help." 2 ;;
  esac
done
for number in $ranks $bytes; do [[ $number =~ ^[1-9][0-9]*$ ]] || fail "$number is not a number of ranks or bytes. Pass a whole number above 0." 2; done
for number in $ranks; do ((number > 1)) || fail "--ranks $number is too small. Pass 2 or more." 2; done
for number in $bytes; do ((number >= 4)) || fail "--bytes $number is too small. Pass 4 or more." 2; done
for number in $latency $gbits; do
  [[ $number =~ ^[0-9]+(\.[0-9]+)?$ && $number =~ [1-9] ]] || fail "$number is not a latency or bandwidth. Pass a number above 0." 2
done
[[ $topology == cluster || $topology == fat_tree ]] || fail "unknown topology $topology. Use cluster or fat_tree." 2
# square_root N: prints it; 0 if it is no whole number.
square_root() { awk -v n="$1" 'BEGIN { s = int(sqrt(n) + 0.5); print s * s == n ? s : 0 }'; }
for number in $ranks; do
  [[ $topology == cluster || $(square_root "$number") != 0 ]] || fail "a fat tree cannot have $number ranks. Pass a square number such as 16, 64 or 256." 2
done
command -v smpirun >/dev/null || fail "SimGrid is missing. Install it: apt install libsimgrid-dev"
configure -DLOCKSTEP_BENCH=ON -DLOCKSTEP_SMPI=ON
compile --target simulated_allreduce

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Only latency and bandwidth count. SimGrid's factors for real TCP are off.
options=(--cfg=smpi/simulate-computation:no --cfg=smpi/host-speed:100Gf --cfg=smpi/lat-factor:1 --cfg=smpi/bw-factor:1
  --cfg=network/model:CM02 --cfg=network/TCP-gamma:0 --cfg=network/weight-S:0 --cfg=network/latency-factor:1
  --cfg=network/bandwidth-factor:1 --cfg=network/crosstraffic:0 --log=root.threshold:error)

platform() {  # RANKS: writes the platform and the hosts
  local side tree=
  if [[ $topology == fat_tree ]]; then
    side=$(square_root "$1")
    tree="topology='FAT_TREE' topo_parameters='2;$side,$side;1,$side;1,1' loopback_bw='50GBps' loopback_lat='100ns'"
  fi
  cat >"$work/platform.xml" <<XML
<?xml version='1.0'?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><cluster id="c" prefix="h" radical="0-$(($1 - 1))" suffix="" speed="100Gf"
  bw="${gbits}Gbps" lat="${latency}us" $tree sharing_policy="SPLITDUPLEX"/></platform>
XML
  seq -f 'h%.0f' 0 $(($1 - 1)) >"$work/hosts"
}

alpha=$(awk -v l="$latency" -v t="$topology" 'BEGIN { print l * 1e-6 * (t == "fat_tree" ? 4 : 2) }')
beta=$(awk -v g="$gbits" 'BEGIN { printf "%.0f", g * 1e9 / 8 }')
echo "$topology, $latency us and $gbits Gbit/s per link"
printf '%-20s %6s %10s %14s %14s %7s\n' algorithm ranks bytes 'simulated us' 'cost us' ratio
for size in $ranks; do
  platform "$size"
  for count in $bytes; do
    for algorithm in $algorithms; do
      line=$(smpirun -np "$size" -platform "$work/platform.xml" -hostfile "$work/hosts" "${options[@]}" \
        "$build/simulated_allreduce" "$algorithm" "$count" "$alpha" "$beta" 2>"$work/stderr") ||
        { grep -v '^$' "$work/stderr" | head -n 3 >&2; fail "$algorithm on $size ranks failed (see above). Check the installation of SimGrid."; }
      echo "$line" >>"$work/results"
      echo "$line" | awk '{ printf "%-20s %6d %10d %14.2f %14.2f %7.3f\n", $1, $2, $3, $4 * 1e6, $5 * 1e6, $4 / $5 }'
    done
  done
done
echo
echo "fastest"
awk '{ key = $2 " ranks, " $3 " bytes"; if (!(key in best)) order[++n] = key
       if (!(key in best) || $4 < best[key]) { best[key] = $4; who[key] = $1 } }
     END { for (i = 1; i <= n; ++i) printf "  %-28s %-20s %12.2f us\n", order[i], who[order[i]], best[order[i]] * 1e6 }' "$work/results"
if [[ -n $plot ]]; then
  python=python3
  python3 -c 'import matplotlib' 2>/dev/null || python=/usr/bin/python3  # that of apt, if another python3 comes first
  "$python" "$root/bench/plot_simulation.py" "$work/results" "$plot" "$topology, $latency us and $gbits Gbit/s per link"
fi
