#include "server/plan/sharing/own_tokens.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "server/plan/sharing/canonical_bytes.h"

namespace phitap {
namespace {

// Runs of the same tokens that later ones are compared with.
constexpr size_t kMostCompared = 8;

template <typename Element>
Digest DigestOfList(const std::vector<Element>& list) {
  return DigestOf({reinterpret_cast<const std::byte*>(list.data()),
                   list.size() * sizeof(Element)});
}

Digest DigestOfSequence(const PlannedRun& run) {
  return CanonicalBytes()
      .Add(DigestOfList(run.ids))
      .Add(DigestOfList(run.position_ids))
      .Add(DigestOfList(run.hidden_positions))
      .Add(int64_t{run.sharing.long_factors})
      .Hash();
}

// Positions before the first at which two runs have other tokens.
int64_t CommonPrefix(const PlannedRun& a, const PlannedRun& b) {
  if (a.sharing.long_factors != b.sharing.long_factors) return 0;
  const auto same = [](const auto& x, const auto& y) {
    const auto end = x.begin() + std::min(x.size(), y.size());
    return std::mismatch(x.begin(), end, y.begin()).first - x.begin();
  };
  int64_t common =
      std::min(same(a.ids, b.ids), same(a.position_ids, b.position_ids));
  // Where one list of hidden positions goes on differently, the smaller of the
  // two next ones is hidden in one run only.
  const auto hidden =
      static_cast<size_t>(same(a.hidden_positions, b.hidden_positions));
  for (const PlannedRun* run : {&a, &b}) {
    if (hidden < run->hidden_positions.size()) {
      common = std::min(common, run->hidden_positions[hidden]);
    }
  }
  return common;
}

// Writes that others can have, too.
using StaticWrites = absl::flat_hash_set<Digest>;

StaticWrites StaticWritesOf(const PlannedRun& run) {
  StaticWrites digests;
  for (const WriteExtent& write : run.sharing.writes) {
    if (write.is_static()) digests.insert(write.digest);
  }
  return digests;
}

// A run that others are compared with.
struct Compared {
  StaticWrites writes;
  // With the position from which on they are felt, ascending.
  std::vector<std::pair<int64_t, Digest>> by_position;
  // Positions before the first at which the others have other tokens.
  int64_t common = 0;
};

// What needs values of runs would be left to the run alone.
Compared ToCompare(const PlannedRun& run, StaticWrites writes, int64_t common) {
  Compared compared = {.writes = std::move(writes), .common = common};
  for (const WriteExtent& write : run.sharing.writes) {
    if (!write.is_static()) continue;
    compared.by_position.emplace_back(write.first_position, write.digest);
  }
  std::sort(compared.by_position.begin(), compared.by_position.end());
  return compared;
}

// The tokens of `run` from the first on that `other` does not compute for it.
int64_t OwnTokens(const PlannedRun& run, const StaticWrites& writes,
                  const Compared& other) {
  int64_t common = other.common;
  for (const WriteExtent& write : run.sharing.writes) {
    if (other.writes.contains(write.digest)) continue;
    common = std::min(common, write.first_position);
  }
  for (const auto& [position, digest] : other.by_position) {
    if (position >= common) break;
    if (!writes.contains(digest)) common = position;
  }
  const auto token_count = static_cast<int64_t>(run.ids.size());
  return std::max<int64_t>(1, token_count - common);
}

// `before` may be null.
void CountAlike(const std::vector<int>& alike, const PlannedRun* before,
                std::vector<PlannedRun>& runs) {
  const PlannedRun& first = runs[alike.front()];
  std::vector<Compared> compared;
  if (before != nullptr) {
    compared.push_back(ToCompare(*before, StaticWritesOf(*before),
                                 CommonPrefix(first, *before)));
  }
  const auto token_count = static_cast<int64_t>(first.ids.size());
  for (const int index : alike) {
    PlannedRun& run = runs[index];
    StaticWrites writes = StaticWritesOf(run);
    for (const Compared& other : compared) {
      run.own_token_count =
          std::min(run.own_token_count, OwnTokens(run, writes, other));
    }
    if (compared.size() >= kMostCompared) continue;
    compared.push_back(ToCompare(run, std::move(writes), token_count));
  }
}

}  // namespace

std::vector<std::vector<int>> AlikeRuns(const TracePlan& plan) {
  std::vector<std::vector<int>> sets;
  absl::flat_hash_map<Digest, size_t> places;
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    if (!plan.runs[i].sharing.allowed) continue;
    const auto [found, is_new] =
        places.try_emplace(DigestOfSequence(plan.runs[i]), sets.size());
    if (is_new) sets.emplace_back();
    sets[found->second].push_back(static_cast<int>(i));
  }
  return sets;
}

void CountOwnTokens(TracePlan& plan) {
  for (PlannedRun& run : plan.runs) {
    run.own_token_count = static_cast<int64_t>(run.ids.size());
  }
  if (plan.runs.size() < 2) return;
  std::vector<std::vector<int>> sets = AlikeRuns(plan);
  // Next to each other stand those with the longest prefix in common.
  std::sort(sets.begin(), sets.end(),
            [&](const std::vector<int>& a, const std::vector<int>& b) {
              const PlannedRun& run = plan.runs[a.front()];
              const PlannedRun& other = plan.runs[b.front()];
              return std::tie(run.sharing.long_factors, run.ids) <
                     std::tie(other.sharing.long_factors, other.ids);
            });
  const PlannedRun* before = nullptr;
  for (const std::vector<int>& alike : sets) {
    CountAlike(alike, before, plan.runs);
    before = &plan.runs[alike.front()];
  }
}

}  // namespace phitap
