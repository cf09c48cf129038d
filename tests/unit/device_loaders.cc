// Batches in memory of a device, made there of stored samples or copied there, are bit for
// bit those of the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/data/augment.h"
#include "src/data/loader.h"
#include "src/data/resident.h"
#include "src/data/sets/images.h"
#include "src/data/sets/mnist.h"
#ifdef LOCKSTEP_TESTS_ON_GPU
#include "src/device/cuda/device.h"
#endif
#include "tests/support/async_device.h"
#include "tests/support/error_of.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

using Kind = SampleFormat::Kind;

/// The double of a device, or a GPU (tests/gpu/device_loaders.cc).
std::unique_ptr<Device> tested_device() {
#ifdef LOCKSTEP_TESTS_ON_GPU
  return make_cuda_device({.threads = 1});
#else
  return make_async_device({.most_delay_us = 3});
#endif
}

constexpr SampleFormat kWords{.kind = Kind::words, .size = {1, 21, 1}};
constexpr SampleFormat whole(ImageSize size, Normalisation normalisation) {
  return {.kind = Kind::images,
          .size = size,
          .normalisation = normalisation,
          .moved = true,
          .padding = kMoves};
}
constexpr SampleFormat kWhole[] = {whole({7, 5, 3, true}, {{100, 90, 80}, {50, 60, 70, 1}}),
                                   whole({6, 9, 4, false}, {{1, 2, 3, 4}, {5, 6, 7, 8}}),
                                   whole({6, 9, 3, false}, {{1, 2, 3}, {5, 6, 7, 8}}),
                                   whole({1, 3, 1, false}, {{128}, {64, 1, 1, 1}})};

LoaderSpec spec_of(std::int64_t global_batch, Type type, std::int64_t position) {
  LoaderSpec spec;
  spec.seed = 77;
  spec.global_batch = global_batch;
  spec.shards = 4;
  spec.first_shard = 1;
  spec.own_shards = 2;
  spec.first_position = position;
  spec.type = type;
  return spec;
}

/// Whether all values are the same: bit for bit, except that a GPU may round once differently.
bool same(View a, View b) {
#ifdef LOCKSTEP_TESTS_ON_GPU
  if (a.type != Type::i32) {
    double worst = 0;
    dispatch(a.type, [&]<class T>(T*) {
      for (std::int64_t i = 0; i < a.count(); ++i) {
        const double x = static_cast<float>(a.as<T>()[i]), y = static_cast<float>(b.as<T>()[i]);
        const double error = std::abs(x - y) / std::max(std::abs(y), 1.0);
        worst = error <= worst ? worst : error;  // NaN stays
      }
    });
    return worst <= (a.type == Type::f32 ? 1e-5 : 1e-2);
  }
#endif
  return std::memcmp(a.data, b.data, a.bytes()) == 0;
}

/// Expects `steps` steps of make_loader() on `device` to be those of a HostLoader, the third and
/// later ones repeated as a graph. Returns what the loader says of itself.
std::string expect_the_hosts(Device& device, const Dataset& set, const LoaderSpec& spec,
                             int steps) {
  const auto loader = make_loader(device, set, spec);
  HostLoader host(set, spec);
  const auto stream = device.stream();
  const Memory position = device.allocate(sizeof(std::int64_t), Place::device),
               now = device.allocate(sizeof(std::int64_t), Place::host);
  std::vector<Batch> batches(spec.own_shards);
  std::unique_ptr<Graph> graph;
  const auto enqueue = [&] {
    for (int shard = 0; shard < spec.own_shards; ++shard) {
      batches[shard] =
          loader->batch(*stream, shard, reinterpret_cast<const std::int64_t*>(position.get()));
    }
  };
  for (int step = 0; step < steps; ++step) {
    *reinterpret_cast<std::int64_t*>(now.get()) = spec.first_position + step * spec.global_batch;
    device.copy(*stream, position.get(), now.get(), sizeof(std::int64_t));
    loader->begin_step(*stream);
    if (step == 2) graph = device.capture(*stream, enqueue);
    graph ? graph->launch(*stream) : enqueue();
    for (const Batch& batch : batches) {
      const Batch wanted = host.next();
      EXPECT_EQ(batch.images.shape, wanted.images.shape);
      EXPECT_EQ(batch.labels.shape, wanted.labels.shape);
      for (const auto& [is, want] : {std::pair(batch.images, wanted.images),
                                     {batch.labels, wanted.labels},
                                     {batch.other_labels, wanted.other_labels},
                                     {batch.weights, wanted.weights}}) {
        EXPECT_EQ(bool{is}, bool{want});
        if (!want) continue;
        const Memory here = device.allocate(is.bytes(), Place::host);
        device.copy(*stream, here.get(), is.data, is.bytes());
        stream->synchronize();
        EXPECT_TRUE(same({here.get(), is.shape, is.type}, want)) << "step " << step;
      }
    }
  }
  return loader->describe();
}

