#include "workers/tokenizer/tokens/prefix_table.h"

#include <algorithm>

namespace baton::tokenizer {

PrefixTable::PrefixTable(Entries entries) : entries_(std::move(entries)) {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  entries_.erase(std::unique(entries_.begin(), entries_.end(),
                             [](const auto& a, const auto& b) { return a.first == b.first; }),
                 entries_.end());
  if (!entries_.empty() && entries_[0].first.empty()) entries_.erase(entries_.begin());
  for (size_t i = 0; i < entries_.size(); ++i) {
    auto& [begin, end] = first_[static_cast<unsigned char>(entries_[i].first[0])];
    if (end == 0) begin = i;
    end = i + 1;
  }
}

void PrefixTable::VisitPrefixes(absl::string_view text,
                                absl::FunctionRef<void(size_t length, int32_t value)> visit) const {
  if (text.empty()) return;
  const auto [first, last] = first_[static_cast<unsigned char>(text[0])];
  // [low, high): the entries that begin as `text` does for `length` bytes; the shortest is first.
  auto low = entries_.begin() + static_cast<std::ptrdiff_t>(first);
  auto high = entries_.begin() + static_cast<std::ptrdiff_t>(last);
  for (size_t length = 1; low != high; ++length) {
    if (low->first.size() == length) {
      visit(length, low->second);
      ++low;
    }
    if (length == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[length]);
    const auto byte_of = [length](const auto& entry) {
      return static_cast<unsigned char>(entry.first[length]);
    };
    low = std::partition_point(low, high, [&](const auto& e) { return byte_of(e) < byte; });
    high = std::partition_point(low, high, [&](const auto& e) { return byte_of(e) <= byte; });
  }
}

std::optional<std::pair<int32_t, size_t>> PrefixTable::FindLongest(absl::string_view text) const {
  std::optional<std::pair<int32_t, size_t>> longest;
  VisitPrefixes(text, [&](size_t length, int32_t value) { longest = {value, length}; });
  return longest;
}

std::optional<int32_t> PrefixTable::Find(absl::string_view text) const {
  const auto it =
      std::lower_bound(entries_.begin(), entries_.end(), text,
                       [](const auto& entry, absl::string_view b) { return entry.first < b; });
  if (it == entries_.end() || it->first != text) return std::nullopt;
  return it->second;
}

}  // namespace baton::tokenizer
