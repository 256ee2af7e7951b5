#include "workers/engine/model/kept_update.h"

#include <map>
#include <utility>

#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine {

absl::StatusOr<KeptUpdate> CompareUpdate(const std::string& trained, const std::string& base,
                                         torch::Dtype dtype) {
  torch::NoGradGuard no_grad;
  BATON_ASSIGN_OR_RETURN(const auto base_files, OpenWeights(base));
  BATON_ASSIGN_OR_RETURN(const auto trained_files, OpenWeights(trained));
  std::map<std::string, std::pair<const relay::SafetensorsFile*, const relay::TensorEntry*>> known;
  for (const auto& file : base_files) {
    for (const relay::TensorEntry& entry : file->view().entries()) {
      known[entry.name] = {file.get(), &entry};
    }
  }
  KeptUpdate out;
  for (const auto& file : trained_files) {
    for (const relay::TensorEntry& entry : file->view().entries()) {
      const auto before = known.find(entry.name);
      if (before == known.end() || before->second.second->shape != entry.shape) continue;
      BATON_ASSIGN_OR_RETURN(torch::Tensor from,
                             BorrowTensor(before->second.first->view(), *before->second.second));
      BATON_ASSIGN_OR_RETURN(torch::Tensor to, BorrowTensor(file->view(), entry));
      from = from.to(torch::kFloat32);
      to = to.to(torch::kFloat32);
      out.changed += to.ne(from).sum().item<int64_t>();
      from = from.to(dtype);
      to = to.to(dtype);
      out.kept += to.ne(from).sum().item<int64_t>();
    }
  }
  return out;
}

}  // namespace baton::engine
