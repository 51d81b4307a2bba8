/* SPDX-License-Identifier: Apache-2.0
 *
 * The ordinary run of a fuzz target: feed it every file of its corpus folder, once. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *folder, const char *name)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return 1;
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return 1;
    size_t cap = 1 << 20, len = 0, n = 0;
    uint8_t *data = malloc(cap);
    while (data != NULL && (n = fread(data + len, 1, cap - len, f)) > 0) {
        len += n;
        if (len == cap)
            break;
    }
    (void)fclose(f); /* read only: nothing to lose */
    if (data == NULL)
        return 1;
    (void)LLVMFuzzerTestOneInput(data, len); /* its only answer is a crash */
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    size_t nfiles = 0;
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    DIR *d = opendir(argv[1]);
    if (d == NULL) {
        (void)fprintf(stderr, "no corpus folder '%s'\n", argv[1]);
        return 1;
    }
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        if (replay(argv[1], e->d_name) != 0) {
            (void)fprintf(stderr, "cannot read '%s'\n", e->d_name);
            (void)closedir(d);
            return 1;
        }
        nfiles++;
    }
    (void)closedir(d);
    (void)printf("replayed %zu files\n", nfiles);
    return nfiles == 0; /* an empty corpus proves nothing */
}
