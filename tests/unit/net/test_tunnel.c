#include "test_net.h"
const struct CMUnitTest tunnel_tests[] = {{0}};
const size_t ntunnel_tests = 0;
