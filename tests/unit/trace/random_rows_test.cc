// Random runs in rows that they share, beside each in a row of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/spec/hook_point.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/trace/rows_fixture.h"

namespace phitap {
namespace {

constexpr char kCaptures[] = R"pb(
  captures { label: 'ids' hook_points: 'input_ids' }
  captures { label: 'size' hook_points: 'input_size' }
  captures { label: 'in' hook_points: 'layers.*.layer_input' }
  captures { label: 'out' hook_points: 'layers.*.layer_output' }
  captures {
    label: 'before'
    hook_points: 'layers.*.layer_output'
    read_time: READ_TIME_BEFORE
    selection { positions { indices: [ -1, 0, 2 ] } }
  }
  captures { label: 'keys' hook_points: 'layers.*.attention_keys' }
  captures {
    label: 'values'
    hook_points: 'layers.*.attention_values'
    selection {
      positions { indices: [ 3, 1, -2 ] }
      heads { indices: 1 }
    }
  }
  captures { label: 'pattern' hook_points: 'layers.*.attention_probabilities' }
  captures {
    label: 'score'
    hook_points: 'layers.1.attention_scores'
    selection {
      queries { indices: [ -1, 1 ] }
      keys { indices: [ 1, 0 ] }
    }
  }
  captures {
    label: 'norm'
    hook_points: 'layers.*.mlp_neurons'
    reduction { norm {} }
  }
  captures {
    label: 'lens'
    hook_points: 'layers.*.layer_output'
    reduction { logit_lens { k: 2 } }
  }
  captures { label: 'logits' hook_points: 'logits' }
  captures { label: 'next' hook_points: 'next_token_probs' }
)pb";

// A run and the run whose row its own goes on from.
struct RandomRun {
  int parent = -1;
  std::vector<int> ids;
  // In text; the parent's come first.
  std::vector<std::string> edits;
  size_t own_edit_count = 0;
  bool is_static = true;
  bool generates = false;
};

class RandomRuns {
 public:
  explicit RandomRuns(int seed) : random_(seed) {}

  int Below(int end) {
    return static_cast<int>(random_() % static_cast<unsigned>(end));
  }

  std::vector<RandomRun> Make(bool eager) {
    std::vector<RandomRun> runs(1);
    const int length = 6 + Below(64);
    for (int i = 0; i < length; ++i) runs[0].ids.push_back(Below(96));
    runs[0].generates = Below(4) == 0;
    const int count = 3 + Below(5);
    while (static_cast<int>(runs.size()) < count) {
      const int parent = Below(static_cast<int>(runs.size()));
      if (runs[parent].is_static) runs.push_back(Child(runs, parent, eager));
    }
    return runs;
  }

 private:
  RandomRun Child(const std::vector<RandomRun>& runs, int parent, bool eager) {
    RandomRun run = runs[parent];
    run.parent = parent;
    run.own_edit_count = 0;
    run.generates = Below(4) == 0;
    const int kind = Below(4);
    if (kind == 1) {
      run.ids.resize(6 + Below(static_cast<int>(run.ids.size()) - 5));
    }
    if (kind == 2) {
      run.ids.resize(6 + Below(static_cast<int>(run.ids.size()) - 5));
      for (int more = 1 + Below(9); more > 0; --more) {
        run.ids.push_back(Below(96));
      }
    }
    for (int edits = Below(3); edits > 0; --edits) {
      run.edits.push_back(Edit(eager));
      ++run.own_edit_count;
    }
    if (Below(4) == 0 && run.ids.size() <= runs[0].ids.size()) {
      run.edits.push_back(absl::StrCat(
          "interventions { hook_points: 'layers.", Below(3),
          ".layer_mid' selection { positions { indices: ", Below(4),
          " } } set { value { run { run: 'r0' } } } }"));
      ++run.own_edit_count;
      run.is_static = false;
    }
    return run;
  }

  std::string Edit(bool eager) {
    const HookEntry* entry = nullptr;
    bool pattern = true;
    do {
      entry = &HookCatalogue()[Below(kHookCount)];
      pattern = entry->hook == Hook::kAttentionScores ||
                entry->hook == Hook::kAttentionProbabilities;
    } while (entry->access == Access::kRead || (pattern && !eager));
    const HookPoint point{.hook = entry->hook,
                          .layer = HasLayer(entry->hook) ? Below(3) : -1};
    const std::string selection =
        pattern ? absl::StrCat("queries { indices: ", Below(4),
                               " } keys { indices: 0 }")
                : absl::StrCat("positions { indices: ", Below(4), " }");
    static constexpr const char* kKinds[] = {
        "scale { value { number: 1.5 } }", "add { value { number: 0.25 } }",
        "scale { value { number: 1 } }", "noise { scale: 0.1 seed: 3 }"};
    return absl::StrCat("interventions { hook_points: '", FullName(point),
                        "' selection { ", selection, " } ", kKinds[Below(4)],
                        " }");
  }

