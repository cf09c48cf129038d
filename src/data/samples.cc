#include "src/data/samples.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "src/data/sample_kinds.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

// Two ways lead to a sample. On the host write_here() copies a window first, then makes values of
// it in the order of memory. In a kernel MakeSample reads each pixel where it lies. Both use the
// same reader of a kind (sample_kinds.h), the same edits and the same mix. So the values have the
// same bits.
using namespace samples;

/// Copies a line of a window: the columns from `begin` to `end` lie within the image, and the
/// others are reflected at its edges. A pixel has `size` bytes.
void copy_line(const Window& window, const std::uint8_t* line, int begin, int end, int size,
               std::uint8_t* to) {
  const auto copy = [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      const int x = window.left + (window.mirror ? window.columns - 1 - i : i);
      for (int d = 0; d < size; ++d) to[i * size + d] = line[reflected(x, window.width) * size + d];
    }
  };
  const std::uint8_t* from = line + window.left * size;
  // std::reverse_copy() would also reverse the channels of each pixel.
  if (window.mirror && size > 1) return copy(0, window.columns);
  copy(0, begin);
  window.mirror
      ? std::reverse_copy(from + window.columns - end, from + window.columns - begin, to + begin)
      : std::copy(from + begin * size, from + end * size, to + begin * size);
  copy(end, window.columns);
}

/// Copies a window of one plane whose pixels have `size` bytes. The compiler knows the size of
/// lines if Kind::columns() is a constant.
template <class Kind>
[[gnu::always_inline]] inline void copy_window(const Kind& kind, const Window& window,
                                               const std::uint8_t* plane, int size,
                                               std::uint8_t* to) {
  const int columns = kind.columns();
  // Columns begin .. end - 1 lie within the image. If all of them do, a line of a plane is one
  // copy.
  int begin = std::clamp(-window.left, 0, columns),
      end = std::clamp(window.width - window.left, begin, columns);
  if (window.mirror) begin = columns - std::exchange(end, columns - begin);
  const bool inside = begin == 0 && end == columns && size == 1;
  for (int row = 0; row < kind.lines(); ++row, to += columns * size) {
    const std::uint8_t* line =
        plane + reflected(window.top + row, window.height) * window.width * size;
    const std::uint8_t* from = line + window.left;
    if (!inside) {
      copy_line(window, line, begin, end, size, to);
    } else if (window.mirror) {
      std::reverse_copy(from, from + columns, to);
    } else {
      std::memcpy(to, from, columns);
    }
  }
}

template <class T, class Kind, class Reader, class Team>
[[gnu::always_inline]] HOST_DEVICE inline void write_sample(const Kind& kind, const Reader& reader,
                                                            const PixelEdits& edits,
                                                            T* __restrict y, Team team) {
  const int columns = kind.columns(), channels = kind.channels();
  for (int i = team.lane; i < kind.lines() * columns; i += team.lanes) {
    for (int c = 0; c < channels; ++c) y[i * channels + c] = T(reader(i, c));
  }
  // After it is written, because both at once need more registers than a warp has on some GPUs.
  edits.apply(y, kind.lines(), columns, channels, team);
}

/// For teams that have no memory for two samples.
template <class T, class Kind, class Reader, class Team>
HOST_DEVICE void write_mixed(const Kind& kind, const Reader& own, const Reader& other,
                             const PixelEdits& own_edits, const PixelEdits& other_edits,
                             const Mix& mix, T* __restrict y, Team team) {
  const int columns = kind.columns(), channels = kind.channels();
  for (int i = team.lane; i < kind.lines() * columns; i += team.lanes) {
    const int row = i / columns, column = i - row * columns;
#ifdef __CUDA_ARCH__
#pragma unroll 1  // all channels at once need more registers than a thread has
#endif
    for (int c = 0; c < channels; ++c) {
      y[i * channels + c] = T(mix.at(row, column, own_edits.at(row, column, own(i, c)),
                                     other_edits.at(row, column, other(i, c))));
    }
  }
}

/// Values in rows of `row` values.
template <class T>
void mix_values(const Mix& mix, int lines, int row, int channels, const float* own,
                const float* other, T* y) {
  const Rectangle& pasted = mix.pasted;
  // mixup: the formula is that of Mix::at(), without its test at each value.
  if (pasted.height == 0) {
    for (std::int64_t i = 0; i < std::int64_t{lines} * row; ++i)
      y[i] = T(mixed(mix.weight, own[i], other[i]));
    return;
  }
  const int begin = pasted.left * channels, end = begin + pasted.width * channels;
  for (int line = 0; line < lines; ++line, own += row, other += row, y += row) {
    const bool touched = line >= pasted.top && line < pasted.top + pasted.height;
    for (int i = 0; i < row; ++i) y[i] = T(touched && i >= begin && i < end ? other[i] : own[i]);
  }
}

