// The small parts: hashes that sha256sum gives too, and texts of which nothing is known.
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

#include "codecs/loaded/text.h"
#include "codecs/sha256.h"

using namespace ecmv::codecs;

namespace {

std::string hash(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

}  // namespace

TEST_CASE("hashes are those of FIPS 180-4") {
  CHECK(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hash(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

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
