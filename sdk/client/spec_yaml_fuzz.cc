// No YAML may crash the reader, and what it writes it must read.
#include <cstdint>

#include "absl/strings/string_view.h"
#include "sdk/client/spec_yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\0');
  std::vector<std::string> sets;
  if (cut != absl::string_view::npos) sets.emplace_back(text.substr(cut + 1));
  const baton::ParsedSpec parsed = baton::ParseSpecYaml(text.substr(0, cut), sets);
  if (parsed.problems.empty()) baton::SpecToYaml(parsed.spec);
  return 0;
}
