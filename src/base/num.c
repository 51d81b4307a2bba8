/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in text, the same in every locale. Leaves JSON's tokens to json. Any thread. Invariant:
 * the C library sees only digits and an exponent from us and its decimal point is skipped, because
 * that is what a locale changes. */
#include "base/num.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    DIGITS_MAX = 800,       /* more than the 767 that can decide how a double is rounded */
    EXPONENT_MAX = 1000000, /* farther out everything is zero or infinite */
    EXACT_POWERS = 22,      /* 10^22 is the last power of ten that a double holds exactly */
    SHORT_DIGITS = DBL_DIG, /* 15: so many digits always survive a double */
    LONG_DIGITS = 17        /* so many digits always tell doubles apart */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Canonical digits only; false for anything else or when over 2^64-1. */
static bool digits_u64(tc_str s, uint64_t *ret)
{
    if (s.len == 0 || s.len > 20 || (s.len > 1 && s.ptr[0] == '0'))
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.ptr[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.ptr[i] - '0'), &value))
            return false;
    }
    *ret = value;
    return true;
}

int tci_num_u64(tc_str s, uint64_t *ret, tc_err *err)
{
    if (digits_u64(s, ret))
        return 0;
    return tc_err_set(err, TC_E_INVALID, "not a whole number from 0 to 18446744073709551615");
}

int tci_num_i64(tc_str s, int64_t *ret, tc_err *err)
{
    const uint64_t low = (uint64_t)1 << 63; /* -INT64_MIN */
    bool is_negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t value;
    if (digits_u64(is_negative ? tci_str_sub(s, 1, s.len) : s, &value)) {
        if (is_negative && value > 0 && value <= low) {
            *ret = value == low ? INT64_MIN : -(int64_t)value;
            return 0;
        }
        if (!is_negative && value < low) {
            *ret = (int64_t)value;
            return 0;
        }
    }
    return tc_err_set(err, TC_E_INVALID,
                      "not a whole number from -9223372036854775808 to 9223372036854775807");
}