TEST(DeviceLoader, MakesTheHostsBatchesOfAResidentSet) {
  const auto device = tested_device();
  for (const SampleFormat& format : {kCroppedImages, kDigitFormat}) {
    const StoredNoise set(101, format);
    for (const Type type : {Type::f32, Type::bf16}) {
      // Within an epoch, across two, and more than two in one step; from any position.
      for (const std::int64_t global_batch : {4, 28, 240}) {
        for (const std::int64_t start : {0, 100, 240}) {
          const auto told = expect_the_hosts(*device, set, spec_of(global_batch, type, start), 12);
          EXPECT_TRUE(mentions(told, {"made", "device"}));
        }
      }
    }
  }
}

TEST(DeviceLoader, MakesTheHostsBatchesOfWholeImagesAndOfWords) {
  const auto device = tested_device();
  for (const SampleFormat& format : kWhole) {
    for (const Type type : {Type::f32, Type::bf16}) {
      EXPECT_TRUE(
          mentions(expect_the_hosts(*device, StoredNoise(41, format), spec_of(28, type, 5), 8),
                   {"made", "device"}));
    }
  }
  EXPECT_TRUE(
      mentions(expect_the_hosts(*device, StoredNoise(41, kWords), spec_of(28, Type::i32, 5), 8),
               {"made", "device"}));
}

TEST(DeviceLoader, CutsAndMixesAsTheHostDoes) {
  const auto device = tested_device();
  for (const SampleFormat& format : {kCroppedImages, kDigitFormat, kWhole[0], kWhole[2]}) {
    struct Asked {
      PixelAugmentations pixels;
      Mixing mixing;
    };
    for (const Asked& asked :
         {Asked{{{3}, {}}, {}}, Asked{{}, {{0.5f}, {}}}, Asked{{{4}, {0.5f}}, {{0.5f}, {0.5f}}}}) {
      StoredNoise set(41, format);
      set.pad_crops(7);
      set.alternate_flips(asked.pixels.Cutout::value == 4);
      for (const std::int64_t global_batch : {28, 100}) {  // two epochs, and four, in one step
        LoaderSpec spec = spec_of(global_batch, Type::f32, 30);
        spec.pixels = asked.pixels;
        spec.mixing = asked.mixing;
        EXPECT_TRUE(mentions(expect_the_hosts(*device, set, spec, 6), {"made", "device"}));
        spec.type = Type::bf16;
        spec.augment = global_batch == 28;
        expect_the_hosts(*device, set, spec, 4);
      }
    }
  }
}

#ifndef LOCKSTEP_TESTS_ON_GPU  // its memory holds the set
TEST(DeviceLoader, CopiesBatchesIfTheSetDoesNotFit) {
  const StoredNoise set(2000, kCroppedImages);
  const auto device = make_async_device({.most_delay_us = 3, .largest = 2000 * kImageValues - 1});
  LoaderSpec spec = spec_of(28, Type::f32, 1990);
  for (const bool mixes : {false, true}) {
    spec.pixels = {{mixes ? 4 : 0}, {}};
    spec.mixing = {{mixes ? 0.5f : 0.0f}, {}};
    EXPECT_TRUE(mentions(expect_the_hosts(*device, set, spec, 6), {"host", "copied", "device"}));
  }
  const StoredNoise fits(1000, kCroppedImages);
  EXPECT_TRUE(mentions(expect_the_hosts(*device, fits, spec_of(28, Type::f32, 1990), 6),
                       {"made", "device"}));
}
#endif