/// On the host, which copies the pixels of a window together, because vectors need them in order.
template <class T, class Kind>
void write_here(const Kind& given, const SampleSource& source, T* y) {
  const Kind kind = given;  // whose members no store can change
  // The data set has made these values itself, augmentation included. Only the edits are left.
  if constexpr (std::is_same_v<Kind, Values>) {
    const auto* values = reinterpret_cast<const float*>(source.bytes);
    const int count = kind.lines() * kind.columns() * kind.channels();
    for (int i = 0; i < count; ++i) y[i] = T(values[i]);
    return source.edits.apply(y, kind.lines(), kind.columns(), kind.channels(), Alone{});
  }
  constexpr bool kFixed = Kind::kWindowBytes > 0;
  std::conditional_t<kFixed, std::array<std::uint8_t, Kind::kWindowBytes>,
                     std::unique_ptr<std::uint8_t[]>>
      memory;
  const ViewDraw view = kind.draw_view(source.random);
  const Window& window = view.window;
  const int plane = window.lines * window.columns;
  const std::uint8_t* bytes = source.bytes;
  // A whole image is read where it lies. Crops have a fixed size, so their copy needs no
  // allocation.
  if (!window.is_whole()) {
    if constexpr (!kFixed)
      memory = std::make_unique_for_overwrite<std::uint8_t[]>(plane * kind.channels());
    std::uint8_t* const copy = &memory[0];
    if (kind.planes) {
      for (int c = 0; c < kind.channels(); ++c) {
        const std::uint8_t* stored = bytes + c * window.height * window.width;
        copy_window(kind, window, stored, 1, copy + c * plane);
      }
    } else {
      copy_window(kind, window, bytes, kind.channels(), copy);
    }
    bytes = copy;
  }
  const auto reader = kind.reader(bytes, plane, InOrder{}, view, Alone{});
  write_sample(kind, reader, source.edits, y, Alone{});
}

/// Teams that make one sample together, because a batch has fewer samples than a GPU has warps.
/// Each computes the statistics of the whole sample.
constexpr int kParts = 4;

/// A lane among those of all teams of a sample.
struct Part {
  int lane, lanes;
};

/// Which sample stands in a row of the batch.
struct SampleId {
  std::uint32_t epoch, sample, kept;

  HOST_DEVICE static SampleId of(const BatchRequest& request, std::int64_t size, std::int64_t row) {
    const std::int64_t position =
        (request.position != nullptr ? *request.position : 0) + request.offset + row;
    const std::int64_t epoch = position / size, place = position - epoch * size;
    const std::uint32_t now = static_cast<std::uint32_t>(epoch),
                        kept = now % static_cast<std::uint32_t>(request.kept);
    const std::int64_t sample =
        request.orders != nullptr ? request.orders[kept * size + place] : place;
    return {now, static_cast<std::uint32_t>(sample), kept};
  }
};

template <class T, class Kind, bool kMixed>
struct MakeSample {
  Kind kind;
  const std::uint8_t* stored;
  std::int64_t bytes;  ///< of a sample
  StoredSamples samples;
  BatchRequest request;
  T* images;
  std::int32_t *labels, *other_labels;
  float* weights;

  template <class Team>
  HOST_DEVICE auto reader(std::uint32_t epoch, std::uint32_t sample, Team team) const {
    Random random(request.seed, Purpose::augment, epoch, sample);
    const ViewDraw view = kind.draw_view(request.augment ? &random : nullptr);
    return kind.reader(stored + sample * bytes, view.window.height * view.window.width, view.window,
                       view, team);
  }
  HOST_DEVICE PixelEdits edits(std::uint32_t epoch, std::uint32_t sample) const {
    if (!request.augment) return {};
    return PixelEdits::draw(request.pixels, request.seed, epoch, sample, kind.lines(),
                            kind.columns());
  }

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t index, Team team) const {
    const std::int64_t row = index / kParts;
    const int number = index % kParts;
    const Part part{number * team.lanes + team.lane, kParts * team.lanes};
    const SampleId id = SampleId::of(request, samples.size, row);
    const auto own = reader(id.epoch, id.sample, team);
    const PixelEdits own_edits = edits(id.epoch, id.sample);
    if (part.lane == 0) labels[row] = samples.labels[id.sample];
    T* y = images + row * kind.lines() * kind.columns() * kind.channels();
    if constexpr (kMixed) {
      const Mix mix = request.mixes[id.kept * samples.size + id.sample];
      if (part.lane == 0) {
        other_labels[row] = samples.labels[mix.partner];
        weights[row] = mix.weight;
      }
      write_mixed(kind, own, reader(id.epoch, mix.partner, team), own_edits,
                  edits(id.epoch, mix.partner), mix, y, part);
    } else {
      write_sample(kind, own, own_edits, y, part);
    }
  }
};

