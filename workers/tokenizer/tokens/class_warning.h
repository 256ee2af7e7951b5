// Warns of folders whose tokenizer transformers 5 does not take as tokenizer.json has it.
//
// AutoTokenizer loads some classes (tokenizer_class in tokenizer_config.json, or what it has for
// the model's type) with steps of their own, whatever tokenizer.json says: engines that load by it
// (vLLM, TRL) give other ids for the same text. Baton follows tokenizer.json. The classes are in
// class_table.inc, which testdata/make_class_table.py makes.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_CLASS_WARNING_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_CLASS_WARNING_H_

#include <string>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::tokenizer {

/// The class that AutoTokenizer loads a folder with, or "" where it takes tokenizer.json as it is
/// or the class is not known.
[[nodiscard]] std::string ClassThatRebuilds(absl::string_view tokenizer_json,
                                            const TokenizerSideFiles& files);

/// A sentence that names the class and a text whose ids differ; "" where no text of a list of
/// samples (words, numbers, spaces, signs, several scripts) has other ids. Files that Tokenizer
/// cannot read give "".
[[nodiscard]] std::string ClassWarning(absl::string_view tokenizer_json,
                                       const TokenizerSideFiles& files);
/// Of the folder `dir`.
[[nodiscard]] std::string ClassWarning(const std::string& dir);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_CLASS_WARNING_H_
