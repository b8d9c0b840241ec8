#include "server/trace/numerics_report.h"

#include <ATen/Version.h>
#include <torch/version.h>

#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/model/attention_tile.h"
#include "server/model/weights.h"

namespace phitap {
namespace {

constexpr RowRule::Kind kInvariantKinds[] = {RowRule::Kind::kMultipleOf4,
                                             RowRule::Kind::kMultipleOf16,
                                             RowRule::Kind::kExactly64};

// Of the measurement: another one begins anew.
constexpr int kMeasurementVersion = 1;

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

std::string Libraries(const Phi3& model, int thread_count) {
  return absl::StrCat("cpu ", Cpu(), " (", at::get_cpu_capability(),
                      "); libtorch ", TORCH_VERSION, "; ", thread_count,
                      " threads; ", Name(model.dtype()));
}

std::string MeasurementKey(const Phi3& model, int thread_count) {
  const ModelSpec& spec = model.spec();
  return absl::StrCat("measurement ", kMeasurementVersion, "; ",
                      Libraries(model, thread_count), "; ", spec.hidden_size,
                      " wide, ", spec.num_heads, " and ", spec.num_kv_heads,
                      " heads of ", spec.head_dim, ", ", spec.intermediate_size,
                      " neurons, ", spec.vocab_size, " words",
                      model.packed() ? ", packed" : "");
}

// On the compute thread; brings what that throws back to the caller.
RowRule Measure(const LoadOptions& options, Phi3& model) {
  if (options.run_on_compute_thread == nullptr) return model.MeasureRowRule();
  RowRule rule;
  std::exception_ptr thrown;
  const absl::Status ran = options.run_on_compute_thread([&] {
    try {
      rule = model.MeasureRowRule();
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  if (thrown != nullptr) std::rethrow_exception(thrown);
  if (!ran.ok()) throw std::runtime_error(std::string(ran.message()));
  return rule;
}

}  // namespace

void SetRowRule(const LoadOptions& options, Phi3& model) {
  KnownRowRules* const known = options.known_row_rules;
  if (known == nullptr) {
    Measure(options, model);
    return;
  }
  const std::string name =
      known->Find(MeasurementKey(model, options.thread_count));
  for (const RowRule::Kind kind : kInvariantKinds) {
    const RowRule rule = {.kind = kind};
    if (name == NameOf(rule)) return model.SetRowRule(rule);
  }
  const RowRule measured = Measure(options, model);
  if (!measured.batch_invariant) return;
  // What is packed may have turned out not to be of use.
  known->Keep(MeasurementKey(model, options.thread_count), NameOf(measured));
}

NumericsReport ReportOf(const Phi3& model, int thread_count) {
  const std::string rule = NameOf(model.row_rule());
  return {
      .batch_invariant = model.row_rule().batch_invariant,
      .row_rule = rule,
      .fingerprint = absl::StrCat(Libraries(model, thread_count), "; ", rule,
                                  "; 32-query tiles",
                                  HasStretchSdpa(ScalarTypeOf(model.dtype()))
                                      ? " by products of bfloat16 pairs"
                                      : ""),
  };
}

}  // namespace phitap
