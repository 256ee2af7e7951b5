#include "sdk/planner/placement_spec/model_files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/schema_spec/model_init.h"

namespace baton::placement {

absl::StatusOr<PlannedModel> ReadModelFile(const std::string& file) {
  std::ifstream in(file);
  if (!in) return absl::NotFoundError(absl::StrCat(file, " cannot be opened"));
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto config = ModelConfig::Sketch(text);
  if (!config.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is not a JSON object"));
  }
  PlannedModel m(std::filesystem::absolute(file).parent_path().filename().string(),
                 *std::move(config));
  const std::string fault = Fault(m);
  if (fault.empty()) return m;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", fault, "; it must be a decoder's config.json"));
}

PlannedModel ModelOfInit(const v1::ModelInitSpec& init) {
  int64_t vocabulary = 2;  // <pad> and <eos>
  for (const char c : init.characters()) {
    vocabulary += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  }
  return {"random weights", InitConfig(init, vocabulary)};
}

}  // namespace baton::placement
