// The nodes of one suffix tree and the edges that leave them. Private to the tree cache.
#ifndef BATON_WORKERS_ROLLOUT_TREE_CACHE_NODE_STORE_H_
#define BATON_WORKERS_ROLLOUT_TREE_CACHE_NODE_STORE_H_

#include <array>
#include <cstdint>

#include "workers/rollout/tree_cache/arena.h"

namespace baton::rollout {

/// The target of an edge: an inner node, or a leaf. A leaf is only the position in the text of the
/// edge's first token.
class Target {
 public:
  Target() = default;
  static Target Node(uint32_t node) { return Target(node); }
  static Target Leaf(uint32_t position) { return Target(position | kLeaf); }

  bool is_leaf() const { return (value_ & kLeaf) != 0; }
  uint32_t node() const { return value_; }
  uint32_t position() const { return value_ & ~kLeaf; }
  bool operator==(Target other) const { return value_ == other.value_; }

 private:
  static constexpr uint32_t kLeaf = 1U << 31;

  explicit Target(uint32_t value) : value_(value) {}

  uint32_t value_;
};

/// 12 bytes. `weight` counts the suffixes that pass the edge's first token; of an edge from the
/// root to an inner node it has no meaning.
struct Edge {
  int32_t token;  // the first of the edge's tokens; kNoToken: a free place of a hash table
  Target to;
  float weight;
};

/// One cache line, most nodes' edges included. The tokens of the edge that leads here begin at
/// `label` in the text; there are depth - (parent's depth) of them.
struct alignas(64) Node {
  uint32_t parent;
  uint32_t link;  // the node of this node's string without its first token, or kNoNode: not known
  uint32_t label;
  int32_t token;  // the first of the label
  uint32_t edge_count;
  uint16_t depth;  // tokens from the root to here
  uint16_t size_class;
  uint32_t block;  // of the edges, unless they are in `inner`
  std::array<Edge, 3> inner;
};
static_assert(sizeof(Edge) == 12 && sizeof(Node) == 64);

/// Owns nodes and edges. Up to kSortedEdges edges of a node are sorted, the heaviest first and the
/// smaller token first among equals; more are a hash table by token. Node 0 is the root, and always
/// has a hash table. References to nodes and edges hold until AddNode or AddEdge. One thread at a
/// time.
class NodeStore {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNoNode = ~0U;
  static constexpr uint32_t kSortedEdges = 12;
  /// No weight is less: that of what has faded for ever. So a sum of weights is never 0.
  static constexpr float kLeastWeight = 1e-30F;

  NodeStore();

  /// A node without edges and without a link.
  uint32_t AddNode(uint32_t parent, uint32_t label, int32_t token, int depth);
  void AddEdge(uint32_t node, const Edge& edge);

  Node& node(uint32_t index) { return nodes_[index]; }
  const Node& node(uint32_t index) const { return nodes_[index]; }
  int depth(uint32_t index) const { return nodes_[index].depth; }

  /// The edge whose first token is `token`; nullptr: there is none.
  Edge* Find(uint32_t node, int32_t token);
  const Edge* Find(uint32_t node, int32_t token) const {
    return const_cast<NodeStore*>(this)->Find(node, token);
  }
  /// The edge of `parent` that leads to `child`, which is one of its nodes.
  Edge* FindChild(uint32_t parent, uint32_t child);
  /// Adds to the weight of an edge of `node`, or takes from it. The edge may change its place.
  void AddWeight(uint32_t node, Edge* edge, float weight);
  /// The weight of all edges of `node`.
  float TotalWeight(uint32_t node) const;
  /// Multiplies every weight.
  void Scale(float factor);

  /// The places of the edges of a node; with a hash table some of them are free (token kNoToken).
  const Edge* begin(const Node& node) const {
    return const_cast<NodeStore*>(this)->edges(const_cast<Node&>(node));
  }
  const Edge* end(const Node& node) const {
    return begin(node) + (hashed(node) ? capacity(node.size_class) : node.edge_count);
  }
  bool hashed(const Node& node) const { return node.size_class >= kFirstHashed; }
  void Prefetch(uint32_t node) const { __builtin_prefetch(&nodes_[node]); }
  /// Prefetches the root's edge.
  void PrefetchEdge(int32_t token) const {
    __builtin_prefetch(&edges_[root_block_ + Home(token, root_places_)]);
  }

  uint32_t node_count() const { return nodes_.size(); }
  int64_t capacity_bytes() const { return nodes_.capacity_bytes() + edges_.capacity_bytes(); }

 private:
  // Size classes: 3 edges within the node, 6, 12, and hash tables of 32, 64, ... places.
  static constexpr uint16_t kInner = 0;
  static constexpr uint16_t kFirstHashed = 3;
  static constexpr int kClasses = 30;

  static uint32_t capacity(uint16_t size_class) {
    return size_class < kFirstHashed ? 3U << size_class : 32U << (size_class - kFirstHashed);
  }
  static uint32_t Home(int32_t token, uint32_t places) {
    return (static_cast<uint32_t>(token) * 0x9E3779B1U >> 7) & (places - 1);
  }

  Edge* edges(Node& node) {
    return node.size_class == kInner ? node.inner.data() : &edges_[node.block];
  }
  bool Full(const Node& node) const;
  void Enlarge(uint32_t node);
  uint32_t NewBlock(uint16_t size_class);
  void FreeBlock(uint32_t block, uint16_t size_class);
  static void Settle(Edge* edges, uint32_t count, uint32_t index);

  Arena<Node> nodes_;
  Arena<Edge> edges_;
  uint32_t root_block_ = 0, root_places_ = 0;   // as the root itself says
  std::array<uint32_t, kClasses> free_blocks_;  // by size class; each names the next in its token
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_TREE_CACHE_NODE_STORE_H_
