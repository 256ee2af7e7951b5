#include "workers/tokenizer/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "sdk/base/utf8.h"

namespace baton::engine {
namespace {

struct Decomposition {
  uint32_t composed, first, second;
  bool composes;
};
struct CombiningRange {
  uint32_t first, last;
  int combining_class;
};

#include "workers/tokenizer/nfc_table.inc"

// Hangul syllables are composed by arithmetic (The Unicode Standard, section 3.12).
constexpr uint32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr uint32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

int CombiningClass(char32_t c) {
  const auto it = std::upper_bound(
      std::begin(kCombiningRanges), std::end(kCombiningRanges), c,
      [](char32_t value, const CombiningRange& range) { return value < range.first; });
  if (it == std::begin(kCombiningRanges)) return 0;
  const CombiningRange& range = *std::prev(it);
  return c <= range.last ? range.combining_class : 0;
}

void Decompose(char32_t c, std::vector<char32_t>* out) {
  if (c >= kSBase && c < kSBase + kSCount) {
    const uint32_t s = c - kSBase;
    out->push_back(kLBase + s / (kVCount * kTCount));
    out->push_back(kVBase + s % (kVCount * kTCount) / kTCount);
    if (s % kTCount != 0) out->push_back(kTBase + s % kTCount);
    return;
  }
  const auto it = std::lower_bound(
      std::begin(kDecompositions), std::end(kDecompositions), c,
      [](const Decomposition& entry, char32_t value) { return entry.composed < value; });
  if (it == std::end(kDecompositions) || it->composed != c) {
    out->push_back(c);
    return;
  }
  Decompose(it->first, out);
  if (it->second != 0) Decompose(it->second, out);
}

// The primary composite of a pair, or 0.
char32_t Compose(char32_t first, char32_t second) {
  if (first >= kLBase && first < kLBase + kLCount && second >= kVBase &&
      second < kVBase + kVCount) {
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  }
  if (first >= kSBase && first < kSBase + kSCount && (first - kSBase) % kTCount == 0 &&
      second > kTBase && second < kTBase + kTCount) {
    return first + (second - kTBase);
  }
  static const auto* const pairs = [] {
    auto* out = new std::unordered_map<uint64_t, char32_t>();
    for (const Decomposition& entry : kDecompositions) {
      if (entry.composes) {
        (*out)[(static_cast<uint64_t>(entry.first) << 32) | entry.second] = entry.composed;
      }
    }
    return out;
  }();
  const auto it = pairs->find((static_cast<uint64_t>(first) << 32) | second);
  return it == pairs->end() ? 0 : it->second;
}

// Sorts each run of characters with a combining class other than 0, stably.
void OrderCanonically(std::vector<char32_t>* text) {
  auto it = text->begin();
  while (it != text->end()) {
    if (CombiningClass(*it) == 0) {
      ++it;
      continue;
    }
    auto end = it;
    while (end != text->end() && CombiningClass(*end) != 0) ++end;
    std::stable_sort(it, end,
                     [](char32_t a, char32_t b) { return CombiningClass(a) < CombiningClass(b); });
    it = end;
  }
}

void ComposeCanonically(std::vector<char32_t>* text) {
  std::vector<char32_t>& t = *text;
  size_t size = 0;     // of the composed text so far
  size_t starter = 0;  // index of the last starter in it
  bool has_starter = false;
  int last_class = -1;  // of the character kept last after the starter; -1: none
  for (size_t i = 0; i < t.size(); ++i) {
    const char32_t c = t[i];
    const int combining_class = CombiningClass(c);
    if (has_starter && last_class < combining_class) {  // not blocked
      if (const char32_t composed = Compose(t[starter], c)) {
        t[starter] = composed;
        continue;
      }
    }
    if (combining_class == 0) {
      starter = size;
      has_starter = true;
      last_class = -1;
    } else {
      last_class = combining_class;
    }
    t[size++] = c;
  }
  t.resize(size);
}

}  // namespace

std::string NormalizeNfc(absl::string_view text) {
  // Characters below U+0300 are starters that compose with nothing before them; their first UTF-8
  // byte is below CC.
  const bool simple = std::all_of(text.begin(), text.end(),
                                  [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
  if (simple) return std::string(text);
  std::vector<char32_t> characters;
  while (!text.empty()) {
    const Utf8Char next = ReadUtf8(text);
    Decompose(next.code_point, &characters);
    text.remove_prefix(next.length);
  }
  OrderCanonically(&characters);
  ComposeCanonically(&characters);
  std::string out;
  for (const char32_t c : characters) AppendUtf8(c, &out);
  return out;
}

}  // namespace baton::engine
