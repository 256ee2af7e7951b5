#include "tests/support/turn_digest.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "boost/pfr.hpp"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message_lite.h"
#include "xxhash.h"

namespace baton::controller {
namespace {

// Writes a value's bytes, each with its length where it has one, so that two values differ in them.
struct Writer {
  std::string bytes;

  template <typename T>
  void Number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  void Write(const std::string& value) {
    Number(value.size());
    bytes += value;
  }
  void Write(const absl::Status& value) {
    Number(static_cast<int>(value.code()));
    Write(std::string(value.message()));
  }
  void Write(absl::Duration value) { Number(absl::ToInt64Nanoseconds(value)); }
  void Write(absl::Time value) { Number(absl::ToUnixNanos(value)); }
  void Write(const google::protobuf::MessageLite& value) {
    std::string text;
    {
      google::protobuf::io::StringOutputStream stream(&text);
      google::protobuf::io::CodedOutputStream out(&stream);
      out.SetSerializationDeterministic(true);
      value.SerializeToCodedStream(&out);
    }
    Write(text);
  }
  void Write(const FileRanges& value) { Write(value.ranges()); }

  template <typename T>
  void Write(const std::vector<T>& value) {
    Each(value);
  }
  template <typename T>
  void Write(const std::set<T>& value) {
    Each(value);
  }
  template <typename K, typename V>
  void Write(const std::map<K, V>& value) {
    Each(value);
  }
  template <typename A, typename B>
  void Write(const std::pair<A, B>& value) {
    Write(value.first);
    Write(value.second);
  }
  template <typename... T>
  void Write(const std::variant<T...>& value) {
    Number(value.index());
    std::visit([this](const auto& held) { Write(held); }, value);
  }
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void Write(T value) { Number(value); }
  template <typename T>
  requires(std::is_aggregate_v<T>) void Write(const T& value) {
    boost::pfr::for_each_field(value, [this](const auto& field) { Write(field); });
  }

 private:
  template <typename C>
  void Each(const C& values) {
    Number(values.size());
    for (const auto& value : values) Write(value);
  }
};

}  // namespace

void TurnDigest::Add(const std::string& job, const Event& event) {
  Writer writer;
  writer.Write(job);
  writer.Write(event);
  Add(writer.bytes);
}

void TurnDigest::Add(const std::string& job, const Effects& effects) {
  Writer writer;
  writer.Write(job);
  writer.Write(effects);
  Add(writer.bytes);
}

void TurnDigest::Add(const std::string& bytes) {
  value_ = XXH3_64bits_withSeed(bytes.data(), bytes.size(), value_);
}

}  // namespace baton::controller
