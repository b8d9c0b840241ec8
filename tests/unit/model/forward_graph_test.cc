// Gradients through a forward that libtorch records.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <vector>

#include "server/model/phi3.h"
#include "tests/unit/model/forward_fixture.h"

namespace phitap {
namespace {

const std::vector<int32_t> kIds = {5, 17, 3, 90, 41, 8, 8, 60, 2, 33, 71, 12};

// Begins the graph at the embeddings and keeps what passes, unlike
// RecordingHooks itself and not a copy.
class GraphHooks final : public RecordingHooks {
 public:
  explicit GraphHooks(int64_t token_count)
      : RecordingHooks({token_count}, [](Hook) { return true; }) {}

  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override {
    if (point.hook == Hook::kTokenEmbeddings) {
      value = value.detach().requires_grad_(true);
    }
    values[{0, point.hook, point.layer}] = value;
    return RecordingHooks::Visit(point, value, layout);
  }

  at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                          at::Tensor value) override {
    values[{0, point.hook, point.layer}] = value;
    return RecordingHooks::VisitPattern(point, block, value);
  }

  std::map<Key, at::Tensor> values;
};

// Adds `step` times `direction` at one hook point.
class NudgingHooks final : public RecordingHooks {
 public:
  NudgingHooks(int64_t token_count, const Key& place, at::Tensor nudge)
      : RecordingHooks({token_count}, [](Hook) { return true; }),
        place_(place),
        nudge_(std::move(nudge)) {}

  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override {
    return RecordingHooks::Visit(point, Nudged(point, value), layout);
  }
  at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                          at::Tensor value) override {
    return RecordingHooks::VisitPattern(point, block, Nudged(point, value));
  }

 private:
  at::Tensor Nudged(HookPoint point, const at::Tensor& value) const {
    const bool here = point == HookPoint{place_.hook, place_.layer};
    return here ? value + nudge_ : value;
  }
  const Key place_;
  const at::Tensor nudge_;
};

// The difference of two logits at the last position.
at::Tensor MetricOf(const at::Tensor& logits) {
  const at::Tensor last = logits[logits.size(0) - 1];
  return last[7] - last[30];
}

constexpr ForwardOptions kRecorded = {
    .numerics = ForwardNumerics::kTransformers,
    .attention = ForwardAttention::kEager,
    .graph = ForwardGraph::kRecorded};

class Graph : public testing::TestWithParam<TinyKind> {};
INSTANTIATE_TEST_SUITE_P(Family, Graph, testing::ValuesIn(kTinyKinds),
                         [](const auto& info) { return Name(info.param); });

TEST_P(Graph, ChangesNoBitOfAnyValue) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto model = TinyModel(GetParam(), dtype);
    Prompt prompt = WholePrompt(*model, kIds);
    for (const bool hides : {false, true}) {
      if (hides) prompt.hidden = {1, 2};
      for (const auto attention :
           {ForwardAttention::kSdpa, ForwardAttention::kEager}) {
        ForwardOptions options = kRecorded;
        options.attention = attention;
        GraphHooks hooks(prompt.token_count());
        const ForwardRow row = prompt.Row();
        model->Forward({&row, 1}, options, hooks);
        EXPECT_TRUE(hooks.values.at({0, Hook::kLogits, -1}).requires_grad());
        options.graph = ForwardGraph::kNone;
        const Records plain = ForwardAll(*model, {prompt}, options);
        EXPECT_EQ(hooks.records().size(), plain.size());
        for (const auto& [key, record] : plain) {
          EXPECT_TRUE(SameBits(hooks.records().at(key).value, record.value))
              << NameOf(key);
        }
      }
    }
  }
}

TEST_P(Graph, GivesTheSlopeOfTheMetricAtEveryPlace) {
  const auto model = TinyModel(GetParam(), DType::kF32);
  const Prompt prompt = WholePrompt(*model, kIds);
  const ForwardRow row = prompt.Row();
  GraphHooks hooks(prompt.token_count());
  model->Forward({&row, 1}, kRecorded, hooks);
  const at::Tensor metric = MetricOf(hooks.values.at({0, Hook::kLogits, -1}));
  at::manual_seed(9);
  for (const HookEntry& entry : HookCatalogue()) {
    if (entry.access == Access::kRead) continue;
    const RecordingHooks::Key place{.hook = entry.hook,
                                    .layer = HasLayer(entry.hook) ? 0 : -1};
    const at::Tensor value = hooks.values.at(place);
    const at::Tensor gradient =
        torch::autograd::grad({metric}, {value}, {}, /*retain_graph=*/true)[0];
    EXPECT_GT(gradient.abs().max().item<double>(), 0) << entry.name;

    const at::NoGradGuard no_grad;
    // Along the gradient the slope is largest, and rounding least of it. A
    // score that is −∞ in all but name stays where it is.
    const double norm = gradient.norm().item<double>();
    const double step = 2e-2 / norm;
    const auto metric_at = [&](double times) {
      NudgingHooks nudged(prompt.token_count(), place,
                          gradient * (times * step));
      ForwardOptions plain = kRecorded;
      plain.graph = ForwardGraph::kNone;
      model->Forward({&row, 1}, plain, nudged);
      return MetricOf(nudged.records().at({0, Hook::kLogits, -1}).value)
          .item<double>();
    };
    const double slope = (metric_at(0.5) - metric_at(-0.5)) / step;
    EXPECT_NEAR(slope / (norm * norm), 1.0, 0.03) << entry.name;
  }
}

TEST(Graph, ReachesTheNextTokensProbabilities) {
  const auto model = TinyModel(TinyKind::kLongRope, DType::kF32);
  const Prompt prompt = WholePrompt(*model, kIds);
  const ForwardRow row = prompt.Row();
  GraphHooks hooks(prompt.token_count());
  model->Forward({&row, 1}, kRecorded, hooks);
  const at::Tensor probabilities =
      hooks.values.at({0, Hook::kNextTokenProbs, -1});
  const at::Tensor gradient = torch::autograd::grad(
      {probabilities[0][3]}, {hooks.values.at({0, Hook::kLogits, -1})})[0];
  const at::Tensor p = probabilities.detach()[0];
  at::Tensor expected = -p * p[3];  // of softmax
  expected[3] += p[3];
  EXPECT_TRUE(at::allclose(gradient[prompt.token_count() - 1], expected));
}

TEST(Graph, IsForTheLibrarysOwnArithmetic) {
  const auto model = TinyModel(TinyKind::kLongRope, DType::kF32);
  const Prompt prompt = WholePrompt(*model, kIds);
  ForwardOptions options = kRecorded;
  options.numerics = ForwardNumerics::kCausal;
  EXPECT_THROW(ForwardAll(*model, {prompt}, options), c10::Error);
}

}  // namespace
}  // namespace phitap
