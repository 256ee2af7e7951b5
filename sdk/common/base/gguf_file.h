// GGUF files where the folder of a model is wanted.
#ifndef BATON_SDK_COMMON_BASE_GGUF_FILE_H_
#define BATON_SDK_COMMON_BASE_GGUF_FILE_H_

#include <string>

namespace baton {

/// What to do instead, if `path` is a GGUF file or a folder with one; else empty. Looks at names
/// alone, and opens no file.
std::string GgufHint(const std::string& path);

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_GGUF_FILE_H_
