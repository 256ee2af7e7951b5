// Choice of the file that the next prompt comes from. Each file gets a share of the prompt indices
// that is proportional to its weight.
//
// The files are the leaves of a Huffman tree. Each inner node divides its turns between its two
// children: of its first k turns the left child gets k · (weight of the left) / (weight of both),
// rounded. So a turn is found from its number alone, in one step for each level of the tree, and
// nothing is remembered.
//
// The number of a file's turns among the first k is less than 2 away from its exact share, and less
// than 1 where there are up to three files: each node rounds by 1/2 at most, and its children get
// only their shares of that error. Heavy files are near the root, so few roundings affect them.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_FILE_TURNS_H_
#define BATON_CONTROLLER_CORE_PROMPTS_FILE_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::controller {

class FileTurns {
 public:
  struct Turn {
    size_t file = 0;   ///< Index of its weight.
    uint64_t nth = 0;  ///< Turns of this file before it.
  };

  /// One weight for each file, at least one, each in [0.001, 1000]; they count in millionths.
  explicit FileTurns(const std::vector<double>& weights);

  /// Turn number `turn`, from 0.
  Turn At(uint64_t turn) const;
  /// The number of turns that each file has among the first `turns`.
  std::vector<uint64_t> Among(uint64_t turns) const;

 private:
  struct Node {
    uint64_t weight = 0;  // in millionths
    size_t left = 0, right = 0;
  };
  /// Turns of the left child among the first `turns` of the node.
  uint64_t OfLeft(const Node& node, uint64_t turns) const;

  size_t files_ = 0;
  std::vector<Node> nodes_;  // the files, then what joins two earlier ones; the last is the root
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_FILE_TURNS_H_
