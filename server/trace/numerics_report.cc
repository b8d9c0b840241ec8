#include "server/trace/numerics_report.h"

#include <ATen/Version.h>
#include <torch/version.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace phitap {
namespace {

std::string NameOf(const RowRule& rule) {
  switch (rule.kind) {
    case RowRule::Kind::kMultipleOf4:
      return "multiples of 4 rows";
    case RowRule::Kind::kMultipleOf16:
      return "multiples of 16 rows";
    case RowRule::Kind::kExactly64:
      return "exactly 64 rows";
    case RowRule::Kind::kAlone:
      return "each run alone";
  }
  return "unknown";
}

// "AuthenticAMD family 26 model 2 stepping 1" as /proc/cpuinfo has it: kernels
// are chosen by these; "unknown" where there is no such file.
std::string Cpu() {
  std::ifstream file("/proc/cpuinfo");
  std::string cpu;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const absl::string_view key =
        absl::StripAsciiWhitespace(absl::string_view(line).substr(0, colon));
    const absl::string_view value =
        absl::StripAsciiWhitespace(absl::string_view(line).substr(colon + 1));
    if (key == "vendor_id" || key == "CPU implementer") {
      absl::StrAppend(&cpu, value);
    } else if (key == "cpu family" || key == "model" || key == "stepping" ||
               key == "CPU part") {
      absl::StrAppend(&cpu, " ", key, " ", value);
    }
  }
  return cpu.empty() ? "unknown" : cpu;
}

}  // namespace

NumericsReport ReportOf(const Phi3& model, int thread_count) {
  const std::string rule = NameOf(model.row_rule());
  return {
      .batch_invariant = model.row_rule().batch_invariant,
      .row_rule = rule,
      .fingerprint = absl::StrCat(
          "cpu ", Cpu(), " (", at::get_cpu_capability(), "); libtorch ",
          TORCH_VERSION, "; ", thread_count, " threads; ", Name(model.dtype()),
          "; ", rule, "; 32-query tiles"),
  };
}

}  // namespace phitap
