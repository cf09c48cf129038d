// TensorBoard event files. A file is a row of records: length (8 bytes, little-endian), masked CRC
// of the length, the event, masked CRC of the event. Source: TensorFlow's
// core/lib/io/record_writer.h.
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "event.pb.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/machine.h"
#include "src/files/file.h"
#include "src/report/pending.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

constexpr std::size_t kBuffer = 1 << 20;

template <class Integer>
void put(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

/// A file with a name of its own.
OutputFile make_file(const std::filesystem::path& directory) {
  for (int n = 0;; ++n) {
    const std::filesystem::path path =
        directory / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", std::time(nullptr),
                                host_name(), ::getpid(), n);
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return OutputFile(path, OutputFile::Mode::create);
  }
}

}  // namespace

struct EventFile::Body {
  OutputFile file;
  std::string buffer;

  void add(proto::Event& event) {
    event.set_wall_time(wall_time());
    const std::string bytes = event.SerializeAsString();
    // The length has a checksum of its own. So a reader never skips by a damaged length.
    const std::size_t begin = buffer.size();
    put(buffer, static_cast<std::uint64_t>(bytes.size()));
    put(buffer, masked_crc32c(std::string_view(buffer).substr(begin)));
    buffer += bytes;
    put(buffer, masked_crc32c(bytes));
    if (buffer.size() >= kBuffer) flush();
  }
  void add(const char* tag, const proto::HParamsPluginData& data) {
    proto::Event event;
    proto::Summary::Value& out = *event.mutable_summary()->add_value();
    out.set_tag(tag);
    auto& plugin = *out.mutable_metadata()->mutable_plugin_data();
    plugin.set_plugin_name("hparams");
    plugin.set_content(data.SerializeAsString());
    add(event);
  }
  void flush() { write_pending(file, buffer); }
};

EventFile::EventFile(const std::filesystem::path& directory, std::int64_t keep_below_step)
    : body_(new Body{make_file(directory), {}}) {
  proto::Event version;
  version.set_file_version("brain.Event:2");
  body_->add(version);
  if (keep_below_step >= 0) {
    // TensorBoard takes this event as a restart: it drops the later steps that earlier files
    // contain.
    proto::Event start;
    start.set_step(keep_below_step);
    start.mutable_session_log()->set_status(proto::SessionLog::START);
    body_->add(start);
  }
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const Error&) {
    // A caller that needs the error calls flush().
  }
}

void EventFile::scalars(std::int64_t step,
                        const std::vector<std::pair<std::string, double>>& values) {
  proto::Event event;
  event.set_step(step);
  for (const auto& [name, value] : values) {
    proto::Summary::Value& out = *event.mutable_summary()->add_value();
    out.set_tag(name);
    out.set_simple_value(static_cast<float>(value));
  }
  body_->add(event);
}

void EventFile::histograms(std::int64_t step,
                           const std::vector<std::pair<std::string, Histogram>>& values) {
  proto::Event event;
  event.set_step(step);
  for (const auto& [name, value] : values) {
    proto::Summary::Value& out = *event.mutable_summary()->add_value();
    out.set_tag(name);
    proto::HistogramProto& histogram = *out.mutable_histo();
    histogram.set_min(value.min);
    histogram.set_max(value.max);
    histogram.set_num(value.count);
    histogram.set_sum(value.sum);
    histogram.set_sum_squares(value.sum_squares);
    histogram.mutable_bucket_limit()->Add(value.limits.begin(), value.limits.end());
    histogram.mutable_bucket()->Add(value.counts.begin(), value.counts.end());
  }
  body_->add(event);
}

void EventFile::begin_session(const nlohmann::ordered_json& options) {
  proto::HParamsPluginData data;
  proto::SessionStartInfo& start = *data.mutable_session_start_info();
  start.set_start_time_secs(wall_time());
  for (const auto& [name, value] : options.items()) {
    proto::OptionValue& out = (*start.mutable_hparams())[name];
    if (value.is_boolean())
      out.set_bool_value(value.get<bool>());
    else if (value.is_number())
      out.set_number_value(value.get<double>());
    else
      out.set_string_value(value.is_string() ? value.get<std::string>() : value.dump());
  }
  body_->add("_hparams_/session_start_info", data);
}

void EventFile::end_session() {
  proto::HParamsPluginData data;
  data.mutable_session_end_info()->set_status(proto::SessionEndInfo::SUCCESS);
  data.mutable_session_end_info()->set_end_time_secs(wall_time());
  body_->add("_hparams_/session_end_info", data);
}

void EventFile::flush() { body_->flush(); }

std::filesystem::path EventFile::path() const { return body_->file.path(); }

}  // namespace lockstep
