/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables: every command, its options and its words. Adding a command is a row here and a
 * function in a file of its own. */
#include "cli.h"

const cli_option cli_common_options[] = {
    {"json", NULL, "answer in JSON on standard output", 0, false},
    {"quiet", NULL, "no talk on standard error but errors", 'q', false},
    {"verbose", NULL, "say more", 'v', false},
    {"help", NULL, "this text", 'h', false},
};
const size_t cli_ncommon_options = TCI_ARRAY_LEN(cli_common_options);

const cli_option cli_on_option = {
    "on", "TARGET", "where: local (the default), ssh:HOST, host:NAME, a URL, a saved name", 0,
    false};

const cli_option cli_target_options[] = {
    {"device-id", "ID", "the device that must answer", 0, false},
    {"credential-file", "FILE", "file with the credential (never in a URL or an argument)", 0,
     false},
    {"ca-file", "FILE", "PEM file of the authorities to trust", 0, false},
    {"insecure", NULL, "do not check the server's certificate", 0, false},
    {"allow-plaintext-private-link", NULL, "http:// to another machine over a private link", 0,
     false},
    {"executable", "FILE", "local: this daemon program; ssh: the one, or a folder, to put there", 0,
     false},
    {"host", "URL", "host:NAME at another Host than the one signed in to last", 0, false},
};
const size_t cli_ntarget_options = TCI_ARRAY_LEN(cli_target_options);

const cli_option cli_ssh_options[] = {
    {"known-hosts", "FILE", "host keys that are trusted (~/.config/telechir/known_hosts)", 0,
     false},
    {"host-key-alias", "NAME", "the name they are kept under (host, or [host]:port)", 0, false},
    {"identity", "FILE", "the only key to log in with", 0, false},
    {"ssh-config", "FILE", "instead of your ssh configuration", 0, false},
    {"login-shell", NULL, "start the daemon as a login shell would, with its variables", 0, false},
};
const size_t cli_nssh_options = TCI_ARRAY_LEN(cli_ssh_options);

static const cli_option demo_options[] = {
    {"transport", "stdio|http|websocket|ssh", "show two adapters and one file instead of an agent",
     0, false},
    {"executable", "FILE", "another daemon program than telechird beside this one", 0, false},
};

static const cli_option exec_options[] = {
    {"cwd", "DIR", "run in this folder there", 0, false},
    {"env", "K=V|K", "a variable; K alone takes its value from here, out of argv", 0, true},
    {"env-file", "FILE", "variables from a file here, K=V or K a line, # comments", 0, true},
    {"timeout", "SECONDS", "kill it after that (status 124)", 0, false},
    {"stdin", NULL, "pass standard input on (otherwise it is empty)", 0, false},
    {"tty", NULL, "a terminal (not available in this version)", 0, false},
};

static const cli_option target_options[] = {
    {"replace", NULL, "add: also when the name is taken", 0, false},
};

static const cli_option trust_options[] = {
    {"fingerprint", "SHA256:...", "accept exactly this key, without asking", 0, false},
    {"list", NULL, "show what is trusted, and contact nobody", 0, false},
};

static const cli_option tree_options[] = {
    {"max-entries", "N", "stop after N entries (50000)", 0, false},
    {"exclude", "NAME", "leave out this name and all below it, at any depth", 0, true},
    {"no-ignore", NULL, "also what ignore files name", 0, false},
    {"no-hidden", NULL, "without names that begin with a dot", 0, false},
};

