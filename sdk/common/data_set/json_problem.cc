#include "sdk/common/data_set/json_problem.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/utf8.h"

namespace baton {
namespace {

// The place where reading stopped: the index of the character that does not fit; the size: the end.
struct Stop {
  size_t at = 0;
  bool in_text = false;    // between quotes
  bool too_large = false;  // a number
  bool complete = false;   // a whole value stands before it
};

// A character of a word or a number.
bool IsLetter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

Stop FindStop(absl::string_view line) {
  Stop stop;
  try {
    const nlohmann::json parsed = nlohmann::json::parse(line.begin(), line.end());
    stop.at = line.size();
  } catch (const nlohmann::json::parse_error& error) {
    stop.at = std::min(error.byte == 0 ? 0 : error.byte - 1, line.size());
  } catch (const nlohmann::json::exception&) {
    stop.too_large = true;  // the one other thing that the parser refuses
  }
  for (size_t i = 0; i < stop.at; ++i) {
    if (stop.in_text && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      stop.in_text = !stop.in_text;
    }
  }
  if (!stop.in_text && stop.at < line.size()) {  // a word is wrong from its beginning on
    while (stop.at > 0 && IsLetter(line[stop.at]) && IsLetter(line[stop.at - 1])) --stop.at;
  }
  stop.complete = !stop.too_large && nlohmann::json::accept(line.begin(), line.begin() + stop.at);
  return stop;
}

// The letters and digits from `at` on; "" where another character stands there.
absl::string_view WordAt(absl::string_view line, size_t at) {
  size_t end = at;
  while (end < line.size() && IsLetter(line[end])) ++end;
  return line.substr(at, end - at);
}

// What Python writes and JSON does not know; "": `word` is something else.
std::string PythonWord(absl::string_view word) {
  if (word == "NaN" || word == "Infinity") {
    return absl::StrCat("'", word,
                        "' is no number of JSON (Python's json writes it for a float that is not "
                        "finite); write null, or leave the key out");
  }
  if (word != "True" && word != "False" && word != "None") return "";
  return absl::StrCat("'", word, "' is Python's; JSON writes ",
                      word == "None" ? "null" : absl::AsciiStrToLower(word),
                      " (json.dumps of Python does)");
}

std::string Cause(absl::string_view line, const Stop& stop) {
  if (stop.too_large) return "a number that is too large; write it as a text, in double quotes";
  if (stop.at == line.size()) {
    return stop.in_text ? "the line ends inside a text; its closing quote is missing"
                        : "the line ends too early; a value or a closing bracket is missing";
  }
  const char c = line[stop.at];
  if (stop.at >= ValidUtf8Prefix(line)) return "a byte that is not UTF-8";
  if (stop.in_text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      return c == '\t' ? "a tab inside a text; write it as \\t"
                       : "a control character inside a text; write it as \\u and four digits";
    }
    const bool escape = stop.at >= 6 && line.substr(stop.at - 6, 2) == "\\u";
    if (c == '"' && !escape) {
      return "a text that does not belong here; a comma or a colon before it is missing";
    }
    return "not a valid escape; a backslash itself is written \\\\";
  }
  if (stop.complete) return "text after the end of the value; give one object a line";
  if (c == '\'') return "a single quote; JSON has double quotes";
  const size_t before = line.find_last_not_of(" \t", stop.at == 0 ? 0 : stop.at - 1);
  const bool closes = c == '}' || c == ']';
  if (closes && stop.at > 0 && before != absl::string_view::npos && line[before] == ',') {
    return "a comma before the closing bracket; remove it";
  }
  if (const absl::string_view word = WordAt(line, stop.at); !word.empty()) {
    if (std::string python = PythonWord(word); !python.empty()) return python;
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      return absl::StrCat("'", word, "' does not belong here; is a comma or a colon missing?");
    }
    return absl::StrCat("'", word,
                        "' does not belong here; keys and texts stand in double quotes, "
                        "and the only other words are true, false and null");
  }
  const size_t length = ReadUtf8(line.substr(stop.at)).length;
  return absl::StrCat("'", line.substr(stop.at, length), "' does not belong here");
}

}  // namespace

std::string JsonProblem(absl::string_view line) {
  const Stop stop = FindStop(line);
  if (stop.too_large) return absl::StrCat("not valid JSON: ", Cause(line, stop));
  size_t column = 1;
  for (size_t i = 0; i < stop.at; ++i) {
    column += (static_cast<unsigned char>(line[i]) & 0xc0) != 0x80;
  }
  return absl::StrCat("column ", column, ": not valid JSON: ", Cause(line, stop));
}

std::string OtherFormat(absl::string_view beginning) {
  struct Magic {
    absl::string_view bytes;
    const char* what;
  };
  static constexpr Magic kMagic[] = {
      {"PAR1", "it is a parquet file; convert it (docs/formats/data-set.md)"},
      {"ARROW1", "it is an Arrow file; convert it (docs/formats/data-set.md)"},
      {"\x1f\x8b", "it is compressed with gzip; unpack it"},
      {"\x28\xb5\x2f\xfd", "it is compressed with zstd; unpack it"},
      {"PK\x03\x04", "it is a zip archive; unpack it"},
  };
  for (const Magic& magic : kMagic) {
    if (absl::StartsWith(beginning, magic.bytes)) return magic.what;
  }
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == absl::string_view::npos) return "";
  const absl::string_view line = beginning.substr(first, beginning.find('\n', first) - first);
  if (line[0] == '[') return "it is a JSON array; write one element a line (jq -c '.[]' FILE)";
  if (line[0] == '{' && line.find('}') == absl::string_view::npos) {
    return "it is JSON over several lines; write one object a line (jq -c . FILE)";
  }
  if (line.find_first_of(",\t;") != absl::string_view::npos &&
      line.find('{') == absl::string_view::npos) {
    return "it may be a table; convert it (docs/formats/data-set.md)";
  }
  return "";
}

}  // namespace baton
