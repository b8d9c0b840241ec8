#include "server/schedule/rows/root_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace phitap {
namespace {

// Fewer tokens are computed again as fast as they are looked up.
constexpr int64_t kFewestTokens = 32;
// So that looking for one stays cheap beside a forward of the smallest model.
constexpr size_t kMostRoots = 128;

// Whether `root` has all that `other` has: the same tokens and writes, and
// more.
bool Contains(const KeptRoot& root, const KeptRoot& other) {
  const ComparedRow ours = root.Compared();
  const ComparedRow theirs = other.Compared();
  if (root.key != other.key || ours.sequence.size() != theirs.sequence.size()) {
    return false;
  }
  if (root.layer_count < other.layer_count ||
      (root.layer_count == other.layer_count &&
       !std::includes(root.tail_positions.begin(), root.tail_positions.end(),
                      other.tail_positions.begin(),
                      other.tail_positions.end()))) {
    return false;
  }
  return SameWrites(WritesWithin(ours.writes, other.layer_count),
                    theirs.writes) &&
         CommonPrefix(ours.sequence, theirs.sequence) == ours.sequence.size();
}

}  // namespace

RootTable::RootTable(int64_t max_bytes, RootBytesOf bytes_of)
    : max_bytes_(max_bytes), bytes_of_(std::move(bytes_of)) {}

std::vector<const KeptRoot*> RootTable::Find(const SharingKey& key) const {
  std::vector<const KeptRoot*> found;
  for (auto root = roots_.rbegin(); root != roots_.rend(); ++root) {
    if (!(*root)->pending && (*root)->key == key) found.push_back(root->get());
  }
  return found;
}

void RootTable::Use(RootId root) {
  const auto position = Position(root);
  ++(*position)->user_count;
  (*position)->age = 0;
  std::rotate(position, position + 1, roots_.end());
}

void RootTable::Release(RootId root) { --(*Position(root))->user_count; }

RootId RootTable::Reserve(const SharingKey& key, const ComparedRow& row,
                          const Reach& reach) {
  if (max_bytes_ <= 0 || row.sequence.size() < kFewestTokens ||
      reach.layer_count == 0) {
    return kNoRoot;
  }
  const TokenSequence& sequence = row.sequence;
  auto root = std::make_unique<KeptRoot>(KeptRoot{
      .key = key,
      .ids = {sequence.ids.begin(), sequence.ids.end()},
      .position_ids = {sequence.position_ids.begin(),
                       sequence.position_ids.end()},
      .hidden_positions = {sequence.hidden_positions.begin(),
                           sequence.hidden_positions.end()},
      .layer_count = reach.layer_count,
      .tail_positions = reach.tail_positions,
      .size_bytes =
          bytes_of_(key.executor, reach.layer_count, sequence.size())});
  const absl::Span<const WriteExtent> writes =
      WritesWithin(row.writes, reach.layer_count);
  root->writes.assign(writes.begin(), writes.end());
  const auto known =
      std::find_if(roots_.begin(), roots_.end(),
                   [&](const auto& other) { return Contains(*other, *root); });
  if (known != roots_.end()) {
    (*known)->age = 0;
    std::rotate(known, known + 1, roots_.end());
    return kNoRoot;
  }
  if (!MakeRoom(root->size_bytes)) return kNoRoot;
  root->id = next_id_++;
  size_bytes_ += root->size_bytes;
  roots_.push_back(std::move(root));
  return roots_.back()->id;
}

void RootTable::Settle(RootId root, Fate fate) {
  const auto settled = Position(root);
  if (fate == Fate::kLost) {
    size_bytes_ -= (*settled)->size_bytes;
    roots_.erase(settled);
    return;
  }
  (*settled)->pending = false;
  const KeptRoot& kept = **settled;
  for (size_t i = roots_.size(); i-- > 0;) {
    const KeptRoot& other = *roots_[i];
    if (&other == &kept || other.pending || other.user_count > 0) continue;
    if (Contains(kept, other)) Forget(roots_.begin() + i);
  }
}

void RootTable::GrowOlder() {
  for (size_t i = roots_.size(); i-- > 0;) {
    KeptRoot& root = *roots_[i];
    if (root.pending || root.user_count > 0) continue;
    if (++root.age > kMostAge) Forget(roots_.begin() + i);
  }
}

void RootTable::ForgetAll(const std::string& executor) {
  std::erase_if(roots_, [&](const std::unique_ptr<KeptRoot>& root) {
    if (root->key.executor != executor) return false;
    size_bytes_ -= root->size_bytes;
    return true;
  });
  std::erase_if(forgotten_, [&](const ForgottenRoot& forgotten) {
    return forgotten.executor == executor;
  });
}

std::vector<ForgottenRoot> RootTable::TakeForgotten() {
  return std::exchange(forgotten_, {});
}

RootTable::Roots::iterator RootTable::Position(RootId root) {
  return std::find_if(roots_.begin(), roots_.end(),
                      [&](const auto& other) { return other->id == root; });
}

void RootTable::Forget(Roots::iterator position) {
  const KeptRoot& root = **position;
  forgotten_.push_back({.executor = root.key.executor, .root = root.id});
  size_bytes_ -= root.size_bytes;
  roots_.erase(position);
}

bool RootTable::MakeRoom(int64_t bytes) {
  const auto may_go = [](const auto& root) {
    return !root->pending && root->user_count == 0;
  };
  int64_t staying = 0;
  size_t staying_count = 0;
  for (const auto& root : roots_) {
    if (may_go(root)) continue;
    staying += root->size_bytes;
    ++staying_count;
  }
  if (staying + bytes > max_bytes_ || staying_count >= kMostRoots) return false;
  while (size_bytes_ + bytes > max_bytes_ || roots_.size() >= kMostRoots) {
    Forget(std::find_if(roots_.begin(), roots_.end(), may_go));
  }
  return true;
}

}  // namespace phitap