static const char exec_details[] =
    "Output is passed on as it comes, byte for byte, standard output and standard error apart.\n"
    "Status: the command's own; 128+n for signal n (128 when the target does not name it); 124 "
    "when\n"
    "its time ran out; 125 for a failure of telechir. Ctrl-C kills the command, says what became "
    "of\n"
    "it, and exits 130. Behind http(s) a target takes 16 MiB of input at most unless its operator\n"
    "raised that, and what the command left in the background is ended with it. Local and over "
    "ssh\n"
    "input has no limit, and what it left in the background lives on.\n"
    "\n"
    "With --json, one object a line on standard output:\n"
    "  "
    "{\"event\":\"started\",\"provider\",\"device_id\",\"generation\",\"session_id\",\"operation_"
    "id\"}\n"
    "      the last four where the provider has them\n"
    "  {\"event\":\"output\",\"stream\":\"stdout\"|\"stderr\",\"data\"}  or \"data_base64\" (no "
    "padding)\n"
    "      where the bytes are not UTF-8\n"
    "  {\"event\":\"end\",\"outcome\":\"done\"|\"killed\"|\"not_started\"|\"unknown\",\"status\",\n"
    "      \"exit_code\" or "
    "\"signal\",\"timed_out\",\"interrupted\",\"cleaned_up\",\"stdout_bytes\",\n"
    "      \"stderr_bytes\",\"error\":{\"code\",\"message\",\"hint\"}}";

static const cli_option http_envd_options[] = {
    {"endpoint", "URL", "http://HOST:PORT or https://HOST[:PORT]", 0, false},
};

static const cli_option websocket_envd_options[] = {
    {"port", "N", "of 127.0.0.1 to listen on; 0: any", 0, false},
    {"device-id", "ID", "the device that must dial in", 0, false},
    {"credential-file", "FILE", "file with what the daemon must present", 0, false},
};

static const cli_option cp_options[] = {
    {"recursive", NULL, "folders with all that is in them", 'r', false},
    {"checksum", NULL, "compare contents first (SHA-256) and leave equal files alone", 'c', false},
    {"jobs", "N", "transfers at a time (16; 8 with a target behind http(s))", 'j', false},
};

static const cli_option ls_options[] = {
    {"all", NULL, "names that begin with a dot too", 'a', false},
    {"long", NULL, "kind, size and time too", 'l', false},
    {"max", "N", "stop after N entries", 0, false},
};

static const cli_option find_options[] = {
    {"type", "KIND", "file, directory, symlink or other", 't', true},
    {"hidden", NULL, "names that begin with a dot too", 0, false},
    {"git-ignore", NULL, "leave out what .gitignore files name", 0, false},
    {"flat", NULL, "one level only", 0, false},
    {"max", "N", "stop after N names", 0, false},
};

static const cli_option grep_options[] = {
    {"fixed-strings", NULL, "the pattern is plain text", 'F', false},
    {"ignore-case", NULL, "upper and lower case are the same", 'i', false},
    {"files", NULL, "print the names of files only", 'l', false},
    {"context", "N", "lines around each match, 0 to 20", 'C', false},
    {"include", "GLOB", "only in files whose path matches", 0, false},
    {"hidden", NULL, "names that begin with a dot too", 0, false},
    {"git-ignore", NULL, "leave out what .gitignore files name", 0, false},
    {"max-per-file", "N", "stop in a file after N matches", 0, false},
    {"max", "N", "stop after N matches", 0, false},
};

static const cli_option rm_options[] = {
    {"recursive", NULL, "folders with all that is in them", 'r', false},
    {"force", NULL, "what is not there is fine", 'f', false},
    {"max-entries", "N", "refuse to remove more than N entries at once (10000)", 0, false},
};

static const cli_option mkdir_options[] = {
    {"parents", NULL, "folders above it too; an existing folder is fine", 'p', false},
};

static const cli_option write_options[] = {
    {"text", "TEXT", "this text instead of standard input", 0, false},
    {"file", "FILE", "this file here instead of standard input", 0, false},
    {"create", NULL, "fail when it exists", 0, false},
    {"replace", NULL, "fail when it does not exist", 0, false},
    {"append", NULL, "add to an existing file", 0, false},
    {"executable-bit", NULL, "make it executable", 'x', false},
};

