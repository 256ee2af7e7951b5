#include "workers/tokenizer/templates/jinja_scopes.h"

#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace baton::tokenizer::jinja {
namespace {

/// What a scope does with a name, as far as its statements have been read.
struct NameState {
  /// Whether the scope has the name: it reads or sets it, and no scope around it had it before.
  bool is_here = false;
  /// Of a name that is here: undefined at first, instead of coming from outside.
  bool is_own = false;
  bool is_set = false;  ///< An assignment was read.
  int branch = 0;  ///< How many branches of `if` are around the statement that changed it last.
};

/// A name by its number, and what it is to a scope.
using Change = std::pair<size_t, NameState>;
using Changes = std::vector<Change>;

/// The names of the scope that is read at the moment, and which names the scopes around it have.
/// Each name of a scope costs a fixed time, and the same once more for each `if` around it: a
/// template of a MiB is read in some tenths of a second, however it is nested.
class ScopeNames {
 public:
  void Read(const std::string& name) {
    const size_t id = NumberOf(name);
    if (states_[id].is_here || outside_[id] > 0) return;
    NameState* const state = ChangeOf(id);
    state->is_here = true;
  }
  void Set(const std::string& name) {
    const size_t id = NumberOf(name);
    if (states_[id].is_set) return;
    NameState* const state = ChangeOf(id);
    if (!state->is_here) state->is_own = outside_[id] == 0;
    state->is_here = state->is_set = true;
  }
  /// Of a name that has a value from the beginning.
  void Declare(const std::string& name) {
    NameState* const state = ChangeOf(NumberOf(name));
    state->is_here = state->is_set = true;
    state->is_own = false;
  }

  /// The changes since `begin`, of a branch, are undone at its end.
  size_t BeginBranch() {
    ++branch_;
    return before_.size();
  }
  Changes EndBranch(size_t begin) {
    --branch_;
    return Undo(begin);
  }
  /// Takes over what the branches of an `if` did; what not all of them set comes from outside.
  void Merge(const std::array<Changes, 3>& branches) {
    for (const Changes& branch : branches) {
      for (const auto& [id, state] : branch) {
        if (state.is_set && !states_[id].is_set) ++times_set_[id];
      }
    }
    for (const Changes& branch : branches) {
      for (const auto& [id, state] : branch) {
        NameState* const merged = ChangeOf(id);
        merged->is_here = true;
        merged->is_own = state.is_own;
        merged->is_set = merged->is_set || state.is_set;
      }
    }
    for (const Changes& branch : branches) {
      for (const auto& [id, state] : branch) {
        const size_t times = std::exchange(times_set_[id], 0);
        if (times > 0 && times < branches.size()) states_[id].is_own = false;
      }
    }
  }

  /// Ends the reading of the scope: what it did with its names.
  Changes Take() { return Undo(0); }
  /// Goes into the scopes inside of it (`by` is 1), and out of them (-1).
  void CountOutside(const Changes& names, int by) {
    for (const auto& [id, state] : names) outside_[id] += by;
  }
  const std::string& NameOf(size_t id) const { return *names_[id]; }

 private:
  size_t NumberOf(const std::string& name) {
    const auto [entry, is_new] = numbers_.emplace(name, names_.size());
    if (is_new) {
      names_.push_back(&entry->first);
      states_.emplace_back();
      outside_.push_back(0);
      times_set_.push_back(0);
    }
    return entry->second;
  }
  /// Undoes the changes since `begin`; returns them.
  Changes Undo(size_t begin) {
    Changes changes;
    changes.reserve(before_.size() - begin);
    for (size_t i = begin; i < before_.size(); ++i) {
      const size_t id = before_[i].first;
      changes.emplace_back(id, std::exchange(states_[id], before_[i].second));
    }
    before_.resize(begin);
    return changes;
  }
  /// The state of a name, to be changed: what it was before this branch is kept.
  NameState* ChangeOf(size_t id) {
    NameState* const state = &states_[id];
    if (state->branch < branch_) {
      before_.emplace_back(id, *state);
      state->branch = branch_;
    }
    return state;
  }

  std::unordered_map<std::string, size_t> numbers_;
  // By the number of a name:
  std::vector<const std::string*> names_;
  std::vector<NameState> states_;
  std::vector<int> outside_;       ///< How many scopes around this one have it.
  std::vector<size_t> times_set_;  ///< For Merge; 0 outside of it.

