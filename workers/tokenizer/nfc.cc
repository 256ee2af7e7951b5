#include "workers/tokenizer/nfc.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

namespace baton::tokenizer {

std::string NormalizeNfc(absl::string_view text) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(result, &std::free);
  // Nothing but memory can fail: the text is valid.
  if (size < 0) return std::string(text);
  return std::string(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

}  // namespace baton::tokenizer
