/* SPDX-License-Identifier: Apache-2.0
 *
 * Instants as text. Leaves reading the clock to plat. Any thread. Invariant: pure arithmetic on the
 * proleptic Gregorian calendar, no time zone, no leap seconds. */
#include "base/rfc3339.h"
#include <stdio.h>

enum {
    DAY_S = 86400,
    ERA_DAYS = 146097 /* 400 years */,
    EPOCH_DAYS = 719468 /* from 0000-03-01 */
};

typedef struct date {
    int64_t year;
    int month, day;
} date;

/* Years begin in March here, so that the leap day is their last. */
static date date_of(int64_t days)
{
    days += EPOCH_DAYS;
    int64_t era = (days >= 0 ? days : days - (ERA_DAYS - 1)) / ERA_DAYS;
    int64_t in_era = days - era * ERA_DAYS;
    int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / (ERA_DAYS - 1)) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153;
    return (date){.year = year + era * 400 + (month >= 10),
                  .month = (int)(month < 10 ? month + 3 : month - 9),
                  .day = (int)(in_year - (153 * month + 2) / 5 + 1)};
}

static int64_t days_of(date d)
{
    int64_t year = d.year - (d.month <= 2);
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t in_era = year - era * 400;
    int64_t in_year = (153 * (d.month + (d.month > 2 ? -3 : 9)) + 2) / 5 + d.day - 1;
    return era * ERA_DAYS + in_era * 365 + in_era / 4 - in_era / 100 + in_year - EPOCH_DAYS;
}

static char *put_digits(char *p, unsigned v, unsigned n)
{
    for (unsigned i = n; i-- > 0; v /= 10)
        p[i] = (char)('0' + v % 10);
    return p + n;
}

/* A separator and two digits. */
static char *put_part(char *p, char sep, unsigned v)
{
    *p = sep;
    return put_digits(p + 1, v, 2);
}

size_t tci_rfc3339_text(tci_instant t, char out[TCI_RFC3339_MAX])
{
    TC_ASSERT(t.nsec >= 0 && t.nsec <= 999999999);
    int64_t days = t.sec / DAY_S;
    int s = (int)(t.sec % DAY_S);
    if (s < 0) {
        s += DAY_S;
        days--;
    }
    date d = date_of(days);
    char *p = out;
    /* A year outside RFC 3339's four digits (a file's time may be anything) gets a sign. */
    if (d.year < 0 || d.year > 9999)
        p += snprintf(p, TCI_RFC3339_MAX, "%+05lld", (long long)d.year);
    else
        p = put_digits(p, (unsigned)d.year, 4);
    p = put_part(p, '-', (unsigned)d.month);
    p = put_part(p, '-', (unsigned)d.day);
    p = put_part(p, 'T', (unsigned)s / 3600);
    p = put_part(p, ':', (unsigned)s / 60 % 60);
    p = put_part(p, ':', (unsigned)s % 60);
    if (t.nsec != 0)
        *p++ = '.';
    if (t.nsec % 1000000 == 0 && t.nsec != 0)
        p = put_digits(p, (unsigned)t.nsec / 1000000, 3);
    else if (t.nsec % 1000 == 0 && t.nsec != 0)
        p = put_digits(p, (unsigned)t.nsec / 1000, 6);
    else if (t.nsec != 0)
        p = put_digits(p, (unsigned)t.nsec, 9);
    *p++ = 'Z';
    TC_ASSERT(p - out <= TCI_RFC3339_MAX);
    return (size_t)(p - out);
}

/* n digits at offset at; -1 when they are not. */
static int digits(tc_str s, size_t at, size_t n)
{
    int value = 0;
    for (size_t i = at; i < at + n; i++) {
        if (i >= s.len || s.ptr[i] < '0' || s.ptr[i] > '9')
            return -1;
        value = value * 10 + (s.ptr[i] - '0');
    }
    return value;
}

static int month_days(int64_t year, int month)
{
    static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && is_leap);
}

/* From the byte after the seconds: ".digits" or nothing, then Z and the end. */
static bool read_fraction(tc_str s, int32_t *nsec)
{
    size_t n = 0;
    if (s.len > 0 && s.ptr[0] == '.') {
        s = tci_str_sub(s, 1, s.len);
        while (n < s.len && s.ptr[n] >= '0' && s.ptr[n] <= '9')
            n++;
        if (n < 1 || n > 9)
            return false;
    }
    *nsec = digits(s, 0, n);
    for (size_t i = n; i < 9; i++)
        *nsec *= 10;
    return s.len == n + 1 && s.ptr[n] == 'Z';
}

int tci_rfc3339_parse(tc_str s, tci_instant *ret, tc_err *err)
{
    static const char layout[] = "0000-00-00T00:00:00";
    bool is_ok = s.len >= sizeof layout;
    for (size_t i = 0; is_ok && i < sizeof layout - 1; i++)
        is_ok = layout[i] == '0' || s.ptr[i] == layout[i];
    int32_t nsec = 0;
    is_ok = is_ok && read_fraction(tci_str_sub(s, sizeof layout - 1, s.len), &nsec);
    if (!is_ok)
        return tc_err_set(err, TC_E_INVALID, "not an instant in UTC like 2026-11-29T16:11:02.341Z");
    date d = {digits(s, 0, 4), digits(s, 5, 2), digits(s, 8, 2)};
    int hour = digits(s, 11, 2), minute = digits(s, 14, 2), second = digits(s, 17, 2);
    if (d.year < 0 || d.month < 1 || d.month > 12 || d.day < 1 ||
        d.day > month_days(d.year, d.month) || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
        second < 0 || second > 59)
        return tc_err_set(err, TC_E_INVALID, "no such date or time");
    *ret = (tci_instant){days_of(d) * DAY_S + hour * 3600 + minute * 60 + second, nsec};
    return 0;
}
