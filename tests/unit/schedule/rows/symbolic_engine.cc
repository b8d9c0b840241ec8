#include "tests/unit/schedule/rows/symbolic_engine.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

SymbolicValue Hash(std::initializer_list<uint64_t> parts) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (const uint64_t part : parts) {
    hash ^= part + 0x2545f4914f6cdd1d + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccd;
    hash ^= hash >> 33;
  }
  return hash | 1;
}

bool Hidden(const MadeRun& run, int64_t position) {
  return std::find(run.hidden_positions.begin(), run.hidden_positions.end(),
                   position) != run.hidden_positions.end();
}

// Some writes leave some values as they are, and some all.
SymbolicValue Written(uint64_t effect, SymbolicValue value, uint64_t context) {
  if (effect % 5 == 0) return value;
  if (effect % 3 == 0 && value % 4 == 1) return value;
  return Hash({effect, value, context});
}

bool Contains(const std::vector<int64_t>& positions, int64_t position) {
  return std::binary_search(positions.begin(), positions.end(), position);
}

}  // namespace

SymbolicRow SymbolicEngine::Alone(const MadeRun& run, int index) const {
  const auto token_count = static_cast<int64_t>(run.ids.size());
  const std::vector<int64_t> all = AllPositions(token_count);
  WaveRow row = {.token_count = token_count,
                 .reach = {.layer_count = layer_count_,
                           .tail_positions = all,
                           .norm_positions = all,
                           .head_positions = all}};
  for (size_t i = 0; i < run.writes.size(); ++i) {
    row.writes.push_back(static_cast<int>(i));
  }
  Source source = {.run = &run, .run_index = index, .row = &row};
  return SymbolicEngine(layer_count_).Compute(source);
}

void SymbolicEngine::Execute(const WavePlan& wave,
                             const std::vector<MadeRun>& made) {
  wave_ = wave;
  rows_.clear();
  for (const WaveRow& row : wave_.rows) {
    Source source = {
        .run = &made[row.leader], .run_index = row.leader, .row = &row};
    SymbolicRow computed = Compute(source);
    if (!row.differing_writes.empty() && !source.changed) {
      computed = {.token_count = row.token_count, .gone = true};
    }
    rows_.push_back(std::move(computed));
  }
}

SymbolicRow SymbolicEngine::Compute(Source& source) {
  const WaveRow& row = *source.row;
  SymbolicRow computed = {.token_count = row.token_count};
  SymbolicLine residual = Begin(source, computed);
  for (int layer = row.first_layer; layer < row.reach.layer_count; ++layer) {
    ComputeLayer(source, layer, residual, computed);
  }
  if (row.reach.layer_count == layer_count_) {
    ComputeHead(source, residual, computed);
  }
  return computed;
}

SymbolicLine SymbolicEngine::Begin(Source& source, SymbolicRow& row) {
  const WaveRow& planned = *source.row;
  SymbolicLine line(planned.token_count, 0);
  const int first_layer = planned.first_layer;
  const bool ends_there = first_layer == planned.reach.layer_count;
  for (int64_t p = planned.first_position; p < planned.token_count; ++p) {
    if (first_layer == 0) {
      line[p] = Hash({1, static_cast<uint64_t>(source.run->ids[p])});
    } else if (!ends_there || Contains(planned.reach.tail_positions, p)) {
      line[p] = Residual(planned, first_layer - 1, p);
    }
  }
  Visit(source,
        first_layer == 0
            ? HookPoint{.hook = Hook::kTokenEmbeddings}
            : HookPoint{.hook = Hook::kLayerOutput, .layer = first_layer - 1},
        line, row);
  return line;
}

void SymbolicEngine::ComputeLayer(Source& source, int layer,
                                  SymbolicLine& residual, SymbolicRow& row) {
  const WaveRow& planned = *source.row;
  Visit(source, {Hook::kLayerInput, layer}, residual, row);
  const SymbolicLine scores = Attend(source, layer, residual, row);
  const bool is_last = layer + 1 == planned.reach.layer_count;
  SymbolicLine attended(planned.token_count, 0);
  for (int64_t p = planned.first_position; p < planned.token_count; ++p) {
    if (is_last && !Contains(planned.reach.tail_positions, p)) continue;
    attended[p] = Hash({5, scores[p]});
  }
  Visit(source, {Hook::kAttentionOutput, layer}, attended, row);
  SymbolicLine mlp(planned.token_count, 0);
  for (size_t p = 0; p < mlp.size(); ++p) {
    if (attended[p] == 0) continue;
    mlp[p] = Hash({6, static_cast<uint64_t>(layer), attended[p], residual[p]});
  }
  Visit(source, {Hook::kMlpOutput, layer}, mlp, row);
  for (size_t p = 0; p < mlp.size(); ++p) {
    residual[p] =
        attended[p] == 0 ? 0 : Hash({7, mlp[p], attended[p], residual[p]});
  }
  row.residuals[layer] = residual;
  Visit(source, {Hook::kLayerOutput, layer}, residual, row);
}

