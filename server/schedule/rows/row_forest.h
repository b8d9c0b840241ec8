// The rows that runs of one sharing key may become, while it is being decided
// which of them go on from which.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_ROW_FOREST_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_ROW_FOREST_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "server/plan/executor.h"
#include "server/plan/trace_plan.h"
#include "server/schedule/rows/compared_row.h"
#include "server/schedule/rows/root_table.h"
#include "server/schedule/rows/row_reach.h"

namespace phitap {

struct RowDraft {
  // Index of the run (in the wave) whose tokens it has, all of them but where
  // nobody asks for the last ones.
  int leader = 0;
  int prompt = 0;
  int64_t token_count = 0;
  // It never has more of them than these.
  int64_t max_token_count = 0;
  // Into the leader's plan, or RowForest::base_writes.
  absl::Span<const WriteExtent> writes;
  // Whether runs have it as their row; else it is there for rows below it.
  bool requested = false;
  // Of its runs.
  Reach own_reach;
  // Of its runs: see RunSharing.
  RowRectangle own_first_asked;
  bool owns_last_position = false;
  // Whether one of its runs goes on to generate. Its row then fills that run's
  // cache, and no other run's: it is no other row, and gives way to none.
  bool generates = false;

  // −1 at the top.
  int parent = -1;
  std::vector<int> children;

  // Known once the rows below it have been decided. What is asked of it for its
  // runs and those rows, wherever it is computed; and where that begins which
  // the runs of all of them ask for.
  Reach asked;
  RowRectangle first_asked;
  bool last_position_asked = false;

  // What is computed for it, and from what.
  RowRectangle rectangle;
  const KeptRoot* root = nullptr;
};

// Runs with the same tokens.
struct SharedPrompt {
  TokenSequence sequence;
  // The requested ones.
  std::vector<int> drafts;
  // The draft from which the others of the prompt are derived.
  int top = -1;
  // A prompt with which it has more than its shortest prefix in common, and how
  // much; −1.
  int parent = -1;
  int64_t common_prefix = 0;
  int depth = 0;
};

// A root and how many first tokens a prompt has in common with it.
struct RootMatch {
  const KeptRoot* root = nullptr;
  int64_t common_prefix = 0;
};

struct PromptRoots {
  // In common with each root of the forest.
  std::vector<int64_t> prefixes;
  // The best few, best first.
  std::vector<RootMatch> matches;
};

struct RowForest {
  const std::vector<WaveRun>& runs;
  // That rows may go on from.
  std::vector<const KeptRoot*> roots;

  std::vector<RowDraft> drafts = {};
  std::vector<SharedPrompt> prompts = {};
  // Of each run of the wave its draft; −1 for runs of other keys.
  std::vector<int> draft_of_run = {};
  // Drafts without parent, in order.
  std::vector<int> tops = {};
  std::deque<std::vector<WriteExtent>> base_writes = {};
  // Of each prompt, once asked for.
  std::vector<std::optional<PromptRoots>> prompt_roots = {};

  const PlannedRun& RunOf(int run) const {
    return runs[run].plan->runs[runs[run].run];
  }
  ComparedRow Compared(const RowDraft& draft) const;
  // Of the tokens of two drafts.
  int64_t CommonPrefixOf(const RowDraft& a, const RowDraft& b) const;
  // A draft that nobody has asked for, with the tokens of `leader`.
  int AddBase(int prompt, int leader, std::vector<WriteExtent> writes);
};

// Prompts that have fewer first tokens than this in common have none: so few
// tokens less do not pay for looking up their values elsewhere.
inline constexpr int64_t kShortestCommonPrefix = 4;

// Makes a draft for each run of `members` (indices in the wave), one for those
// that cannot be told apart, of which one may generate.
void AddRuns(absl::Span<const int> members, RowForest& forest);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_ROW_FOREST_H_
