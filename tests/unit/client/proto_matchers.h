// Compares messages with their text form.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_CLIENT_PROTO_MATCHERS_H_
#define PHITAP_TESTS_UNIT_CLIENT_PROTO_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"

namespace phitap {

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message))
      << text;
  return message;
}

MATCHER_P(EqualsProto, text, "") {
  const auto expected = Parsed<std::decay_t<decltype(arg)>>(text);
  *result_listener << arg.DebugString();
  return google::protobuf::util::MessageDifferencer::Equals(arg, expected);
}

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_CLIENT_PROTO_MATCHERS_H_
