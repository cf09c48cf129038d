// Texts that stay in memory as numbers of words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/data/dataset.h"

namespace lockstep {

/// Writes `length` words (i32) to `buffer`: the last of `text`, after zeros if it has fewer.
/// Returns `buffer`.
inline const std::uint8_t* store_words(std::span<const std::int32_t> text, std::int64_t length,
                                       std::uint8_t* buffer) {
  auto* words = reinterpret_cast<std::int32_t*>(buffer);
  const std::int64_t kept = std::min(std::ssize(text), length);
  words = std::fill_n(words, length - kept, 0);
  std::ranges::copy(text.last(kept), words);
  return buffer;
}

/// Samples of `length` words. Any number of threads may read.
class StoredTexts : public Dataset {
 public:
  StoredTexts(std::int64_t length, int classes, std::string about)
      : Dataset({.kind = SampleFormat::Kind::words, .size = {1, length, 1}}),
        classes_(classes),
        about_(std::move(about)) {}

  void add(std::span<const std::int32_t> words, std::int32_t label) {
    words_.insert(words_.end(), words.begin(), words.end());
    ends_.push_back(words_.size());
    labels_.push_back(label);
  }
  std::int64_t size() const override { return std::ssize(labels_); }
  int classes() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override { return labels_[index]; }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    const std::size_t begin = index > 0 ? ends_[index - 1] : 0;
    return store_words({words_.data() + begin, ends_[index] - begin}, format().size.width, buffer);
  }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override {
    return (words_.size() + labels_.size()) * sizeof(std::int32_t) +
           ends_.size() * sizeof(std::size_t);
  }

 private:
  int classes_;
  std::string about_;
  std::vector<std::int32_t> words_, labels_;
  std::vector<std::size_t> ends_;  ///< of each text in words_
};

}  // namespace lockstep
