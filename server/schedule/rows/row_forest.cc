#include "server/schedule/rows/row_forest.h"

#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace phitap {
namespace {

// The runs that are in already, by what they are.
class RunIndex {
 public:
  explicit RunIndex(RowForest& forest) : forest_(forest) {}

  // The prompt with this sequence, a new one if there is none.
  int PromptOf(const TokenSequence& sequence) {
    const auto same = [&](int prompt) {
      const TokenSequence& known = forest_.prompts[prompt].sequence;
      return known.size() == sequence.size() &&
             CommonPrefix(known, sequence) == sequence.size();
    };
    // Runs of one request often come one after another with one prompt.
    if (last_prompt_ >= 0 && same(last_prompt_)) return last_prompt_;
    std::vector<int>& candidates = prompts_[HashOf(sequence)];
    for (const int prompt : candidates) {
      if (same(prompt)) return last_prompt_ = prompt;
    }
    last_prompt_ = static_cast<int>(forest_.prompts.size());
    candidates.push_back(last_prompt_);
    forest_.prompts.push_back({.sequence = sequence});
    return last_prompt_;
  }

  // The draft of that prompt with these static writes that the run may have for
  // its own; −1 if there is none.
  int DraftOf(int prompt, absl::Span<const WriteExtent> writes,
              const PlannedRun& run) {
    for (const int draft : drafts_[Hash(prompt, writes)]) {
      const RowDraft& known = forest_.drafts[draft];
      if (known.prompt == prompt && SameWrites(known.writes, writes) &&
          !(known.generates && run.generation.has_value())) {
        return draft;
      }
    }
    return -1;
  }
  void Add(int draft) {
    const RowDraft& added = forest_.drafts[draft];
    drafts_[Hash(added.prompt, added.writes)].push_back(draft);
  }

 private:
  static uint64_t Hash(int prompt, absl::Span<const WriteExtent> writes) {
    uint64_t hash = static_cast<uint64_t>(prompt);
    for (const WriteExtent& write : writes) {
      hash = XXH3_64bits_withSeed(&write.digest, sizeof(write.digest), hash);
    }
    return hash;
  }

  RowForest& forest_;
  int last_prompt_ = -1;
  absl::flat_hash_map<uint64_t, std::vector<int>> prompts_;
  absl::flat_hash_map<uint64_t, std::vector<int>> drafts_;
};

int NewDraft(int run, int prompt, absl::Span<const WriteExtent> writes,
             RowForest& forest) {
  const PlannedRun& planned = forest.RunOf(run);
  const auto token_count = static_cast<int64_t>(planned.ids.size());
  const int draft = static_cast<int>(forest.drafts.size());
  forest.drafts.push_back(
      {.leader = run,
       .prompt = prompt,
       .token_count = token_count,
       .max_token_count = token_count,
       .writes = writes,
       .requested = true,
       .own_reach = planned.reach,
       .own_first_asked = {
           .first_layer = planned.sharing.first_asked_layer,
           .first_position = planned.sharing.first_asked_position}});
  forest.prompts[prompt].drafts.push_back(draft);
  return draft;
}

}  // namespace

ComparedRow RowForest::Compared(const RowDraft& draft) const {
  return {.sequence = Prefix(prompts[draft.prompt].sequence, draft.token_count),
          .writes = draft.writes};
}

int64_t RowForest::CommonPrefixOf(const RowDraft& a, const RowDraft& b) const {
  int64_t common = std::min(a.token_count, b.token_count);
  // Two branches part at the shallower of the places where they leave what they
  // have in common.
  int of_a = a.prompt;
  int of_b = b.prompt;
  while (of_a != of_b) {
    int& deeper = prompts[of_a].depth >= prompts[of_b].depth ? of_a : of_b;
    common = std::min(common, prompts[deeper].common_prefix);
    deeper = prompts[deeper].parent;
    if (deeper < 0) return 0;
  }
  return common;
}

int RowForest::AddBase(int prompt, int leader,
                       std::vector<WriteExtent> writes) {
  base_writes.push_back(std::move(writes));
  drafts.push_back(
      {.leader = leader,
       .prompt = prompt,
       .token_count = prompts[prompt].sequence.size(),
       .max_token_count = prompts[prompt].sequence.size(),
       .writes = base_writes.back(),
       .own_first_asked = {.first_layer = std::numeric_limits<int>::max(),
                           .first_position = prompts[prompt].sequence.size()}});
  return static_cast<int>(drafts.size()) - 1;
}

void AddRuns(absl::Span<const int> members, RowForest& forest) {
  RunIndex index(forest);
  forest.draft_of_run.assign(forest.runs.size(), -1);
  forest.drafts.reserve(members.size() + 2);
  for (const int run : members) {
    const PlannedRun& planned = forest.RunOf(run);
    const absl::Span<const WriteExtent> writes =
        WritesWithin(planned.sharing.writes, planned.reach.layer_count);
    const int prompt = index.PromptOf(SequenceOf(planned));
    int draft = AllStatic(writes) ? index.DraftOf(prompt, writes, planned) : -1;
    if (draft < 0) {
      draft = NewDraft(run, prompt, writes, forest);
      index.Add(draft);
    } else {
      RowDraft& known = forest.drafts[draft];
      Extend(known.own_reach, planned.reach);
      known.own_first_asked.Include(planned.sharing.first_asked_layer,
                                    planned.sharing.first_asked_position);
    }
    RowDraft& known = forest.drafts[draft];
    known.owns_last_position |= planned.sharing.owns_last_position;
    known.generates |= planned.generation.has_value();
    forest.draft_of_run[run] = draft;
  }
}

}  // namespace phitap
