#include "server/rpc/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace phitap {
namespace {

const std::string kTrace = "0af7651916cd43dd8448eb211c80319c";
const std::string kParent = "b7ad6b7169203331";

TEST(Traceparent, IsReadWhereItIsWellFormed) {
  const auto context = ParseTraceparent("00-" + kTrace + "-" + kParent + "-01");
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace_id, kTrace);
  EXPECT_EQ(TraceResponse(*context, "00f067aa0ba902b7"),
            "00-" + kTrace + "-00f067aa0ba902b7-01");
}

TEST(Traceparent, OfALaterVersionMaySayMore) {
  const std::string later = "cc-" + kTrace + "-" + kParent + "-00";
  EXPECT_TRUE(ParseTraceparent(later).has_value());
  EXPECT_TRUE(ParseTraceparent(later + "-what").has_value());
  EXPECT_FALSE(ParseTraceparent(later + "what").has_value());
}

TEST(Traceparent, IsIgnoredWhereItIsNot) {
  const std::string tail = "-" + kParent + "-01";
  for (const std::string& malformed : {
           std::string(),
           std::string("x"),
           "00-" + kTrace + "-" + kParent,           // no flags
           "00-" + kTrace + tail + "-more",          // version 00 ends there
           "ff-" + kTrace + tail,                    // never a version
           "0-" + kTrace + tail,                     // short
           "00-" + kTrace + "0" + tail,              // long
           "00-" + std::string(32, '0') + tail,      // no trace
           "00-" + kTrace + "-0000000000000000-01",  // no parent
           "00-0AF7651916CD43DD8448EB211C80319C" + tail,  // upper case
           "00-0af7651916cd43dd8448eb211c80319g" + tail,  // no digit
           " 00-" + kTrace + tail,
           "00-" + kTrace + tail + "\n",
       }) {
    EXPECT_FALSE(ParseTraceparent(malformed).has_value()) << malformed;
  }
}

}  // namespace
}  // namespace phitap
