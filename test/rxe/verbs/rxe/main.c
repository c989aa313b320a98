/*
 * verbs-rxe: one end of a verbs cell of the matrix, on libibverbs. With HOST it is the requester: it posts --count
 * operations, of which --fault spoils the first. Without, it is the responder, whose memory they are about.
 *
 * It prints one line a completion, "wc send|recv ID STATUS" (with --stream only those of failures), and at the end "data right|wrong" where --verify is given,
 * or else "region untouched|changed". Its exit status is 0 if each posted work request has completed exactly once,
 * whatever the statuses are: the matrix judges those.
 */
#include "endpoint.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct script {
	const char *op;    /* send, send-imm, write, write-imm, read, fadd, cas */
	const char *fault; /* of the first operation: rkey, bounds, wrap; "" for none */
	int count;
	uint32_t size;
	int receives;          /* that this end posts */
	uint32_t receive_size;
	int late;              /* milliseconds before it posts them */
	int verify, stream;
};

/* Longest time between two completions that are owed. rxe alone needs a second to run out of retries. */
enum { PATIENCE = 20 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int is_atomic(const struct script *s)
{
	return strcmp(s->op, "fadd") == 0 || strcmp(s->op, "cas") == 0;
}

/* Byte j of message i. */
static unsigned char pattern(int i, uint32_t j)
{
	return (unsigned char)((uint32_t)i * 31 + j * 7 + j / 4096 + 1);
}

static void fill(unsigned char *memory, const struct script *s)
{
	for (int i = 0; i < s->count; i++)
		for (uint32_t j = 0; j < s->size; j++)
			memory[(size_t)i * s->size + j] = pattern(i, j);
}

static int filled(const unsigned char *memory, const struct script *s)
{
	for (int i = 0; i < s->count; i++)
		for (uint32_t j = 0; j < s->size; j++)
			if (memory[(size_t)i * s->size + j] != pattern(i, j)) {
				fprintf(stderr, "message %d: byte %u is %02x, want %02x\n", i, j,
					memory[(size_t)i * s->size + j], pattern(i, j));
				return 0;
			}
	return 1;
}

/* post posts operation i; its local bytes are those of slot. */
static void post(struct endpoint *e, const struct script *s, int i, int slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->local->addr + (size_t)slot * s->size, .length = s->size, .lkey = e->local->lkey,
	};
	struct ibv_send_wr wr = { .wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1, .imm_data = (uint32_t)i }, *bad;
	uint64_t address = e->peer.address;
	uint32_t rkey = e->peer.rkey;

	if (!is_atomic(s))
		address += (uint64_t)slot * s->size;
	if (i == 0 && strcmp(s->fault, "rkey") == 0)
		rkey ^= 0x10101;
	if (i == 0 && strcmp(s->fault, "bounds") == 0)
		address = e->peer.address + e->peer.length - s->size + 8;
	if (i == 0 && strcmp(s->fault, "wrap") == 0)
		address = UINT64_MAX - 7;

	if (strcmp(s->op, "send") == 0)
		wr.opcode = IBV_WR_SEND;
	else if (strcmp(s->op, "send-imm") == 0)
		wr.opcode = IBV_WR_SEND_WITH_IMM;
	else if (strcmp(s->op, "write") == 0)
		wr.opcode = IBV_WR_RDMA_WRITE;
	else if (strcmp(s->op, "write-imm") == 0)
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	else if (strcmp(s->op, "read") == 0)
		wr.opcode = IBV_WR_RDMA_READ;
	else
		wr.opcode = strcmp(s->op, "cas") == 0 ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
	if (is_atomic(s)) {
		wr.wr.atomic.remote_addr = address;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? (uint64_t)i : 1;
		wr.wr.atomic.swap = (uint64_t)i + 1;
	} else {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = rkey;
	}
	if ((errno = ibv_post_send(e->qp, &wr, &bad)))
		die("ibv_post_send");
}

/* Completions seen so far, by queue. */
struct tally {
	int sends, receives, failed;
	double last; /* when */
};

