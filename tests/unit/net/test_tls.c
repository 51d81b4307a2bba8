#include "test_net.h"
const struct CMUnitTest tls_tests[] = {{0}};
const size_t ntls_tests = 0;
