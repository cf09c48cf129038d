#include "src/data/resident.h"

#include <algorithm>
#include <type_traits>

#include "src/data/augment.h"
#include "src/data/read_in_parallel.h"
#include "src/data/sets/images.h"
#include "src/data/sets/mnist.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// Records that are read and copied at a time.
constexpr std::int64_t kPart = 4096;

// How a sample is seen of its record: a kind of records has
//   std::int64_t bytes() const                    of a record
//   int pixels() const, columns() const, channels() const
//   Seen see(const std::uint8_t* record, Random* random, Team team) const
// with random numbers where it is augmented, and what is seen gives each pixel's channels:
//   float operator()(int pixel, int channel) const

/// src/data/augment.h by a team.
struct CroppedImages {
  static constexpr int kPlane = Standardisation::kPlane;
  int padding;
  bool alternate;

  static std::int64_t bytes() { return kImageValues; }
  HOST_DEVICE static int pixels() { return kPlane; }
  HOST_DEVICE static int columns() { return kCropSide; }
  HOST_DEVICE static int channels() { return kImageChannels; }

  struct Seen {
    const std::uint8_t* planes;
    Augmentation how;
    Standardisation standardised;

    HOST_DEVICE std::uint8_t at(int i, int channel) const {
      const int row = i / kCropSide, column = i % kCropSide;
      const int x = how.flip ? kCropSide - 1 - column : column;
      return planes[channel * kImagePlane + reflected(how.top + row, kImageSide) * kImageSide +
                    reflected(how.left + x, kImageSide)];
    }
    HOST_DEVICE float operator()(int i, int channel) const {
      return standardised(at(i, channel), channel);
    }
  };

  template <class Team>
  HOST_DEVICE Seen see(const std::uint8_t* planes, Random* random, Team team) const {
    Seen seen{planes, {}, {}};
    if (random != nullptr) seen.how = Augmentation::draw(*random, padding, alternate);
    std::int32_t sums[kImageChannels] = {}, squares[kImageChannels] = {};
    for (int i = team.lane; i < kPlane; i += team.lanes) {
      for (int c = 0; c < kImageChannels; ++c) {
        const std::int32_t x = seen.at(i, c);
        sums[c] += x;
        squares[c] += x * x;
      }
    }
    for (int c = 0; c < kImageChannels; ++c) {
      sums[c] = team.sum(sums[c]);
      squares[c] = team.sum(squares[c]);
    }
    seen.standardised = Standardisation::of(sums, squares, seen.how.contrast);
    return seen;
  }
};

struct Digits {
  static std::int64_t bytes() { return kDigitPixels; }
  HOST_DEVICE static int pixels() { return kDigitPixels; }
  HOST_DEVICE static int columns() { return kDigitSide; }
  HOST_DEVICE static int channels() { return 1; }

  struct Seen {
    const std::uint8_t* ink;
    HOST_DEVICE float operator()(int i, int) const { return standardised_digit(ink[i]); }
  };
  template <class Team>
  HOST_DEVICE Seen see(const std::uint8_t* ink, Random*, Team) const {
    return {ink};
  }
};

/// read_moved() of src/data/sets/images.h by a team.
struct WholeImages {
  int height, width, depth;
  bool planes;
  float mean[4], factor[4];
  int padding;
  bool alternate;

  WholeImages(const ImageForm& form, int padding, bool alternate)
      : height(static_cast<int>(form.size.height)),
        width(static_cast<int>(form.size.width)),
        depth(static_cast<int>(form.size.channels)),
        planes(form.size.planes),
        padding(padding),
        alternate(alternate) {
    for (std::size_t c = 0; c < 4; ++c) {
      mean[c] = form.standard.mean[c];
      factor[c] = 1 / form.standard.deviation[c];
    }
  }
  std::int64_t bytes() const { return std::int64_t{height} * width * depth; }
  HOST_DEVICE int pixels() const { return height * width; }
  HOST_DEVICE int columns() const { return width; }
  HOST_DEVICE int channels() const { return depth; }

