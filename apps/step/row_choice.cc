#include "apps/step/row_choice.h"

#include <algorithm>
#include <set>
#include <vector>

#include "collectives/row_reducer.h"
#include "src/base/check.h"

namespace lockstep {
namespace {

/// Different words among the first `samples` of `dataset`, or all of them where there are fewer.
std::int64_t words_of(const Dataset& dataset, std::int64_t samples, std::int64_t vocabulary) {
  std::vector<std::int32_t> text(dataset.sample_shape().count());
  std::set<std::int32_t> words;
  for (std::int64_t i = 0; i < std::min(samples, dataset.size()); ++i) {
    dataset.read(i, nullptr, text.data(), Type::i32);
    words.insert(text.begin(), text.end());
  }
  return std::min(vocabulary, static_cast<std::int64_t>(words.size()));
}

}  // namespace

RowChoice choose_rows(const Comm& comm, bool memory_is_host, const Layout& layout,
                      const Dataset& dataset, std::string_view how, const RunPlan& plan,
                      const std::function<Link()>& link) {
  RowChoice choice;
  for (const Parameter& parameter : layout.parameters) {
    if (parameter.sparse) choice.table = &parameter;
  }
  if (choice.table == nullptr) return choice;
  expect(choice.table == &layout.parameters.back(), "words are what a model begins with");
  RowWork work{.rows = choice.table->shape[0],
               .width = choice.table->shape.row(),
               .ranks = comm.size(),
               .own_shards = plan.own_shards};
  const std::int64_t samples = plan.own_shards * plan.shard_batch;
  work.places = samples * dataset.sample_shape().row();
  choice.most = std::min(work.rows, work.places);
  const bool one_host = comm.min(comm.node().size()) == comm.size();
  const Link network = one_host ? Link() : link();
  RowCost cost;
  agree(comm, [&] {
    if (how == "rows" && !memory_is_host)
      fail_usage("--embedding-gradient rows is for CPU cores: leave it out, or say --device cpu");
    work.expected = words_of(dataset, samples, work.rows);
    cost = cost_of_rows(work, one_host ? nullptr : &network);
  });
  choice.rows = how == "rows" || (how == "auto" && memory_is_host && cost.rows < cost.dense);
  const auto kib = [](std::int64_t floats) { return static_cast<double>(floats) / 256; };
  choice.text = fmt::format(
      "gradient {}: about {} of {} rows from each rank, {:.0f} KiB of {:.0f}; estimated {:.2g} ms "
      "as rows, {:.2g} ms dense",
      choice.rows ? "as rows" : "dense", work.expected, work.rows,
      kib(work.expected * (work.width + 1)), kib(work.rows * work.width), 1e3 * cost.rows,
      1e3 * cost.dense);
  return choice;
}

}  // namespace lockstep
