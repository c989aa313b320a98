#include "endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "failed");
	exit(1);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	if (!context)
		die(name);
	ibv_free_device_list(list);
	return context;
}

static struct ibv_mr *make_region(struct ibv_pd *pd, size_t size, int access)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *region;

	if (memory == MAP_FAILED)
		die("mmap");
	region = ibv_reg_mr(pd, memory, size, access);
	if (!region)
		die("ibv_reg_mr");
	return region;
}

void endpoint_open(struct endpoint *e, const struct settings *s, size_t region_size, size_t local_size)
{
	e->context = open_device(s->device);
	if (fcntl(e->context->async_fd, F_SETFL, O_NONBLOCK))
		die("async events");
	e->pd = ibv_alloc_pd(e->context);
	if (!e->pd)
		die("ibv_alloc_pd");
	e->cq = ibv_create_cq(e->context, 2 * QUEUE_DEPTH, NULL, NULL, 0);
	if (!e->cq)
		die("ibv_create_cq");
	e->region = make_region(e->pd, region_size, s->region_access);
	e->local = make_region(e->pd, local_size, IBV_ACCESS_LOCAL_WRITE);

	struct ibv_qp_init_attr init = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = QUEUE_DEPTH, .max_recv_wr = QUEUE_DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	e->qp = ibv_create_qp(e->pd, &init);
	if (!e->qp)
		die("ibv_create_qp");
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)s->qp_access,
	};
	if ((errno = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)))
		die("modify to INIT");

	uint32_t psn;
	if (getrandom(&psn, sizeof psn, 0) != sizeof psn)
		die("getrandom");
	e->self = (struct remote){
		.qpn = e->qp->qp_num, .psn = psn & 0xffffff, .rkey = e->region->rkey,
		.address = (uintptr_t)e->region->addr, .length = region_size,
	};
	if (ibv_query_gid(e->context, 1, s->gid_index, &e->self.gid))
		die("ibv_query_gid");
}

/* The TCP connection to the other end, or from it. */
static int dial(const char *host, int port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *a;
	char service[8];
	int s;

	snprintf(service, sizeof service, "%d", port);
	if (getaddrinfo(host, service, &hints, &a))
		die(host);
	s = socket(a->ai_family, SOCK_STREAM, 0);
	if (s < 0 || connect(s, a->ai_addr, a->ai_addrlen))
		die("connect");
	freeaddrinfo(a);
	return s;
}

static int answer(int port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int one = 1, s = socket(AF_INET, SOCK_STREAM, 0), accepted;

	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) || bind(s, (void *)&any, sizeof any) ||
	    listen(s, 1))
		die("listen");
	accepted = accept(s, NULL, NULL);
	if (accepted < 0)
		die("accept");
	close(s);
	return accepted;
}

static void tell(struct endpoint *e)
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, &e->self.gid, gid, sizeof gid);
	if (dprintf(e->line, "%06x %06x %08x %016" PRIx64 " %" PRIx64 " %s\n", e->self.qpn, e->self.psn, e->self.rkey,
		    e->self.address, e->self.length, gid) < 0)
		die("tell the other end");
}

static void hear(struct endpoint *e)
{
	char text[256], gid[INET6_ADDRSTRLEN];

	if (!fgets(text, sizeof text, e->heard) ||
	    sscanf(text, "%x %x %x %" SCNx64 " %" SCNx64 " %45s", &e->peer.qpn, &e->peer.psn, &e->peer.rkey,
		   &e->peer.address, &e->peer.length, gid) != 6 ||
	    inet_pton(AF_INET6, gid, &e->peer.gid) != 1)
		die("the other end's line");
}

void endpoint_connect(struct endpoint *e, const struct settings *s)
{
	int one = 1;

	e->line = s->host ? dial(s->host, s->port) : answer(s->port);
	setsockopt(e->line, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	e->heard = fdopen(e->line, "r");
	if (!e->heard)
		die("fdopen");
	if (s->host)
		tell(e);
	hear(e);
	if (!s->host)
		tell(e);

	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = s->mtu, .dest_qp_num = e->peer.qpn, .rq_psn = e->peer.psn,
		.max_dest_rd_atomic = OUTSTANDING, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = e->peer.gid, .sgid_index = (uint8_t)s->gid_index, .hop_limit = 64 } },
	};
	if ((errno = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
		die("modify to RTR");
	/* Six retries, because rxe takes seven for "for ever". */
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .sq_psn = e->self.psn, .timeout = 14, .retry_cnt = 6,
		.rnr_retry = (uint8_t)s->rnr_retry, .max_rd_atomic = OUTSTANDING,
	};
	if ((errno = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)))
		die("modify to RTS");
}

void endpoint_post_receive(struct endpoint *e, uint64_t id, void *buffer, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer, .length = length, .lkey = e->local->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	if ((errno = ibv_post_recv(e->qp, &wr, &bad)))
		die("ibv_post_recv");
}

void endpoint_fail(struct endpoint *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if ((errno = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE)))
		die("modify to ERR");
}

/* The status names of verbs.h, which ibv_wc_status_str paraphrases. */
static const char *const status_names[] = {
	[IBV_WC_SUCCESS] = "SUCCESS",
	[IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
	[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
	[IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
	[IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
	[IBV_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
	[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
	[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
	[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
	[IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
	[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
	[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
};

const char *status_name(enum ibv_wc_status status)
{
	if ((size_t)status < sizeof status_names / sizeof *status_names && status_names[status])
		return status_names[status];
	return "OTHER";
}

int endpoint_poll(struct endpoint *e, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(e->cq, 1, wc);

	if (n < 0)
		die("ibv_poll_cq");
	return n;
}

void endpoint_print_events(struct endpoint *e)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(e->context, &event) == 0) {
		printf("event %s\n", event.event_type == IBV_EVENT_QP_ACCESS_ERR ? "QP_ACCESS_ERR" :
		       event.event_type == IBV_EVENT_QP_REQ_ERR ? "QP_REQ_ERR" :
		       event.event_type == IBV_EVENT_QP_FATAL ? "QP_FATAL" : "OTHER");
		ibv_ack_async_event(&event);
	}
}
