#include "server/trace/sampler.h"

#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace phitap {
namespace {

// The finalizer of SplitMix64: every bit of the result depends on every bit of
// x.
uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

absl::Status CheckLogits(absl::Span<const float> logits, int step) {
  bool any_finite = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id]) ||
        logits[id] == std::numeric_limits<float>::infinity()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no token can be chosen at step ", step,
                       ": the logit of id ", id, " is ", logits[id]));
    }
    any_finite = any_finite || std::isfinite(logits[id]);
  }
  if (any_finite) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "no token can be chosen at step ", step, ": every logit is -inf"));
}

// Candidates of a draw, likeliest first, and their weights.
struct Candidates {
  std::vector<int32_t> ids;
  std::vector<double> weights;
};

std::vector<int32_t> LikeliestIds(absl::Span<const float> scores, size_t k) {
  std::vector<int32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [scores](int32_t a, int32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  if (k < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + static_cast<int64_t>(k),
                     ids.end(), before);
    ids.resize(k);
  }
  std::sort(ids.begin(), ids.end(), before);
  return ids;
}

// weight[i] = e^((logit_i − max) / temperature), cut as asked.
Candidates CandidatesOf(absl::Span<const float> logits,
                        const PlannedGeneration& generation) {
  const size_t k = generation.top_k > 0
                       ? std::min<size_t>(generation.top_k, logits.size())
                       : logits.size();
  Candidates candidates{.ids = LikeliestIds(logits, k)};
  const double largest = logits[candidates.ids.front()];
  double total = 0;
  for (const int32_t id : candidates.ids) {
    candidates.weights.push_back(
        std::exp((logits[id] - largest) / generation.temperature));
    total += candidates.weights.back();
  }
  if (generation.top_p >= 1) return candidates;
  double reached = 0;
  size_t count = 0;
  while (count < candidates.ids.size() && reached < generation.top_p * total) {
    reached += candidates.weights[count++];
  }
  count = std::max<size_t>(count, 1);
  candidates.ids.resize(count);
  candidates.weights.resize(count);
  return candidates;
}

int32_t Draw(const Candidates& candidates, double uniform) {
  const double total =
      std::accumulate(candidates.weights.begin(), candidates.weights.end(), 0.);
  double below = 0;
  for (size_t i = 0; i < candidates.ids.size(); ++i) {
    below += candidates.weights[i];
    if (uniform * total < below) return candidates.ids[i];
  }
  // Rounding alone gets here: the last that has any weight.
  size_t last = candidates.ids.size() - 1;
  while (last > 0 && candidates.weights[last] == 0) --last;
  return candidates.ids[last];
}

}  // namespace

double UniformOf(uint64_t seed, uint64_t step) {
  constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
  const uint64_t bits =
      Mix(Mix(seed + kGoldenRatio) + (step + 1) * kGoldenRatio);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

absl::StatusOr<ChosenToken> ChooseToken(const at::Tensor& logits,
                                        const PlannedGeneration& generation,
                                        int step) {
  const at::Tensor wide = logits.to(at::kFloat).contiguous();
  const auto values =
      absl::MakeConstSpan(wide.const_data_ptr<float>(), wide.numel());
  if (absl::Status status = CheckLogits(values, step); !status.ok()) {
    return status;
  }
  int32_t id = 0;
  if (step <= static_cast<int>(generation.forced_ids.size())) {
    id = generation.forced_ids[step - 1];
  } else if (generation.temperature == 0) {
    id = static_cast<int32_t>(std::max_element(values.begin(), values.end()) -
                              values.begin());
  } else {
    id = Draw(CandidatesOf(values, generation),
              UniformOf(generation.seed, static_cast<uint64_t>(step)));
  }
  const at::Tensor log_probabilities = at::log_softmax(wide, -1);
  return ChosenToken{
      .id = id,
      .log_probability = log_probabilities.const_data_ptr<float>()[id]};
}

}  // namespace phitap
