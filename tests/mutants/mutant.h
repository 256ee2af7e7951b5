// Mutants: deliberate bugs, by name, that prove that the tests notice them.
//
// A line such as `if (Mutant("bpe-stale-candidate")) return;` plants one beside the right code. The
// patches of this folder plant the mutants in a copy of the tree, and every source of that copy
// includes this header (-include, CMakeLists.txt). The shipped sources have no mutants. The
// environment variable BATON_MUTANT chooses one when the program starts. mutants.txt says which
// test must notice which mutant; `./dev mutants` runs them.
#ifndef BATON_TESTS_MUTANTS_MUTANT_H_
#define BATON_TESTS_MUTANTS_MUTANT_H_

#include <cstdlib>
#include <cstring>

namespace baton {

/// The name of the chosen mutant; null: none. Chosen before the first thread starts.
inline const char*& ChosenMutant() {
  static const char* chosen = std::getenv("BATON_MUTANT");
  return chosen;
}

inline bool Mutant(const char* name) {
  const char* const chosen = ChosenMutant();
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}

}  // namespace baton

#endif  // BATON_TESTS_MUTANTS_MUTANT_H_
