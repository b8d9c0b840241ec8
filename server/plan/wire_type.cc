#include "server/plan/wire_type.h"

namespace phitap {

v1::DataType WireType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return v1::DATA_TYPE_F32;
    case DType::kF16:
      return v1::DATA_TYPE_F16;
    case DType::kBF16:
      return v1::DATA_TYPE_BF16;
    case DType::kI64:
      return v1::DATA_TYPE_I64;
    case DType::kI32:
      return v1::DATA_TYPE_I32;
    case DType::kBool:
      return v1::DATA_TYPE_BOOL;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

std::optional<DType> FromWire(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F32:
      return DType::kF32;
    case v1::DATA_TYPE_F16:
      return DType::kF16;
    case v1::DATA_TYPE_BF16:
      return DType::kBF16;
    case v1::DATA_TYPE_I64:
      return DType::kI64;
    case v1::DATA_TYPE_I32:
      return DType::kI32;
    case v1::DATA_TYPE_BOOL:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

v1::Numerics WireNumerics(Numerics numerics) {
  return numerics == Numerics::kTransformers ? v1::NUMERICS_TRANSFORMERS
                                             : v1::NUMERICS_CAUSAL;
}

Numerics FromWire(v1::Numerics numerics) {
  return numerics == v1::NUMERICS_TRANSFORMERS ? Numerics::kTransformers
                                               : Numerics::kCausal;
}

v1::Attention WireAttention(Attention attention) {
  return attention == Attention::kEager ? v1::ATTENTION_EAGER
                                        : v1::ATTENTION_SDPA;
}

Attention FromWire(v1::Attention attention) {
  return attention == v1::ATTENTION_EAGER ? Attention::kEager
                                          : Attention::kSdpa;
}

LongropeCache FromWire(v1::LongropeCache cache) {
  return cache == v1::LONGROPE_CACHE_KEEP ? LongropeCache::kKeep
                                          : LongropeCache::kRecompute;
}

}  // namespace phitap
