/* One end of a reliable connection on libibverbs, and the TCP line by which two ends find each other. */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What the ends tell each other, as one line of text: "QPN PSN RKEY ADDRESS LENGTH GID\n", all but the GID in hex. */
struct remote {
	uint32_t qpn, psn, rkey;
	uint64_t address, length;
	union ibv_gid gid;
};

struct settings {
	const char *device;
	int gid_index;
	int port;         /* TCP */
	const char *host; /* NULL: wait for the other end */
	enum ibv_mtu mtu;
	int qp_access, region_access; /* IBV_ACCESS_* */
	int rnr_retry;
};

struct endpoint {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *region; /* what the other end may reach */
	struct ibv_mr *local;  /* what this end sends from and receives into */
	struct remote self, peer;
	int line;    /* the TCP connection; what it says is read through heard */
	FILE *heard;
};

/* How many work requests a queue takes, and how many sends are kept under way. */
enum { QUEUE_DEPTH = 512, OUTSTANDING = 16 };

/* Set in the wr_id of receives: the opcode of a completion is not valid if it failed. */
#define RECEIVE (UINT64_C(1) << 63)

/* The functions print the reason and exit 1 when something fails that the script did not ask for. */
void die(const char *what) __attribute__((noreturn));
void endpoint_open(struct endpoint *e, const struct settings *s, size_t region_size, size_t local_size);
void endpoint_connect(struct endpoint *e, const struct settings *s);
void endpoint_post_receive(struct endpoint *e, uint64_t id, void *buffer, uint32_t length);
void endpoint_fail(struct endpoint *e); /* moves the queue pair to ERR, which flushes what is posted */
int endpoint_poll(struct endpoint *e, struct ibv_wc *wc); /* 0 if there is no completion */
const char *status_name(enum ibv_wc_status status);
void endpoint_print_events(struct endpoint *e);

#endif