TEST(DeviceLoader, CopiesBatchesOfASetThatStoresNone) {
  const auto device = tested_device();
  EXPECT_TRUE(mentions(expect_the_hosts(*device, StoredNoise(30, kCroppedImages, /*stored=*/false),
                                        spec_of(28, Type::bf16, 5), 9),
                       {"host", "copied", "device"}));
}

/// The host enqueues all steps at once. So what it copies from is still in use when it would write
/// the next batch, or the order of the next epoch, to the same place.
void expect_the_hosts_ahead(Device& device, const Dataset& set) {
  constexpr int kSteps = 12;
  const LoaderSpec spec = spec_of(28, Type::f32, 5);
  const auto loader = make_loader(device, set, spec);
  const auto stream = device.stream();
  const Memory positions = device.allocate(kSteps * sizeof(std::int64_t), Place::device),
               numbers = device.allocate(kSteps * sizeof(std::int64_t), Place::host);
  auto* const position = reinterpret_cast<std::int64_t*>(positions.get());
  auto* const number = reinterpret_cast<std::int64_t*>(numbers.get());
  for (int step = 0; step < kSteps; ++step)
    number[step] = spec.first_position + step * spec.global_batch;
  device.copy(*stream, position, number, kSteps * sizeof(std::int64_t));
  std::vector<Memory> seen;
  for (int step = 0; step < kSteps; ++step) {
    loader->begin_step(*stream);
    for (int shard = 0; shard < spec.own_shards; ++shard) {
      const View images = loader->batch(*stream, shard, position + step).images;
      seen.push_back(device.allocate(images.bytes(), Place::host));
      device.copy(*stream, seen.back().get(), images.data, images.bytes());
    }
  }
  stream->synchronize();
  HostLoader host(set, spec);
  for (const Memory& images : seen) {
    const View wanted = host.next().images;
    EXPECT_TRUE(same({images.get(), wanted.shape, wanted.type}, wanted)) << loader->describe();
  }
}

TEST(DeviceLoader, WritesNothingThatIsStillCopied) {
  const auto device = tested_device();
  expect_the_hosts_ahead(*device, StoredNoise(30, kCroppedImages, /*stored=*/false));
  expect_the_hosts_ahead(*device, StoredNoise(30, kCroppedImages));
}

TEST(DeviceLoader, IsAHostLoaderIfMemoryIsTheHosts) {
  const auto device = make_cpu_device(1);
  const StoredNoise set(30, kCroppedImages);
  EXPECT_EQ(make_loader(*device, set, spec_of(28, Type::f32, 5))->describe(),
            "prepared ahead by a thread of the host");
}

TEST(ResidentSet, ReturnsSamplesInOrderAsInEvaluation) {
  const auto device = tested_device();
  const StoredNoise set(5000, kCroppedImages);  // more than are copied at a time
  const ResidentSet resident(*device, set);
  const auto stream = device->stream();
  const View images{nullptr, crop_shape().with_batch(8), Type::f32};
  const Memory here = device->allocate(images.bytes(), Place::device),
               labels = device->allocate(8 * sizeof(std::int32_t), Place::device),
               seen = device->allocate(images.bytes(), Place::host),
               seen_labels = device->allocate(8 * sizeof(std::int32_t), Place::host);
  for (const std::int64_t first : {0, 4093, 4996}) {
    const std::int64_t count = std::min<std::int64_t>(8, set.size() - first);
    resident.enqueue_batch(
        *stream, {.offset = first},
        {{here.get(), images.shape, Type::f32}, {labels.get(), {count}, Type::i32}});
    device->copy(*stream, seen.get(), here.get(), images.bytes());
    device->copy(*stream, seen_labels.get(), labels.get(), 8 * sizeof(std::int32_t));
    stream->synchronize();
    std::vector<float> wanted(crop_shape().count());
    for (std::int64_t i = 0; i < count; ++i) {
      set.read(first + i, nullptr, wanted.data(), Type::f32);
      EXPECT_TRUE(same(
          {seen.get() + static_cast<std::size_t>(i) * wanted.size() * 4, crop_shape(), Type::f32},
          {wanted.data(), crop_shape(), Type::f32}))
          << first + i;
      EXPECT_EQ(reinterpret_cast<const std::int32_t*>(seen_labels.get())[i], set.label(first + i));
    }
  }
}

}  // namespace
}  // namespace lockstep
