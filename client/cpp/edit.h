// Interventions, written shortly: what to change in a run, and where.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_EDIT_H_
#define PHITAP_CLIENT_CPP_EDIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/cpp/selection.h"
#include "client/cpp/source.h"
#include "phitap/v1/intervention.pb.h"

namespace phitap::client {

// x is the part that is edited, u the unit vector along a direction. Edits
// compute in float32 and round once.

// x ← value; 0 zeroes.
struct Set {
  Source value;
};
// x ← x + scale · value
struct Add {
  Source value;
  double scale = 1;
};
// x ← x · factor
struct Scale {
  Source factor;
};
// x ← x − (1 − keep) · (x · u) u
struct ProjectOut {
  Source direction;
  double keep = 0;
};
// x ← x with x · u brought between low and high
struct ClampProjection {
  Source direction;
  std::optional<double> low;
  std::optional<double> high;
};
// Turns one direction into another; with `both`, the other also into the one.
struct Swap {
  Source from;
  Source to;
  bool both = false;
};
// x ← min(max(x, low), high)
struct Clamp {
  std::optional<double> low;
  std::optional<double> high;
};
// x ← x + scale · n, n standard normal
struct Noise {
  double scale = 1;
  uint64_t seed = 0;
};
// The selected queries do not see the selected keys.
struct Knockout {};
// A block passes its input on; attention or MLP adds nothing.
struct Skip {};
// x ← x + ((source R − x R) ⊙ mask) Rᵀ, R the orthonormal columns of `basis`
struct Subspace {
  Source basis;
  Source source;
  std::optional<Source> mask;
};

// Of one feature f of a dictionary.
struct SetFeature {
  double value = 0;
};
struct ScaleFeature {
  double factor = 0;
};
struct AddToFeature {
  double value = 0;
};
struct FeatureOfRun {
  std::string run;
};
struct FeatureChange {
  int32_t feature = 0;
  std::variant<SetFeature, ScaleFeature, AddToFeature, FeatureOfRun> change;
};

// An autoencoder or transcoder kept on the server: see v1::Dictionary.
struct Dictionary {
  std::string name;
  v1::DictionaryActivation activation = v1::DICTIONARY_ACTIVATION_UNSPECIFIED;
  // Of TOP_K.
  int32_t k = 0;
  bool subtract_decoder_bias = false;
};

// x ← x + decode(f′) − decode(f), or with `drop_error` decode(f′) alone.
struct EditFeatures {
  Dictionary dictionary;
  std::vector<FeatureChange> changes;
  bool drop_error = false;
  // Hook point of the same layer that is encoded instead of x; its name alone.
  std::string encode_hook;
};

using Change =
    std::variant<Set, Add, Scale, ProjectOut, ClampProjection, Swap, Clamp,
                 Noise, Knockout, Skip, Subspace, EditFeatures>;

// `{.hook_points = "layers.2.layer_output",
//   .selection = {.positions = Indices({-1})},
//   .change = Set{OfRun{.run = "clean"}}}`
struct Edit {
  std::string hook_points;
  Selection selection;
  Change change;
  // Node of the program that decides whether it is made; empty means always.
  std::string when;
};

v1::Dictionary ToMessage(const Dictionary& dictionary);
v1::Intervention ToMessage(const Edit& edit);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_EDIT_H_
