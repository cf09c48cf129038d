// Products whose left factor is read from images in place. A tile's rows are pixels of one line, at
// a constant distance in memory, or numbers of one line of the filter. To copy each pixel once per
// tap would cost more than the sums of few filters. Images with padding are copied once, with it.
// Part of src/device/cpu/kernels_body.h.
namespace lockstep::KERNELS {
namespace {

/// Images that contain all pixels of their windows.
class PaddedImages {
 public:
  explicit PaddedImages(const Windows& windows) : w_(windows) {
    std::int64_t last_y = w_.taps()[0].y, last_x = w_.taps()[0].x;
    y_ = last_y;
    x_ = last_x;
    for (const Windows::Place& tap : w_.taps()) {
      y_ = std::min(y_, tap.y);
      x_ = std::min(x_, tap.x);
      last_y = std::max(last_y, tap.y);
      last_x = std::max(last_x, tap.x);
    }
    height_ = (w_.grid_height() - 1) * w_.step() + last_y - y_ + 1;
    width_ = (w_.grid_width() - 1) * w_.step() + last_x - x_ + 1;
    copies_ = y_ < 0 || x_ < 0 || y_ + height_ > w_.height() || x_ + width_ > w_.width();
    if (!copies_) {
      height_ = w_.height();
      width_ = w_.width();
    }
  }

  bool copies() const { return copies_; }
  std::int64_t line() const { return width_ * w_.pitch(); }
  std::int64_t image() const { return height_ * line(); }
  /// Floats from the first tap's pixel of a window to that of (y, x).
  std::int64_t offset(std::int64_t y, std::int64_t x) const {
    return (y - y_) * line() + (x - x_) * w_.pitch();
  }

  /// The first window's first pixel of image `first`. The images with padding are in `room`, which
  /// has image() floats for each.
  const float* prepare(int threads, const float* data, std::int64_t first, std::int64_t count,
                       float* room) const {
    data += first * w_.height() * w_.width() * w_.pitch();
    if (!copies_) return data + y_ * line() + x_ * w_.pitch();
    parallel_for(threads, count * height_, 8, [=, this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        copy_line(data, i / height_, i % height_, room + i * line());
    });
    return room;
  }

 private:
  void copy_line(const float* data, std::int64_t n, std::int64_t y, float* to) const {
    const std::int64_t from_y = y + y_, pitch = w_.pitch();
    if (from_y < 0 || from_y >= w_.height()) {
      std::fill_n(to, line(), 0.0f);
      return;
    }
    const std::int64_t begin = std::clamp<std::int64_t>(-x_, 0, width_),
                       end = std::clamp(w_.width() - x_, begin, width_);
    std::fill_n(to, begin * pitch, 0.0f);
    copy_floats(data + ((n * w_.height() + from_y) * w_.width() + begin + x_) * pitch,
                (end - begin) * pitch, to + begin * pitch);
    std::fill_n(to + end * pitch, (width_ - end) * pitch, 0.0f);
  }

  const Windows& w_;
  std::int64_t y_, x_;  ///< the first pixel, in the image's places
  std::int64_t height_, width_;
  bool copies_;
};

/// The windows as rows of a left factor.
inline InPlace rows_in_place(const Windows& w, const PaddedImages& padded, std::int64_t images,
                             std::int64_t height) {
  InPlace result;
  result.height = height;
  result.row_step = w.step() * w.pitch();
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t y = 0; y < w.grid_height(); ++y) {
      result.add(n * padded.image() + y * w.step() * padded.line(),
                 (n * w.grid_height() + y) * w.grid_width(), w.grid_width(), y == 0);
    }
  }
  for (const Windows::Place& tap : w.taps()) {
    for (std::int64_t c = 0; c < w.pitch(); ++c)
      result.steps.push_back(static_cast<std::int32_t>(padded.offset(tap.y, tap.x) + c));
  }
  return result;
}

