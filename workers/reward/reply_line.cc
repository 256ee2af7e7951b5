#include "workers/reward/reply_line.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace baton::reward {
namespace {

using Json = nlohmann::json;

constexpr char kNotFinite[] = "not a finite number";

// A word or a number: what stands between the signs of JSON.
bool IsWordByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("+-._", c);
}

bool IsNotFiniteWord(absl::string_view word) {
  if (word == "NaN" || word == "Infinity" || word == "-Infinity") return true;
  double value = 0;
  const bool number = absl::ascii_isdigit(static_cast<unsigned char>(word.back())) &&
                      absl::SimpleAtod(word, &value);
  return number && !std::isfinite(value);
}

// `line` with an object in the place of each number that is not finite.
std::string WithoutNotFinite(absl::string_view line) {
  std::string out;
  bool in_text = false;
  for (size_t at = 0; at < line.size();) {
    size_t end = at + 1;
    if (in_text && line[at] == '\\') {
      end = std::min(at + 2, line.size());
    } else if (line[at] == '"') {
      in_text = !in_text;
    } else if (!in_text && IsWordByte(line[at])) {
      while (end < line.size() && IsWordByte(line[end])) ++end;
    }
    const absl::string_view piece = line.substr(at, end - at);
    if (!in_text && IsNotFiniteWord(piece)) {
      absl::StrAppend(&out, "{\"", kNotFinite, "\":\"", piece, "\"}");
    } else {
      absl::StrAppend(&out, piece);
    }
    at = end;
  }
  return out;
}

}  // namespace

Json ParseReplyLine(absl::string_view line) {
  Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  return Json::parse(WithoutNotFinite(line), nullptr, /*allow_exceptions=*/false);
}

bool IsNotFinite(const Json& value) { return value.is_object() && value.contains(kNotFinite); }

std::string NoObject(absl::string_view line) {
  const absl::string_view text = absl::StripAsciiWhitespace(line);
  const bool json = Json::accept(text.begin(), text.end());
  absl::string_view advice = "print to stderr whatever is no reply";
  if (json) {
    advice = "a reply is one object: {\"id\": …, \"reward\": …}";
  } else if (absl::StartsWith(text, "{")) {
    advice = "write a reply with json.dumps, on one line, and nothing else beside it";
  }
  return absl::StrCat("wrote a line to stdout that is no JSON object (", advice, ")");
}

}  // namespace baton::reward