  /// The states before they were changed, once for each branch that changed them.
  Changes before_;
  int branch_ = 1;  ///< 1 and the number of branches around the statement that is read.
};

void Read(const ExpressionPtr& expression, ScopeNames* names) {
  if (expression == nullptr) return;
  if (expression->kind == Expression::Kind::kName) names->Read(expression->text);
  for (const ExpressionPtr& operand : expression->operands) Read(operand, names);
  for (const ExpressionPtr& argument : expression->arguments.positional) Read(argument, names);
  for (const auto& [name, argument] : expression->arguments.named) Read(argument, names);
  Read(expression->arguments.spread, names);
  Read(expression->arguments.spread_named, names);
}

void Set(const Target& target, ScopeNames* names) {
  if (!target.attribute.empty()) return names->Read(target.name);
  if (!target.is_tuple) return names->Set(target.name);
  for (const Target& part : target.parts) Set(part, names);
}

void Declare(const Target& target, ScopeNames* names) {
  if (!target.is_tuple) return names->Declare(target.name);
  for (const Target& part : target.parts) Declare(part, names);
}

class Finder {
 public:
  /// A scope; `names_` has its parameters already.
  void Scope(const Statements& statements) {
    Visit(statements);
    Finish(statements);
  }
  HiddenNames Take() { return std::move(hidden_); }

 private:
  void Finish(const Statements& statements) {
    const Changes names = names_.Take();
    std::vector<std::string> own;
    for (const auto& [id, state] : names) {
      if (state.is_own) own.push_back(names_.NameOf(id));
    }
    if (!own.empty()) hidden_[&statements] = std::move(own);
    names_.CountOutside(names, 1);
    Inside(statements);
    names_.CountOutside(names, -1);
  }

  /// What the statements of a scope read and set in it, in order.
  void Visit(const Statements& statements) {
    for (const auto& statement : statements) VisitOne(*statement);
  }

  void VisitOne(const Statement& statement) {
    switch (statement.kind) {
      case Statement::Kind::kIf:
        return VisitIf(statement);
      case Statement::Kind::kSet:
        Read(statement.expression, &names_);
        return Set(statement.target, &names_);
      case Statement::Kind::kSetBlock:
        return Set(statement.target, &names_);
      case Statement::Kind::kMacro:
        return names_.Set(statement.text);
      case Statement::Kind::kWith:
        for (const ExpressionPtr& value : statement.values) Read(value, &names_);
        return;
      default:  // Of a for, a call and a filter what stands in the tag.
        return Read(statement.expression, &names_);
    }
  }

  template <class Action>
  Changes Branch(const Action& action) {
    const size_t begin = names_.BeginBranch();
    action();
    return names_.EndBranch(begin);
  }

  /// To jinja2 an elif is an if without else, in one branch with the other elifs.
  void VisitIf(const Statement& statement) {
    Read(statement.branches[0].first, &names_);
    Changes body = Branch([&] { Visit(statement.branches[0].second); });
    Changes elifs = Branch([&] {
      for (size_t i = 1; i < statement.branches.size(); ++i) {
        Read(statement.branches[i].first, &names_);
        names_.Merge({Branch([&] { Visit(statement.branches[i].second); })});
      }
    });
    Changes otherwise = Branch([&] { Visit(statement.otherwise); });
    names_.Merge({std::move(body), std::move(elifs), std::move(otherwise)});
  }

  /// The scopes inside of a scope.
  void Inside(const Statements& statements) {
    for (const auto& statement : statements) {
      for (const auto& [condition, body] : statement->branches) Inside(body);
      if (statement->kind == Statement::Kind::kIf) {
        Inside(statement->otherwise);
      } else if (!statement->body.empty() || !statement->otherwise.empty()) {
        Body(*statement);
      }
    }
  }

  void Body(const Statement& statement) {
    if (statement.kind == Statement::Kind::kFor) {
      Scope(statement.otherwise);
      if (statement.is_recursive || statement.reads_loop) names_.Declare("loop");
      Declare(statement.target, &names_);
    }
    for (const Target& name : statement.names) Declare(name, &names_);
    for (const Parameter& parameter : statement.parameters) names_.Declare(parameter.name);
    for (const Parameter& parameter : statement.parameters) Read(parameter.fallback, &names_);
    if (statement.reads_caller) names_.Declare("caller");
    if (statement.reads_kwargs) names_.Declare("kwargs");
    if (statement.reads_varargs) names_.Declare("varargs");
    Visit(statement.body);
    if (statement.kind == Statement::Kind::kFilter) Read(statement.expression, &names_);
    Finish(statement.body);
  }

  ScopeNames names_;
  HiddenNames hidden_;
};

}  // namespace

HiddenNames FindHiddenNames(const Statements& statements) {
  Finder finder;
  finder.Scope(statements);
  return finder.Take();
}

}  // namespace baton::tokenizer::jinja
