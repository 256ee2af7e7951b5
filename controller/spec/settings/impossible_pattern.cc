#include "controller/spec/settings/impossible_pattern.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "sdk/common/base/utf8.h"

namespace baton::controller {
namespace {

constexpr absl::string_view kAnswerMark = "{answer}";

// A part of a pattern.
struct Item {
  enum class Kind { kText, kBegin, kEnd, kVeryEnd, kFail };
  Kind kind = Kind::kText;
  int64_t least = 0;           // characters that it takes at least
  std::string character;       // the only one that it takes
  bool digit = false;          // it takes digits alone
  bool takes_line_end = true;  // it may take "\n"
};
using Sequence = std::vector<Item>;

// Reads a pattern into alternatives of items. It gives up where it would have to guess.
class PatternReader {
 public:
  explicit PatternReader(absl::string_view pattern) : rest_(pattern) {}

  // The alternatives; none: it gave up.
  std::vector<Sequence> Read() {
    std::vector<Sequence> out = Alternatives(0);
    if (gave_up_ || !rest_.empty()) return {};
    return out;
  }

 private:
  static constexpr int kDeepest = 50;

  // Up to the end, or to the ")" of the group.
  std::vector<Sequence> Alternatives(int depth) {
    std::vector<Sequence> out(1);
    while (!gave_up_ && !rest_.empty() && rest_[0] != ')') {
      if (absl::ConsumePrefix(&rest_, "|")) {
        out.emplace_back();
      } else if (absl::ConsumePrefix(&rest_, "\\Q")) {
        Quoted(&out.back());
      } else {
        Item item = Atom(depth);
        Quantify(&item);
        out.back().push_back(std::move(item));
      }
    }
    return out;
  }

  void Quoted(Sequence* out) {
    const size_t end = std::min(rest_.find("\\E"), rest_.size());
    absl::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    absl::ConsumePrefix(&rest_, "\\E");
    while (!text.empty()) out->push_back(Character(&text));
    if (!out->empty()) Quantify(&out->back());
  }

  static Item Character(absl::string_view* text) {
    Item item;
    const size_t length = std::max<size_t>(1, ReadUtf8(*text).length);
    item.least = 1;
    item.character = std::string(text->substr(0, length));
    item.takes_line_end = item.character == "\n";
    text->remove_prefix(std::min(length, text->size()));
    return item;
  }

  static Item One(bool takes_line_end, bool digit = false) {
    Item item;
    item.least = 1;
    item.takes_line_end = takes_line_end;
    item.digit = digit;
    return item;
  }
  static Item Anchor(Item::Kind kind) {
    Item item;
    item.kind = kind;
    return item;
  }

  Item Atom(int depth) {
    if (absl::ConsumePrefix(&rest_, kAnswerMark)) return Item();
    if (absl::ConsumePrefix(&rest_, "(")) return Group(depth);
    if (absl::ConsumePrefix(&rest_, "[")) return Class();
    if (absl::ConsumePrefix(&rest_, "\\")) return Escape();
    if (absl::ConsumePrefix(&rest_, "^")) return Anchor(Item::Kind::kBegin);
    if (absl::ConsumePrefix(&rest_, "$")) return Anchor(Item::Kind::kEnd);
    if (absl::ConsumePrefix(&rest_, ".")) return One(/*takes_line_end=*/false);
    return Character(&rest_);
  }

  // What follows the backslash.
  Item Escape() {
    if (rest_.empty()) return GiveUp();
    const char c = rest_[0];
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) return Character(&rest_);
    rest_.remove_prefix(1);
    switch (c) {
      case 'A':
        return Anchor(Item::Kind::kBegin);
      case 'Z':
        return Anchor(Item::Kind::kEnd);
      case 'z':
        return Anchor(Item::Kind::kVeryEnd);
      case 'b':
      case 'B':
        return Item();
      case 'd':
        return One(/*takes_line_end=*/false, /*digit=*/true);
      case 'w':
      case 'h':
      case 'S':
      case 'V':
      case 'N':
        return One(/*takes_line_end=*/false);
      case 'D':
      case 'W':
      case 'H':
      case 's':
      case 'v':
      case 'R':
        return One(/*takes_line_end=*/true);
      case 'n':
        return Literal("\n");
      case 't':
        return Literal("\t");
      case 'r':
        return Literal("\r");
      case 'f':
        return Literal("\f");
      default:
        return GiveUp();
    }
  }

  static Item Literal(absl::string_view character) { return Character(&character); }

