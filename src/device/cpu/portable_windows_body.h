// The matrices that a convolution multiplies, read from tensors without a copy of the whole. Part
// of src/device/cpu/kernels_body.h.
namespace lockstep::KERNELS {
namespace {

/// A grid of rows, one for each pixel of images' outputs. Row (n, y, x) contains, tap by tap, the
/// channels of pixel (y * step + tap.y, x * step + tap.x) of image n. Pixels outside are 0.
class Windows {
 public:
  /// `image` is N, H, W, C. An item is one of C / `channels` groups of channels.
  Windows(const Shape& image, std::int64_t channels, std::int64_t height, std::int64_t width,
          std::int64_t step)
      : images_(image[0]),
        height_(image[1]),
        width_(image[2]),
        pitch_(image[3]),
        channels_(channels),
        grid_height_(height),
        grid_width_(width),
        step_(step) {}

  void add_tap(std::int64_t y, std::int64_t x) {
    ++taps_;
    places_.push_back({y, x});
    if (!runs_.empty() && channels_ == pitch_) {
      Run& last = runs_.back();
      if (last.y == y && last.x + last.length / channels_ == x) {
        last.length += channels_;
        return;
      }
    }
    runs_.push_back({y, x, (taps_ - 1) * channels_, channels_});
  }
  /// After the last tap: images whose rows are their pixels become one long line, or one each if
  /// the tiles of all would fill the memory.
  void finish() {
    const bool plain = runs_.size() == 1 && taps_ == 1 && step_ == 1 && runs_[0].y == 0 &&
                       runs_[0].x == 0 && grid_height_ == height_ && grid_width_ == width_;
    if (!plain) return;
    constexpr std::int64_t kLongest = 1 << 22;
    const std::int64_t joined = images_ * height_ * width_ <= kLongest ? images_ : 1;
    grid_width_ = width_ = joined * height_ * width_;
    images_ /= joined;
    grid_height_ = height_ = 1;
  }

  struct Place {
    std::int64_t y, x;
  };
  /// Taps whose channels follow each other in memory.
  struct Run {
    std::int64_t y, x;           ///< of the first tap
    std::int64_t begin, length;  ///< columns of the matrix
  };
  std::int64_t images() const { return images_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  std::int64_t pitch() const { return pitch_; }  ///< floats from pixel to pixel
  std::int64_t grid_height() const { return grid_height_; }
  std::int64_t grid_width() const { return grid_width_; }
  std::int64_t step() const { return step_; }
  const std::vector<Place>& taps() const { return places_; }
  const std::vector<Run>& runs() const { return runs_; }

  std::int64_t rows() const { return images_ * grid_height_ * grid_width_; }
  std::int64_t depth() const { return taps_ * channels_; }

  /// As Source::copy().
  void copy(const float* data, std::int64_t group, std::int64_t row, std::int64_t rows,
            std::int64_t column, std::int64_t columns, float* to, std::int64_t pitch) const {
    for (const Run& run : runs_) {
      const std::int64_t begin = std::max(run.begin, column),
                         end = std::min(run.begin + run.length, column + columns);
      if (begin >= end) continue;
      copy_piece(data + group * channels_, run, begin - run.begin, end - begin, row, rows,
                 to + (begin - column), pitch);
    }
  }

 private:
  /// Columns run.begin + `shift` .. run.begin + `shift` + `length` - 1.
  void copy_piece(const float* data, const Run& run, std::int64_t shift, std::int64_t length,
                  std::int64_t row, std::int64_t rows, float* to, std::int64_t pitch) const {
    std::int64_t x = row % grid_width_, y = row / grid_width_ % grid_height_,
                 n = row / grid_width_ / grid_height_;
    while (rows > 0) {
      const std::int64_t count = std::min(rows, grid_width_ - x), line = y * step_ + run.y;
      if (line < 0 || line >= height_) {
        for (std::int64_t i = 0; i < count; ++i) std::fill_n(to + i * pitch, length, 0.0f);
      } else {
        copy_line(data + (n * height_ + line) * width_ * pitch_,
                  (x * step_ + run.x) * pitch_ + shift, length, count, to, pitch);
      }
      to += count * pitch;
      rows -= count;
      x = 0;
      if (++y == grid_height_) {
        y = 0;
        ++n;
      }
    }
  }

  /// `count` pieces from `line`, whose first one begins at `from` and may lie outside.
  void copy_line(const float* line, std::int64_t from, std::int64_t length, std::int64_t count,
                 float* to, std::int64_t pitch) const {
    const std::int64_t distance = step_ * pitch_, last = width_ * pitch_ - length;
    for (std::int64_t i = 0; i < count; ++i, from += distance, to += pitch) {
      if (from >= 0 && from <= last) {
        copy_floats(line + from, length, to);
      } else {
        copy_cut(line, from, length, to);
      }
    }
  }
  [[gnu::noinline]] void copy_cut(const float* line, std::int64_t from, std::int64_t length,
                                  float* to) const {
    const std::int64_t begin = std::clamp<std::int64_t>(-from, 0, length),
                       end = std::clamp<std::int64_t>(width_ * pitch_ - from, begin, length);
    std::fill_n(to, begin, 0.0f);
    for (std::int64_t i = begin; i < end; ++i) to[i] = line[from + i];
    std::fill_n(to + end, length - end, 0.0f);
  }

  std::int64_t images_, height_, width_, pitch_;
  std::int64_t channels_;
  std::int64_t grid_height_, grid_width_, step_;
  std::int64_t taps_ = 0;
  std::vector<Place> places_;
  std::vector<Run> runs_;
};

class WindowSource final : public Source {
 public:
  WindowSource(const float* data, const Windows& windows) : data_(data), windows_(windows) {}
  void copy(std::int64_t item, std::int64_t row, std::int64_t rows, std::int64_t column,
            std::int64_t columns, float* to, std::int64_t pitch) const override {
    windows_.copy(data_, item, row, rows, column, columns, to, pitch);
  }

