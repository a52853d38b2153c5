// The part of variants.c in C++: it shares std::cout with the program that loads it.
#include <iostream>

extern "C" void print_on_cout(const char* text) { std::cout << text << '\n'; }
