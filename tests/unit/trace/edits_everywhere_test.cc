// Edits at every hook point, and in every company.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/spec/hook_point.h"
#include "tests/unit/trace/engine.h"

namespace phitap {
namespace {

// Two prompts of the same length and what is asked of both.
std::string TwoRuns(const std::string& interventions,
                    const std::string& captures) {
  return absl::StrCat("runs { label: 'clean' prompt { ", PromptOf(9, 1),
                      " } } runs { label: 'edited' prompt { ", PromptOf(9, 2),
                      " } ", interventions, " } ", captures);
}

bool IsAfter(HookPoint point, HookPoint edited) {
  const auto key = [](HookPoint p) {
    const int layer = p.hook >= Hook::kFinalNormOutput ? 1 << 20 : p.layer;
    return std::tuple(layer, static_cast<int>(p.hook));
  };
  return key(point) > key(edited);
}

class EveryPoint : public testing::TestWithParam<Hook> {};

TEST_P(EveryPoint, ChangesWhatFollowsAndKeepsTheBitsOfWhatComesBefore) {
  Engine engine({});
  const HookPoint edited{.hook = GetParam(),
                         .layer = HasLayer(GetParam()) ? 1 : -1};
  const std::string name = FullName(edited);
  std::string captures = "options { attention: ATTENTION_EAGER }";
  std::vector<HookPoint> points;
  for (const HookEntry& entry : HookCatalogue()) {
    for (int layer :
         HasLayer(entry.hook) ? std::vector<int>{0, 1} : std::vector<int>{-1}) {
      points.push_back({.hook = entry.hook, .layer = layer});
      absl::StrAppend(&captures, " captures { hook_points: '",
                      FullName(points.back()), "' }");
    }
  }
  const bool pattern = GetParam() == Hook::kAttentionScores ||
                       GetParam() == Hook::kAttentionProbabilities;
  const std::string edit =
      absl::StrCat("interventions { hook_points: '", name, "' selection { ",
                   pattern ? "queries { indices: 6 } keys { indices: 2 }"
                   : GetParam() == Hook::kAttentionQueries ||
                           GetParam() == Hook::kAttentionKeys
                       ? "positions { indices: 6 } features { indices: 1 }"
                       : "positions { indices: 6 }",
                   " } add { value { number: 0.5 } } }");
  const Traced plain = engine.Run(TwoRuns("", captures));
  const Traced changed = engine.Run(TwoRuns(edit, captures));
  const std::string nothing = absl::StrReplaceAll(edit, {{"0.5", "0"}});
  const Traced same = engine.Run(TwoRuns(nothing, captures));
  for (const HookPoint& point : points) {
    const std::string label = FullName(point);
    const at::Tensor before = plain.Value(label, "edited");
    EXPECT_TRUE(at::equal(same.Value(label, "edited"), before))
        << label << " by an edit that adds 0";
    EXPECT_TRUE(
        at::equal(changed.Value(label, "clean"), plain.Value(label, "clean")))
        << label << " of the other run";
    const bool equal = at::equal(changed.Value(label, "edited"), before);
    if (point == edited) {
      EXPECT_FALSE(equal) << label;
    } else if (!IsAfter(point, edited)) {
      EXPECT_TRUE(equal) << label;
    }
  }
  EXPECT_FALSE(at::equal(changed.Value("next_token_probs", "edited"),
                         plain.Value("next_token_probs", "edited")) &&
               at::equal(changed.Value("logits", "edited"),
                         plain.Value("logits", "edited")));
}

std::vector<Hook> WritableHooks() {
  std::vector<Hook> hooks;
  for (const HookEntry& entry : HookCatalogue()) {
    if (entry.access == Access::kReadWrite) hooks.push_back(entry.hook);
  }
  return hooks;
}

INSTANTIATE_TEST_SUITE_P(Hooks, EveryPoint, testing::ValuesIn(WritableHooks()),
                         [](const auto& info) {
                           return std::string(EntryOf(info.param).name);
                         });

class EditsInCompany : public testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(EditsInCompany, HaveTheBitsThatTheyHaveAlone) {
  Engine engine({.dtype = std::get<0>(GetParam()),
                 .thread_count = std::get<1>(GetParam())});
  const std::string edits = R"pb(
    interventions {
      hook_points: 'layers.0.attention_values'
      selection { heads { indices: 0 } }
      scale { value { number: 1.5 } }
    }
    interventions {
      hook_points: 'layers.0.layer_output'
      selection { positions { ranges { start: 2 } } }
      noise { scale: 0.3 seed: 5 }
    }
    interventions {
      hook_points: 'layers.1.mlp_neurons'
      clamp { low: -0.01 high: 0.02 }
    }
    interventions {
      hook_points: 'layers.1.attention_scores'
      selection {
        queries { indices: -1 }
        keys { indices: 1 }
      }
      knockout {}
    })pb";
  const std::string asked =
      "options { attention: ATTENTION_EAGER } captures { hook_points: "
      "'layers.*.layer_output' } captures { hook_points: 'logits' }";
  const auto run = [&](const std::string& label, int length, int seed,
                       const std::string& what) {
    return absl::StrCat("runs { label: '", label, "' prompt { ",
                        PromptOf(length, seed), " } ", what, " } ");
  };
  const Traced alone = engine.Run(run("it", 41, 3, edits) + asked);
  const Traced among =
      engine.Run(run("a", 70, 5, edits) + run("it", 41, 3, edits) +
                 run("b", 3, 7, "") + run("c", 33, 2, edits) + asked);
  EXPECT_EQ(among.wave_count, 1);
  for (const std::string label :
       {"layers.0.layer_output", "layers.1.layer_output", "logits"}) {
    EXPECT_TRUE(at::equal(alone.Value(label, "it"), among.Value(label, "it")))
        << label;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, EditsInCompany,
                         testing::Combine(testing::Values(DType::kF32,
                                                          DType::kBF16),
                                          testing::Values(1, 2, 3)));

}  // namespace
}  // namespace phitap
