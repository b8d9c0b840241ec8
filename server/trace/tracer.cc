// SPDX-License-Identifier: Apache-2.0
#include "server/trace/tracer.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/model/torch_guard.h"
#include "server/spec/quote.h"
#include "server/trace/deliver_capture.h"
#include "server/trace/host_view.h"
#include "server/trace/select.h"

namespace phitap {
namespace {

// input_size of a run, whatever it has in common with others.
at::Tensor OwnSize(const RowWatch& watch, const RunPass& pass) {
  const auto count = static_cast<int64_t>(pass.ask.ids.size());
  const at::Tensor size = at::tensor({int64_t{1}, count}).view({1, 2});
  return SelectLines(size, {0}, watch.watch.point.hook, *watch.selection);
}

}  // namespace

Tracer::Tracer(const Phi3& model, absl::Span<const RunPass> runs,
               const PassRows& rows)
    : model_(model),
      runs_(runs),
      rows_(rows),
      table_(model.spec(), runs, rows),
      progress_(runs, rows),
      logits_(runs.size()) {
  for (int run = 0; run < static_cast<int>(runs.size()); ++run) {
    captures_left_.push_back(table_.capture_count(run));
    pass_of_run_[{&runs[run].values->memory(), runs[run].wave_run.run}] = run;
  }
  for (const int run : table_.blind_runs()) {
    progress_.FailRun(run,
                      absl::InternalError("a row of an earlier wave is asked "
                                          "for what it cannot show again"));
  }
}

void Tracer::ForRun(int run, absl::FunctionRef<void()> work) {
  if (!progress_.status(run).ok()) return;
  const absl::Status status = RunGuarded([&] {
    work();
    return absl::OkStatus();
  });
  if (!status.ok()) progress_.FailRun(run, status);
}

std::vector<int> Tracer::VisitsOf(HookPoint point, int row) const {
  std::vector<int> visits;
  const auto add = [&](int of) {
    const int visit = table_.FindVisit(point, of);
    if (visit >= 0 && progress_.Needed(of)) visits.push_back(visit);
  };
  add(row);
  for (const int other : progress_.GaveWayTo(row)) add(other);
  return visits;
}

Tracer::PointVisit Tracer::Begin(HookPoint point, at::Tensor value,
                                 const TokenLayout& layout) const {
  PointVisit visit{.visits = table_.At(point),
                   .matrix = EditedMatrix(std::move(value))};
  visit.waiting.assign(visit.visits.size(), nullptr);
  for (const TokenLayout::Row& lines : layout.rows) {
    for (const int v : VisitsOf(point, lines.row)) visit.waiting[v] = &lines;
  }
  return visit;
}

at::Tensor Tracer::Visit(HookPoint point, at::Tensor value,
                         const TokenLayout& layout) {
  PointVisit visit = Begin(point, std::move(value), layout);
  for (size_t v = 0; v < visit.visits.size(); ++v) {
    if (visit.waiting[v] == nullptr) continue;
    for (const RowWatch& watch : visit.visits[v].before) {
      Show(watch, *visit.waiting[v], visit.matrix.value());
    }
  }
  for (size_t v = 0; v < visit.visits.size(); ++v) TakeInOrder(visit, v);
  return visit.matrix.value();
}

void Tracer::TakeInOrder(PointVisit& point, size_t visit) {
  std::vector<size_t> chain = {visit};
  while (!chain.empty()) {
    const size_t next = chain.back();
    const int sooner =
        point.waiting[next] == nullptr ? -1 : SoonerThan(point, next);
    // Longer than there are visits: they wait for each other, and the first
    // that is taken fails for want of what it reads.
    if (sooner >= 0 && chain.size() <= point.visits.size()) {
      chain.push_back(sooner);
      continue;
    }
    Take(point, next);
    chain.pop_back();
  }
}

int Tracer::SoonerThan(const PointVisit& point, size_t visit) const {
  const RowVisit& own = point.visits[visit];
  const auto waits = [&](size_t other) {
    return other != visit && point.waiting[other] != nullptr;
  };
  if (progress_.HasGivenWay(own.row)) {
    // What its runs see is what the writes of the row in its place have left.
    for (size_t v = 0; v < visit; ++v) {
      if (waits(v) && point.visits[v].row == point.waiting[visit]->row) {
        return static_cast<int>(v);
      }
    }
    return -1;
  }
  NodeValues& values = *runs_[rows_[own.row].leader].values;
  for (const int write : own.writes) {
    for (const int read :
         values.MissingReads(values.memory().index().external_inputs(write))) {
      const auto& planned =
          std::get<RunRead>(values.plan().nodes[read].operation);
      const auto run = pass_of_run_.find({&values.memory(), planned.run});
      if (run == pass_of_run_.end()) continue;
      for (size_t v = 0; v < point.visits.size(); ++v) {
        const std::vector<RowWatch>& after = point.visits[v].after;
        const auto shows = [&](const RowWatch& watch) {
          return watch.watch.run == run->second;
        };
        if (waits(v) && std::any_of(after.begin(), after.end(), shows)) {
          return static_cast<int>(v);
        }
      }
    }
  }
  return -1;
}

void Tracer::Take(PointVisit& point, size_t visit) {
  const TokenLayout::Row* lines = std::exchange(point.waiting[visit], nullptr);
  if (lines == nullptr) return;
  const RowVisit& row = point.visits[visit];
  Write(row, [&](const PlannedWrite& write, const WriteScope& scope) {
    return ApplyWrite(write, scope, *lines, point.matrix);
  });
  for (const RowWatch& watch : row.after) {
    Show(watch, *lines, point.matrix.value());
  }
  for (const int run : row.choosing_runs) {
    Choose(run, *lines, point.matrix.value());
  }
}

void Tracer::Choose(int run, const TokenLayout::Row& lines,
                    const at::Tensor& logits) {
  const auto own =
      std::lower_bound(lines.positions.begin(), lines.positions.end(),
                       runs_[run].own_position());
  if (own == lines.positions.end() || *own != runs_[run].own_position()) {
    return;
  }
  ForRun(run, [&] {
    logits_[run] =
        logits.select(0, lines.begin + (own - lines.positions.begin())).clone();
  });
}

void Tracer::Write(
    const RowVisit& visit,
    absl::FunctionRef<bool(const PlannedWrite&, const WriteScope&)> apply) {
  if (visit.writes.empty() || progress_.HasGivenWay(visit.row)) return;
  const RowPass& row = rows_[visit.row];
  const RunPass& leader = runs_[row.leader];
  const absl::Status status = RunGuarded([&] {
    for (const int write : visit.writes) {
      RETURN_IF_ERROR(InputStatus(write, *leader.values));
    }
    for (const int write : visit.writes) {
      const bool differs =
          progress_.MayGiveWay(visit.row) &&
          std::find(row.differing_writes.begin(), row.differing_writes.end(),
                    write) != row.differing_writes.end();
      const bool written =
          apply(leader.plan().writes[write],
                {.values = *leader.values,
                 .sequence = leader.sequence,
                 .same_bits = differs ? SameBits::kLeave : SameBits::kWrite});
      if (written && differs) progress_.HasChanged(visit.row);
    }
    return absl::OkStatus();
  });
  if (!status.ok()) progress_.FailRow(visit.row, status);
}

bool Tracer::WantsPattern(HookPoint point, const PatternBlock& block) const {
  const auto wants = [&](const RowWatch& watch) { return watch.Wants(block); };
  for (const int v : VisitsOf(point, block.row)) {
    const RowVisit& visit = table_.At(point)[v];
    const bool writes =
        !visit.writes.empty() && !progress_.HasGivenWay(visit.row);
    if (writes ||
        std::any_of(visit.before.begin(), visit.before.end(), wants) ||
        std::any_of(visit.after.begin(), visit.after.end(), wants)) {
      return true;
    }
  }
  return false;
}

at::Tensor Tracer::VisitPattern(HookPoint point, const PatternBlock& block,
                                at::Tensor value) {
  EditedPattern pattern(std::move(value));
  const std::vector<int> visits = VisitsOf(point, block.row);
  for (const int v : visits) {
    Show(table_.At(point)[v].before, block, pattern.value());
  }
  for (const int v : visits) {
    const RowVisit& visit = table_.At(point)[v];
    Write(visit, [&](const PlannedWrite& write, const WriteScope& scope) {
      return ApplyWrite(write, scope, block, pattern);
    });
    Show(visit.after, block, pattern.value());
  }
  return pattern.value();
}

void Tracer::Show(const RowWatch& watch, const TokenLayout::Row& lines,
                  const at::Tensor& value) {
  const int run = watch.watch.run;
  ForRun(run, [&] {
    const at::Tensor selected = watch.watch.point.hook == Hook::kInputSize
                                    ? OwnSize(watch, runs_[run])
                                    : watch.Take(lines, value);
    if (selected.defined()) Watched(watch.watch, selected);
  });
}

void Tracer::Show(const std::vector<RowWatch>& watches,
                  const PatternBlock& block, const at::Tensor& value) {
  for (const RowWatch& watch : watches) {
    ForRun(watch.watch.run, [&] {
      const at::Tensor selected = watch.Take(block, value);
      if (selected.defined()) Watched(watch.watch, selected);
    });
  }
}

void Tracer::Watched(const Watch& watch, const at::Tensor& selected) {
  const RunPass& pass = runs_[watch.run];
  if (watch.node >= 0) {
    pass.values->PutRead(watch.node, ToKeep(selected));
    return;
  }
  DeliverCapture(model_, pass, watch, selected);
  --captures_left_[watch.run];
}

absl::Status Tracer::InputStatus(int write, NodeValues& values) const {
  const std::vector<int> missing =
      values.MissingReads(values.memory().index().external_inputs(write));
  return missing.empty() ? absl::OkStatus()
                         : WhyMissing(values, missing.front());
}

absl::Status Tracer::WhyMissing(NodeValues& values, int read) const {
  const ProgramNode& node = values.plan().nodes[read];
  const int run = std::get<RunRead>(node.operation).run;
  const std::string label = Quoted(values.plan().runs[run].label);
  const auto other = pass_of_run_.find({&values.memory(), run});
  if (other != pass_of_run_.end() && !progress_.status(other->second).ok()) {
    const absl::Status& why = progress_.status(other->second);
    return absl::IsCancelled(why)
               ? absl::CancelledError(absl::StrCat(
                     "run ", label, ", which it reads, was cancelled"))
               : absl::FailedPreconditionError(absl::StrCat(
                     "run ", label,
                     ", which it reads, failed: ", std::string(why.message())));
  }
  return absl::InternalError(
      absl::StrCat(node.field, ": the value of run ", label,
                   " that a write needs was not there in time"));
}

}  // namespace phitap
