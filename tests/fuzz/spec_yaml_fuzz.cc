// No YAML may crash the reader, and what it writes it must read.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/util/field_comparator.h"
#include "google/protobuf/util/message_differencer.h"
#include "sdk/client/spec_writer.h"
#include "sdk/client/spec_yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\0');
  std::vector<std::string> sets;
  if (cut != absl::string_view::npos) sets.emplace_back(text.substr(cut + 1));
  const baton::ParsedSpec parsed = baton::ParseSpecYaml(text.substr(0, cut), sets);
  if (!parsed.problems.empty()) return 0;
  const baton::ParsedSpec again = baton::ParseSpecYaml(baton::SpecToYaml(parsed.spec), {});
  google::protobuf::util::DefaultFieldComparator numbers;
  numbers.set_treat_nan_as_equal(true);
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_field_comparator(&numbers);
  if (!again.problems.empty() || !differencer.Compare(again.spec, parsed.spec)) __builtin_trap();
  return 0;
}
