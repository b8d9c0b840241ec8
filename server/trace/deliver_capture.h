// Makes the tensors of a capture out of the value that it has selected.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_DELIVER_CAPTURE_H_
#define PHITAP_SERVER_TRACE_DELIVER_CAPTURE_H_

#include <ATen/core/Tensor.h>

#include "server/model/phi3.h"
#include "server/trace/run_pass.h"
#include "server/trace/watch.h"

namespace phitap {

// Reduces, casts and hands over; the watch has a capture. What is delivered
// must not be written any more.
void DeliverCapture(const Phi3& model, const RunPass& pass, const Watch& watch,
                    const at::Tensor& selected);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_DELIVER_CAPTURE_H_
