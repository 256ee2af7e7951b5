#include "workers/rollout/tree_cache/node_store.h"

#include <algorithm>
#include <utility>

#include "workers/rollout/tree_cache/token_text.h"

namespace baton::rollout {
namespace {

bool Before(const Edge& a, const Edge& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

void Place(Edge* edges, uint32_t places, uint32_t at, const Edge& edge) {
  while (edges[at].token != kNoToken) at = (at + 1) & (places - 1);
  edges[at] = edge;
}

}  // namespace

NodeStore::NodeStore() {
  free_blocks_.fill(kNoNode);
  const uint32_t root = AddNode(kRoot, 0, kNoToken, 0);
  const uint32_t block = NewBlock(kFirstHashed);
  nodes_[root].size_class = kFirstHashed;
  nodes_[root].block = root_block_ = block;
  root_places_ = capacity(kFirstHashed);
}

uint32_t NodeStore::AddNode(uint32_t parent, uint32_t label, int32_t token, int depth) {
  const uint32_t index = nodes_.Extend(1);
  Node& node = nodes_[index];
  node.parent = parent;
  node.link = kNoNode;
  node.label = label;
  node.token = token;
  node.edge_count = 0;
  node.depth = static_cast<uint16_t>(depth);
  node.size_class = kInner;
  return index;
}

bool NodeStore::Full(const Node& node) const {
  const uint32_t places = capacity(node.size_class);
  return hashed(node) ? node.edge_count >= places / 4 * 3 : node.edge_count == places;
}

void NodeStore::AddEdge(uint32_t index, const Edge& edge) {
  if (Full(nodes_[index])) Enlarge(index);
  Node& node = nodes_[index];
  Edge* const places = edges(node);
  if (hashed(node)) {
    const uint32_t count = capacity(node.size_class);
    Place(places, count, Home(edge.token, count), edge);
    ++node.edge_count;
    return;
  }
  places[node.edge_count++] = edge;
  Settle(places, node.edge_count, node.edge_count - 1);
}

void NodeStore::Enlarge(uint32_t index) {
  const uint16_t from = nodes_[index].size_class;
  const auto to = static_cast<uint16_t>(from + 1);
  const uint32_t block = NewBlock(to);
  Node& node = nodes_[index];
  const Edge* const old_edges = edges(node);
  Edge* const new_edges = &edges_[block];
  const uint32_t old_places = hashed(node) ? capacity(from) : node.edge_count;
  const uint32_t places = capacity(to);
  for (uint32_t i = 0; i < old_places; ++i) {
    if (to < kFirstHashed) {
      new_edges[i] = old_edges[i];
    } else if (old_edges[i].token != kNoToken) {
      Place(new_edges, places, Home(old_edges[i].token, places), old_edges[i]);
    }
  }
  if (from != kInner) FreeBlock(node.block, from);
  node.block = block;
  node.size_class = to;
  if (index == kRoot) {
    root_block_ = block;
    root_places_ = places;
  }
}

uint32_t NodeStore::NewBlock(uint16_t size_class) {
  uint32_t& free_block = free_blocks_[size_class];
  uint32_t block = free_block;
  const uint32_t places = capacity(size_class);
  if (block != kNoNode) {
    free_block = static_cast<uint32_t>(edges_[block].token);
  } else {
    block = edges_.Extend(places);
  }
  if (size_class >= kFirstHashed) {
    std::fill_n(&edges_[block], places, Edge{kNoToken, Target::Node(kNoNode), 0});
  }
  return block;
}

void NodeStore::FreeBlock(uint32_t block, uint16_t size_class) {
  edges_[block].token = static_cast<int32_t>(free_blocks_[size_class]);
  free_blocks_[size_class] = block;
}

Edge* NodeStore::Find(uint32_t index, int32_t token) {
  Node& node = nodes_[index];
  Edge* const places = edges(node);
  if (!hashed(node)) {
    for (uint32_t i = 0; i < node.edge_count; ++i) {
      if (places[i].token == token) return &places[i];
    }
    return nullptr;
  }
  const uint32_t count = capacity(node.size_class);
  for (uint32_t at = Home(token, count);; at = (at + 1) & (count - 1)) {
    if (places[at].token == token) return &places[at];
    if (places[at].token == kNoToken) return nullptr;
  }
}

Edge* NodeStore::FindChild(uint32_t parent, uint32_t child) {
  Node& node = nodes_[parent];
  if (hashed(node)) return Find(parent, nodes_[child].token);
  Edge* edge = edges(node);
  while (!(edge->to == Target::Node(child))) ++edge;
  return edge;
}

void NodeStore::AddWeight(uint32_t index, Edge* edge, float weight) {
  edge->weight = std::max(edge->weight + weight, kLeastWeight);
  Node& node = nodes_[index];
  if (hashed(node)) return;
  Edge* const places = edges(node);
  Settle(places, node.edge_count, static_cast<uint32_t>(edge - places));
}

void NodeStore::Settle(Edge* edges, uint32_t count, uint32_t index) {
  for (; index > 0 && Before(edges[index], edges[index - 1]); --index) {
    std::swap(edges[index], edges[index - 1]);
  }
  for (; index + 1 < count && Before(edges[index + 1], edges[index]); ++index) {
    std::swap(edges[index], edges[index + 1]);
  }
}

float NodeStore::TotalWeight(uint32_t index) const {
  const Node& node = nodes_[index];
  float total = 0;
  for (const Edge* edge = begin(node); edge != end(node); ++edge) {
    if (edge->token != kNoToken) total += edge->weight;
  }
  return total;
}

void NodeStore::Scale(float factor) {
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    Edge* const first = edges(node);
    for (Edge* edge = first; edge != end(node); ++edge) {
      edge->weight = std::max(edge->weight * factor, kLeastWeight);
    }
    // The floor may have made equals of some.
    for (uint32_t k = 1; !hashed(node) && k < node.edge_count; ++k) Settle(first, k + 1, k);
  }
}

}  // namespace baton::rollout
