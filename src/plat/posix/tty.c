/* SPDX-License-Identifier: Apache-2.0
 *
 * Terminals by termios(3). Leaves keys and drawing to its callers. Any thread, one at a time for each
 * terminal. Invariant: the mode given back is the one that was found. */
#include "plat/tty.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

_Static_assert(sizeof(struct termios) <= sizeof(tci_tty_mode), "a mode fits");

int tci_tty_raw(int fd, tci_tty_mode *ret_was, tc_err *err)
{
    struct termios was, raw;
    if (tcgetattr(fd, &was) < 0)
        return tc_err_set(err, TC_E_UNSUPPORTED, "descriptor %d is no terminal", fd);
    raw = was;
    raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
    raw.c_cflag |= CS8;
    raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    while (tcsetattr(fd, TCSADRAIN, &raw) < 0) {
        if (errno != EINTR)
            return tc_err_set(err, TC_E_IO, "cannot change the terminal");
    }
    memcpy(ret_was->bytes, &was, sizeof was);
    return 0;
}

void tci_tty_restore(int fd, const tci_tty_mode *mode)
{
    struct termios was;
    memcpy(&was, mode->bytes, sizeof was);
    while (tcsetattr(fd, TCSADRAIN, &was) < 0 && errno == EINTR)
        ;
}

unsigned tci_tty_columns(int fd)
{
    enum { USUAL = 80 };
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL;
}
