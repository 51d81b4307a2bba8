/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool "read": lines of a text file, or an image. One look for line ends and the head that is shown
 * are read, however large the file is. The thread of the call.
 *
 * To keep: the content is the file's text and nothing else; remarks are diagnostics. */
#include "harness/tools/tool_common.h"

#include "base/base64.h"
#include "base/num.h"
#include "base/utf8_stream.h"
#include <math.h>
#include <stdio.h>
#include <telechir/model.h>

enum { CHUNK = 64 * 1024, PROBE = 8192, MAX_SIDE = 2000, MAX_BASE64 = 4718592 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"path\":{\"type\":\"string\",\"description\":\"File to read, relative or absolute\"},"
    "\"offset\":{\"type\":\"number\",\"description\":\"Line to start at, from 1\"},"
    "\"limit\":{\"type\":\"number\",\"description\":\"Number of lines to read\"}},"
    "\"required\":[\"path\"]}";

typedef struct job {
    tci_work w;
    const tc_read_options *o;
    tc_str path;
    tc_binary_reader *reader;
    bool has_limit;
    double offset, limit;
    tc_str offset_text;
} job;

/* A number as JavaScript shows it: whole ones without a fraction. */
typedef struct shown {
    char text[TCI_NUM_TEXT_MAX];
} shown;

static shown show(double v)
{
    shown s = {{0}};
    size_t n = tci_num_double_text(v, s.text);
    if (n > 2 && n < sizeof s.text && memcmp(s.text + n - 2, ".0", 2) == 0)
        n -= 2;
    s.text[tci_min_size(n, sizeof s.text - 1)] = '\0';
    return s;
}

static bool is_safe_integer(double v)
{
    return isfinite(v) && !(v > trunc(v) || v < trunc(v)) && fabs(v) <= 9007199254740991.0;
}

/* ---- text ---- */

/* Lines are chosen as JavaScript's slice(start, end) chooses items. */
typedef struct selection {
    double start, count, total;
    double limited; /* lines the limit allows; negative: no limit */
    tc_line_scan scan;
} selection;

static int scan(job *j, double start, double end, tc_line_scan *ret)
{
    tc_call call = tci_work_call(&j->w);
    int64_t last = is_safe_integer(end) ? (int64_t)end : 0;
    return tc_binary_reader_scan_lines(j->reader, &call, (int64_t)start,
                                       is_safe_integer(end) ? &last : NULL, ret, j->w.err);
}

static int select_lines(job *j, selection *s)
{
    double from = fabs(j->offset) > 0 ? fmax(0, j->offset - 1) : 0;
    *s = (selection){.start = from, .limited = -1};
    double slice_start = trunc(from), scan_start = is_safe_integer(slice_start) ? slice_start : 0;
    double wanted_end = j->has_limit ? fmax(scan_start + 1, trunc(from + j->limit)) : NAN;
    if (scan(j, scan_start, wanted_end, &s->scan) < 0)
        return j->w.err->code;
    s->total = (double)s->scan.newlines + 1;
    if (from >= s->total)
        return tc_tool_fail(j->w.api, j->w.err,
                            "Offset %.*s is beyond end of file (%s lines total)",
                            TC_STR_ARG(j->offset_text), show(s->total).text);
    s->count = s->total - slice_start;
    if (!j->has_limit)
        return 0;
    double end = fmin(from + j->limit, s->total), relative = trunc(end);
    s->limited = end - from;
    double slice_end = relative < 0 ? fmax(s->total + relative, 0) : relative;
    s->count = fmax(0, slice_end - slice_start);
    return s->count > 0 && relative < 0 ? scan(j, scan_start, slice_end, &s->scan) : 0;
}

/* The text at the beginning of the selection, enough to show all that may be shown. */
static int read_head(job *j, const selection *s, tci_buf *head)
{
    tci_utf8_stream stream = {.has_begun = s->scan.start > 0};
    tci_buf scratch;
    uint64_t at = s->scan.start;
    size_t nlines = 0;
    int rc = 0;
    tci_buf_init(&scratch, TCI_BUF_MAX);
    while (rc == 0 && at < s->scan.end && nlines < TCI_OUTPUT_MAX_LINES &&
           head->len <= TCI_OUTPUT_MAX_BYTES + 1) {
        tc_call call = tci_work_call(&j->w);
        tc_str bytes;
        int64_t n = (int64_t)tci_min_u64(CHUNK, s->scan.end - at);
        rc = tc_binary_reader_read(j->reader, &call, (int64_t)at, n, &bytes, j->w.err);
        if (rc < 0 || bytes.len == 0)
            break;
        at += bytes.len;
        tc_str text = tci_utf8_stream_feed(&stream, bytes, &scratch);
        nlines += tci_str_count_byte(text, '\n');
        tci_buf_append_str(head, text);
    }
    if (at >= s->scan.end)
        tci_buf_append_str(head, tci_utf8_stream_end(&stream));
    tci_buf_done(&scratch);
    return rc < 0 ? rc : tci_buf_error(head, j->w.err);
}

static int put_details(job *j, const tci_head *h, uint64_t nlines, uint64_t nbytes,
                       tc_tool_result *ret)
{
    return tci_result_printf(
        j->w.r, &ret->details, j->w.err,
        "{\"truncation\":{\"truncated\":true,\"truncatedBy\":\"%s\",\"totalLines\":%llu,"
        "\"totalBytes\":%llu,\"outputLines\":%llu,\"outputBytes\":%llu,\"lastLinePartial\":false,"
        "\"firstLineExceedsLimit\":%s,\"maxLines\":%d,\"maxBytes\":%d}}",
        h->is_by_bytes ? "bytes" : "lines", (unsigned long long)h->total_lines,
        (unsigned long long)h->total_bytes, (unsigned long long)nlines, (unsigned long long)nbytes,
        h->is_first_line_too_long ? "true" : "false", TCI_OUTPUT_MAX_LINES, TCI_OUTPUT_MAX_BYTES);
}

/* One line that is too long alone: its beginning. */
static int say_long_line(job *j, const selection *s, const tci_head *h, tc_str head,
                         tc_tool_result *ret)
{
    static const tci_output_limits limits = {TCI_OUTPUT_MAX_BYTES, 1, TC_RETAIN_HEAD};
    tci_output_slice cut = {0};
    char sizes[64];
    tci_buf b = {.ptr = sizes, .cap = sizeof sizes, .max = sizeof sizes};
    tc_str line = tci_str_sub(head, 0, tci_str_find_byte(head, '\n'));
    tci_output_bound(line, &limits, &cut);
    tci_put_size(&b, s->scan.first_line_bytes);
    tc_str size = tci_buf_str(&b);
    tci_put_size(&b, cut.end);
    tc_str shown_size = tci_str_sub(tci_buf_str(&b), size.len, b.len);
    if (tci_work_remark(
            &j->w, ret, TC_SEVERITY_WARN, "truncated",
            "Line %s is %.*s, exceeds the 50.0KB limit; showing its first %.*s. Use bash: "
            "sed -n '%sp' %.*s | tail -c +%zu",
            show(s->start + 1).text, TC_STR_ARG(size), TC_STR_ARG(shown_size),
            show(s->start + 1).text, TC_STR_ARG(j->path), cut.end + 1) < 0 ||
        put_details(j, h, 1, cut.end, ret) < 0)
        return j->w.err->code;
    return tci_work_say(&j->w, tci_str_sub(line, 0, cut.end), ret);
}

static int say_head(job *j, const selection *s, const tci_head *h, tc_str head, tc_tool_result *ret)
{
    double first = s->start + 1, last = s->start + (double)h->nlines;
    if (h->is_first_line_too_long)
        return say_long_line(j, s, h, head, ret);
    if (h->is_truncated) {
        if (tci_work_remark(&j->w, ret, TC_SEVERITY_INFO, "truncated",
                            "Showing lines %s-%s of %s%s. Use offset=%s to continue.",
                            show(first).text, show(last).text, show(s->total).text,
                            h->is_by_bytes ? " (50.0KB limit)" : "", show(last + 1).text) < 0 ||
            put_details(j, h, h->nlines, h->len, ret) < 0)
            return j->w.err->code;
    } else if (s->limited >= 0 && s->start + s->limited < s->total) {
        if (tci_work_remark(&j->w, ret, TC_SEVERITY_INFO, "",
                            "%s more lines in file. Use offset=%s to continue.",
                            show(s->total - (s->start + s->limited)).text,
                            show(s->start + s->limited + 1).text) < 0)
            return j->w.err->code;
    }
    return tci_work_say(&j->w, tci_str_sub(head, 0, h->len), ret);
}

static int refuse_binary(job *j, tc_str head, uint64_t size)
{
    char text[32];
    tci_buf b = {.ptr = text, .cap = sizeof text, .max = sizeof text};
    tc_str kind = tci_binary_kind(head, size > PROBE);
    if (kind.len == 0)
        return 0;
    tci_put_size(&b, size);
    return tc_tool_fail(j->w.api, j->w.err, "%.*s is %.*s (%.*s) and cannot be shown as text",
                        TC_STR_ARG(j->path), TC_STR_ARG(kind), TC_STR_ARG(tci_buf_str(&b)));
}

static int read_text(job *j, tc_str probe, uint64_t size, tc_tool_result *ret)
{
    selection s;
    tci_head h;
    tci_buf head;
    if (refuse_binary(j, probe, size) < 0 || select_lines(j, &s) < 0)
        return j->w.err->code;
    bool is_empty = s.count < 1;
    bool ends_with_newline =
        !is_empty && s.scan.last_line_start == s.scan.end && s.scan.last_line_start > s.scan.start;
    uint64_t nbytes = is_empty ? 0 : s.scan.selected_bytes;
    uint64_t nlines = nbytes == 0 ? 0 : (uint64_t)s.count - (ends_with_newline ? 1 : 0);
    tci_buf_init(&head, TCI_BUF_MAX);
    int rc = is_empty ? 0 : read_head(j, &s, &head);
    if (rc == 0) {
        tci_head_of(tci_buf_str(&head), nlines, nbytes, &h);
        rc = say_head(j, &s, &h, tci_buf_str(&head), ret);
    }
    tci_buf_done(&head);
    return rc;
}

/* ---- images ---- */

typedef struct image_limits {
    bool has_vision;
    uint32_t max_width, max_height;
    uint64_t max_bytes;
} image_limits;

static uint32_t as_u32(uint64_t v, uint32_t otherwise)
{
    return v == 0 ? otherwise : (uint32_t)tci_min_u64(v, UINT32_MAX);
}

/* What the conversation's model takes. */
static int find_limits(job *j, image_limits *ret)
{
    const tci_agent *agent;
    tc_model model = {0};
    tc_err ignored;
    *ret = (image_limits){true, MAX_SIDE, MAX_SIDE, MAX_BASE64};
    if (j->o != NULL)
        *ret = (image_limits){
            true, as_u32(j->o->max_image_width, MAX_SIDE), as_u32(j->o->max_image_height, MAX_SIDE),
            j->o->max_image_base64_bytes > 0 ? j->o->max_image_base64_bytes : MAX_BASE64};
    if (j->w.api->task == NULL)
        return 0;
    if (tci_task_agent(j->w.api->task, &agent, j->w.err) < 0)
        return j->w.err->code;
    struct tc_models *models = tci_harness_models(j->w.api->h);
    if (models == NULL || agent->provider.len == 0 ||
        models->get_model(models->user, agent->provider, agent->model_id, j->w.r, &model,
                          &ignored) < 0)
        return 0;
    ret->has_vision = model.takes_images;
    ret->max_width = as_u32(model.image_max_width, ret->max_width);
    ret->max_height = as_u32(model.image_max_height, ret->max_height);
    if (model.image_max_bytes > 0)
        ret->max_bytes = model.image_max_bytes;
    return 0;
}

static int refuse_image(job *j, tc_tool_result *ret, tc_str type, const char *fmt, ...)
    TC_PRINTF(4, 5);
static int refuse_image(job *j, tc_tool_result *ret, tc_str type, const char *fmt, ...)
{
    char why[256];
    ret->is_error = true;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(why, sizeof why, fmt, args); /* cut when too long */
    va_end(args);
    return tci_work_remark(&j->w, ret, TC_SEVERITY_ERROR, "unsupported_image",
                           "%.*s is an image (%.*s) %s", TC_STR_ARG(j->path), TC_STR_ARG(type),
                           why);
}

static int say_image(job *j, const tc_image *image, const image_limits *limits, tc_str notes,
                     tc_tool_result *ret)
{
    tci_buf b;
    size_t n = tci_base64_encoded_len(image->bytes.len);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("[{\"type\":\"image\",\"data\":\""));
    tci_base64_append(&b, image->bytes);
    tci_buf_append_str(&b, tci_str_sub(TC_STR("==="), 0, (4 - n % 4) % 4));
    tci_buf_append_str(&b, TC_STR("\",\"mimeType\":"));
    tci_json_put_str(&b, image->mime_type);
    tci_buf_append_str(&b, TC_STR("}]"));
    if (tci_result_take(j->w.r, &b, &ret->output, j->w.err) < 0)
        return j->w.err->code;
    return tci_work_remark(&j->w, ret, TC_SEVERITY_INFO, "image", "Read image file [%.*s].%.*s%s",
                           TC_STR_ARG(image->mime_type), TC_STR_ARG(notes),
                           limits->has_vision
                               ? ""
                               : " The current model does not support images; it sees a "
                                 "placeholder instead.");
}