  std::mt19937 random_;
};

std::string TextOf(const std::vector<RandomRun>& runs, bool eager) {
  std::string text = kCaptures;
  if (eager) absl::StrAppend(&text, "options { attention: ATTENTION_EAGER } ");
  for (size_t i = 0; i < runs.size(); ++i) {
    absl::StrAppend(&text, "runs { label: 'r", i, "' prompt { tokens { ids: [ ",
                    absl::StrJoin(runs[i].ids, ", "), " ] } } ",
                    absl::StrJoin(runs[i].edits, " "));
    if (runs[i].generates) {
      absl::StrAppend(&text,
                      " generation { max_tokens: 3 ignore_stop_ids: true }");
    }
    absl::StrAppend(&text, " } ");
  }
  return text;
}

// The rectangle in which a run differs from its parent.
struct Rectangle {
  int layer = 0;
  int64_t position = 0;
};

Rectangle DifferenceOf(const PlannedRun& run, const RandomRun& planned,
                       const RandomRun& parent, int layer_count) {
  const auto length = static_cast<int64_t>(run.ids.size());
  const auto common = std::mismatch(planned.ids.begin(), planned.ids.end(),
                                    parent.ids.begin(), parent.ids.end());
  const int64_t same = common.first - planned.ids.begin();
  Rectangle rectangle{.layer = same < length ? 0 : layer_count,
                      .position = std::min(same, length - 1)};
  // Its own writes stand last in the plan.
  std::vector<int> own;
  for (const WriteExtent& write : run.sharing.writes) {
    own.push_back(write.write);
  }
  std::sort(own.begin(), own.end());
  own.erase(own.begin(),
            own.end() - static_cast<int64_t>(planned.own_edit_count));
  for (const WriteExtent& write : run.sharing.writes) {
    if (!std::binary_search(own.begin(), own.end(), write.write)) continue;
    rectangle.layer = std::min(rectangle.layer, write.first_layer);
    rectangle.position = std::min(rectangle.position, write.first_position);
  }
  for (size_t again = 0; again < run.sharing.writes.size(); ++again) {
    for (const WriteExtent& write : run.sharing.writes) {
      if (write.mixes_positions && write.first_layer >= rectangle.layer) {
        rectangle.position = std::min(rectangle.position, write.first_position);
      }
    }
  }
  return rectangle;
}

class RandomRows : public Rows,
                   public testing::WithParamInterface<std::tuple<DType, int>> {
 protected:
  RandomRows()
      : Rows({.dtype = std::get<0>(GetParam()),
              .thread_count = std::get<1>(GetParam())}) {}

  WavePlan SharedWave(const Request& request,
                      const std::vector<RandomRun>& runs) const {
    WavePlan wave = request.Wave();
    for (int run = 0; run < static_cast<int>(runs.size()); ++run) {
      wave.runs[run].row = run;
      const int parent = runs[run].parent;
      if (parent < 0) {
        wave.rows.push_back(WholeRow(request, run, layer_count()));
        continue;
      }
      const Rectangle own = DifferenceOf(request.plan->runs[run], runs[run],
                                         runs[parent], layer_count());
      wave.rows.push_back(RowBelow(request, run, layer_count(), parent,
                                   own.layer, own.position));
      // One that is its parent but for the last position's head may stand in.
      if (runs[run].ids == runs[parent].ids && runs[run].own_edit_count == 0 &&
          !runs[run].generates && run % 2 == 0) {
        wave.runs[run].row = wave.runs[parent].row;
      }
    }
    return wave;
  }
};

TEST_P(RandomRows, GiveEveryRunTheBytesThatItHasInARowOfItsOwn) {
  for (int seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const bool eager = seed % 3 == 0;
    const std::vector<RandomRun> runs = RandomRuns(seed).Make(eager);
    const Request request = Ask(TextOf(runs, eager));
    ExpectBytesOfRunsAlone(request, SharedWave(request, runs));
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, RandomRows,
                         testing::Values(std::tuple(DType::kF32, 2),
                                         std::tuple(DType::kBF16, 3)));

}  // namespace
}  // namespace phitap
