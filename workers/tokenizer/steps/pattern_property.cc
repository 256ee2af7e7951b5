#include "workers/tokenizer/steps/pattern_property.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/regex.h"

namespace baton::tokenizer {
namespace {

// Oniguruma's names that PCRE2 does not have, or that mean another set there.
// Source: Oniguruma's doc/UNICODE_PROPERTIES; POSIX names by what tokenizers 0.23 does.
constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"casedletter", "L&"},
    {"lc", "L&"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
    {"punct", "P"},
    {"digit", "Nd"},
    {"cntrl", "Cc"},
    {"alpha", "Alphabetic"},
    {"upper", "Uppercase"},
    {"lower", "Lowercase"},
    {"space", "White_Space"}};

// Names are compared without regard to case, spaces, hyphens and underscores (UAX #44, LM3).
std::string Loose(absl::string_view name) {
  std::string out = absl::AsciiStrToLower(name);
  out.erase(std::remove_if(out.begin(), out.end(),
                           [](char c) { return c == ' ' || c == '_' || c == '-'; }),
            out.end());
  return out;
}

}  // namespace

std::string PropertyOfPcre2(absl::string_view name) {
  const std::string loose = Loose(name);
  for (const auto& [oniguruma, pcre2] : kNames) {
    if (loose == oniguruma) return std::string(pcre2);
  }
  const std::string script = absl::StrCat("sc:", name);
  const bool is_name = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == ' ';
  });
  return is_name && Regex::Compile(absl::StrCat("\\p{", script, "}")).ok() ? script
                                                                           : std::string(name);
}

}  // namespace baton::tokenizer
