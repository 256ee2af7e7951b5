#include "workers/reward/numbers/number_marks.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/utf8.h"

namespace baton::reward {
namespace {

struct Mark {
  char32_t code_point;
  absl::string_view written;
};
constexpr Mark kMarks[] = {
    {0x2212, "-"},    {0x2010, "-"},    {0x2011, "-"},     {0xFE63, "-"},    {0xFF0D, "-"},
    {0x2012, "\x01"}, {0x2013, "\x01"}, {0x2014, "\x01"},  {0x2015, "\x01"}, {0xFF0B, "+"},
    {0xFF0E, "."},    {0xFF05, "%"},    {0x066A, "%"},     {0xFF0F, "/"},    {0x2044, "/"},
    {0x2215, "/"},    {0x00F7, "/"},    {0x00D7, "*"},     {0x00B7, "*"},    {0x22C5, "*"},
    {0x2217, "*"},    {0x00A0, "\x02"}, {0x202F, "\x02"},  {0x2009, "\x02"}, {0x221A, "\x03"},
    {0x00B1, "\x03"}, {0x2264, "\x03"}, {0x2265, "\x03"},  {0x2260, "\x03"}, {0x2030, "\x03"},
    {0x20AC, "$"},    {0x00A3, "$"},    {0x00A5, "$"},     {0x20B9, "$"},    {0xFFE5, "$"},
    {0xFF04, "$"},    {0x00B0, " "},    {0x00B9, "^"},     {0x00B2, "^"},    {0x00B3, "^"},
    {0x00BD, " 1/2"}, {0x2153, " 1/3"}, {0x2154, " 2/3"},  {0x00BC, " 1/4"}, {0x00BE, " 3/4"},
    {0x2155, " 1/5"}, {0x2156, " 2/5"}, {0x2157, " 3/5"},  {0x2158, " 4/5"}, {0x2159, " 1/6"},
    {0x215A, " 5/6"}, {0x2150, " 1/7"}, {0x215B, " 1/8"},  {0x215C, " 3/8"}, {0x215D, " 5/8"},
    {0x215E, " 7/8"}, {0x2151, " 1/9"}, {0x2152, " 1/10"},
};
// The digits 0 of scripts whose digits are common in texts: Arabic, Persian, Devanagari, Bengali,
// Thai, full width.
constexpr char32_t kZeros[] = {0x660, 0x6F0, 0x966, 0x9E6, 0xE50, 0xFF10};

void AppendMark(char32_t c, absl::string_view bytes, std::string* out) {
  for (const Mark& mark : kMarks) {
    if (mark.code_point == c) return absl::StrAppend(out, mark.written);
  }
  for (const char32_t zero : kZeros) {
    if (c >= zero && c < zero + 10) {
      out->push_back(static_cast<char>('0' + (c - zero)));
      return;
    }
  }
  if (c >= 0x2070 && c <= 0x2079) return out->push_back('^');
  absl::StrAppend(out, bytes);
}

struct Command {
  absl::string_view name;
  absl::string_view written;
};
// Those of letters end where no letter follows.
constexpr Command kCommands[] = {
    {"\\$", "$"},
    {"\\%", "%"},
    {"\\,", "\x02"},
    {"\\!", "\x02"},
    {"\\;", "\x02"},
    {"\\:", "\x02"},
    {"\\ ", "\x02"},
    {"\\(", " "},
    {"\\)", " "},
    {"\\[", " "},
    {"\\]", " "},
    {"\\left", ""},
    {"\\right", ""},
    {"\\dfrac", "\\frac"},
    {"\\tfrac", "\\frac"},
    {"\\cfrac", "\\frac"},
    {"\\times", "*"},
    {"\\cdot", "*"},
    {"\\ast", "*"},
    {"\\div", "/"},
    {"\\pm", "\x03"},
    {"\\mp", "\x03"},
    {"\\leq", "\x03"},
    {"\\le", "\x03"},
    {"\\geq", "\x03"},
    {"\\ge", "\x03"},
    {"\\neq", "\x03"},
    {"\\ne", "\x03"},
    {"\\approx", "="},
    {"\\quad", " "},
    {"\\qquad", " "},
    {"\\to", " "},
    {"\\rightarrow", " "},
    {"\\Rightarrow", " "},
    {"\\implies", " "},
    {"\\therefore", " "},
    {"\\displaystyle", " "},
    {"\\degree", " "},
};
constexpr absl::string_view kTextCommands[] = {
    "\\text",   "\\textbf", "\\mathrm",       "\\mathbf",     "\\mbox",
    "\\textit", "\\rm",     "\\operatorname", "\\boldsymbol", "\\bf"};

constexpr size_t kMostText = 256;  // bytes of a \text{…} that is read: a unit is short

bool IsLetter(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); }

// The whole command at the beginning of `text`, which begins with a backslash.
absl::string_view CommandAt(absl::string_view text) {
  size_t end = 1;
  while (end < text.size() && IsLetter(text[end])) ++end;
  return text.substr(0, std::max<size_t>(end, std::min<size_t>(2, text.size())));
}

// Writes what stands for LaTeX at the beginning of `text`. The bytes that were read; 0: none.
size_t ReadLatex(absl::string_view text, std::string* out) {
  for (const absl::string_view degree : {"^{\\circ}", "^\\circ"}) {
    if (absl::StartsWith(text, degree)) return out->push_back(' '), degree.size();
  }
  if (absl::StartsWith(text, "{,}")) return out->push_back(','), size_t{3};
  if (text[0] == '~') return out->push_back(kGroup), size_t{1};
  if (text[0] != '\\') return 0;
  const absl::string_view name = CommandAt(text);
  for (const Command& command : kCommands) {
    if (command.name == name) return absl::StrAppend(out, command.written), name.size();
  }
  for (const absl::string_view command : kTextCommands) {
    if (command != name || name.size() >= text.size() || text[name.size()] != '{') continue;
    const size_t end = text.substr(0, kMostText).find('}', name.size());
    if (end == absl::string_view::npos) return 0;
    absl::StrAppend(out, " ", PlainMarks(text.substr(name.size() + 1, end - name.size() - 1)), " ");
    return end + 1;
  }
  return 0;
}

}  // namespace

std::string PlainMarks(absl::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const absl::string_view rest = text.substr(at);
    if (const size_t read = ReadLatex(rest, &out); read > 0) {
      at += read;
      continue;
    }
    const Utf8Char c = ReadUtf8(rest);
    const bool control = c.code_point < 0x20 && !absl::ascii_isspace(rest[0]);
    if (control) {
      out += ' ';  // it is none of ours
    } else {
      AppendMark(c.code_point, rest.substr(0, c.length), &out);
    }
    at += std::max<size_t>(1, c.length);
  }
  return out;
}

std::optional<Box> LastBox(absl::string_view text) {
  size_t begin = absl::string_view::npos;
  for (const absl::string_view name : {"\\boxed", "\\fbox"}) {
    size_t at = text.rfind(name);
    if (at == absl::string_view::npos) continue;
    at += name.size();
    if (begin == absl::string_view::npos || at > begin) begin = at;
  }
  if (begin == absl::string_view::npos) return std::nullopt;
  while (begin < text.size() && text[begin] == ' ') ++begin;
  Box box;
  if (begin >= text.size() || text[begin] != '{') return box;
  int depth = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '{') {
      ++depth;
    } else if (text[at] == '}' && --depth == 0) {
      box.content = std::string(text.substr(begin + 1, at - begin - 1));
      box.complete = true;
      return box;
    }
  }
  return box;
}

}  // namespace baton::reward
