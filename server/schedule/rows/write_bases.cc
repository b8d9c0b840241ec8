#include "server/schedule/rows/write_bases.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace phitap {
namespace {

using WriteDigest = std::pair<uint64_t, uint64_t>;

class WriteBases {
 public:
  explicit WriteBases(RowForest& forest) : forest_(forest) {}

  // Each draft of `members` has the writes of `base`, and more.
  void Grow(int base, const std::vector<int>& members) {
    std::vector<std::vector<WriteExtent>> beyond;
    beyond.reserve(members.size());
    absl::flat_hash_map<WriteDigest, int> counts;
    for (const int member : members) {
      beyond.push_back(WritesBeyond(forest_.drafts[member].writes,
                                    forest_.drafts[base].writes));
      for (const WriteExtent& write : beyond.back()) {
        if (write.is_static()) ++counts[write.digest];
      }
    }
    // In the order in which their first members come.
    std::vector<std::vector<int>> families;
    absl::flat_hash_map<WriteDigest, size_t> family_of;
    for (size_t i = 0; i < members.size(); ++i) {
      const WriteExtent* most = nullptr;
      for (const WriteExtent& write : beyond[i]) {
        if (!write.is_static() || counts[write.digest] < 2) continue;
        if (most == nullptr || counts[write.digest] > counts[most->digest]) {
          most = &write;
        }
      }
      if (most == nullptr) {
        Attach(members[i], base);
        continue;
      }
      const auto [family, is_new] =
          family_of.try_emplace(most->digest, families.size());
      if (is_new) families.emplace_back();
      families[family->second].push_back(members[i]);
    }
    for (const std::vector<int>& family : families) AddFamily(base, family);
  }

 private:
  // Drafts with at least one write in common that the base does not have.
  void AddFamily(int base, const std::vector<int>& family) {
    const RowDraft first = forest_.drafts[family[0]];
    std::vector<WriteExtent> common;
    for (const WriteExtent& write : first.writes) {
      if (write.is_static()) common.push_back(write);
    }
    for (const int member : family) {
      common = CommonWrites(common, forest_.drafts[member].writes);
    }
    if (common.size() <= forest_.drafts[base].writes.size()) {
      // In other orders there may be nothing.
      for (const int member : family) Attach(member, base);
      return;
    }
    int family_base = -1;
    std::vector<int> others;
    for (const int member : family) {
      if (family_base < 0 &&
          SameWrites(forest_.drafts[member].writes, common)) {
        family_base = member;
      } else {
        others.push_back(member);
      }
    }
    if (family_base < 0) {
      family_base =
          forest_.AddBase(first.prompt, first.leader, std::move(common));
    }
    Attach(family_base, base);
    Grow(family_base, others);
  }

  void Attach(int draft, int parent) {
    forest_.drafts[draft].parent = parent;
    forest_.drafts[parent].children.push_back(draft);
  }

  RowForest& forest_;
};

}  // namespace

void GrowByWrites(RowForest& forest) {
  WriteBases bases(forest);
  for (const SharedPrompt& prompt : forest.prompts) {
    std::vector<int> members;
    for (const int draft : prompt.drafts) {
      if (draft != prompt.top) members.push_back(draft);
    }
    bases.Grow(prompt.top, members);
  }
}

}  // namespace phitap
