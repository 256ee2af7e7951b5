#include "workers/policy/generation_options.h"

namespace baton::policy {
namespace {

constexpr int64_t kDefaultKvCacheBytes = int64_t{1} << 30;

}  // namespace

engine::GeneratorOptions MakeGeneratorOptions(const v1::RolloutSpec& spec) {
  engine::GeneratorOptions options;
  options.kv_cache_bytes = spec.has_kv_cache_bytes() ? spec.kv_cache_bytes() : kDefaultKvCacheBytes;
  if (spec.has_max_num_seqs()) options.max_num_seqs = spec.max_num_seqs();
  options.deterministic = spec.deterministic();
  options.max_draft_nodes =
      spec.speculation().mode() == "auto" ? spec.speculation().max_draft_tokens() : 0;
  return options;
}

engine::DecodeFunction MakeDecode(const PolicySource& source) {
  return [&tokenizer = source.tokenizer()](absl::Span<const int32_t> ids) {
    return tokenizer.DecodeBytes(ids, /*skip_special_tokens=*/false);
  };
}

}  // namespace baton::policy