/* As it is, when it is within the limits. */
static int send_plain(job *j, tc_image *image, const image_limits *limits, tc_tool_result *ret)
{
    char size[32];
    tci_buf b = {.ptr = size, .cap = sizeof size, .max = sizeof size};
    uint64_t base64 = (image->bytes.len + 2) / 3 * 4;
    tci_put_size(&b, image->bytes.len);
    if (base64 > limits->max_bytes)
        return refuse_image(j, ret, image->mime_type,
                            "of %.*s, too large to send, and no image processor is configured to "
                            "shrink it",
                            TC_STR_ARG(tci_buf_str(&b)));
    if (!tci_image_size(image->bytes, image->mime_type, &image->width, &image->height))
        return refuse_image(j, ret, image->mime_type, "whose size cannot be read");
    if (image->width > limits->max_width || image->height > limits->max_height)
        return refuse_image(j, ret, image->mime_type,
                            "of %ux%u, larger than %ux%u, and no image processor is configured to "
                            "shrink it",
                            image->width, image->height, limits->max_width, limits->max_height);
    return say_image(j, image, limits, (tc_str){0}, ret);
}

static int send_processed(job *j, const tc_image *image, const image_limits *limits,
                          tc_tool_result *ret)
{
    tc_image made = {0};
    tc_str converted = {0}, resized = {0}, notes;
    int rc = j->o->process_image(j->o->user, image, limits->max_width, limits->max_height,
                                 limits->max_bytes, j->w.r, &made, j->w.err);
    if (rc == TC_E_NOT_FOUND)
        return refuse_image(j, ret, image->mime_type, "that cannot be prepared for the model");
    if (rc < 0)
        return rc;
    if (!tci_str_eq(made.mime_type, image->mime_type) &&
        tci_result_printf(j->w.r, &converted, j->w.err, " Converted from %.*s to %.*s.",
                          TC_STR_ARG(image->mime_type), TC_STR_ARG(made.mime_type)) < 0)
        return j->w.err->code;
    bool is_resized = image->width > 0 && made.width > 0 &&
                      (made.width != image->width || made.height != image->height);
    if (is_resized) {
        unsigned hundredths = (unsigned)(((uint64_t)image->width * 200 / made.width + 1) / 2);
        if (tci_result_printf(
                j->w.r, &resized, j->w.err,
                " Resized from %ux%u to %ux%u. Multiply coordinates by %u.%02u to map "
                "them to the original.",
                image->width, image->height, made.width, made.height, hundredths / 100,
                hundredths % 100) < 0)
            return j->w.err->code;
    }
    if (tci_result_printf(j->w.r, &notes, j->w.err, "%.*s%.*s", TC_STR_ARG(converted),
                          TC_STR_ARG(resized)) < 0)
        return j->w.err->code;
    return say_image(j, &made, limits, notes, ret);
}