struct CopyWords {
  const std::int32_t* words;
  StoredSamples samples;
  std::int64_t length;
  BatchRequest request;
  std::int32_t *batch, *labels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::uint32_t sample = SampleId::of(request, samples.size, row).sample;
    if (team.lane == 0) labels[row] = samples.labels[sample];
    for (std::int64_t i = team.lane; i < length; i += team.lanes)
      batch[row * length + i] = words[sample * length + i];
  }
};

/// Calls f with samples of the kind.
template <class F>
void with_kind(const SampleFormat& format, F&& f) {
  if (format.kind == SampleFormat::Kind::crops) return f(Crops(format));
  expect(format.kind == SampleFormat::Kind::images, "samples without bytes cannot be resident");
  if (format.size.channels == 1) return f(Images<1>(format));
  if (format.size.channels == 3) return f(Images<3>(format));
  f(Images<0>(format));
}

}  // namespace

void make_sample(const SampleFormat& format, const SampleSource& own, const MixedSource* other,
                 void* out, Type type) {
  if (format.kind == SampleFormat::Kind::words) {
    expect(type == Type::i32 && other == nullptr, "words are int32 and not mixed");
    std::memcpy(out, own.bytes, format.bytes());
    return;
  }
  const auto make = [&](const auto& kind) {
    dispatch(type, [&]<class T>(T*) {
      T* y = static_cast<T*>(out);
      if (other == nullptr) return write_here(kind, own, y);
      const std::int64_t count = std::int64_t{kind.lines()} * kind.columns() * kind.channels();
      // Both samples are made in fp32 and are rounded once, after they are mixed, as in a kernel.
      const auto values = std::make_unique_for_overwrite<float[]>(2 * count);
      float *mine = values.get(), *others = mine + count;
      write_here(kind, own, mine);
      write_here(kind, other->source, others);
      mix_values(other->mix, kind.lines(), kind.columns() * kind.channels(), kind.channels(), mine,
                 others, y);
    });
  };
  format.kind == SampleFormat::Kind::values ? make(Values(format)) : with_kind(format, make);
}

void make_batch(Stream& stream, const SampleFormat& format, const StoredSamples& samples,
                const BatchRequest& request, const BatchViews& batch) {
  const std::int64_t rows = batch.labels.count(), length = batch.images.shape.row();
  expect(rows <= batch.images.shape[0], "a batch has as many labels as samples");
  expect(length == format.shape().count(), "a batch does not have the shape of its samples");
  auto* labels = batch.labels.as<std::int32_t>();
  if (format.kind == SampleFormat::Kind::words) {
    return each_row(stream, rows, length,
                    CopyWords{reinterpret_cast<const std::int32_t*>(samples.bytes), samples, length,
                              request, batch.images.as<std::int32_t>(), labels});
  }
  with_kind(format, [&]<class Kind>(const Kind& kind) {
    dispatch(batch.images.type, [&]<class T>(T* images) {
      images = batch.images.as<T>();
      // Mixing is a template argument, because a kernel with both paths needs the registers of the
      // larger one.
      const auto make = [&]<bool kMixed>(std::bool_constant<kMixed>) {
        each_row(stream, rows * kParts, length / kParts,
                 MakeSample<T, Kind, kMixed>{
                     kind, reinterpret_cast<const std::uint8_t*>(samples.bytes),
                     static_cast<std::int64_t>(format.bytes()), samples, request, images, labels,
                     kMixed ? batch.other_labels.as<std::int32_t>() : nullptr,
                     kMixed ? batch.weights.as<float>() : nullptr});
      };
      request.mixes != nullptr ? make(std::true_type{}) : make(std::false_type{});
    });
  });
}

}  // namespace lockstep