static const cli_option edit_options[] = {
    {"old", "TEXT", "the text to replace, exactly", 0, false},
    {"old-file", "FILE", "the same from a file here; - is standard input", 0, false},
    {"new", "TEXT", "what takes its place", 0, false},
    {"new-file", "FILE", "the same from a file here; - is standard input", 0, false},
    {"all", NULL, "every occurrence (otherwise there must be exactly one)", 0, false},
    {"patch", "FILE", "apply this unified diff instead; - is standard input", 0, false},
};

static const cli_option run_options[] = {
    {"session", "PATH", "FILE.sqlite, or a folder of JSON lines (a new file)", 's', false},
    {"model", "PROVIDER/MODEL", "openai/ID, anthropic/ID or scripted/FILE", 'm', false},
    {"base-url", "URL", "another server that speaks the provider's protocol", 0, false},
    {"key-file", "FILE", "file with the key, instead of OPENAI_API_KEY or ANTHROPIC_API_KEY", 0,
     false},
    {"model-ca-file", "FILE", "PEM file of the authorities to trust for models", 0, false},
    {"cwd", "DIR", "the tools' working folder there (the target's own)", 0, false},
    {"system", "FILE", "instructions for the model", 0, false},
    {"tools", "LIST", "only these, with commas: read,write,edit,bash,ls,grep,find", 0, false},
    {"thinking", "LEVEL", "off, minimal, low, medium, high, xhigh or max", 0, false},
    {"max-turns", "N", "end the run after N answers of the model", 0, false},
    {"context-window", "TOKENS", "of the model, where it is not known", 0, false},
    {"max-tokens", "TOKENS", "of one answer", 0, false},
    {"durability", "full|normal",
     "sync what is acted on before it is, or leave that to the system (full)", 0, false},
    {"conversation", "ID", "of the session, another than the first", 0, false},
    {"ask", NULL, "ask before each call of a tool that changes something", 0, false},
    {"yes", NULL, "do not ask (the default), and allow what waits", 0, false},
};

static const cli_option host_options[] = {
    {"bind", "ADDR", "serve: listen here (127.0.0.1:8787)", 0, false},
    {"public-url", "URL", "serve: how it is reached, when that is not where it listens", 0, false},
    {"tls-cert", "FILE", "serve: PEM, the chain from the leaf up", 0, false},
    {"tls-key", "FILE", "serve: its key, PEM", 0, false},
    {"behind-proxy", NULL, "serve: a proxy in front of it ends TLS", 0, false},
    {"data", "DIR", "serve: its records ($XDG_DATA_HOME/telechir/host)", 0, false},
    {"no-pairing", NULL, "serve: take no devices in", 0, false},
    {"sign-in-link", NULL, "serve: print a sign-in link also when somebody is signed in", 0, false},
    {"host", "URL", "link, logout: another Host than the one signed in to last", 0, false},
    {"ca-file", "FILE", "login: PEM file of the authorities to trust", 0, false},
    {"insecure", NULL, "login: do not check the server's certificate", 0, false},
};

static const cli_option devices_options[] = {
    {"host", "URL", "another Host than the one signed in to last", 0, false},
    {"device-id", "ID", "add-http: the device that must answer", 0, false},
    {"credential-file", "FILE", "add-http: file with the credential, on the Host's machine", 0,
     false},
    {"ca-file", "FILE", "add-http: PEM file of the authorities to trust, on the Host's machine", 0,
     false},
    {"allow-plaintext-private-link", NULL,
     "add-http: http:// to another machine over a private link", 0, false},
};

static const cli_option sessions_options[] = {
    {"conversation", "ID", "show, export, fork: another than the first", 0, false},
    {"brief", NULL, "show: what was said, and a line for each call", 0, false},
    {"at", "ENTRY", "fork: up to and including this entry (the newest)", 0, false},
};

#define OPTIONS(list) .options = (list), .noptions = TCI_ARRAY_LEN(list)