static int read_image(job *j, uint64_t size, tc_str type, tc_tool_result *ret)
{
    tc_call call = tci_work_call(&j->w);
    tc_image image = {.mime_type = type};
    image_limits limits;
    char text[32];
    tci_buf b = {.ptr = text, .cap = sizeof text, .max = sizeof text};
    bool has_processor = j->o != NULL && j->o->process_image != NULL;
    if (find_limits(j, &limits) < 0)
        return j->w.err->code;
    if (!has_processor && tci_str_eq(type, TC_STR("image/bmp")))
        return refuse_image(j, ret, type,
                            "that needs converting, and no image processor is configured");
    if (!has_processor && (size + 2) / 3 * 4 > limits.max_bytes) { /* not read for nothing */
        tci_put_size(&b, size);
        return refuse_image(j, ret, type,
                            "of %.*s, too large to send, and no image processor is configured to "
                            "shrink it",
                            TC_STR_ARG(tci_buf_str(&b)));
    }
    if (tc_binary_reader_read(j->reader, &call, 0, (int64_t)size, &image.bytes, j->w.err) < 0)
        return j->w.err->code;
    if (!has_processor)
        return send_plain(j, &image, &limits, ret);
    (void)tci_image_size(image.bytes, type, &image.width, &image.height); /* 0: not known */
    return send_processed(j, &image, &limits, ret);
}