SymbolicLine SymbolicEngine::Attend(Source& source, int layer,
                                    const SymbolicLine& residual,
                                    SymbolicRow& row) {
  const WaveRow& planned = *source.row;
  const MadeRun& run = *source.run;
  SymbolicLine keys(planned.token_count, 0);
  for (int64_t p = planned.first_position; p < planned.token_count; ++p) {
    keys[p] =
        Hash({2, static_cast<uint64_t>(layer), residual[p],
              static_cast<uint64_t>(run.position_ids[p]), run.long_factors});
  }
  Visit(source, {Hook::kAttentionKeys, layer}, keys, row);
  SymbolicLine scores(planned.token_count, 0);
  uint64_t seen = 0;
  for (int64_t p = 0; p < planned.token_count; ++p) {
    const bool own = p >= planned.first_position;
    const SymbolicValue key = own ? keys[p] : Key(planned, layer, p);
    seen = Hash({3, seen, Hidden(run, p) ? 0 : key});
    if (own) scores[p] = Hash({4, seen, static_cast<uint64_t>(run.attention)});
  }
  Visit(source, {Hook::kAttentionScores, layer}, scores, row);
  return scores;
}

void SymbolicEngine::ComputeHead(Source& source, const SymbolicLine& residual,
                                 SymbolicRow& row) {
  const Reach& reach = source.row->reach;
  const auto next = [&](const SymbolicLine& line, uint64_t salt,
                        const std::vector<int64_t>& positions) {
    SymbolicLine made(line.size(), 0);
    for (const int64_t p : positions) {
      made[p] = line[p] == 0 ? Lacks("value before norm or head", -1, p)
                             : Hash({salt, line[p]});
    }
    return made;
  };
  SymbolicLine norm = next(residual, 8, reach.norm_positions);
  Visit(source, {.hook = Hook::kFinalNormOutput}, norm, row);
  SymbolicLine logits = next(norm, 9, reach.head_positions);
  Visit(source, {.hook = Hook::kLogits}, logits, row);
}

void SymbolicEngine::Visit(Source& source, HookPoint point, SymbolicLine& line,
                           SymbolicRow& row) {
  for (const int index : source.row->writes) {
    const MadeWrite& write = source.run->writes[index];
    if (write.point != point) continue;
    const uint64_t effect =
        write.effect != 0 ? write.effect
                          : Hash({10, static_cast<uint64_t>(source.run_index),
                                  static_cast<uint64_t>(index)});
    const auto is_there = [&](int64_t p) {
      return p < source.row->token_count && line[p] != 0;
    };
    uint64_t part = 0;
    const auto there =
        std::count_if(write.positions.begin(), write.positions.end(), is_there);
    if (write.mixes_positions && there > 0) {
      if (there < static_cast<int64_t>(write.positions.size())) {
        Lacks("whole part of a write", point.layer, write.positions[0]);
      }
      for (const int64_t p : write.positions) {
        if (is_there(p)) part = Hash({part, line[p]});
      }
    }
    for (const int64_t p : write.positions) {
      if (!is_there(p)) continue;
      const SymbolicValue written = Written(effect, line[p], part);
      const std::vector<int>& differing = source.row->differing_writes;
      source.changed |= written != line[p] &&
                        std::find(differing.begin(), differing.end(), index) !=
                            differing.end();
      line[p] = written;
    }
  }
  row.values[{point.hook, point.layer}] = line;
}

SymbolicValue SymbolicEngine::Residual(const WaveRow& row, int layer,
                                       int64_t position) {
  const SymbolicRow* parent = nullptr;
  if (row.parent >= 0) {
    const WaveRow& planned = wave_.rows[row.parent];
    if (rows_[row.parent].gone || position < planned.first_position ||
        layer < planned.first_layer) {
      return Residual(planned, layer, position);
    }
    parent = &rows_[row.parent];
  } else if (roots_.contains(row.parent_root)) {
    parent = &roots_.at(row.parent_root);
  }
  if (parent == nullptr || position >= parent->token_count ||
      !parent->residuals.contains(layer) ||
      parent->residuals.at(layer)[position] == 0) {
    return Lacks("residual stream of its parent", layer, position);
  }
  return parent->residuals.at(layer)[position];
}

SymbolicValue SymbolicEngine::Key(const WaveRow& row, int layer,
                                  int64_t position) {
  const SymbolicRow* parent = nullptr;
  if (row.parent >= 0) {
    const WaveRow& planned = wave_.rows[row.parent];
    if (rows_[row.parent].gone || position < planned.first_position ||
        layer < planned.first_layer) {
      return Key(planned, layer, position);
    }
    parent = &rows_[row.parent];
  } else if (roots_.contains(row.parent_root)) {
    parent = &roots_.at(row.parent_root);
  }
  const std::pair keys = {Hook::kAttentionKeys, layer};
  if (parent == nullptr || position >= parent->token_count ||
      !parent->values.contains(keys) ||
      parent->values.at(keys)[position] == 0) {
    return Lacks("key of its parent", layer, position);
  }
  return parent->values.at(keys)[position];
}

SymbolicValue SymbolicEngine::Show(int run, HookPoint point, int64_t position) {
  const int layer = LayerOf(point, layer_count_);
  int index = wave_.runs[run].row;
  while (index >= 0) {
    const WaveRow& row = wave_.rows[index];
    if (!rows_[index].gone && position >= row.first_position &&
        layer >= row.first_layer) {
      break;
    }
    index = row.parent;
  }
  if (index < 0) return Lacks("row that shows a value", layer, position);
  const auto& values = rows_[index].values;
  const auto line = values.find({point.hook, point.layer});
  if (line == values.end() ||
      position >= static_cast<int64_t>(line->second.size()) ||
      line->second[position] == 0) {
    return Lacks("value that is asked for", layer, position);
  }
  return line->second[position];
}

SymbolicValue SymbolicEngine::Lacks(const std::string& what, int layer,
                                    int64_t position) {
  problems_.push_back(
      absl::StrCat("no ", what, ": layer ", layer, ", position ", position));
  return 3;
}

}  // namespace phitap