static void collect(struct endpoint *e, const struct script *s, struct tally *t)
{
	struct ibv_wc wc;

	while (endpoint_poll(e, &wc)) {
		t->last = now();
		if (!s->stream || wc.status != IBV_WC_SUCCESS)
			printf("wc %s %" PRIu64 " %s\n", wc.wr_id & RECEIVE ? "recv" : "send", wc.wr_id & ~RECEIVE,
			       status_name(wc.status));
		if (wc.wr_id & RECEIVE)
			t->receives++;
		else
			t->sends++;
		if (wc.status != IBV_WC_SUCCESS)
			t->failed++;
		else if (s->verify && wc.wr_id & RECEIVE && wc.wc_flags & IBV_WC_WITH_IMM &&
			 wc.imm_data != (uint32_t)(wc.wr_id & ~RECEIVE))
			printf("immediate wrong\n");
	}
}

static void overdue(const struct tally *t, int sends, int receives)
{
	if (now() - t->last < PATIENCE)
		return;
	fprintf(stderr, "no completion for %d s; %d of %d sends and %d of %d receives have completed\n", PATIENCE,
		t->sends, sends, t->receives, receives);
	exit(1);
}

static void post_receives(struct endpoint *e, const struct script *s, size_t at)
{
	for (int i = 0; i < s->receives; i++)
		endpoint_post_receive(e, RECEIVE | (uint64_t)i,
				      (unsigned char *)e->local->addr + at + (size_t)i * s->receive_size, s->receive_size);
}

/* drain flushes what is still posted, and sees that nothing completes twice. */
static void drain(struct endpoint *e, const struct script *s, struct tally *t, int sends)
{
	endpoint_fail(e);
	t->last = now();
	while (t->receives < s->receives) {
		collect(e, s, t);
		overdue(t, sends, s->receives);
	}
	usleep(100000);
	collect(e, s, t);
	if (t->sends != sends || t->receives != s->receives) {
		fprintf(stderr, "%d completions for %d sends, %d for %d receives\n", t->sends, sends, t->receives, s->receives);
		exit(1);
	}
}

static int atomics_right(const struct endpoint *e, const struct script *s)
{
	for (int i = 0; i < s->count; i++) {
		uint64_t original = ((const uint64_t *)e->local->addr)[i];

		if (original != (uint64_t)i) {
			fprintf(stderr, "atomic %d found %llu\n", i, (unsigned long long)original);
			return 0;
		}
	}
	return 1;
}

static void request(struct endpoint *e, const struct script *s, size_t receive_area)
{
	struct tally t = { .last = now() };
	char word[16];
	int posted = 0, slots = s->stream ? OUTSTANDING : s->count;

	if (strcmp(s->op, "read") != 0 && !is_atomic(s))
		fill(e->local->addr, s);
	post_receives(e, s, receive_area);
	if (!fgets(word, sizeof word, e->heard)) /* "ready" */
		die("the other end is not ready");
	t.last = now();
	for (;;) {
		while (posted - t.sends < OUTSTANDING && (s->stream ? t.failed == 0 : posted < s->count)) {
			post(e, s, posted, posted % slots);
			posted++;
		}
		if (t.sends == posted)
			break;
		collect(e, s, &t);
		overdue(&t, posted, s->receives);
	}
	if (!s->stream && dprintf(e->line, "done\n") < 0)
		die("tell the other end");
	drain(e, s, &t, posted);
	if (s->verify && strcmp(s->op, "read") == 0)
		printf("data %s\n", filled(e->local->addr, s) ? "right" : "wrong");
	else if (s->verify && is_atomic(s))
		printf("data %s\n", atomics_right(e, s) ? "right" : "wrong");
}

/* region_right says whether the region holds what the operations of a verified script leave there. */
static int region_right(const struct endpoint *e, const struct script *s)
{
	if (is_atomic(s))
		return *(const uint64_t *)e->region->addr == (uint64_t)s->count;
	if (strncmp(s->op, "send", 4) == 0)
		return filled(e->local->addr, s);
	return filled(e->region->addr, s);
}

