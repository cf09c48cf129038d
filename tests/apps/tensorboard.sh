#!/bin/bash
# TensorBoard's own reader on an event file of ours. $1: build folder. Skipped where python3 has no package tensorboard.
set -eu
build=$1
if ! python3 -c 'import tensorboard' 2>/dev/null; then
  echo "skipped: python3 has no package tensorboard (pip install tensorboard)"
  exit 77
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
EVENT_DIRECTORY=$directory "$build/tests/report_event_file" --gtest_also_run_disabled_tests --gtest_filter=EventFile.DISABLED_WritesForTensorBoard

python3 - "$directory" <<'END'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}).Reload()

# Step 30 of the first run is dropped, because the second resumes from step 20.
scalars = [(event.step, event.value) for event in run.Scalars("train/loss")]
wanted = [(10, 1 / 10), (20, 1 / 20), (30, 2 / 30), (40, 2 / 40)]
assert [step for step, _ in scalars] == [step for step, _ in wanted], scalars
assert all(abs(value - want) < 1e-7 for (_, value), (_, want) in zip(scalars, wanted)), scalars

assert sorted(run.Tags()["histograms"]) == ["conv1/biases", "conv1/weights"], run.Tags()
(weights,) = run.Histograms("conv1/weights")
histogram = weights.histogram_value
assert weights.step == 10
assert (histogram.min, histogram.max, histogram.num) == (-1, 1, 2001), histogram
assert sum(histogram.bucket) == 2001
assert len(histogram.bucket) == len(histogram.bucket_limit) > 100
assert abs(histogram.sum) < 1e-3 and abs(histogram.sum_squares - 667.667) < 1e-2, histogram
(biases,) = run.Histograms("conv1/biases")
assert list(biases.histogram_value.bucket) == [64], biases

# The page HParams: the options and the metrics that it finds by itself, and the end of the session.
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import backend_context, metadata

multiplexer = EventMultiplexer().AddRunsFromDirectory(sys.argv[1])
multiplexer.Reload()
provider = MultiplexerDataProvider(multiplexer, sys.argv[1])
hparams = backend_context.Context(TBContext(data_provider=provider))
found = hparams.hparams_metadata(RequestContext(), "")
experiment = hparams.experiment_from_metadata(
    RequestContext(), "", True, found, hparams.hparams_from_data_provider(RequestContext(), "", 100))
assert sorted(info.name for info in experiment.hparam_infos) == ["lr", "model", "nesterov"], experiment
assert [info.name.tag for info in experiment.metric_infos] == ["train/loss"], experiment
(tags,) = found.values()
start = metadata.parse_session_start_info_plugin_data(tags[metadata.SESSION_START_INFO_TAG])
assert start.hparams["lr"].number_value == 0.1 and start.hparams["model"].string_value == "keras", start
assert metadata.parse_session_end_info_plugin_data(tags[metadata.SESSION_END_INFO_TAG]).status == 1
print("TensorBoard reads what was written")
END
