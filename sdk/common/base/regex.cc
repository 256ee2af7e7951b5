#include "sdk/common/base/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/utf8.h"

namespace baton {
namespace {

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0)
    return absl::StrCat("error ", code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Compiled {
  std::string pattern;
  std::unique_ptr<pcre2_code, CodeDeleter> code;
  RegexOptions options;
  int group_count = 0;
};

Regex::Regex(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(absl::string_view pattern, const RegexOptions& options) {
  if (pattern.size() > options.max_pattern_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("regular expression of ", pattern.size(),
                                                   " bytes is longer than the limit of ",
                                                   options.max_pattern_bytes));
  }
  uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  if (options.ignore_case) flags |= PCRE2_CASELESS;
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_unique<Compiled>();
  compiled->pattern = std::string(pattern);
  compiled->options = options;
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     flags, &error, &offset, nullptr));
  if (compiled->code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("regular expression '",
                                                   ReplaceInvalidUtf8(pattern.substr(0, 200)),
                                                   "': ", ErrorText(error), " at byte ", offset));
  }
  uint32_t groups = 0;
  pcre2_pattern_info(compiled->code.get(), PCRE2_INFO_CAPTURECOUNT, &groups);
  compiled->group_count = static_cast<int>(groups);
  // If machine code cannot be made (a hardened kernel), the interpreter is used instead.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::move(compiled));
}

const std::string& Regex::pattern() const { return compiled_->pattern; }
int Regex::group_count() const { return compiled_->group_count; }

struct RegexMatcher::State {
  std::unique_ptr<pcre2_match_data, MatchDataDeleter> data;
  std::unique_ptr<pcre2_match_context, MatchContextDeleter> context;
};

RegexMatcher::RegexMatcher(const Regex& regex, absl::string_view text)
    : regex_(regex),
      text_(text),
      valid_utf8_(IsValidUtf8(text)),
      state_(std::make_unique<State>()) {
  const RegexOptions& options = regex.compiled_->options;
  state_->data.reset(pcre2_match_data_create_from_pattern(regex.compiled_->code.get(), nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(state_->context.get(), options.match_limit);
  pcre2_set_heap_limit(state_->context.get(), options.heap_limit_kib);
}

RegexMatcher::~RegexMatcher() = default;

absl::StatusOr<bool> RegexMatcher::Find(size_t start) {
  if (!valid_utf8_) return absl::InvalidArgumentError("the text to search is not valid UTF-8");
  if (start > text_.size()) return false;
  // The text was checked once, above; PCRE2 would check it again at every search.
  const auto search = [&](uint32_t flags) {
    static const char kEmpty[] = "";
    const char* subject = text_.empty() ? kEmpty : text_.data();
    return pcre2_match(regex_.compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(subject),
                       text_.size(), start, flags | PCRE2_NO_UTF_CHECK, state_->data.get(),
                       state_->context.get());
  };
  int rc = search(0);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = search(PCRE2_NO_JIT);
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  if (rc < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("regular expression '", regex_.pattern(), "' gave up: ", ErrorText(rc)));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state_->data.get());
  // \K inside a look-around can put the beginning behind the end.
  begin_ = offsets[0] < offsets[1] ? offsets[0] : offsets[1];
  end_ = offsets[1];
  groups_set_ = rc;
  return true;
}

std::optional<absl::string_view> RegexMatcher::group(int number) const {
  if (number < 0 || number >= groups_set_) return std::nullopt;
  if (number == 0) return text_.substr(begin_, end_ - begin_);
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state_->data.get());
  const PCRE2_SIZE begin = offsets[2 * number], end = offsets[2 * number + 1];
  if (begin == PCRE2_UNSET || end < begin) return std::nullopt;
  return text_.substr(begin, end - begin);
}

}  // namespace baton
