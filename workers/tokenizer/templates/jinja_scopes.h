// Which names a scope of a template hides from the beginning. Internal to the Jinja renderer.
//
// jinja2 compiles a template's scopes to Python's functions, so that a name which a scope only sets
// (before it reads it, and whatever its conditions say) is its own from the beginning: what is
// inside the scope and reads the name before it is set finds it undefined, though a variable of
// that name was given:
//   {% set tools %}{{ tools }}{% endset %}
// As jinja2/idtracking.py decides it.
#ifndef BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_SCOPES_H_
#define BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_SCOPES_H_

#include <map>
#include <string>
#include <vector>

#include "workers/tokenizer/templates/jinja_syntax.h"

namespace baton::tokenizer::jinja {

/// By the statements of a scope (the address of a body): the names that it hides. Those that hide
/// nothing are absent.
using HiddenNames = std::map<const Statements*, std::vector<std::string>>;

/// Of a template and all the scopes in it. `statements` must stay where they are.
HiddenNames FindHiddenNames(const Statements& statements);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_SCOPES_H_
