#include "test_net.h"
const struct CMUnitTest tcp_tests[] = {{0}};
const size_t ntcp_tests = 0;