  // What follows the "[": one character.
  Item Class() {
    absl::ConsumePrefix(&rest_, "^");
    absl::ConsumePrefix(&rest_, "]");  // at this place it is no end
    while (!rest_.empty() && rest_[0] != ']') {
      if (absl::StartsWith(rest_, "\\Q") || absl::StartsWith(rest_, "[:") ||
          absl::StartsWith(rest_, "[.") || absl::StartsWith(rest_, "[=")) {
        return GiveUp();
      }
      rest_.remove_prefix(rest_[0] == '\\' && rest_.size() > 1 ? 2 : 1);
    }
    absl::ConsumePrefix(&rest_, "]");
    return One(/*takes_line_end=*/true);
  }

  // What follows the "(".
  Item Group(int depth) {
    if (depth == kDeepest) return GiveUp();
    if (absl::ConsumePrefix(&rest_, "*FAIL)") || absl::ConsumePrefix(&rest_, "*F)") ||
        absl::ConsumePrefix(&rest_, "?!)")) {
      return Anchor(Item::Kind::kFail);
    }
    if (absl::StartsWith(rest_, "*")) return GiveUp();
    const bool looks = absl::ConsumePrefix(&rest_, "?=") || absl::ConsumePrefix(&rest_, "?!") ||
                       absl::ConsumePrefix(&rest_, "?<=") || absl::ConsumePrefix(&rest_, "?<!");
    if (!looks && absl::ConsumePrefix(&rest_, "?") && !GroupsName()) return GiveUp();
    const std::vector<Sequence> alternatives = Alternatives(depth + 1);
    if (!absl::ConsumePrefix(&rest_, ")")) return GiveUp();
    Item item;
    if (looks) return item;
    item.least = Least(alternatives);
    item.takes_line_end = absl::c_any_of(alternatives, [](const Sequence& sequence) {
      return absl::c_any_of(sequence, [](const Item& part) { return part.takes_line_end; });
    });
    return item;
  }

  // What may follow "(?" in a group that takes characters.
  bool GroupsName() {
    if (absl::ConsumePrefix(&rest_, ":") || absl::ConsumePrefix(&rest_, ">")) return true;
    const char end = absl::StartsWith(rest_, "'") ? '\'' : '>';
    absl::ConsumePrefix(&rest_, "P");
    if (!absl::ConsumePrefix(&rest_, "<") && !absl::ConsumePrefix(&rest_, "'")) return false;
    const size_t close = rest_.find(end);
    if (close == absl::string_view::npos) return false;
    rest_.remove_prefix(close + 1);
    return true;
  }

  static int64_t Least(const std::vector<Sequence>& alternatives) {
    int64_t least = -1;
    for (const Sequence& sequence : alternatives) {
      int64_t sum = 0;
      for (const Item& item : sequence) sum += item.least;
      least = least < 0 ? sum : std::min(least, sum);
    }
    return std::max<int64_t>(least, 0);
  }

  // The "*", "{2,}" and so on that may follow.
  void Quantify(Item* item) {
    if (rest_.empty()) return;
    const char c = rest_[0];
    if (c == '{' && !absl::StartsWith(rest_, kAnswerMark)) return Braces(item);
    if (c != '*' && c != '+' && c != '?') return;
    rest_.remove_prefix(1);
    if (c != '+') MakeOptional(item);
    Greed();
  }

  void Greed() {
    if (!absl::ConsumePrefix(&rest_, "?")) absl::ConsumePrefix(&rest_, "+");
  }

  // "{n}", "{n,}" and "{n,m}" repeat; other braces may be plain characters.
  void Braces(Item* item) {
    const size_t close = rest_.find('}');
    if (close == absl::string_view::npos) {
      gave_up_ = true;
      return;
    }
    const absl::string_view inside = rest_.substr(1, close - 1);
    int64_t least = 0;
    size_t digits = 0;
    while (digits < inside.size() && digits < 6 &&
           absl::ascii_isdigit(static_cast<unsigned char>(inside[digits]))) {
      least = least * 10 + (inside[digits++] - '0');
    }
    const absl::string_view most = inside.substr(digits);
    const bool bounds =
        most.empty() || (most[0] == ',' && absl::c_all_of(most.substr(1), [](char d) {
                           return absl::ascii_isdigit(static_cast<unsigned char>(d));
                         }));
    if (digits == 0 || !bounds) {
      gave_up_ = true;
      return;
    }
    rest_.remove_prefix(close + 1);
    if (least == 0) MakeOptional(item);
    item->least = std::min<int64_t>(item->least * least, int64_t{1} << 40);
    Greed();
  }