int tci_num_hex_u64(tc_str s, uint64_t *ret, tc_err *err)
{
    uint64_t value = 0;
    bool is_ok = s.len >= 1 && s.len <= 16;
    for (size_t i = 0; is_ok && i < s.len; i++) {
        char c = s.ptr[i];
        char low = (char)(c | 0x20);
        if (is_digit(c))
            value = value << 4 | (uint64_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value << 4 | (uint64_t)(low - 'a' + 10);
        else
            is_ok = false;
    }
    if (!is_ok)
        return tc_err_set(err, TC_E_INVALID, "not a number of 1 to 16 hexadecimal digits");
    *ret = value;
    return 0;
}

/* A number as 0.digits times ten to the exponent, without leading zeros. */
typedef struct decimal {
    bool is_negative;
    bool is_cut; /* digits other than zero did not fit */
    size_t ndigits;
    int64_t exponent; /* of the last digit kept */
    char digits[DIGITS_MAX];
} decimal;

static void add_digit(decimal *d, char c, bool is_fraction)
{
    if (d->ndigits == 0 && c == '0') {
        d->exponent -= is_fraction;
    } else if (d->ndigits < DIGITS_MAX) {
        d->digits[d->ndigits++] = c;
        d->exponent -= is_fraction;
    } else {
        d->is_cut |= c != '0';
        d->exponent += !is_fraction;
    }
}

/* false when s is not a number as RFC 8259 section 6 writes it. */
static bool read_decimal(tc_str s, decimal *d)
{
    const char *at = s.ptr, *end = s.len > 0 ? s.ptr + s.len : s.ptr;
    d->is_negative = at != end && *at == '-';
    at += d->is_negative;
    if (at == end || !is_digit(*at) || (*at == '0' && end - at > 1 && is_digit(at[1])))
        return false;
    while (at != end && is_digit(*at))
        add_digit(d, *at++, false);
    if (at != end && *at == '.') {
        if (++at == end || !is_digit(*at))
            return false;
        while (at != end && is_digit(*at))
            add_digit(d, *at++, true);
    }
    if (at == end)
        return true;
    if (*at != 'e' && *at != 'E')
        return false;
    at++;
    bool is_small = at != end && *at == '-';
    at += at != end && (*at == '-' || *at == '+');
    if (at == end)
        return false;
    int64_t exponent = 0;
    for (; at != end && is_digit(*at); at++) {
        if (exponent < (int64_t)1 << 56) /* no text is long enough to make up for that much */
            exponent = exponent * 10 + (*at - '0');
    }
    d->exponent += is_small ? -exponent : exponent;
    return at == end;
}

static double decimal_value(decimal *d)
{
    static const double power[EXACT_POWERS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (d->ndigits == 0)
        return 0;
    if (d->ndigits <= SHORT_DIGITS && d->exponent >= -EXACT_POWERS && d->exponent <= EXACT_POWERS) {
        /* Both operands are exact, so the one operation rounds correctly. */
        uint64_t digits = 0;
        for (size_t i = 0; i < d->ndigits; i++)
            digits = digits * 10 + (uint64_t)(d->digits[i] - '0');
        return d->exponent < 0 ? (double)digits / power[-d->exponent]
                               : (double)digits * power[d->exponent];
    }
    int64_t exponent = d->exponent;
    if (exponent > EXPONENT_MAX)
        exponent = EXPONENT_MAX;
    if (exponent < -EXPONENT_MAX)
        exponent = -EXPONENT_MAX;
    char text[DIGITS_MAX + 16];
    memcpy(text, d->digits, d->ndigits);
    if (d->is_cut) /* the kept digits are exact but for a little more: say so to the rounding */
        text[d->ndigits - 1] |= 1;
    (void)snprintf(text + d->ndigits, sizeof text - d->ndigits, "e%d", (int)exponent); /* fits */
    return strtod(text, NULL);
}

int tci_num_double(tc_str s, double *ret, tc_err *err)
{
    decimal d;
    d.is_cut = false;
    d.ndigits = 0;
    d.exponent = 0;
    if (!read_decimal(s, &d))
        return tc_err_set(err, TC_E_INVALID, "not a number");
    double value = decimal_value(&d);
    if (!isfinite(value))
        return tc_err_set(err, TC_E_INVALID, "number too large");
    *ret = d.is_negative ? -value : value;
    return 0;
}

/* v as ndigits digits and the decimal exponent of the first. False when it reads back as another
 * value. v is finite and positive. */
static bool digits_of(double v, int ndigits, char digits[LONG_DIGITS + 1], int *exponent)
{
    char text[TCI_NUM_TEXT_MAX];
    int len = snprintf(text, sizeof text, "%.*e", ndigits - 1, v);
    TC_ASSERT(len > 0 && (size_t)len < sizeof text);
    digits[0] = text[0];
    size_t e = (size_t)len - 1;
    while (text[e] != 'e')
        e--;
    if (ndigits > 1) /* the decimal point may be several bytes: count from the exponent */
        memcpy(digits + 1, text + e - (size_t)(ndigits - 1), (size_t)(ndigits - 1));
    *exponent = 0;
    for (size_t i = e + 2; text[i] != '\0'; i++)
        *exponent = *exponent * 10 + (text[i] - '0');
    if (text[e + 1] == '-')
        *exponent = -*exponent;
    char again[TCI_NUM_TEXT_MAX];
    (void)snprintf(again, sizeof again, "%.*se%d", ndigits, digits, *exponent - (ndigits - 1));
    return strtod(again, NULL) == v; /* the very same value is meant */
}

/* Between a power of two and its lower neighbour the gap is half as wide as above, and the nearest
 * decimal may fall out of it while the next higher one does not. */
static bool round_up_instead(double v, int ndigits, char digits[LONG_DIGITS + 1], int exponent)
{
    int i = ndigits - 1;
    if (digits[i] == '9')
        return false;
    digits[i]++;
    char again[TCI_NUM_TEXT_MAX];
    (void)snprintf(again, sizeof again, "%.*se%d", ndigits, digits, exponent - (ndigits - 1));
    return strtod(again, NULL) == v;
}

static int shortest(double v, char digits[LONG_DIGITS + 1], int *exponent)
{
    int n = v >= DBL_MIN ? SHORT_DIGITS : 1; /* below, fewer digits are certain */
    for (; n < LONG_DIGITS; n++) {
        if (digits_of(v, n, digits, exponent) || round_up_instead(v, n, digits, *exponent))
            break;
    }
    if (n == LONG_DIGITS)
        (void)digits_of(v, n, digits, exponent); /* always reads back */
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

/* The layout of the reference daemon: plain up to 16 places before the point and 5 zeros after it,
 * otherwise one digit, fraction, exponent. */
size_t tci_num_double_text(double v, char out[TCI_NUM_TEXT_MAX])
{
    TC_ASSERT(isfinite(v));
    char *at = out;
    if (signbit(v))
        *at++ = '-';
    v = fabs(v);
    char digits[LONG_DIGITS + 1];
    int exponent = 0, n = 1;
    digits[0] = '0';
    if (v > 0)
        n = shortest(v, digits, &exponent);
    int point = exponent + 1; /* digits before the decimal point */
    if (point > 16 || point <= -5) {
        *at++ = digits[0];
        if (n > 1) {
            *at++ = '.';
            memcpy(at, digits + 1, (size_t)(n - 1));
            at += n - 1;
        }
        return (size_t)(at - out) +
               (size_t)snprintf(at, TCI_NUM_TEXT_MAX - (size_t)(at - out), "e%d", exponent);
    }
    if (point <= 0) {
        *at++ = '0';
        *at++ = '.';
        for (int i = point; i < 0; i++)
            *at++ = '0';
    }
    for (int i = 0; i < n || i < point; i++) {
        if (i == point && i > 0)
            *at++ = '.';
        *at++ = i < n ? digits[i] : '0';
    }
    if (n <= point) {
        *at++ = '.';
        *at++ = '0';
    }
    return (size_t)(at - out);
}

size_t tci_num_base36_text(uint64_t v, char out[TCI_NUM_TEXT_MAX])
{
    char text[TCI_NUM_TEXT_MAX];
    size_t at = sizeof text;
    do {
        text[--at] = "0123456789abcdefghijklmnopqrstuvwxyz"[v % 36];
        v /= 36;
    } while (v > 0);
    memcpy(out, text + at, sizeof text - at);
    return sizeof text - at;
}
