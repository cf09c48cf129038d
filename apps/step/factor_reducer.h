// FactorReducer: ranks send the factors of a dense layer's gradient instead of the gradient.
//
// The gradient of the weights is a product of two matrices, dy and x. For small batches they have
// far fewer numbers than the product. Each rank gets the factors of all shards, multiplies those of
// other ranks, and adds the products in the canonical order (collectives/shares.h). So the sum is
// bitwise that of the gradients. All other buckets go to an inner reducer.
//
// Source: P. Xie et al., "Lighter-communication distributed machine learning via sufficient factor
// broadcasting", UAI 2016; H. Zhang et al., "Poseidon", USENIX ATC 2017.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/step/run_plan.h"
#include "collectives/exchange.h"
#include "collectives/node/backoff.h"
#include "collectives/reducer.h"
#include "net/model.h"

namespace lockstep {

/// A dense layer that sends factors.
struct FactorLayer {
  std::string name;
  int number = 0;         ///< Parameter::layer
  Range range;            ///< of the layer in the gradients: a bucket of its own
  Range weights, biases;  ///< within it; biases may be empty
  DenseSpec spec;
  std::unique_ptr<AffinePlan> plan = {};
  std::int64_t dy_at = 0, factors = 0;  ///< floats of a shard: x, and both

  // In a FactorReducer:
  Memory memory = {};  ///< the factors of all shards
  std::unique_ptr<Exchange> gather = {};
  bool done = true;  ///< the sum of this step
};

/// The host of each rank, as the number of the first rank there. Collective.
std::vector<std::uint64_t> hosts_of(const Comm& comm);

/// The layers of `model` that send factors, in arena order. With a `link` these are the layers
/// whose gradients would take longer, by the cheapest canonical algorithm between hosts. Without
/// it, those whose shards have fewer factors than gradients. A layer is left out if the ranks do
/// not multiply bitwise alike, which they try with random numbers. `hosts`: see hosts_of(). Needs
/// fp32 in memory of the host. Throws AgreedError if memory is short. Collective.
std::vector<FactorLayer> choose_factors(const Comm& comm, const std::vector<std::uint64_t>& hosts,
                                        Device& device, const Model& model, const Shares& shares,
                                        const std::optional<Link>& link);

/// The computing thread constructs it, and calls finish().
class FactorReducer : public Reducer {
 public:
  /// `inner` adds in canonical order, and was made for those of `buckets` that are not the range of
  /// one of `layers`. The ranks have `shares`. `device` outlives it. Throws AgreedError if memory
  /// is short. Collective.
  FactorReducer(std::unique_ptr<Reducer> inner, std::vector<FactorLayer> layers,
                const std::vector<Range>& buckets, const Comm& comm,
                const std::vector<std::uint64_t>& hosts, Device& device, const Shares& shares);

  /// Enqueues copies of the factors of layer `number` and own shard number `shard`. All own shards
  /// do so before the layer's bucket is written. Ignores layers that send gradients.
  void keep(int number, int shard, View x, View dy, Stream& stream);

  float* gradients() override { return inner_->gradients(); }
  void written(int bucket, Stream& writer) override;
  void start(int bucket) override;
  bool advance() override;
  /// A sum of products is done in finish() only, because the threads of this rank multiply.
  bool done(int bucket) const override;
  void finish(int bucket) override;
  Stream& stream() override { return inner_->stream(); }
  void abort() noexcept override { inner_->abort(); }

 private:
  /// The owner of a bucket.
  struct Owner {
    FactorLayer* layer;  ///< null: inner_
    int number;          ///< in inner_
  };
  /// Adds row `from` to row `to`, or writes the product of `shard` to row `to`.
  struct Move {
    int to, from, shard;
  };

  void plan_moves(const Shares& shares, int own_rank);
  void allocate(const Comm& messages, const std::vector<std::uint64_t>& hosts,
                const Shares& shares);
  void add_products(const FactorLayer& layer);

  std::unique_ptr<Reducer> inner_;
  std::vector<FactorLayer> layers_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::int64_t first_shard_ = 0;
  std::vector<float*> rows_;  ///< the inner reducer's; the last gets the sum
  int row_count_ = 0;         ///< with products_
  std::vector<Move> moves_;   ///< of each sum
  std::vector<Memory> products_;
  Memory scratch_;
  std::vector<Owner> owners_;  ///< by bucket
  Backoff backoff_;
};

}  // namespace lockstep