  struct Seen {
    const WholeImages& of;
    const std::uint8_t* image;
    Move move;
    HOST_DEVICE float operator()(int i, int c) const {
      const int row = i / of.width, column = i % of.width;
      const int x = move.mirror ? of.width - 1 - column : column;
      const int from =
          reflected(row + move.top, of.height) * of.width + reflected(x + move.left, of.width);
      const std::uint8_t value =
          image[of.planes ? c * of.height * of.width + from : from * of.depth + c];
      return (static_cast<float>(value) - of.mean[c]) * of.factor[c];
    }
  };
  template <class Team>
  HOST_DEVICE Seen see(const std::uint8_t* image, Random* random, Team) const {
    Seen seen{*this, image, {}};
    if (random != nullptr) seen.move = Move::draw(*random, padding, alternate);
    return seen;
  }
};

/// Which sample is wanted in a row of the batch.
struct Wanted {
  std::uint32_t epoch, sample, kept;

  HOST_DEVICE static Wanted of(const Picked& picked, std::int64_t size, std::int64_t row) {
    const std::int64_t position =
        (picked.position != nullptr ? *picked.position : 0) + picked.offset + row;
    const std::int64_t epoch = position / size, place = position - epoch * size;
    const std::uint32_t now = static_cast<std::uint32_t>(epoch),
                        kept = now % static_cast<std::uint32_t>(picked.kept);
    const std::int64_t sample =
        picked.orders != nullptr ? picked.orders[kept * size + place] : place;
    return {now, static_cast<std::uint32_t>(sample), kept};
  }
};

template <class T, class Kind, bool kMixed>
struct MakeSample {
  Kind kind;
  const std::uint8_t* records;
  std::int64_t bytes;
  const std::int32_t* labels;
  std::int64_t size;
  Picked picked;
  T* images;
  std::int32_t *batch_labels, *other_labels;
  float* weights;

  template <class Team>
  HOST_DEVICE auto see(std::uint32_t epoch, std::uint32_t sample, Team team) const {
    Random random(picked.seed, Purpose::augment, epoch, sample);
    return kind.see(records + sample * bytes, picked.augment ? &random : nullptr, team);
  }
  HOST_DEVICE Cutout cut(std::uint32_t epoch, std::uint32_t sample) const {
    if (!picked.augment || picked.cutout == 0) return {};
    return Cutout::draw(picked.seed, epoch, sample, picked.cutout, kind.pixels() / kind.columns(),
                        kind.columns());
  }

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const Wanted wanted = Wanted::of(picked, size, row);
    const auto own = see(wanted.epoch, wanted.sample, team);
    const Cutout own_cut = cut(wanted.epoch, wanted.sample);
    if (team.lane == 0) batch_labels[row] = labels[wanted.sample];
    const int pixels = kind.pixels(), channels = kind.channels(), columns = kind.columns();
    T* y = images + row * pixels * channels;
    if constexpr (kMixed) {
      const Mix mix = picked.mixes[wanted.kept * size + wanted.sample];
      const auto other = see(wanted.epoch, mix.partner, team);
      const Cutout other_cut = cut(wanted.epoch, mix.partner);
      if (team.lane == 0) {
        other_labels[row] = labels[mix.partner];
        weights[row] = mix.weight;
      }
      for (int i = team.lane; i < pixels; i += team.lanes) {
        const int line = i / columns, column = i - line * columns;
        const bool gone = own_cut.has(line, column), other_gone = other_cut.has(line, column);
        for (int c = 0; c < channels; ++c) {
          y[i * channels + c] =
              T(mixed(mix.weight, gone ? 0.0f : own(i, c), other_gone ? 0.0f : other(i, c)));
        }
      }
    } else {
      for (int i = team.lane; i < pixels; i += team.lanes) {
        // Cut when it is written: both at once take more registers than a warp has on some GPUs.
        for (int c = 0; c < channels; ++c) y[i * channels + c] = T(own(i, c));
        const int line = i / columns;
        if (!own_cut.has(line, i - line * columns)) continue;
        for (int c = 0; c < channels; ++c) y[i * channels + c] = T(0.0f);
      }
    }
  }
};

struct CopyWords {
  const std::int32_t *records, *labels;
  std::int64_t size, length;
  Picked picked;
  std::int32_t *words, *batch_labels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::uint32_t sample = Wanted::of(picked, size, row).sample;
    if (team.lane == 0) batch_labels[row] = labels[sample];
    for (std::int64_t i = team.lane; i < length; i += team.lanes)
      words[row * length + i] = records[sample * length + i];
  }
};