static void respond(struct endpoint *e, const struct script *s, const unsigned char *before)
{
	struct tally t = { .last = now() };
	struct pollfd line = { .fd = e->line, .events = POLLIN };

	if (!s->late)
		post_receives(e, s, 0);
	if (dprintf(e->line, "ready\n") < 0)
		die("tell the other end");
	if (s->late) {
		usleep((useconds_t)s->late * 1000);
		post_receives(e, s, 0);
	}
	while (poll(&line, 1, 1) == 0) /* until "done", or the other end is no more */
		collect(e, s, &t);
	drain(e, s, &t, 0);
	if (s->verify)
		printf("data %s\n", region_right(e, s) ? "right" : "wrong");
	else
		printf("region %s\n", memcmp(before, e->region->addr, e->region->length) ? "changed" : "untouched");
}

static enum ibv_mtu mtu_of(int bytes)
{
	for (int code = IBV_MTU_256; code <= IBV_MTU_4096; code++)
		if (bytes == 128 << code)
			return code;
	errno = EINVAL;
	die("--mtu");
}

int main(int argc, char **argv)
{
	enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	static const struct option options[] = {
		{ "op", 1, NULL, 'o' },       { "fault", 1, NULL, 'f' },        { "count", 1, NULL, 'n' },
		{ "size", 1, NULL, 's' },     { "receives", 1, NULL, 'r' },     { "receive-size", 1, NULL, 'z' },
		{ "late", 1, NULL, 'l' },     { "verify", 0, NULL, 'v' },       { "stream", 0, NULL, 'S' },
		{ "mtu", 1, NULL, 'm' },      { "rnr-retry", 1, NULL, 'R' },    { "no-region-access", 0, NULL, 'A' },
		{ "no-qp-access", 0, NULL, 'Q' }, { NULL, 0, NULL, 0 },
	};
	struct settings settings = { .mtu = IBV_MTU_1024, .qp_access = ALL, .region_access = ALL, .rnr_retry = 7 };
	struct script script = { .op = "write", .fault = "", .count = 2, .size = 64, .receives = 2, .receive_size = 64 };
	struct endpoint e = { 0 };
	int option;

	while ((option = getopt_long(argc, argv, "d:g:p:", options, NULL)) != -1)
		switch (option) {
		case 'd': settings.device = optarg; break;
		case 'g': settings.gid_index = atoi(optarg); break;
		case 'p': settings.port = atoi(optarg); break;
		case 'm': settings.mtu = mtu_of(atoi(optarg)); break;
		case 'R': settings.rnr_retry = atoi(optarg); break;
		case 'A': settings.region_access = IBV_ACCESS_LOCAL_WRITE; break;
		case 'Q': settings.qp_access = 0; break;
		case 'o': script.op = optarg; break;
		case 'f': script.fault = optarg; break;
		case 'n': script.count = atoi(optarg); break;
		case 's': script.size = (uint32_t)atoi(optarg); break;
		case 'r': script.receives = atoi(optarg); break;
		case 'z': script.receive_size = (uint32_t)atoi(optarg); break;
		case 'l': script.late = atoi(optarg); break;
		case 'v': script.verify = 1; break;
		case 'S': script.stream = 1; script.count = OUTSTANDING; break;
		default: return 2;
		}
	if (!settings.device || optind < argc - 1 || script.count > QUEUE_DEPTH || script.receives > QUEUE_DEPTH) {
		fprintf(stderr, "usage: verbs-rxe -d DEVICE -g GID_INDEX -p PORT [--op ...] [HOST]; see main.c\n");
		return 2;
	}
	settings.host = argv[optind];
	setvbuf(stdout, NULL, _IOLBF, 0);

	size_t data = (size_t)script.count * script.size;
	size_t receives = (size_t)script.receives * script.receive_size;
	endpoint_open(&e, &settings, data, data + receives);
	unsigned char *before = malloc(data);
	if (!before)
		die("malloc");
	if (script.verify && strcmp(script.op, "read") == 0)
		fill(e.region->addr, &script);
	else if (!is_atomic(&script))
		memset(e.region->addr, 0xee, data);
	memcpy(before, e.region->addr, data);

	endpoint_connect(&e, &settings);
	if (settings.host)
		request(&e, &script, data);
	else
		respond(&e, &script, before);
	endpoint_print_events(&e);
	return 0;
}