  static void MakeOptional(Item* item) { *item = Item(); }

  Item GiveUp() {
    gave_up_ = true;
    return Item();
  }

  absl::string_view rest_;
  bool gave_up_ = false;
};

bool IsWhiteSpace(const Item& item) {
  return item.least > 0 && item.character.size() == 1 &&
         absl::ascii_isspace(static_cast<unsigned char>(item.character[0]));
}

// "^" behind characters, or "$" before them.
std::string WhyNotAnchored(const Sequence& sequence) {
  int64_t taken = 0;
  const Item* end = nullptr;  // the first end of the text, and what follows it
  int64_t behind = 0;
  for (const Item& item : sequence) {
    if (item.kind == Item::Kind::kFail) return "it has a part that fails everywhere";
    if (item.kind == Item::Kind::kBegin && taken > 0) {
      return "it wants the beginning of the text (^) behind a character";
    }
    taken += item.least;
    behind += end == nullptr ? 0 : item.least;
    const bool line_end =
        behind == 1 && item.takes_line_end && end != nullptr && end->kind == Item::Kind::kEnd;
    if (behind > 0 && item.least > 0 && !line_end) {
      return "it wants a character behind the end of the text ($)";
    }
    const bool ends = item.kind == Item::Kind::kEnd || item.kind == Item::Kind::kVeryEnd;
    if (ends && end == nullptr) end = &item;
  }
  return "";
}

std::string WhyNotStripped(const Sequence& sequence) {
  for (size_t i = 0; i + 1 < sequence.size(); ++i) {
    const Item &first = sequence[i], &second = sequence[i + 1];
    const bool begins = first.kind == Item::Kind::kBegin && IsWhiteSpace(second);
    const bool ends = IsWhiteSpace(first) &&
                      (second.kind == Item::Kind::kEnd || second.kind == Item::Kind::kVeryEnd);
    if (!begins && !ends) continue;
    return absl::StrCat("it wants white space at the ", begins ? "beginning" : "end",
                        " of the text, which is stripped before (`strip: false` leaves it)");
  }
  return "";
}

bool IsAscii(absl::string_view text) {
  return absl::c_all_of(text,
                        [](char c) { return absl::ascii_isascii(static_cast<unsigned char>(c)); });
}

// What `item` takes and the texts do not have; "": nothing that is certain.
std::string MissingIn(const JudgedText& text, const Item& item) {
  if (item.least == 0) return "";
  if (item.digit) {
    const bool digits = absl::c_any_of(
        text.characters, [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
    return digits || !IsAscii(text.characters) ? "" : "a digit";
  }
  if (item.character.empty()) return "";
  bool there = absl::StrContains(text.characters, item.character);
  if (!there && text.ignore_case) {
    // Beyond ASCII characters have other forms than these two.
    if (!IsAscii(item.character) || !IsAscii(text.characters)) return "";
    there = absl::StrContains(absl::AsciiStrToLower(text.characters),
                              absl::AsciiStrToLower(item.character));
  }
  return there ? "" : absl::StrCat("'", item.character, "'");
}

std::string WhyNotWritten(const Sequence& sequence, const JudgedText& text) {
  int64_t least = 0;
  for (const Item& item : sequence) {
    least += item.least;
    const std::string missing = text.characters.empty() ? "" : MissingIn(text, item);
    if (missing.empty()) continue;
    return absl::StrCat("it wants ", missing, ", which is not among model.init.characters");
  }
  if (text.most_characters == 0 || least <= text.most_characters) return "";
  return absl::StrCat("it wants ", least, " characters at least, and a response has at most ",
                      text.most_characters, " (data.max_response_length)");
}

std::string WhyNot(const Sequence& sequence, const JudgedText& text) {
  std::string why = WhyNotAnchored(sequence);
  if (why.empty() && text.stripped) why = WhyNotStripped(sequence);
  return why.empty() ? WhyNotWritten(sequence, text) : why;
}

}  // namespace

std::string WhyNeverMatches(absl::string_view pattern, const JudgedText& text) {
  std::string first;
  for (const Sequence& sequence : PatternReader(pattern).Read()) {
    const std::string why = WhyNot(sequence, text);
    if (why.empty()) return "";
    if (first.empty()) first = why;
  }
  return first;
}

}  // namespace baton::controller
