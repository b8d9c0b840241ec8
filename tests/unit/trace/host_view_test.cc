#include "server/trace/host_view.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <c10/core/Storage.h>

#include <cstring>

#include "gtest/gtest.h"
#include "server/model/weights.h"

namespace phitap {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

WeakStorage Watch(const at::Tensor& tensor) {
  return tensor.storage().getWeakStorageImpl();
}

TEST(ToHost, KeepsTheBytesOfAWholeTensorWithoutACopy) {
  const at::Tensor value = at::rand({4, 8});
  const HostTensor host = ToHost(value);
  EXPECT_EQ(static_cast<const void*>(host.bytes.data()),
            value.const_data_ptr());
  EXPECT_EQ(host.shape, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(host.bytes.size(), 4u * 8u * sizeof(float));
}

TEST(ToHost, ViewsHalfOfAStorage) {
  const at::Tensor value = at::rand({4, 8});
  const HostTensor host = ToHost(value.narrow(0, 2, 2));
  EXPECT_EQ(static_cast<const void*>(host.bytes.data()),
            value[2].const_data_ptr());
}

TEST(ToHost, LetsALongActivationGoWhereOneRowIsCaptured) {
  at::Tensor value = at::rand({300, 64});
  const at::Tensor row = value.narrow(0, 299, 1).clone();
  const WeakStorage storage = Watch(value);
  const HostTensor host = ToHost(value.narrow(0, 299, 1));
  value.reset();
  EXPECT_TRUE(storage.expired());
  EXPECT_EQ(std::memcmp(host.bytes.data(), row.const_data_ptr(), row.nbytes()),
            0);
}

TEST(ToHost, KeepsTheBytesAliveAsLongAsTheOwner) {
  at::Tensor value = at::rand({4, 8});
  const WeakStorage storage = Watch(value);
  HostTensor host = ToHost(value);
  value.reset();
  EXPECT_FALSE(storage.expired());
  host.owner.reset();
  EXPECT_TRUE(storage.expired());
}

TEST(ToHost, LaysATransposedValueOutRowByRow) {
  const at::Tensor value = at::arange(6, at::kInt).view({2, 3});
  const HostTensor host = ToHost(value.t());
  const int32_t expected[] = {0, 3, 1, 4, 2, 5};
  EXPECT_EQ(host.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(std::memcmp(host.bytes.data(), expected, sizeof(expected)), 0);
}

TEST(ScalarTypeOf, IsTheInverseOfDTypeOf) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                      DType::kI32, DType::kBool}) {
    EXPECT_EQ(DTypeOf(ScalarTypeOf(dtype)), dtype);
    EXPECT_EQ(c10::elementSize(ScalarTypeOf(dtype)),
              static_cast<size_t>(SizeInBytes(dtype)));
  }
}

}  // namespace
}  // namespace phitap
