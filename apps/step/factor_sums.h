// The gradient of a dense layer is a product of two small matrices, its input and the gradient of
// its output. Where ranks are on several hosts they may send each other these factors, each
// multiplies all of them, and adds the products in the canonical order: fewer bytes for more
// arithmetic. The bits are those of the sum where the reducer adds ranks in that order.
// Source: P. Xie et al., "Lighter-communication distributed machine learning via sufficient factor
// broadcasting", UAI 2016; H. Zhang et al., "Poseidon", USENIX ATC 2017, who choose by bytes too.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/step/run_plan.h"
#include "collectives/all_gather.h"
#include "collectives/schedule.h"
#include "collectives/shard_sum.h"
#include "net/model.h"

namespace lockstep {

/// What there is to sum of a layer in a step.
struct FactorWork {
  std::int64_t count = 0;  ///< of its gradients
  std::size_t bytes = 0;   ///< of the factors of a shard
  int shards = 1, own_shards = 1;
  std::vector<int> ranks_on;  ///< by host
  double product = 0;         ///< seconds that a shard's takes
};
/// Seconds of a rank, from its own factors on to the sum of all products, and for the sum, which
/// goes by the cheapest canonical algorithm between the hosts; own products are part of both.
struct FactorCost {
  double factors = 0, summed = 0;
};
FactorCost cost_of_factors(const FactorWork& work, const Link& link);

struct FactorChoice {
  std::vector<std::size_t> products;  ///< of Model::products(), in their order
  std::string text;                   ///< for the start-up summary; empty: nothing to say
};

/// How many ranks each host has, the same list on all ranks. Collective.
std::vector<int> ranks_by_host(const Comm& comm);

/// Collective: `hosts` is ranks_by_host(); `how` is auto, summed or factors; `auto_may`: whether
/// auto may be factors, which it is for the layers that are estimated to be faster so between
/// several hosts. `link` is asked, once at most, what messages between them cost. Only where all
/// ranks multiply alike, bit for bit, which is tried; throws AgreedError where factors are asked
/// for and cannot be had. The same on all ranks.
FactorChoice choose_factors(const Comm& comm, const std::vector<int>& hosts, Device& device,
                            Model& model, std::string_view how, bool auto_may, const RunPlan& plan,
                            const std::function<Link()>& link);

/// Of a device whose memory is the host's.
class FactorSums {
 public:
  /// Collective. Of these products of `model`, which outlives it as `device` does, summed in the
  /// arena `gradients`.
  FactorSums(const Comm& comm, Device& device, Model& model,
             const std::vector<std::size_t>& products, int own_shards, float* gradients);

  std::size_t size() const { return layers_.size(); }
  /// Of the layer number `n` of these.
  Range range(std::size_t n) const;
  /// Sends all that a step has of it, when the last own shard has written its factors.
  AllGather& gather(std::size_t n) { return *layers_[n].gather; }
  /// The next calls of backward() in `lane` are those of own shard number `shard`.
  void begin(int shard, int lane);
  /// When the gather is done: gives the work that makes the layer's range of the arena the sum of
  /// all shards' products.
  void multiply(Stream& stream, std::size_t n);

  std::size_t bytes() const;

 private:
  struct Layer {
    std::size_t product;
    float* gradients;  ///< its range
    std::unique_ptr<AllGather> gather;
    /// Of a rank's shards, and of ranks.
    std::unique_ptr<ShardSum> shards, ranks;
  };

  const Model::Product& product(const Layer& layer) const {
    return model_.products()[layer.product];
  }

  Model& model_;
  int size_, own_shards_;
  std::vector<Layer> layers_;
};

}  // namespace lockstep