/// The windows as columns: a row is a tap's channel, and the steps are pixels.
inline InPlace columns_in_place(const Windows& w, const PaddedImages& padded, std::int64_t images,
                                std::int64_t height) {
  InPlace result;
  result.height = height;
  result.row_step = 1;
  for (const Windows::Run& run : w.runs())
    result.add(padded.offset(run.y, run.x), run.begin, run.length, false);
  const std::int64_t step = w.step() * w.pitch();
  const bool one_line = images == 1 && w.grid_height() == 1;
  if (one_line) result.chain_step = kChain * step;
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t y = 0; y < w.grid_height(); ++y) {
      const std::int64_t line = n * padded.image() + y * w.step() * padded.line();
      const std::int64_t width = one_line ? kChain : w.grid_width();
      for (std::int64_t x = 0; x < width; ++x)
        result.steps.push_back(static_cast<std::int32_t>(line + x * step));
    }
  }
  return result;
}

/// The number of images that InPlaceProduct multiplies at a time.
inline std::int64_t images_at_a_time(const Windows& w, const PaddedImages& padded,
                                     bool transposed) {
  constexpr std::int64_t kRoom = 1 << 18,  // floats of padded images
      kRows = 1 << 20;                     // windows, whose tiles InPlace lists
  std::int64_t images =
      std::clamp<std::int64_t>(kRows / (w.grid_height() * w.grid_width()), 1, w.images());
  if (padded.copies() || transposed)
    images = std::clamp<std::int64_t>(kRoom / padded.image(), 1, images);
  if (!transposed) return images;
  const std::int64_t whole = kChain / std::gcd(w.grid_height() * w.grid_width(), kChain);
  return std::min(round_up(images, whole), w.images());  // whole chains
}

/// Floats of the images whose steps columns_in_place() lists; 0: it lists one chain of a long line.
inline std::int64_t floats_in_columns(const Windows& w) {
  const PaddedImages padded(w);
  const std::int64_t images = images_at_a_time(w, padded, true);
  return images == 1 && w.grid_height() == 1 ? 0 : images * padded.image();
}

/// A product with windows of images, some images at a time.
class InPlaceProduct {
 public:
  /// The product has `columns`. `transposed`: the windows are columns of its left factor. They must
  /// outlive the object.
  InPlaceProduct(const Windows& windows, bool transposed, std::int64_t columns)
      : w_(windows), padded_(windows), transposed_(transposed) {
    images_ = images_at_a_time(w_, padded_, transposed_);
    const std::int64_t height = tile_height(columns);
    left_ = transposed_ ? columns_in_place(w_, padded_, images_, height)
                        : rows_in_place(w_, padded_, images_, height);
  }

  std::int64_t room() const { return padded_.copies() ? images_ * padded_.image() : 0; }

  /// `product` describes all images and has no left factor. `scratch` has room() floats and those
  /// of the packing.
  void run(int threads, const float* data, Product product, const Packing& packing,
           float* scratch) const {
    const std::int64_t pixels = w_.grid_height() * w_.grid_width();
    const std::int64_t groups = static_cast<std::int64_t>(left_.groups.size());
    product.left = nullptr;
    product.in_place = &left_;
    for (std::int64_t first = 0; first < w_.images(); first += images_) {
      const std::int64_t count = std::min(images_, w_.images() - first);
      product.in_place_data = padded_.prepare(threads, data, first, count, scratch);
      if (transposed_) {
        product.depth = count * pixels;
        product.first_k = first * pixels;
        product.in_place_groups = groups;
      } else {
        product.rows = count * pixels;
        product.first_row = first * pixels;
        product.in_place_groups = groups / images_ * count;
      }
      ProductRun(product, packing, scratch + room()).run(threads);
    }
  }

 private:
  const Windows& w_;
  PaddedImages padded_;
  bool transposed_;
  std::int64_t images_;
  InPlace left_;
};

}  // namespace
}  // namespace lockstep::KERNELS
