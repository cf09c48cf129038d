#include "src/data/resident.h"

#include <algorithm>

#include "src/data/augment.h"
#include "src/data/mnist.h"
#include "src/each.h"

namespace lockstep {
namespace {

/// Records that are read and copied at a time.
constexpr std::int64_t kPart = 4096;

/// src/data/augment.h by a team.
struct ImageRecord {
  static constexpr int kPlane = Standardisation::kPlane;
  static constexpr std::int64_t kBytes = kImageValues, kValues = kImageChannels * kPlane;

  HOST_DEVICE static int place(const Augmentation& how, int i) {
    const int row = i / kCropSide, column = i % kCropSide;
    const int flip = how.flip, step = 1 - 2 * flip;
    return (how.top + row) * kImageSide + how.left + flip * (kCropSide - 1) + step * column;
  }

  template <class T, class Team>
  HOST_DEVICE static void read(const std::uint8_t* planes, Random& random, bool augment, T* images,
                               std::int64_t row, Team team) {
    Augmentation how;
    if (augment) how = Augmentation::draw(random);
    std::int32_t sums[kImageChannels] = {}, squares[kImageChannels] = {};
    for (int i = team.lane; i < kPlane; i += team.lanes) {
      const std::uint8_t* pixel = planes + place(how, i);
      for (int c = 0; c < kImageChannels; ++c) {
        const std::int32_t x = pixel[c * kImagePlane];
        sums[c] += x;
        squares[c] += x * x;
      }
    }
    for (int c = 0; c < kImageChannels; ++c) {
      sums[c] = team.sum(sums[c]);
      squares[c] = team.sum(squares[c]);
    }
    const Standardisation standardised = Standardisation::of(sums, squares, how.contrast);
    T* y = images + row * kValues;
    for (int i = team.lane; i < kPlane; i += team.lanes) {
      const std::uint8_t* pixel = planes + place(how, i);
      for (int c = 0; c < kImageChannels; ++c)
        y[i * kImageChannels + c] = T(standardised(pixel[c * kImagePlane], c));
    }
  }
};

struct DigitRecord {
  static constexpr std::int64_t kBytes = kDigitPixels, kValues = kDigitPixels;

  template <class T, class Team>
  HOST_DEVICE static void read(const std::uint8_t* pixels, Random&, bool, T* images,
                               std::int64_t row, Team team) {
    T* y = images + row * kValues;
    for (std::int64_t i = team.lane; i < kValues; i += team.lanes)
      y[i] = T(standardised_digit(pixels[i]));
  }
};

template <class T, class Record>
struct MakeSample {
  const std::uint8_t* records;
  const std::int32_t* labels;
  std::int64_t size;
  Picked picked;
  T* images;
  std::int32_t* batch_labels;

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t position =
        (picked.position != nullptr ? *picked.position : 0) + picked.offset + row;
    const std::int64_t epoch = position / size, place = position - epoch * size;
    const std::uint32_t order =
        static_cast<std::uint32_t>(epoch) % static_cast<std::uint32_t>(picked.kept);
    const std::int64_t sample =
        picked.orders != nullptr ? picked.orders[order * size + place] : place;
    Random random(picked.seed, Purpose::augment, static_cast<std::uint32_t>(epoch),
                  static_cast<std::uint32_t>(sample));
    if (team.lane == 0) batch_labels[row] = labels[sample];
    Record::read(records + sample * Record::kBytes, random, picked.augment, images, row, team);
  }
};

/// Calls f with a record of the kind.
template <class F>
decltype(auto) dispatch(Records kind, F&& f) {
  if (kind == Records::digits) return f(DigitRecord{});
  expect(kind == Records::images, "a data set without records cannot be resident");
  return f(ImageRecord{});
}

}  // namespace

ResidentSet::ResidentSet(Device& device, const Dataset& dataset)
    : kind_(dataset.records()), size_(dataset.size()) {
  const auto record_bytes = static_cast<std::size_t>(
      dispatch(kind_, []<class Record>(Record) { return Record::kBytes; }));
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
    parallel_for(stream->threads(), here, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        dataset.record(first + i, reinterpret_cast<std::uint8_t*>(part.get()) +
                                      static_cast<std::size_t>(i) * record_bytes);
      }
    });
    device.copy(*stream, records_.get() + static_cast<std::size_t>(first) * record_bytes,
                part.get(), static_cast<std::size_t>(here) * record_bytes);
    stream->synchronize();
  }
}

void ResidentSet::give_batch(Stream& stream, const Picked& picked, View images, View labels) const {
  dispatch(kind_, [&]<class Record>(Record) {
    expect(images.shape.row() == Record::kValues && labels.count() <= images.shape[0],
           "a batch does not have the shape of its samples");
    lockstep::dispatch(images.type, [&]<class T>(T*) {
      each_row(stream, labels.count(), Record::kValues,
               MakeSample<T, Record>{reinterpret_cast<const std::uint8_t*>(records_.get()),
                                     reinterpret_cast<const std::int32_t*>(labels_.get()), size_,
                                     picked, images.as<T>(), labels.as<std::int32_t>()});
    });
  });
}

}  // namespace lockstep
