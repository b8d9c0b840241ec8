#include "server/schedule/rows/prompt_chains.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace phitap {
namespace {

// Chains prompts that all begin alike, as a tree of their tokens in which each
// prompt is the trunk of those that leave it.
class PromptChain {
 public:
  PromptChain(std::vector<int> prompts, RowForest& forest)
      : forest_(forest), prompts_(std::move(prompts)) {
    const std::vector<int>& drafts = forest.prompts[prompts_[0]].drafts;
    const absl::Span<const WriteExtent> first = forest.drafts[drafts[0]].writes;
    std::copy_if(first.begin(), first.end(), std::back_inserter(common_writes_),
                 [](const WriteExtent& write) { return write.is_static(); });
    for (const int prompt : prompts_) {
      for (const int draft : forest.prompts[prompt].drafts) {
        if (common_writes_.empty()) return;
        common_writes_ =
            CommonWrites(common_writes_, forest.drafts[draft].writes);
      }
    }
  }

  void Build() {
    Link(prompts_, -1, 0);
    for (const int prompt : prompts_) AddTop(prompt);
    for (const int prompt : prompts_) {
      const SharedPrompt& linked = forest_.prompts[prompt];
      if (linked.parent < 0) {
        forest_.tops.push_back(linked.top);
        continue;
      }
      const int parent = forest_.prompts[linked.parent].top;
      forest_.drafts[linked.top].parent = parent;
      forest_.drafts[parent].children.push_back(linked.top);
    }
  }

 private:
  // Where a prompt leaves the trunk, and with which token; none where it ends
  // there.
  struct Branch {
    int64_t common_prefix = 0;
    std::optional<TokenSymbol> next;
    int prompt = 0;

    auto Order() const { return std::tie(common_prefix, next); }
  };

  // The requested draft with just the common writes; −1 if there is none.
  int PlainDraft(int prompt) const {
    for (const int draft : forest_.prompts[prompt].drafts) {
      if (SameWrites(forest_.drafts[draft].writes, common_writes_)) {
        return draft;
      }
    }
    return -1;
  }

  void Link(const std::vector<int>& prompts, int parent, int64_t known) {
    const auto plain =
        std::find_if(prompts.begin(), prompts.end(),
                     [&](int prompt) { return PlainDraft(prompt) >= 0; });
    const int trunk = plain == prompts.end() ? prompts[0] : *plain;
    SharedPrompt& linked = forest_.prompts[trunk];
    linked.parent = parent;
    linked.common_prefix = known;
    linked.depth = parent < 0 ? 0 : forest_.prompts[parent].depth + 1;
    if (prompts.size() == 1) return;

    std::vector<Branch> branches = BranchesOf(prompts, trunk, known);
    for (size_t begin = 0; begin < branches.size();) {
      std::vector<int> branch;
      size_t end = begin;
      while (end < branches.size() &&
             branches[end].Order() == branches[begin].Order()) {
        branch.push_back(branches[end++].prompt);
      }
      Link(branch, trunk, branches[begin].common_prefix);
      begin = end;
    }
  }

  std::vector<Branch> BranchesOf(const std::vector<int>& prompts, int trunk,
                                 int64_t known) const {
    std::vector<Branch> branches;
    branches.reserve(prompts.size() - 1);
    for (const int prompt : prompts) {
      if (prompt == trunk) continue;
      const TokenSequence& sequence = forest_.prompts[prompt].sequence;
      const int64_t common =
          CommonPrefix(sequence, forest_.prompts[trunk].sequence, known);
      branches.push_back({.common_prefix = common, .prompt = prompt});
      if (common < sequence.size()) {
        branches.back().next = SymbolAt(sequence, common);
      }
    }
    std::stable_sort(
        branches.begin(), branches.end(),
        [](const Branch& a, const Branch& b) { return a.Order() < b.Order(); });
    return branches;
  }

  void AddTop(int prompt) {
    SharedPrompt& shared = forest_.prompts[prompt];
    shared.top = PlainDraft(prompt);
    if (shared.top >= 0) return;
    const RowDraft& first = forest_.drafts[shared.drafts[0]];
    shared.top = forest_.AddBase(prompt, first.leader,
                                 CommonWrites(first.writes, common_writes_));
  }

  RowForest& forest_;
  const std::vector<int> prompts_;
  std::vector<WriteExtent> common_writes_;
};

}  // namespace

void ChainPrompts(RowForest& forest) {
  // Those that may have their shortest prefix in common, in order.
  std::vector<std::vector<int>> alike;
  absl::flat_hash_map<uint64_t, size_t> index_of;
  for (size_t i = 0; i < forest.prompts.size(); ++i) {
    const TokenSequence& sequence = forest.prompts[i].sequence;
    size_t index = alike.size();
    if (sequence.size() >= kShortestCommonPrefix) {
      TokenSequence beginning = Prefix(sequence, kShortestCommonPrefix);
      beginning.hidden_positions = {};
      index = index_of.try_emplace(HashOf(beginning), index).first->second;
    }
    if (index == alike.size()) alike.emplace_back();
    alike[index].push_back(static_cast<int>(i));
  }
  for (std::vector<int>& prompts : alike) {
    // Hidden positions, too, tell beginnings apart.
    while (!prompts.empty()) {
      const TokenSequence first = forest.prompts[prompts[0]].sequence;
      const auto others = std::stable_partition(
          prompts.begin(), prompts.end(), [&](int prompt) {
            const TokenSequence& sequence = forest.prompts[prompt].sequence;
            return prompt == prompts[0] ||
                   CommonPrefix(sequence, first) >= kShortestCommonPrefix;
          });
      std::vector<int> rest(others, prompts.end());
      prompts.erase(others, prompts.end());
      PromptChain(std::move(prompts), forest).Build();
      prompts = std::move(rest);
    }
  }
}

}  // namespace phitap
