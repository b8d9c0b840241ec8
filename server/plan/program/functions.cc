#include "server/plan/program/functions.h"

#include <cstddef>
#include <iterator>

namespace phitap {
namespace {

struct FunctionEntry {
  absl::string_view name;
  int arity;
};

// Indexed by Function.
constexpr FunctionEntry kFunctions[] = {
    {"add", 2},     {"subtract", 2},  {"multiply", 2}, {"divide", 2},
    {"maximum", 2}, {"minimum", 2},   {"negate", 1},   {"absolute", 1},
    {"exp", 1},     {"log", 1},       {"sqrt", 1},     {"rsqrt", 1},
    {"relu", 1},    {"silu", 1},      {"gelu", 1},     {"sigmoid", 1},
    {"tanh", 1},    {"jump_relu", 2}, {"less", 2},     {"less_equal", 2},
    {"equal", 2},   {"and", 2},       {"or", 2},       {"not", 1},
    {"where", 3}};
static_assert(std::size(kFunctions) ==
              static_cast<size_t>(Function::kWhere) + 1);

}  // namespace

int ArityOf(Function function) {
  return kFunctions[static_cast<size_t>(function)].arity;
}

absl::string_view Name(Function function) {
  return kFunctions[static_cast<size_t>(function)].name;
}

}  // namespace phitap
