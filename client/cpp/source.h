// Where the right-hand side of an edit comes from.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_SOURCE_H_
#define PHITAP_CLIENT_CPP_SOURCE_H_

#include <string>
#include <variant>
#include <vector>

#include "client/cpp/selection.h"
#include "phitap/v1/intervention.pb.h"
#include "phitap/v1/tensor.pb.h"
#include "server/base/host_tensor.h"

namespace phitap::client {

// A value of a run of the same request. What is left empty is as in the edit
// that uses it: its run, its hook point, its selection.
struct OfRun {
  std::string run;
  std::string hook_point;
  Selection selection;
  // Unspecified means after the interventions there.
  v1::ReadTime read_time = v1::READ_TIME_UNSPECIFIED;
};

// The mean of a hook point over several runs.
struct MeanOfRuns {
  std::vector<std::string> runs;
  std::string hook_point;
  Selection selection;
  // Over the selected positions as well.
  bool over_positions = false;
};

// A tensor that is kept on the server: see Client::PutTensor and Read::keep_as.
struct Kept {
  std::string name;
};

// One of TraceCall's constants.
struct Constant {
  std::string name;
};

// A value of TraceCall's program.
struct OfNode {
  std::string name;
};

// A number stands for every element; a host tensor travels with the request.
using Source =
    std::variant<double, HostTensor, OfRun, MeanOfRuns, Kept, Constant, OfNode>;

v1::Tensor ToMessage(const HostTensor& tensor);
v1::RunValue ToMessage(const OfRun& value);
v1::EditSource ToMessage(const Source& source);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_SOURCE_H_