/* ---- the file ---- */

/* A file may change while it is read: a text that only grew is what it was, all else is read once more. */
static int read_steadily(job *j, tc_tool_result *ret)
{
    tc_call call = tci_work_call(&j->w);
    for (int attempt = 0; attempt < 2; attempt++) {
        tc_env_file before, after;
        tc_str type, probe;
        *ret = (tc_tool_result){.size = sizeof *ret};
        if (tc_binary_reader_info(j->reader, &call, &before, j->w.err) < 0 ||
            tc_binary_reader_read(j->reader, &call, 0, PROBE, &probe, j->w.err) < 0 ||
            tci_image_type(j->reader, &call, probe, before.size, &type, j->w.err) < 0)
            return j->w.err->code;
        int rc = type.len == 0 ? read_text(j, probe, before.size, ret)
                               : read_image(j, before.size, type, ret);
        if (rc < 0 || (rc = tc_binary_reader_info(j->reader, &call, &after, j->w.err)) < 0)
            return rc;
        bool is_same = after.size == before.size &&
                       after.modified_at.sec == before.modified_at.sec &&
                       after.modified_at.nsec == before.modified_at.nsec;
        if (is_same || (type.len == 0 && after.size > before.size))
            return 0;
    }
    return tc_tool_fail(j->w.api, j->w.err, "%.*s changed while it was read", TC_STR_ARG(j->path));
}

