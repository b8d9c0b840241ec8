// Our enums and the protocol's: the one place that knows both.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_WIRE_TYPE_H_
#define PHITAP_SERVER_PLAN_WIRE_TYPE_H_

#include <optional>

#include "phitap/v1/tensor.pb.h"
#include "phitap/v1/trace.pb.h"
#include "server/base/dtype.h"
#include "server/plan/trace_plan.h"

namespace phitap {

v1::DataType WireType(DType dtype);
// Nothing for DATA_TYPE_UNSPECIFIED and values of another version.
std::optional<DType> FromWire(v1::DataType type);

v1::Numerics WireNumerics(Numerics numerics);
// Unspecified is kCausal.
Numerics FromWire(v1::Numerics numerics);

v1::Attention WireAttention(Attention attention);
// Unspecified is kSdpa.
Attention FromWire(v1::Attention attention);

// Unspecified is kRecompute.
LongropeCache FromWire(v1::LongropeCache cache);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_WIRE_TYPE_H_
