// Claims about texts from a codec library that has not been checked yet.
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

#include "codecs/loaded/text.h"

using namespace ecmv::codecs;

TEST_CASE("names, choices and lines are what they may be") {
  for (const char* name : {"a", "x1", "lower_snake_case"}) CHECK(loaded::is_name(name));
  for (const char* name : {"", "1x", "_x", "X", "a-b", "a b", "caf\xc3\xa9"}) CHECK_FALSE(loaded::is_name(name));
  CHECK(loaded::is_name(std::string(64, 'a')));
  CHECK_FALSE(loaded::is_name(std::string(65, 'a').c_str()));
  CHECK(loaded::is_choice("3.5-x_Y+"));
  for (const char* choice : {"", "a,b", "a=b", "a b", "[a]"}) CHECK_FALSE(loaded::is_choice(choice));
  CHECK(loaded::is_line("caf\xc3\xa9 \xe2\x80\xa0 \xf0\x9f\x99\x82", 30));
  for (const char* line :
       {"", "two\nlines", "caf\xe9", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "cut \xe2\x80", "bell \x07"})
    CHECK_FALSE(loaded::is_line(line, 30));
  CHECK_FALSE(loaded::is_line("12345", 4));
}

TEST_CASE("a sentence can be shown, whatever it holds") {
  CHECK(loaded::sentence("It is \xc3\xa9.") == "It is \xc3\xa9.");
  CHECK(loaded::sentence("two\nlines\x01 \xff.") == "two lines  ?.");
  CHECK(loaded::sentence("") == "The codec's library gave an empty sentence.");
  CHECK(loaded::sentence(std::string(10'000, 'x').c_str()).size() == 500);
  CHECK(loaded::interned("same") == loaded::interned(std::string("same")));
}
