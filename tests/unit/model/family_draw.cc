#include "tests/unit/model/family_draw.h"

#include <algorithm>
#include <limits>

#include "server/model/visibility.h"
#include "server/spec/hook_point.h"

namespace phitap {

FamilyRun FamilyDraw::Root(int64_t token_count) {
  FamilyRun run{.prompt = RandomPrompt(model_, token_count, random_)};
  // Not what its positions would have it take.
  run.long_factors = model_.spec().longrope && Draw(0, 1) == 1;
  Edits(run, 2);
  return run;
}

PlaceEdit FamilyDraw::Edit(const FamilyRun& run) {
  constexpr double kValues[] = {0.5,
                                -2.0,
                                3.0,
                                std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity()};
  const Visibility visibility(model_.spec().sliding_window, run.prompt.hidden);
  while (true) {
    const Hook hook = static_cast<Hook>(Draw(0, kHookCount - 1));
    if (EntryOf(hook).access != Access::kReadWrite) continue;
    if (IsPattern(hook) && options_.attention == ForwardAttention::kSdpa) {
      continue;
    }
    PlaceEdit edit{.point = {hook, HasLayer(hook) ? static_cast<int>(Draw(
                                                        0, kDeepLayers - 1))
                                                  : -1},
                   .position = Draw(0, run.prompt.token_count() - 1),
                   .value = kValues[Draw(0, Draw(0, 1) == 0 ? 2 : 5)]};
    edit.key = Draw(0, edit.position);
    if (IsPattern(hook) && !visibility.Sees(edit.position, edit.key)) continue;
    return edit;
  }
}

void FamilyDraw::Edits(FamilyRun& run, int64_t most) {
  for (int64_t i = Draw(0, most); i > 0; --i) run.edits.push_back(Edit(run));
}

void FamilyDraw::Diverge(const FamilyRun& parent, FamilyRun& run) {
  const int64_t shared = Draw(1, parent.prompt.token_count() - 1);
  FamilyRun other;
  do {
    other = Root(shared + Draw(1, 50));
  } while (other.long_factors != parent.long_factors);
  const auto take = [&](auto& to, const auto& from) {
    std::copy(from.begin(), from.begin() + shared, to.begin());
  };
  run = other;
  take(run.prompt.ids, parent.prompt.ids);
  take(run.prompt.position_ids, parent.prompt.position_ids);
  run.prompt.hidden.clear();
  for (const int64_t position : parent.prompt.hidden) {
    if (position < shared) run.prompt.hidden.push_back(position);
  }
  for (const int64_t position : other.prompt.hidden) {
    if (position >= shared) run.prompt.hidden.push_back(position);
  }
  std::erase_if(run.edits, [&](const PlaceEdit& edit) {
    return edit.position < shared || IsPattern(edit.point.hook);
  });
  for (const PlaceEdit& edit : parent.edits) {
    if (edit.position < shared) run.edits.push_back(edit);
  }
  run.first_layer = 0;
  run.first_position = shared;
}

void FamilyDraw::CutOut(const FamilyRun& parent, FamilyRun& run) {
  run = parent;
  std::vector<PlaceEdit> differing;
  for (int64_t i = Draw(0, 1); i > 0 && !run.edits.empty(); --i) {
    const auto gone =
        run.edits.begin() + Draw(0, static_cast<int64_t>(run.edits.size()) - 1);
    differing.push_back(*gone);
    run.edits.erase(gone);
  }
  for (int64_t i = Draw(differing.empty() ? 1 : 0, 2); i > 0; --i) {
    run.edits.push_back(Edit(run));
    differing.push_back(run.edits.back());
  }
  run.first_layer = kDeepLayers;
  run.first_position = run.prompt.token_count() - 1;
  for (const PlaceEdit& edit : differing) {
    run.first_layer = std::min(run.first_layer, FirstLayerOf(edit));
    run.first_position = std::min(run.first_position, edit.position);
  }
  // More than it must is as good.
  if (Draw(0, 3) == 0)
    run.first_layer = static_cast<int>(Draw(0, run.first_layer));
  if (Draw(0, 3) == 0) run.first_position = Draw(0, run.first_position);
}

FamilyRun FamilyDraw::Child(const FamilyRun& parent, int parent_row) {
  FamilyRun run;
  if (Draw(0, 2) == 0 && parent.prompt.token_count() > 1) {
    Diverge(parent, run);
  } else {
    CutOut(parent, run);
  }
  run.parent = parent_row;
  run.parent_states = nullptr;
  return run;
}

void FamilyDraw::AskForLess(FamilyRun& run) {
  run.prompt.layer_count = static_cast<int>(Draw(run.first_layer, kDeepLayers));
  const auto keep = [&](std::vector<int64_t> from) {
    const int64_t one_in = Draw(1, 8);
    std::erase_if(from, [&](int64_t) { return Draw(1, one_in) != 1; });
    return from;
  };
  run.prompt.tail = keep(run.prompt.tail);
  run.prompt.norm = run.prompt.head = {};
  if (run.prompt.layer_count < kDeepLayers) return;
  run.prompt.norm = keep(run.prompt.tail);
  run.prompt.head = keep(run.prompt.norm);
}

std::vector<FamilyRun> FamilyDraw::Forest(int run_count, int64_t most_tokens) {
  std::vector<FamilyRun> runs;
  for (int i = 0; i < run_count; ++i) {
    if (runs.empty() || Draw(0, 5) == 0) {
      runs.push_back(Root(Draw(1, most_tokens)));
    } else {
      const int parent = static_cast<int>(Draw(0, i - 1));
      runs.push_back(Child(runs[parent], parent));
    }
  }
  return runs;
}

std::vector<FamilyRun> FamilyDraw::Below(const FamilyRun& kept,
                                         const RowStates& states,
                                         int run_count) {
  std::vector<FamilyRun> runs;
  for (int i = 0; i < run_count; ++i) {
    const int parent = static_cast<int>(Draw(-1, i - 1));
    runs.push_back(Child(parent < 0 ? kept : runs[parent], parent));
    if (parent < 0) runs.back().parent_states = &states;
  }
  return runs;
}

void FamilyDraw::Prune(std::vector<FamilyRun>& runs) {
  const std::vector<bool> leaves = Leaves(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (leaves[i] && Draw(0, 1) == 0) AskForLess(runs[i]);
  }
}

std::vector<bool> Leaves(const std::vector<FamilyRun>& runs) {
  std::vector<bool> leaves(runs.size(), true);
  for (const FamilyRun& run : runs) {
    if (run.parent >= 0) leaves[run.parent] = false;
  }
  return leaves;
}

}  // namespace phitap