 private:
  const float* data_;
  const Windows& windows_;
};

/// Filters [filter][tap][channel] as the matrix whose row (tap of `taps`, filter) contains the
/// channels of this tap. An item is a group of `filters` filters.
class FilterSource final : public Source {
 public:
  FilterSource(const float* data, std::int64_t all_taps, std::int64_t filters,
               std::int64_t channels, const std::vector<std::int64_t>& taps)
      : data_(data), all_taps_(all_taps), filters_(filters), channels_(channels), taps_(taps) {}
  void copy(std::int64_t item, std::int64_t row, std::int64_t rows, std::int64_t column,
            std::int64_t columns, float* to, std::int64_t pitch) const override {
    const std::int64_t distance = all_taps_ * channels_;
    while (rows > 0) {
      const std::int64_t filter = row % filters_, count = std::min(rows, filters_ - filter);
      const std::int64_t tap = taps_[static_cast<std::size_t>(row / filters_)];
      const float* const from =
          data_ + ((item * filters_ + filter) * all_taps_ + tap) * channels_ + column;
      for (std::int64_t r = 0; r < count; ++r)
        copy_floats(from + r * distance, columns, to + r * pitch);
      to += count * pitch;
      row += count;
      rows -= count;
    }
  }
  InMemory in_memory(std::int64_t item) const override {
    if (taps_.size() != 1) return {nullptr, 0};
    const std::int64_t pitch = all_taps_ * channels_;
    return {data_ + item * filters_ * pitch + taps_[0] * channels_, pitch};
  }

 private:
  const float* data_;
  std::int64_t all_taps_, filters_, channels_;
  const std::vector<std::int64_t>& taps_;
};

/// The pixels (y0 + i * step, x0 + j * step) of images, one row each.
struct PixelGrid {
  std::int64_t image_height, image_width, pitch;
  std::int64_t y, x, step;
  std::int64_t height, width;  ///< of the grid
};

class PixelTarget final : public Target {
 public:
  /// An item is a group of `channels` channels.
  PixelTarget(float* data, std::int64_t channels, const PixelGrid& grid)
      : data_(data), channels_(channels), grid_(grid) {}
  void locate(std::int64_t item, std::int64_t first, std::int64_t count,
              float** rows) const override {
    std::int64_t x = first % grid_.width, y = first / grid_.width % grid_.height,
                 n = first / grid_.width / grid_.height;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t line = n * grid_.image_height + grid_.y + y * grid_.step,
                         pixel = line * grid_.image_width + grid_.x + x * grid_.step;
      rows[i] = data_ + pixel * grid_.pitch + item * channels_;
      if (++x < grid_.width) continue;
      x = 0;
      if (++y < grid_.height) continue;
      y = 0;
      ++n;
    }
  }

 private:
  float* data_;
  std::int64_t channels_;
  const PixelGrid& grid_;
};

}  // namespace
}  // namespace lockstep::KERNELS