static int execute(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    job j = {.o = user};
    tc_str absolute;
    if (tci_work_begin(&j.w, api, ctx, arguments, err) < 0)
        return err->code;
    tc_call call = tci_work_call(&j.w);
    (void)tci_work_text(&j.w, TC_STR("path"), &j.path);     /* the schema demands it */
    if (tci_work_number(&j.w, TC_STR("offset"), &j.offset)) /* 0: from the start */
        j.offset_text = tci_json_get(j.w.arguments, TC_STR("offset"))->u.text;
    j.has_limit = tci_work_number(&j.w, TC_STR("limit"), &j.limit);
    if (tci_work_path_to_read(&j.w, j.path, &absolute) < 0 ||
        tc_env_open_binary_reader(j.w.env, &call, absolute, false, &j.reader, err) < 0)
        return err->code;
    int rc = read_steadily(&j, ret);
    tc_binary_reader_free(j.reader);
    return rc;
}

void tc_tool_read(const tc_read_options *options, tc_tool *ret_tool)
{
    union { /* the tool keeps it for its own function, which only reads it */
        const tc_read_options *given;
        void *kept;
    } u = {.given = options};
    bool converts = options != NULL && options->process_image != NULL;
    *ret_tool = (tc_tool){
        .size = sizeof *ret_tool,
        .name = TC_STR("read"),
        .description =
            converts
                ? TC_STR("Read a file: text, or an image (jpg, png, gif, webp, bmp), which is "
                         "attached. "
                         "Of text at most 2000 lines or 50KB come at once: go on with offset, and "
                         "limit "
                         "the lines with limit.")
                : TC_STR(
                      "Read a file: text, or an image (jpg, png, gif, webp), which is attached. Of "
                      "text at most 2000 lines or 50KB come at once: go on with offset, and limit "
                      "the "
                      "lines with limit."),
        .parameters = {schema, sizeof schema - 1},
        .execute = execute,
        .user = u.kept};
}
