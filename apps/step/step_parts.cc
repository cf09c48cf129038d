#include "apps/step/step_parts.h"

#include <optional>

#include "collectives/buckets.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/reducers/measured_link.h"
#include "collectives/world.h"
#include "src/base/check.h"

namespace lockstep {
namespace {

/// An optimizer's work shared among the ranks. A broadcast brings piece n from rank n mod size to
/// the others, which wait for it. One thread.
class WorkOfRanks : public SharedWork {
 public:
  /// `comm` is for its use only.
  explicit WorkOfRanks(Comm comm) : comm_(std::move(comm)) {}

  bool mine(int number) const override { return owner(number) == comm_.rank(); }
  void share(Stream& stream, int number, float* values, std::int64_t count) override {
    // MPI reads the values from memory of the host, so their work must be done.
    stream.synchronize();
    comm_.broadcast(std::span(values, count), owner(number));
  }

 private:
  int owner(int number) const { return number % comm_.size(); }

  Comm comm_;
};

/// Thread blocks of NCCL's sums on one host. More would take multiprocessors from the backward
/// pass, which hides the sums.
constexpr int kCtasOnOneHost = 8;

/// The layers, cut into buckets. The first bucket includes the header.
std::vector<Range> buckets_of(const Layout& layout, std::int64_t bytes) {
  std::vector<Range> parts = layout.layers;
  parts.front() = {0, parts.front().end()};
  return cut_buckets(parts, bytes);
}

/// Whether "auto" may choose by the link and these gradients. All of its choices add in the
/// canonical order, so no bit depends on them.
bool chooses_by_link(const Device& device, const StepOptions& options) {
  return options.ranks.reducer == "auto" && options.ranks.wire == Type::f32 &&
         device.traits().memory_is_host;
}

/// Seconds for the watchdog, above the reducers' own deadline, whose report has more detail.
double connect_limit(const StepOptions& options) { return options.ranks.timeout + 10; }

/// The link between hosts, if a choice depends on it. Collective.
std::optional<Link> link_between(int hosts, const World& world, const Device& device,
                                 const StepOptions& options) {
  if (hosts == 1 || !chooses_by_link(device, options)) return std::nullopt;
  RankRecorder& recorder = world.flight_recorder().mine();
  recorder.phase("measuring the link between hosts", connect_limit(options));
  const Comm comm = world.comm();
  const Link link = measure_link(comm, comm.node());
  recorder.phase("making the model");
  return link;
}

/// MiB.
double choose_buckets(int hosts, const Device& device, const StepOptions& options,
                      std::int64_t count, const std::optional<Link>& link) {
  if (options.ranks.bucket_mb > 0) return options.ranks.bucket_mb;
  if (!device.traits().memory_is_host) return device_bucket_bytes(count) * 0x1p-20;
  if (!link) return kDefaultBucketMb;
  return bucket_bytes(hosts, *link, count * sizeof(float)) * 0x1p-20;
}

/// Throws AgreedError if `plan` has shards that cannot train side by side on `device`.
void require_lanes(const Comm& comm, const Device& device, const StepOptions& options,
                   const RunPlan& plan) {
  agree(comm, [&] {
    // Each round sums the statistics of one shard of every rank. A rank with fewer rounds than the
    // others would leave them waiting for ever.
    const int accumulate = options.schedule.accumulate;
    if (accumulate > 1 && plan.own_shards != accumulate) {
      fail_usage(
          "--sync-bn with --accumulate {} needs {} shards on each rank, not {}. Start as many "
          "ranks as the run began with.",
          accumulate, accumulate, plan.own_shards);
    }
    // Shards side by side wait in queues of work for the host (sync_batch_norm.h). Other devices
    // have none.
    if (plan.shards_at_once > 1 && !device.traits().memory_is_host) {
      fail_usage(
          "--sync-bn with {} shards on each rank needs --device cpu. Pass it, or start as many "
          "ranks as shards.",
          plan.shards_at_once);
    }
  });
}

/// Collective. The models of `parts`, for `batch` samples at a time.
void make_models(const Comm& comm, StepParts& parts, Device& device, const ModelEntry& entry,
                 const Dataset& dataset, const StepOptions& options, std::int64_t batch) {
  const Shape sample = dataset.sample_shape();
  const int classes = dataset.classes();
  parts.model = std::make_unique<Model>(device, entry, sample.with_batch(batch), classes,
                                        options.model.precision, true);
  agree(comm, [&] {
    parts.model->group(options.optimizer.groups);
    parts.small =
        make_small_models(device, entry, sample, classes, *parts.model, options.model.small_images);
  });
}

/// Model::make_slots() of all models; those that lend their memory first.
void make_slots(StepParts& parts, int slots) {
  parts.model->make_slots(slots);
  for (const SmallModel& small : parts.small) small.model->make_slots(slots);
}

}  // namespace

ReducerSpec reducer_spec(const Comm& comm, Device& device, const StepOptions& options,
                         const RunPlan& plan, std::int64_t count,
                         const std::vector<Range>& buckets) {
  return {.comm = comm.duplicate(),
          .device = device,
          .count = count,
          .buckets = buckets,
          .why = {},
          .roots = Roots::of(plan.shares),
          .deterministic = options.device.deterministic,
          .link = {},
          // A user who passes --shards expects the same weights on any number of ranks.
          .canonical = options.schedule.shards_given,
          .shares_change = options.ranks.tunes_shares && comm.size() > 1,
          .timeout_seconds = options.ranks.timeout,
          .nccl_max_ctas = options.ranks.nccl_max_ctas,
          .wire = options.ranks.wire,
          // Losses and votes in the header are never rounded.
          .exact = Layout::kHeader};
}

ReducerSpec statistics_spec(const Comm& comm, Device& device, const StepOptions& options,
                            const RunPlan& plan, const std::vector<Range>& buckets) {
  ReducerSpec spec = reducer_spec(comm, device, options, plan, buckets.back().end(), buckets);
  if (plan.sums_micro_batches) spec.roots = Roots::one_each(comm.size());
  spec.nccl_max_ctas = 1;
  spec.one_by_one = true;
  spec.wire = Type::f32;
  return spec;
}

LoaderSpec loader_spec(const RunPlan& plan) {
  return {.seed = plan.seed,
          .global_batch = plan.global_batch,
          .shards = plan.shards,
          .first_shard = plan.first_shard,
          .own_shards = plan.own_shards};
}

StepParts make_step_parts(const World& world, Device& device, const ModelEntry& entry,
                          const Dataset& dataset, const StepOptions& options, const RunPlan& plan) {
  const Comm& comm = world.comm();
  StepParts parts;
  make_models(comm, parts, device, entry, dataset, options, plan.shard_batch);
  parts.optimizer = make_optimizer(options.optimizer.name, options.optimizer.own);
  const Layout& layout = parts.model->layout();
  const std::vector<Range> statistics = buckets_of_statistics(layout);
  const bool syncs = options.model.sync_bn && !statistics.empty();
  agree(comm, [&] {
    if (syncs && options.ranks.tunes_shares)
      fail_usage("--shares auto does not work with --sync-bn. Pass --shares equal.");
  });
  // A measured link serves all that choose by it: the size of the buckets and the reducers. A
  // measurement costs 0.1 to 0.2 s, so there is only one.
  const auto hosts = static_cast<int>(comm.sum(comm.node().rank() == 0));
  const std::optional<Link> link = link_between(hosts, world, device, options);
  parts.bucket_mb = choose_buckets(hosts, device, options, layout.count, link);
  parts.buckets = buckets_of(layout, static_cast<std::int64_t>(parts.bucket_mb * (1 << 20)));
  RankRecorder& recorder = world.flight_recorder().mine();
  // A rank that hangs here has its own message: reducers end with a reason after --timeout. The
  // watchdog waits longer, so it does not end the run first.
  const auto connect = [&](ReducerSpec spec) {
    recorder.phase("connecting the ranks", connect_limit(options));
    spec.link = link;
    spec.beside_another = syncs;
    auto reducer = make_reducer(options.ranks.reducer, spec);
    recorder.phase("making the model");
    return reducer;
  };
  ReducerSpec spec = reducer_spec(comm, device, options, plan, layout.count, parts.buckets);
  if (hosts == 1 && spec.nccl_max_ctas == 0 && !spec.deterministic)
    spec.nccl_max_ctas = kCtasOnOneHost;
  parts.reducer = connect(std::move(spec));
  // One GPU has no messages to move, so it ignores the option.
  const bool lone = comm.size() == 1 && parts.reducer->traits().in_stream;
  parts.policy = choose_policy(lone ? "auto" : options.ranks.progress, *parts.reducer,
                               world.threads_allowed());
  if (device.traits().memory_is_host && comm.size() > 1)
    parts.shared_work = std::make_unique<WorkOfRanks>(comm.duplicate());
  // Sums of statistics are a second reducer. All ranks make it after the first, because both
  // constructors are collective.
  if (!syncs) return parts;
  require_lanes(comm, device, options, plan);
  agree(comm, [&] { make_slots(parts, plan.shards_at_once); });
  parts.sync_bn = std::make_unique<SyncBatchNorm>(
      device, connect(statistics_spec(comm, device, options, plan, statistics)), statistics,
      plan.sums_micro_batches ? Range{comm.rank(), 1} : plan.own(),
      plan.sums_micro_batches ? comm.size() : plan.shards, recorder);
  return parts;
}

}  // namespace lockstep
