// Mutants: deliberate bugs, by name, that prove that the tests notice them.
//
// A line such as `if (Mutant("bpe-stale-candidate")) return;` plants one beside the right code. In
// a normal build `Mutant` is constantly false and the compiler removes the branch. In the build
// `mutants` (CMake option BATON_MUTANTS) the environment variable BATON_MUTANT chooses one of them
// when the program starts. tests/mutants/mutants.txt says which test must notice which mutant;
// `./dev mutants` runs them. `simulate_mutants` has core and runtime with their mutants in every
// build, and tries those that the simulated worlds must notice.
#ifndef BATON_SDK_COMMON_BASE_MUTANT_H_
#define BATON_SDK_COMMON_BASE_MUTANT_H_

#ifdef BATON_MUTANTS
#include <cstdlib>
#include <cstring>
#endif

namespace baton {

// The two have names of their own: the linker must never take one for the other.
#ifdef BATON_MUTANTS
inline namespace with_mutants {
/// The name of the chosen mutant; null: none. Chosen before the first thread starts.
inline const char*& ChosenMutant() {
  static const char* chosen = std::getenv("BATON_MUTANT");
  return chosen;
}
inline bool Mutant(const char* name) {
  const char* const chosen = ChosenMutant();
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}
}  // namespace with_mutants
#else
inline namespace without_mutants {
constexpr bool Mutant(const char*) { return false; }
}  // namespace without_mutants
#endif

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_MUTANT_H_
