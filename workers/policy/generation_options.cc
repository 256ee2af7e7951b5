#include "workers/policy/generation_options.h"

#include "sdk/common/messages/settings.h"

namespace baton::policy {
engine::GeneratorOptions MakeGeneratorOptions(const v1::RolloutSpec& spec) {
  engine::GeneratorOptions options;
  options.kv_cache_bytes = WithDefaults(spec).kv_cache_bytes();
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
