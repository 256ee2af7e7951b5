#include "workers/tokenizer/templates/jinja_scopes.h"

#include <set>
#include <utility>

namespace baton::tokenizer::jinja {
namespace {

/// How a scope comes by a name: from outside of it, or it has it by itself, undefined at first.
enum class Source { kOutside, kOwn };

/// The names of one scope, or what a branch of an `if` adds to them.
class Names {
 public:
  /// `parent`: the scope around it; may be null.
  explicit Names(const Names* parent) : parent_(parent) {}
  static Names BranchOf(const Names& names) {
    Names branch(names.parent_);
    branch.trunk_ = &names;
    return branch;
  }

  bool Knows(const std::string& name) const {
    return IsHere(name) || (parent_ != nullptr && parent_->Knows(name));
  }
  void Read(const std::string& name) {
    if (!Knows(name)) sources_[name] = Source::kOutside;
  }
  void Set(const std::string& name) {
    set_.insert(name);
    if (IsHere(name)) return;
    const bool outside = parent_ != nullptr && parent_->Knows(name);
    sources_[name] = outside ? Source::kOutside : Source::kOwn;
  }
  void Declare(const std::string& name) {
    set_.insert(name);
    sources_[name] = Source::kOutside;  // has a value from the beginning
  }
  /// Takes over what the branches of an `if` do; what not all of them set comes from outside.
  void Merge(const std::vector<Names>& branches) {
    std::map<std::string, size_t> times;
    for (const Names& branch : branches) {
      for (const std::string& name : branch.set_) {
        if (!IsSet(name)) ++times[name];
      }
    }
    for (const Names& branch : branches) {
      for (const auto& [name, source] : branch.sources_) sources_[name] = source;
      set_.insert(branch.set_.begin(), branch.set_.end());
    }
    for (const auto& [name, count] : times) {
      if (count < branches.size()) sources_[name] = Source::kOutside;
    }
  }
  std::vector<std::string> Own() const {
    std::vector<std::string> own;
    for (const auto& [name, source] : sources_) {
      if (source == Source::kOwn) own.push_back(name);
    }
    return own;
  }

 private:
  bool IsHere(const std::string& name) const {
    return sources_.count(name) > 0 || (trunk_ != nullptr && trunk_->IsHere(name));
  }
  bool IsSet(const std::string& name) const {
    return set_.count(name) > 0 || (trunk_ != nullptr && trunk_->IsSet(name));
  }

  const Names* parent_;
  const Names* trunk_ = nullptr;  ///< Of a branch: the names that it adds to.
  std::map<std::string, Source> sources_;
  std::set<std::string> set_;
};

void Read(const ExpressionPtr& expression, Names* names) {
  if (expression == nullptr) return;
  if (expression->kind == Expression::Kind::kName) names->Read(expression->text);
  for (const ExpressionPtr& operand : expression->operands) Read(operand, names);
  for (const ExpressionPtr& argument : expression->arguments.positional) Read(argument, names);
  for (const auto& [name, argument] : expression->arguments.named) Read(argument, names);
  Read(expression->arguments.spread, names);
  Read(expression->arguments.spread_named, names);
}

void Set(const Target& target, Names* names) {
  if (!target.attribute.empty()) return names->Read(target.name);
  if (!target.is_tuple) return names->Set(target.name);
  for (const Target& part : target.parts) Set(part, names);
}

void Declare(const Target& target, Names* names) {
  if (!target.is_tuple) return names->Declare(target.name);
  for (const Target& part : target.parts) Declare(part, names);
}

class Finder {
 public:
  /// A scope whose parameters `names` has already.
  void Scope(const Statements& statements, Names names) {
    Visit(statements, &names);
    Finish(statements, names);
  }
  HiddenNames Take() { return std::move(hidden_); }

 private:
  void Finish(const Statements& statements, const Names& names) {
    std::vector<std::string> own = names.Own();
    if (!own.empty()) hidden_[&statements] = std::move(own);
    Inside(statements, names);
  }

  /// What the statements of a scope read and set in it, in order.
  void Visit(const Statements& statements, Names* names) {
    for (const auto& statement : statements) VisitOne(*statement, names);
  }

  void VisitOne(const Statement& statement, Names* names) {
    switch (statement.kind) {
      case Statement::Kind::kIf:
        return VisitIf(statement, names);
      case Statement::Kind::kSet:
        Read(statement.expression, names);
        return Set(statement.target, names);
      case Statement::Kind::kSetBlock:
        return Set(statement.target, names);
      case Statement::Kind::kMacro:
        return names->Set(statement.text);
      case Statement::Kind::kWith:
        for (const ExpressionPtr& value : statement.values) Read(value, names);
        return;
      default:  // Of a for, a call and a filter what stands in the tag.
        return Read(statement.expression, names);
    }
  }

  /// To jinja2 an elif is an if without else, in one branch with the other elifs.
  void VisitIf(const Statement& statement, Names* names) {
    Read(statement.branches[0].first, names);
    std::vector<Names> branches(3, Names::BranchOf(*names));
    Visit(statement.branches[0].second, &branches[0]);
    for (size_t i = 1; i < statement.branches.size(); ++i) {
      Read(statement.branches[i].first, &branches[1]);
      std::vector<Names> inner(3, Names::BranchOf(branches[1]));
      Visit(statement.branches[i].second, &inner[0]);
      branches[1].Merge(inner);
    }
    Visit(statement.otherwise, &branches[2]);
    names->Merge(branches);
  }

  /// The scopes inside of a scope.
  void Inside(const Statements& statements, const Names& names) {
    for (const auto& statement : statements) {
      for (const auto& [condition, body] : statement->branches) Inside(body, names);
      if (statement->kind == Statement::Kind::kIf) {
        Inside(statement->otherwise, names);
      } else if (!statement->body.empty() || !statement->otherwise.empty()) {
        Body(*statement, names);
      }
    }
  }

  void Body(const Statement& statement, const Names& outside) {
    Names names(&outside);
    if (statement.kind == Statement::Kind::kFor) {
      if (statement.is_recursive || statement.reads_loop) names.Declare("loop");
      Declare(statement.target, &names);
      Scope(statement.otherwise, Names(&outside));
    }
    for (const Target& name : statement.names) Declare(name, &names);
    for (const Parameter& parameter : statement.parameters) names.Declare(parameter.name);
    for (const Parameter& parameter : statement.parameters) Read(parameter.fallback, &names);
    if (statement.reads_caller) names.Declare("caller");
    if (statement.reads_kwargs) names.Declare("kwargs");
    if (statement.reads_varargs) names.Declare("varargs");
    Visit(statement.body, &names);
    if (statement.kind == Statement::Kind::kFilter) Read(statement.expression, &names);
    Finish(statement.body, names);
  }

  HiddenNames hidden_;
};

}  // namespace

HiddenNames FindHiddenNames(const Statements& statements) {
  Finder finder;
  finder.Scope(statements, Names(nullptr));
  return finder.Take();
}

}  // namespace baton::tokenizer::jinja
