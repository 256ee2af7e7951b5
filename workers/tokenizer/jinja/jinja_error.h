// Errors of the Jinja renderer. Internal to it.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_ERROR_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_ERROR_H_

#include <string>

namespace baton::tokenizer::jinja {

/// Thrown inside the renderer; caught at its edge. `line` 0: the innermost node adds its own.
struct Error {
  enum class Kind {
    kSyntax,       ///< The template is not well-formed.
    kUnsupported,  ///< Jinja that this renderer does not have.
    kType,         ///< An operation on a value that does not have it.
    kRefused,      ///< The template's own raise_exception.
    kLimit,        ///< Too many steps, too deep, too long.
  };
  Kind kind = Kind::kType;
  std::string message;
  int line = 0;
};

/// Throws an error of kind kType.
[[noreturn]] inline void Refuse(const std::string& message) {
  throw Error{Error::Kind::kType, message};
}

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_ERROR_H_
