#include "workers/rollout/tree_cache/suffix_tree.h"

#include <algorithm>

namespace baton::rollout {

bool SuffixTree::Append(GrowingText* text, int32_t token) {
  nodes_.Prefetch(text->node);
  nodes_.PrefetchEdge(token);
  const uint32_t position = Write(text, token);
  const uint32_t end = text->length - 1;  // of the tokens before this one
  uint32_t first = text->first, node = text->node;
  uint32_t split = NodeStore::kNoNode;  // was made for the suffix before, and needs a link
  bool known = false;
  while (true) {
    const uint32_t length = end - first;
    const Place place = Locate(*text, first, length, node);
    node = place.node;
    Edge* edge = place.edge;
    int32_t next = kNoToken;
    if (edge == nullptr) {
      SetLink(&split, node);
      if (length == 0 && token == kEndToken) break;  // An end alone is no string.
      edge = nodes_.Find(node, token);
      if (edge != nullptr) next = token;
    } else {
      next = text_.At(place.next);
    }
    if (next == token) {
      // The tree knows this suffix, and so all shorter ones: it is the match.
      known = first == text->first;
      if (length + 1 < depth_) break;
      AddWeight(node, edge, text->weight);  // As long as a string can be: recorded.
      node = FollowLink(node);
      ++first;
      break;
    }
    // The suffix is new with this token: recorded, and the next shorter one is looked at.
    if (edge == nullptr) {
      nodes_.AddEdge(node, {token, Target::Leaf(position), text->weight});
      AddWeight(node, nullptr, text->weight);
    } else if (next == kNoToken) {
      TakeOver(text, first, place);
    } else {
      const uint32_t made = Split(place, length);
      nodes_.AddEdge(made, {token, Target::Leaf(position), text->weight});
      AddWeight(made, nullptr, text->weight);
      SetLink(&split, made);
      split = made;
    }
    ++first;
    if (length == 0) break;
    node = FollowLink(node);
  }
  text->first = first;
  text->node = node;
  return known;
}

void SuffixTree::End(GrowingText* text) {
  // A shared token that nothing follows makes every suffix end at a leaf, where it can be counted.
  Append(text, kEndToken);
  uint32_t node = text->node;
  for (uint32_t first = text->first; first + 1 < text->length; ++first) {
    const Place place = Locate(*text, first, text->length - first, node);
    AddWeight(place.node, place.edge, text->weight);
    node = FollowLink(place.node);
  }
  growing_.erase(std::find(growing_.begin(), growing_.end(), text));
  ended_.push_back({text->first_page, text->length, text->weight});
  ended_tokens_ += text->length;
}

int64_t SuffixTree::growing_tokens() const {
  int64_t tokens = 0;
  for (const GrowingText* const text : growing_) tokens += text->length;
  return tokens;
}

uint32_t SuffixTree::Position(const GrowingText& text, uint32_t index) {
  return TokenText::Position(text.pages[index / TokenText::kPageTokens % text.pages.size()],
                             index % TokenText::kPageTokens);
}

uint32_t SuffixTree::Write(GrowingText* text, int32_t token) {
  const uint32_t index = text->length++;
  if (index % TokenText::kPageTokens == 0) {
    const uint32_t page = text_.AddPage();
    const uint32_t count = index / TokenText::kPageTokens;
    if (count > 0) text_.Chain(text->pages[(count - 1) % text->pages.size()], page);
    if (count == 0) text->first_page = page;
    text->pages[count % text->pages.size()] = page;
  }
  const uint32_t position = Position(*text, index);
  text_.Set(position, token);
  return position;
}

/// The place of the `length` tokens of `text` that begin at `first`. They are in the tree, and
/// `node` is on their path.
SuffixTree::Place SuffixTree::Locate(const GrowingText& text, uint32_t first, uint32_t length,
                                     uint32_t node) {
  auto at = static_cast<uint32_t>(nodes_.depth(node));
  while (at < length) {
    Edge* const edge = nodes_.Find(node, text_.At(Position(text, first + at)));
    const Target to = edge->to;
    if (to.is_leaf()) return {node, edge, text_.Advance(to.position(), length - at)};
    const Node& child = nodes_.node(to.node());
    if (child.depth > length) return {node, edge, text_.Advance(child.label, length - at)};
    node = to.node();
    at = child.depth;
  }
  return {node, nullptr, 0};
}

/// A node on the path of this node's string without its first token.
uint32_t SuffixTree::FollowLink(uint32_t node) const {
  while (node != NodeStore::kRoot && nodes_.node(node).link == NodeStore::kNoNode) {
    node = nodes_.node(node).parent;
  }
  return node == NodeStore::kRoot ? node : nodes_.node(node).link;
}

void SuffixTree::SetLink(uint32_t* from, uint32_t to) {
  if (*from != NodeStore::kNoNode) nodes_.node(*from).link = to;
  *from = NodeStore::kNoNode;
}

/// A node in the middle of an edge.
uint32_t SuffixTree::Split(const Place& place, uint32_t length) {
  const Edge edge = *place.edge;
  const uint32_t made =
      nodes_.AddNode(place.node, LabelOf(edge.to), edge.token, static_cast<int>(length));
  Edge rest{text_.At(place.next), edge.to, edge.weight};
  if (edge.to.is_leaf()) {
    rest.to = Target::Leaf(place.next);
  } else {
    Node& below = nodes_.node(edge.to.node());
    below.parent = made;
    below.label = place.next;
    below.token = rest.token;
    // The root does not count for its inner nodes.
    if (place.node == NodeStore::kRoot) rest.weight = nodes_.TotalWeight(edge.to.node());
  }
  nodes_.Find(place.node, edge.token)->to = Target::Node(made);  // The node made may move edges.
  nodes_.AddEdge(made, rest);
  return made;
}

/// One suffix more, or a part of one, goes by `edge` of `node` (null: it is counted there) and by
/// all edges above. The edges of the root are left out: no draft asks for them.
void SuffixTree::AddWeight(uint32_t node, Edge* edge, float weight) {
  if (edge != nullptr) nodes_.AddWeight(node, edge, weight);
  while (node != NodeStore::kRoot) {
    const uint32_t parent = nodes_.node(node).parent;
    if (parent == NodeStore::kRoot) return;
    nodes_.AddWeight(parent, nodes_.FindChild(parent, node), weight);
    node = parent;
  }
}

/// The match of `text` is a whole suffix of another growing text, up to where that ends now. `text`
/// goes on, so the leaf becomes its own. The other text's match begins no later than there.
void SuffixTree::TakeOver(GrowingText* text, uint32_t first, const Place& place) {
  GrowingText* const other = GrowingAt(place.next);
  const uint32_t length = text->length - 1 - first;
  const auto above = static_cast<uint32_t>(nodes_.depth(place.node));
  place.edge->to = Target::Leaf(Position(*text, first + above));
  if (other->weight != text->weight) {
    AddWeight(place.node, place.edge, text->weight - other->weight);
  }
  const uint32_t other_first = other->length - length;
  if (other_first < other->first) {
    other->first = other_first;
    other->node = place.node;
  }
}

/// The growing text that ends before the slot.
GrowingText* SuffixTree::GrowingAt(uint32_t slot) const {
  for (GrowingText* const text : growing_) {
    if (text->length == 0) continue;
    const uint32_t last = Position(*text, text->length - 1);
    if (last + 1 == slot) return text;
  }
  return nullptr;
}

double SuffixTree::Count(absl::Span<const int32_t> tokens) const {
  uint32_t node = NodeStore::kRoot;
  for (size_t at = 0;;) {
    const Edge* const edge = nodes_.Find(node, tokens[at]);
    if (edge == nullptr) return 0;
    const uint32_t label = LabelOf(edge->to);
    const size_t end = edge->to.is_leaf() ? depth_ : nodes_.node(edge->to.node()).depth;
    for (uint32_t k = 1; at + k < end && at + k < tokens.size(); ++k) {
      if (text_.At(text_.Advance(label, k)) != tokens[at + k]) return 0;
    }
    if (end >= tokens.size()) {
      if (node != NodeStore::kRoot) return edge->weight;
      if (tokens.size() == 1) return 1;
      return edge->to.is_leaf() ? edge->weight : nodes_.TotalWeight(edge->to.node());
    }
    if (edge->to.is_leaf()) return 0;
    node = edge->to.node();
    at = end;
  }
}

void SuffixTree::Scale(float factor) {
  nodes_.Scale(factor);
  for (GrowingText* const text : growing_) {
    text->weight = std::max(text->weight * factor, NodeStore::kLeastWeight);
  }
  for (EndedText& text : ended_) {
    text.weight = std::max(text.weight * factor, NodeStore::kLeastWeight);
  }
}

}  // namespace baton::rollout