const cli_command cli_commands[] = {
    {.name = "demo",
     .arguments = "",
     .summary = "Show an agent that survives: no key, no network, nothing stays",
     .details =
         "A daemon of its own with Full Control is reached over HTTP. A model that follows a "
         "script\n"
         "writes a program there and runs it; the process that drives the agent is killed while "
         "the\n"
         "program runs; a new process goes on with the session and finishes. Then the "
         "conversation\n"
         "is shown, with where each call ran and what became of it. All processes are stopped and\n"
         "all files removed at the end, also after Ctrl-C. With --json: {\"daemon\",\"endpoint\",\n"
         "\"killed_during\",\"first_process\",\"second_process\",\"program_starts\",\"answered\"}."
         "\n"
         "\n"
         "--transport stdio, http and websocket (the daemon dials in) show the daemon alone, with\n"
         "commands disabled: a file is written through one adapter, which is closed, and read "
         "back\n"
         "through a new one. --transport ssh\n"
         "starts an SSH server of its own on this machine instead (no root, own keys), trusts it "
         "by\n"
         "its fingerprint, has the daemon put there, writes and reads a file, runs a command, "
         "breaks\n"
         "the link, and goes on over a new one.",
     OPTIONS(demo_options),
     .run = cmd_demo},
    {.name = "target",
     .arguments = "add NAME FORM | list | show NAME | remove NAME | check NAME|FORM",
     .summary = "Save, list and check targets",
     .details =
         "FORM is local, ssh:[USER@]HOST[:PORT], http://HOST:PORT, https://HOST[:PORT] or "
         "host:NAME.\n"
         "URLs need --device-id and --credential-file; only the path of that file is saved. HOST "
         "may be\n"
         "an alias of your ssh configuration; see `telechir trust`. host:NAME is a device of the "
         "Host\n"
         "that you are signed in to (`telechir host login`, `telechir devices`), by its name or "
         "id;\n"
         "which Host is meant is saved with it. `check` reaches the target and prints its system,\n"
         "daemon, boundary and round trip. ls and rm are list and remove.",
     OPTIONS(target_options),
     .takes_link = true,
     .words = "add list ls show remove rm check",
     .run = cmd_target},
    {.name = "trust",
     .arguments = "HOST | --list",
     .summary = "Trust the key of a machine that is reached over ssh",
     .details =
         "HOST is [USER@]HOST[:PORT], also with ssh: before it, or a saved ssh target. Asks the "
         "host\n"
         "for its keys and shows their fingerprints; compare them with what the machine's owner\n"
         "says, then answer y. Without a terminal, --fingerprint names the key to accept. Keys "
         "are\n"
         "kept in a file of telechir's own; your known_hosts neither counts nor changes. A key\n"
         "that changed is never taken: `telechir forget HOST` first. Status: 0 trusted (now or\n"
         "before); 4 not accepted; 3 changed, or not reached.\n"
         "\n"
         "With --json: "
         "{\"host\",\"alias\",\"known_hosts\",\"trust\":\"trusted\"|\"unknown\"|\"changed\",\n"
         "\"accepted\",\"trusted\":[{\"type\",\"fingerprint\"}],\"offered\":[...],\"error\"}; with "
         "--list one\n"
         "{\"alias\",\"type\",\"fingerprint\"} a line.",
     OPTIONS(trust_options),
     .takes_ssh = true,
     .run = cmd_trust},
    {.name = "forget",
     .arguments = "HOST",
     .summary = "Trust no key of a machine any more",
     .details = "Contacts nobody. With --json: {\"host\",\"alias\",\"removed\"}.",
     .takes_ssh = true,
     .run = cmd_forget},
    {.name = "exec",
     .arguments = "[--] CMD ARG...",
     .summary = "Run a program there",
     .details = exec_details,
     .examples = "telechir exec --on ssh:gpu-box -- nvidia-smi\n"
                 "telechir exec --on box --cwd src --env TOKEN -- make -j4",
     OPTIONS(exec_options),
     .takes_target = true,
     .stops_at_first = true,
     .is_exec_like = true,
     .run = cmd_exec},
    {.name = "sh",
     .arguments = "'SCRIPT'",
     .summary = "Run a script through the shell there",
     .details = exec_details,
     .examples = "telechir sh --on ssh:gpu-box 'cd train && python3 run.py'\n"
                 "telechir sh --stdin 'gzip -c' <notes >notes.gz",
     OPTIONS(exec_options),
     .takes_target = true,
     .is_exec_like = true,
     .run = cmd_sh},
    {.name = "cp",
     .arguments = "SRC... DST",
     .summary = "Copy files and trees here, there, and between targets",
     .details =
         "A place is a path here, NAME:PATH for a saved target or `local`, ssh:HOST:/PATH (or "
         ":~/),\n"
         "host:NAME:/PATH or URL:/PATH. A name that holds a colon is written ./NAME. Each file "
         "appears whole or "
         "not\n"
         "at all, keeps its executable bit, and stays its owner's alone if it was. Links in trees "
         "are\n"
         "never followed: they are reported and left out (a target cannot make links). A link "
         "that is\n"
         "named itself is followed. A folder needs -r. --checksum reads both ends of files of "
         "equal\n"
         "size, and copies where content or executable bit differ. When some files fail,\n"
         "the others are still copied, those that failed are listed, and the status is 1. With\n"
         "--json: one object for each that failed or was left out, then\n"
         "{\"files\",\"folders\",\"bytes\",\"equal\",\"skipped\",\"failed\"}.",
     .examples = "telechir cp -r train ssh:gpu-box:~/train\n"
                 "telechir cp box:/var/log/syslog .",
     OPTIONS(cp_options),
     .takes_local_paths = true,
     .takes_link = true,
     .run = cmd_cp},
    {.name = "ls",
     .arguments = "[PATH...]",
     .summary = "List folders there",
     .details =
         "Without --on, PATH may be TARGET:/PATH as in cp; so it may be for all commands below.\n"
         "With --json: one object a line; \"path\" in it is absolute for all of them.",
     .examples = "telechir ls -l --on ssh:gpu-box /srv\n"
                 "telechir ls box:train",
     OPTIONS(ls_options),
     .takes_target = true,
     .run = cmd_ls},
    {.name = "tree",
     .arguments = "[FOLDER]",
     .summary = "Show all that is below a folder there",
     .details =
         "Hidden names too, but not .git nor what ignore files name. Links are not followed. With\n"
         "--json: {\"relative_path\",\"path\",\"kind\"} a line, then "
         "{\"truncated\":true,\"shown\"} when "
         "not\nall was shown.",
     .examples = "telechir tree --on ssh:gpu-box train\n"
                 "telechir tree --exclude node_modules box:app",
     OPTIONS(tree_options),
     .takes_target = true,
     .run = cmd_tree},
    {.name = "cat",
     .arguments = "PATH...",
     .summary = "Print files there, byte for byte",
     .examples = "telechir cat box:train/config.py\n"
                 "telechir cat --on ssh:gpu-box /etc/hostname",
     .takes_target = true,
     .run = cmd_cat},
    {.name = "find",
     .arguments = "PATTERN [FOLDER]",
     .summary = "Find names there",
     .details =
         "PATTERN is a glob: without / it is matched against the name at any depth, otherwise\n"
         "against the path below FOLDER; ** stands for any number of folders, {a,b} for either.\n"
         "With --json: one object a line.",
     .examples = "telechir find --on ssh:gpu-box '*.log' /var\n"
                 "telechir find -t f 'src/**/*.{c,h}' box:app",
     OPTIONS(find_options),
     .takes_target = true,
     .run = cmd_find},
    {.name = "grep",
     .arguments = "PATTERN [PATH...]",
     .summary = "Search the content of files there",
     .details =
         "Prints path:line:text; with --context the lines around as path-line-text. PATTERN is a\n"
         "regular expression without look-around and back-references. Files that are not UTF-8\n"
         "text are left out. Status 1 when nothing matches. With --json: one object a line.",
     .examples = "telechir grep -i 'error|warning' box:app/log\n"
                 "telechir grep -F -C 2 'lr=1e-3' --on ssh:gpu-box train",
     OPTIONS(grep_options),
     .takes_target = true,
     .run = cmd_grep},
    {.name = "rm",
     .arguments = "PATH...",
     .summary = "Remove files and folders there",
     .examples = "telechir rm box:train/old.bin\n"
                 "telechir rm -r --on ssh:gpu-box /tmp/try",
     OPTIONS(rm_options),
     .takes_target = true,
     .run = cmd_rm},
    {.name = "mkdir",
     .arguments = "PATH...",
     .summary = "Make folders there",
     .examples = "telechir mkdir -p box:train/data/raw",
     OPTIONS(mkdir_options),
     .takes_target = true,
     .run = cmd_mkdir},
    {.name = "edit",
     .arguments = "PATH",
     .summary = "Replace text in a file there",
     .details =
         "Exactly the old text is replaced; every other byte stays, byte order mark and line ends\n"
         "too. The change is sent as a diff of the lines it touches, which the daemon applies\n"
         "only where these lines are still what they were, at the same line numbers; so what\n"
         "others change in other lines meanwhile is kept, and a clash changes nothing. For text\n"
         "that is not UTF-8, or lines over 64 KiB, the whole file is written instead, after its\n"
         "size and time were compared: EIP has no compare-and-swap, so a change within that\n"
         "moment would be lost.",
     .examples = "telechir edit box:train/config.py --old 'lr=1e-3' --new 'lr=3e-4'\n"
                 "git diff | telechir edit box:app/main.c --patch -",
     OPTIONS(edit_options),
     .takes_target = true,
     .run = cmd_edit},
    {.name = "write",
     .arguments = "PATH",
     .summary = "Write a file there from standard input",
     .details = "The file appears whole or not at all; an existing one keeps its mode. A new one "
                "gets what any\n"
                "new file gets there; behind http(s), and with --create, 0600 (0700 with -x).",
     .examples = "echo hello | telechir write box:note.txt\n"
                 "telechir write --on ssh:gpu-box bin/run -x --file run.sh",
     OPTIONS(write_options),
     .takes_target = true,
     .run = cmd_write},
    {.name = "http-envd",
     .arguments = "",
     .summary = "Write and read a file through a daemon that runs behind HTTP(S)",
     .details =
         "Writes provider-example.txt under the device's working directory and reads it back in a\n"
         "new session. The daemon must allow file.write_text and file.read_text.",
     OPTIONS(http_envd_options),
     .takes_link = true,
     .run = cmd_http_envd},
    {.name = "websocket-envd",
     .arguments = "",
     .summary = "Write and read a file through a daemon that dials in",
     .details = "Listens on the loopback, waits up to 60 s for the daemon, and does as http-envd "
                "does. The\n"
                "daemon needs A13N_ENVD_TRANSPORT=reverse_websocket, "
                "A13N_ENVD_REVERSE_WS_URL=ws://127.0.0.1:N,\n"
                "and the same credential and device id.",
     .examples = "telechir websocket-envd --port 8788 --device-id env-remote-machine "
                 "--credential-file ~/envd-token",
     OPTIONS(websocket_envd_options),
     .run = cmd_websocket_envd},
    {.name = "run",
     .arguments = "[PROMPT... | -]",
     .summary = "Let an agent work, in a session that survives",
     .details =
         "The conversation, what is under way, and what came of it are in the session, on this\n"
         "machine; files and commands are the target's. Kill it at any moment: the next run of "
         "the\n"
         "same session goes on, repeats nothing that may not be repeated, and tells the model "
         "what\n"
         "is unknown. Without PROMPT it only goes on. Target, model server and key file are\n"
         "remembered, with what reaches them (paths and names, never a key); another target is "
         "used\n"
         "only when it is named. The answer goes to standard output: on a terminal as it comes, "
         "into a\n"
         "file or a pipe an answer at a time, without those that broke off and were asked for "
         "again.\n"
         "Calls of tools go to standard error: what, where, how long, and what became of it. "
         "Ctrl-C ends\n"
         "the run in the session.\n"
         "Status: 0 answered; 1 not answered, or a failure; 3 target not reached; 4 calls wait for "
         "a\n"
         "yes; 130 interrupted.\n"
         "\n"
         "With --ask every call of write, edit and bash waits for a yes, now and in later runs of "
         "the\n"
         "session. On a terminal you are asked, with the exact arguments. Elsewhere the run stops "
         "with\n"
         "status 4 and the questions stay in the session: run it again on a terminal, or with "
         "--yes,\n"
         "which allows what waits and ends the asking.\n"
         "\n"
         "With --json one event a line (docs/run-events.md), and at the end\n"
         "{\"type\":\"end\",\"session\",\"submission\":{...}}.",
     .examples =
         "telechir run --on ssh:gpu-box -m anthropic/claude-sonnet-4-5 'why does make fail?'\n"
         "telechir run --session s.sqlite 'and now the tests'",
     OPTIONS(run_options),
     .takes_target = true,
     .run = cmd_run},
    {.name = "chat",
     .arguments = "",
     .summary = "Talk with an agent, in a session that survives",
     .details =
         "As run, line after line. /abort ends what is unfinished, /fork [ENTRY] goes on in a new\n"
         "conversation that shares what was said, /model PROVIDER/MODEL and /on TARGET change the\n"
         "model and the target, /help says this, /quit or Ctrl-D leaves. Ctrl-C ends the run in "
         "the\n"
         "session and comes back to the prompt. A line that begins with // is sent with one "
         "slash.\n"
         "Lines that were typed are kept in $XDG_STATE_HOME/telechir/chat_history. Without a "
         "terminal\n"
         "each line of standard input is a prompt; the status is that of the last one.",
     .examples = "telechir chat --on ssh:gpu-box -m anthropic/claude-sonnet-4-5\n"
                 "telechir chat --session s.sqlite",
     OPTIONS(run_options),
     .takes_target = true,
     .run = cmd_chat},
    {.name = "sessions",
     .arguments = "list [FOLDER] | show|export|dump|check|repair|fork PATH",
     .summary = "Look at sessions, check, repair and fork them",
     .details =
         "list    sessions in the default folder, or another one\n"
         "show    the conversation, for people; --brief: a line for each call; with --json its\n"
         "        entries, one a line\n"
         "export  the same as Markdown\n"
         "dump    every record as canonical JSON: {\"conversation\":...}, then entries, tasks,\n"
         "        submissions, documents (with version and value), by id\n"
         "check   read every record, say where damage is (status 1 when there is some), and "
         "whether\n"
         "        repair can help\n"
         "repair  keep every sound record, move the rest aside and say what it was\n"
         "fork    a new conversation in the session that shares what was said up to an entry",
     .examples = "telechir sessions show s.sqlite\n"
                 "telechir sessions check ~/.local/share/telechir/sessions/x.sqlite",
     OPTIONS(sessions_options),
     .takes_local_paths = true,
     .words = "list show export dump check repair fork",
     .run = cmd_sessions},
    {.name = "host",
     .arguments = "serve | login URL | link | logout",
     .summary = "Run a Host that devices dial in to, or sign in to one",
     .details =
         "serve   until SIGTERM or Ctrl-C. Devices ask to be let in (telechird connect URL) and "
         "wait\n"
         "        until their owner approves them, on its page or with `telechir devices`. The "
         "first\n"
         "        start prints a link that signs the owner in, once. Plain HTTP is for this "
         "machine\n"
         "        only: elsewhere it needs a certificate, or --behind-proxy\n"
         "login   with a sign-in link from standard input; the token is kept in a file of yours\n"
         "link    make one more sign-in link, for a browser or another machine\n"
         "logout  the token is of no use any more\n"
         "\n"
         "With --json: {\"url\",\"sign_in_url\"}, the latter when a link was made.",
     .examples = "telechir host serve\n"
                 "telechir host serve --bind 0.0.0.0:443 --tls-cert host.pem --tls-key host.key\n"
                 "telechir host login https://host.example",
     OPTIONS(host_options),
     .words = "serve login link logout",
     .run = cmd_host},
    {.name = "devices",
     .arguments = "[list] | show NAME | approve CODE | reject CODE | revoke NAME | add-http NAME "
                  "URL | remove NAME",
     .summary = "Show, approve and revoke the devices of a Host",
     .details =
         "show      all that is known of one; of one that is online, what it says of itself too\n"
         "approve   let a device in: compare the code with the one in its terminal, and type that\n"
         "reject    say no to it; it may ask again after ten minutes\n"
         "revoke    end its link and refuse its credential, for good. NAME, or its id or identity\n"
         "add-http  a daemon that runs behind http(s) already, and that the Host connects to. It "
         "needs\n"
         "          --device-id and --credential-file. The Host reads that file at each connect, "
         "and\n"
         "          keeps only its path: nobody but its owner may be able to read it (0600)\n"
         "remove    such a daemon: the Host forgets it. Nothing is stopped there\n"
         "\n"
         "What runs on a device: telechir run --on host:NAME, and so for every command with "
         "--on.\n"
         "With --json one device a line, as docs/host.md says.",
     .examples = "telechir devices approve BCDF-GHJK\n"
                 "telechir devices add-http gpu https://gpu.example --device-id env-gpu "
                 "--credential-file /etc/gpu-token\n"
                 "telechir devices --json",
     OPTIONS(devices_options),
     .words = "list show approve reject revoke add-http remove",
     .run = cmd_devices},
    {.name = "doctor",
     .arguments = "",
     .summary = "Say what works here and there, what does not, and why",
     .details = "Here: the daemon beside this program, ssh and its version, the file of trusted "
                "keys, saved\n"
                "targets, daemon programs to put elsewhere. There (--on): reached, trusted, "
                "system, daemon,\n"
                "files, commands, find and grep, listing, watching. Changes nothing but a daemon "
                "put there.\n"
                "Status: 0 when nothing failed, else that of the first failure. With --json: one\n"
                "{\"side\",\"check\",\"status\":\"ok\"|\"note\"|\"failed\"|\"skipped\",\"detail\","
                "\"hint\"} a line.",
     .takes_target = true,
     .run = cmd_doctor},
    {.name = "completion",
     .arguments = "bash|zsh|fish",
     .summary = "Print a completion script",
     .words = "bash zsh fish",
     .run = cmd_completion},
    {.name = "version", .arguments = "", .summary = "Print the version", .run = cmd_version},
    {.name = "help",
     .arguments = "[COMMAND]",
     .summary = "Print the help of a command",
     .is_hidden = true,
     .run = cmd_help},
    {.name = "manual",
     .arguments = "",
     .summary = "Print the manual page",
     .is_hidden = true,
     .run = cmd_manual},
};
const size_t cli_ncommands = TCI_ARRAY_LEN(cli_commands);

const cli_command *cli_command_find(const char *name)
{
    for (size_t i = 0; i < cli_ncommands; i++)
        if (strcmp(cli_commands[i].name, name) == 0)
            return &cli_commands[i];
    return NULL;
}

const cli_option *cli_command_option(const cli_command *command, size_t n)
{
    bool has_link = command->takes_target || command->takes_link;
    bool has_ssh = has_link || command->takes_ssh;
    if (n < command->noptions)
        return &command->options[n];
    n -= command->noptions;
    if (n < cli_ncommon_options)
        return &cli_common_options[n];
    n -= cli_ncommon_options;
    if (command->takes_target && n-- == 0)
        return &cli_on_option;
    if (has_link && n < cli_ntarget_options)
        return &cli_target_options[n];
    n -= has_link ? cli_ntarget_options : 0;
    return has_ssh && n < cli_nssh_options ? &cli_ssh_options[n] : NULL;
}