/// Calls f with images of the kind.
template <class F>
void dispatch(Records kind, const ImageForm& form, int padding, bool alternate, F&& f) {
  if (kind == Records::digits) return f(Digits{});
  if (kind == Records::whole) return f(WholeImages(form, padding, alternate));
  expect(kind == Records::images, "a data set without records cannot be resident");
  f(CroppedImages{padding, alternate});
}

}  // namespace

ResidentSet::ResidentSet(Device& device, const Dataset& dataset)
    : kind_(dataset.records()),
      form_(dataset.form()),
      padding_(dataset.crop_padding()),
      alternate_(dataset.alternate_flips()),
      size_(dataset.size()),
      record_bytes_(4 * dataset.sample_shape().count()) {
  if (kind_ != Records::words)
    dispatch(kind_, form_, padding_, alternate_,
             [&](const auto& kind) { record_bytes_ = kind.bytes(); });
  const auto record_bytes = static_cast<std::size_t>(record_bytes_);
  const auto count = static_cast<std::size_t>(size_);
  bytes_ = count * (record_bytes + sizeof(std::int32_t));
  records_ = device.allocate(count * record_bytes, Place::device);
  labels_ = device.allocate(count * sizeof(std::int32_t), Place::device);
  const std::int64_t most = std::min(kPart, size_);
  const Memory part = device.allocate(static_cast<std::size_t>(most) * record_bytes, Place::host),
               labels = device.allocate(count * sizeof(std::int32_t), Place::host);
  auto* label = reinterpret_cast<std::int32_t*>(labels.get());
  for (std::int64_t i = 0; i < size_; ++i) label[i] = dataset.label(i);
  const std::unique_ptr<Stream> stream = device.stream();
  device.copy(*stream, labels_.get(), label, count * sizeof(std::int32_t));
  for (std::int64_t first = 0; first < size_; first += kPart) {
    const std::int64_t here = std::min(kPart, size_ - first);
    read_in_parallel(stream->threads(), here, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::byte* to = part.get() + static_cast<std::size_t>(i) * record_bytes;
        if (kind_ == Records::words) {
          dataset.read(first + i, nullptr, to, Type::i32);
        } else {
          dataset.record(first + i, reinterpret_cast<std::uint8_t*>(to));
        }
      }
    });
    device.copy(*stream, records_.get() + static_cast<std::size_t>(first) * record_bytes,
                part.get(), static_cast<std::size_t>(here) * record_bytes);
    stream->synchronize();
  }
}

void ResidentSet::give_batch(Stream& stream, const Picked& picked, View images, View labels,
                             View other_labels, View weights) const {
  const auto* all_labels = reinterpret_cast<const std::int32_t*>(labels_.get());
  expect(labels.count() <= images.shape[0], "a batch has as many labels as samples");
  if (kind_ == Records::words) {
    const std::int64_t length = images.shape.row();
    expect(4 * length == record_bytes_, "a batch does not have the shape of its samples");
    return each_row(
        stream, labels.count(), length,
        CopyWords{reinterpret_cast<const std::int32_t*>(records_.get()), all_labels, size_, length,
                  picked, images.as<std::int32_t>(), labels.as<std::int32_t>()});
  }
  dispatch(kind_, form_, padding_, alternate_, [&]<class Kind>(const Kind& kind) {
    expect(images.shape.row() == kind.pixels() * kind.channels(),
           "a batch does not have the shape of its samples");
    lockstep::dispatch(images.type, [&]<class T>(T*) {
      const auto give = [&]<bool kMixed>(std::bool_constant<kMixed>) {
        each_row(stream, labels.count(), images.shape.row(),
                 MakeSample<T, Kind, kMixed>{
                     kind, reinterpret_cast<const std::uint8_t*>(records_.get()), record_bytes_,
                     all_labels, size_, picked, images.as<T>(), labels.as<std::int32_t>(),
                     kMixed ? other_labels.as<std::int32_t>() : nullptr,
                     kMixed ? weights.as<float>() : nullptr});
      };
      picked.mixes != nullptr ? give(std::true_type{}) : give(std::false_type{});
    });
  });
}

}  // namespace lockstep
