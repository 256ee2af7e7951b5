#include "workers/tokenizer/tokens/unigram.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "sdk/common/base/utf8.h"

namespace baton::tokenizer {
namespace {

constexpr double kUnkPenalty = 10;
constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

}  // namespace

struct Unigram::Node {
  double score = 0;
  size_t begin = kNowhere;  // of the last token on the way; kNowhere: no way yet
  int32_t id = 0;           // of that token

  void Offer(double other_score, size_t other_begin, int32_t other_id) {
    if (begin != kNowhere && !(other_score > score)) return;
    score = other_score;
    begin = other_begin;
    id = other_id;
  }
};

Unigram::Unigram(const Pieces& pieces, UnigramOptions options) : options_(std::move(options)) {
  double lowest = std::numeric_limits<double>::infinity();
  PrefixTable::Entries entries;
  for (const auto& [text, score] : pieces) {
    lowest = std::min(lowest, score);
    const auto id = static_cast<int32_t>(scores_.size());
    scores_.push_back(score);
    const bool hidden = options_.never_found.count(id) > 0 && ReadUtf8(text).length < text.size();
    if (!hidden) entries.emplace_back(text, id);
  }
  unk_score_ = lowest - kUnkPenalty;
  std::reverse(entries.begin(), entries.end());  // of several tokens of one text the last is found
  tokens_ = PrefixTable(std::move(entries));
  for (int byte = 0; byte < 256; ++byte) {
    byte_id_[byte] = tokens_.Find(absl::StrFormat("<0x%02X>", byte)).value_or(-1);
  }
}

bool Unigram::OfferTokens(absl::string_view rest, size_t at, size_t character_length,
                          std::vector<Node>* nodes) const {
  const double score = (*nodes)[at].score;
  bool covers_character = false;
  tokens_.VisitPrefixes(rest, [&](size_t length, int32_t id) {
    (*nodes)[at + length].Offer(scores_[id] + score, at, id);
    covers_character |= length == character_length;
  });
  return covers_character;
}

void Unigram::AppendUnknown(absl::string_view text, std::vector<int32_t>* ids) const {
  // The run as a whole may be a token, one too improbable to be on the path.
  if (const auto id = tokens_.Find(text)) {
    ids->push_back(*id);
    return;
  }
  const auto byte_id = [this](char c) { return byte_id_[static_cast<unsigned char>(c)]; };
  if (options_.byte_fallback &&
      std::all_of(text.begin(), text.end(), [&](char c) { return byte_id(c) >= 0; })) {
    for (const char c : text) ids->push_back(byte_id(c));
    return;
  }
  ids->push_back(*options_.unk_id);
}

std::optional<size_t> Unigram::Encode(absl::string_view word, std::vector<int32_t>* ids) const {
  std::vector<Node> nodes(word.size() + 1);
  for (size_t at = 0; at < word.size();) {
    const absl::string_view rest = word.substr(at);
    const size_t length = ReadUtf8(rest).length;
    if (!OfferTokens(rest, at, length, &nodes)) {
      if (!options_.unk_id.has_value()) return at;
      nodes[at + length].Offer(unk_score_ + nodes[at].score, at, *options_.unk_id);
    }
    at += length;
  }
  std::vector<std::pair<size_t, int32_t>> path;  // begin of each token, from the last
  for (size_t end = word.size(); end > 0; end = path.back().first) {
    path.emplace_back(nodes[end].begin, nodes[end].id);
  }
  std::reverse(path.begin(), path.end());
  for (size_t i = 0; i < path.size();) {
    const auto [begin, id] = path[i++];
    if (options_.unk_id != id) {
      ids->push_back(id);
      continue;
    }
    while (i < path.size() && path[i].second == id) ++i;
    const size_t end = i < path.size() ? path[i].first : word.size();
    AppendUnknown(word.substr(begin, end - begin), ids);
  }
  return std::nullopt;
}

}  // namespace baton::tokenizer
