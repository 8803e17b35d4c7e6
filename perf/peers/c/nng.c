// SPDX-License-Identifier: Apache-2.0

/* nng: a pair of sockets over an abstract Unix address. */
#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>

#include "measure.h"

static nng_socket endpoint;

static void must(int rc)
{
	if (rc != 0)
		die(nng_strerror(rc));
}

static void send_payload(const unsigned char *p, size_t n)
{
	must(nng_send(endpoint, (void *)p, n, 0));
}

static void receive_payload(unsigned char *p, size_t n)
{
	size_t got = n;
	must(nng_recv(endpoint, p, &got, 0));
	if (got != n)
		die("a payload of another size");
}

static void connect_pair(int side, pid_t parent)
{
	char address[64];
	snprintf(address, sizeof address, "abstract://disco-bench-nng-%d", (int)parent);
	must(nng_pair0_open(&endpoint));
	if (side == 0) {
		must(nng_listen(endpoint, address, NULL, 0));
		return;
	}
	/* The listener may not be there yet; the dialer tries again by itself. */
	must(nng_dial(endpoint, address, NULL, NNG_FLAG_NONBLOCK));
}

static void finish(void)
{
	/* What was sent last is still on its way through another thread. */
	nng_msleep(100);
	nng_close(endpoint);
}

int main(int argc, char **argv)
{
	return run(argc, argv, connect_pair, finish);
}
